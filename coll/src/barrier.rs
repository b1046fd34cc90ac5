//! Barrier: no rank leaves before every rank has entered.

pub use crate::algorithms::barrier::{
    ALGORITHMS, Dissemination, DisseminationRadix, DoubleRing, Linear, RecursiveDoubling, Tree, TwoProcesses,
};
use crate::contiguous::ContiguousCall;
use crate::select::{Call, CallSpec};

/// Waits until every rank of the communicator has called it (MPI_Barrier, MPI_Ibarrier).
///
/// # Errors
/// [`Cause::UnlikeCall`](aldis_kernel::hal::Cause::UnlikeCall) if a rank has called another
/// operation; the rest as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn barrier() -> ContiguousCall<'static> {
    let spec = CallSpec { call: Call::barrier(0), root: 0, kernel: None, candidates: &ALGORITHMS };
    ContiguousCall::new(spec, &mut [], &mut [])
}
