//! Allgather: a block of every rank on every rank.

use aldis_kernel::hal::Operation;

pub use crate::algorithms::blocks::allgather::{
    ALGORITHMS, Bruck, Direct, GatherBcast, Linear, NeighborExchange, RecursiveDoubling, Ring, Sparbit,
    TwoProcesses,
};
use crate::block_call::BlockCall;
use crate::collective::Input;
use crate::layout::{Block, Layout};
use crate::op::Element;

/// Gathers a block of every rank on all of them: `data` are a block for every rank, this one's own
/// in place (MPI_Allgather, MPI_Iallgather with MPI_IN_PLACE).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn allgather<E: Element>(data: &mut [E]) -> BlockCall<'_> {
    BlockCall::new(Operation::Allgather, data, Layout::Even, &mut [])
}

/// Gathers a block of every rank on all of them: `data` get a block for every rank, of which this
/// one's is `block`, which is left as it is (MPI_Allgather, MPI_Iallgather). Messages are sent out
/// of `block`, not out of the data that have just been written.
///
/// # Errors
/// Those of [`allgather`], which other ranks may call instead;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for a block of another
/// length as well, [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) where it is made
/// persistent: the block would be copied but once.
#[inline(always)]
pub fn allgather_from<'m, E: Element>(block: impl Into<Input<'m, E>>, data: &'m mut [E]) -> BlockCall<'m> {
    allgather(data).given(block.into(), Layout::Twin)
}

/// Gathers a block of every rank on all of them: `data` have a block of its length for every rank,
/// as listed by `blocks` (places may differ from rank to rank, lengths not), this one's own in
/// place (MPI_Allgatherv, MPI_Iallgatherv with MPI_IN_PLACE).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn allgatherv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block]) -> BlockCall<'m> {
    BlockCall::new(Operation::Allgatherv, data, Layout::Listed(blocks), &mut [])
}

/// Gathers a block of every rank on all of them, as [`allgatherv`] does, of which this rank's is
/// `block`, which is left as it is (MPI_Allgatherv, MPI_Iallgatherv).
///
/// # Errors
/// Those of [`allgatherv`], which other ranks may call instead;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for a block of another
/// length than is listed for it as well,
/// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) where it is made persistent: the
/// block would be copied but once.
#[inline(always)]
pub fn allgatherv_from<'m, E: Element>(
    block: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    blocks: &'m [Block],
) -> BlockCall<'m> {
    allgatherv(data, blocks).given(block.into(), Layout::Twin)
}
