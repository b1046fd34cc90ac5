//! Scatter: a block of the root's data on every rank.

use aldis_kernel::Rank;
use aldis_kernel::hal::Operation;

pub use crate::algorithms::blocks::scatter::{ALGORITHMS, Binomial, Linear, LinearNonblocking, OF_UNLIKE};
use crate::block_call::BlockCall;
use crate::layout::{Block, Layout};
use crate::op::Element;

/// Sends every rank its block of the `data` of rank `root`, into its `data`; the root's own stays
/// where it is (MPI_Scatter, MPI_Iscatter with MPI_IN_PLACE at the root).
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
pub fn scatter<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E], root: Rank) -> BlockCall<'m> {
    BlockCall::new(Operation::Scatter, data, Layout::Even, scratch).rooted(root)
}

/// Sends every rank its block of the `data` of rank `root`, into its `data` of that length; blocks
/// are as listed by `blocks`, which no other rank reads (MPI_Scatterv, MPI_Iscatterv with
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
pub fn scatterv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block], root: Rank) -> BlockCall<'m> {
    BlockCall::new(Operation::Scatterv, data, Layout::Listed(blocks), &mut []).rooted(root)
}
