//! All-to-all: a block of every rank for every rank.

mod typed;
mod unlike;

use aldis_kernel::hal::Operation;
pub use typed::alltoallw_typed;
pub use unlike::{alltoallv, alltoallv_in_place, alltoallw, alltoallw_in_place};

pub use crate::algorithms::blocks::alltoall::{
    ALGORITHMS, Bruck, InPlace, Linear, LinearSync, OF_UNLIKE, Pairwise, TwoProcesses,
};
use crate::block_call::BlockCall;
use crate::collective::Input;
use crate::layout::Layout;
use crate::op::Element;

/// Sends block r of `input` to rank r, for every r, and receives into block r of `data` what rank r
/// has sent (MPI_Alltoall, MPI_Ialltoall).
///
/// `scratch` is working memory, of the same length on every rank: none is needed, with 2 p blocks
/// many can share a message.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn alltoall<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoall, data, Layout::Even, scratch).given(input.into(), Layout::Even)
}

/// Swaps block r of `data` for what rank r has for this one, for every r (MPI_Alltoall,
/// MPI_Ialltoall with MPI_IN_PLACE), whatever algorithm its options name.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough, more than
/// a block is not used.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`alltoall`].
#[inline(always)]
pub fn alltoall_in_place<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E]) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoall, data, Layout::Even, scratch).only_by(&InPlace)
}
