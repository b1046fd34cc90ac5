//! Broadcast: the root's data on every rank.

use aldis_kernel::Rank;
use zerocopy::IntoBytes;

pub use crate::algorithms::bcast::{
    ALGORITHMS, Binary, Binomial, Chain, Knomial, Linear, Pipeline, ScatterRecursiveDoublingAllgather,
    ScatterRingAllgather, SplitBinary,
};
use crate::contiguous::ContiguousCall;
use crate::op::Element;
use crate::select::{Call, CallSpec};

/// Sends `data` of rank `root` to every other rank, into its `data` (MPI_Bcast, MPI_Ibcast).
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn bcast<E: Element>(data: &mut [E], root: Rank) -> ContiguousCall<'_> {
    let call = Call::bcast::<E>(0, data.len());
    let spec = CallSpec { call, root: root.0, kernel: None, candidates: &ALGORITHMS };
    ContiguousCall::new(spec, data.as_mut_bytes(), &mut [])
}
