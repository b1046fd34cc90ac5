//! Gather: a block of every rank at the root.

use aldis_kernel::Rank;
use aldis_kernel::hal::Operation;

pub use crate::algorithms::blocks::gather::{ALGORITHMS, Binomial, Linear, LinearSync, OF_UNLIKE};
use crate::block_call::BlockCall;
use crate::layout::{Block, Layout};
use crate::op::Element;

/// Gathers `data` of all ranks at rank `root`, whose `data` are a block for every rank, its own in
/// place (MPI_Gather, MPI_Igather with MPI_IN_PLACE at the root).
///
/// `scratch` is working memory, of the same length on every rank: none is needed, with p/2 blocks a
/// tree can be used.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn gather<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E], root: Rank) -> BlockCall<'m> {
    BlockCall::new(Operation::Gather, data, Layout::Even, scratch).rooted(root)
}

/// Gathers `data` of all ranks at rank `root`, whose `data` have a block of its length for every
/// rank, as listed by `blocks`, which no other rank reads (MPI_Gatherv, MPI_Igatherv with
/// MPI_IN_PLACE at the root).
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn gatherv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block], root: Rank) -> BlockCall<'m> {
    BlockCall::new(Operation::Gatherv, data, Layout::Listed(blocks), &mut []).rooted(root)
}
