//! Calls on blocks of unlike lengths, and of unlike elements.

use aldis_kernel::hal::Operation;

use super::InPlace;
use crate::block_call::BlockCall;
use crate::collective::Input;
use crate::layout::{Block, Layout};
use crate::op::Element;

/// Sends block r of `input` to rank r, for every r, and receives into block r of `data` what rank r
/// has sent; the blocks of the input are listed by `given`, those of the data by `blocks`
/// (MPI_Alltoallv, MPI_Ialltoallv).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn alltoallv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [Block],
    data: &'m mut [E],
    blocks: &'m [Block],
) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoallv, data, Layout::Listed(blocks), &mut [])
        .given(input.into(), Layout::Listed(given))
}

/// Swaps block r of `data`, as listed by `blocks`, for what rank r has for this one, which is as
/// long, for every r (MPI_Alltoallv, MPI_Ialltoallv with MPI_IN_PLACE), whatever algorithm its
/// options name.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough, more than
/// the longest block of all ranks is not used.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`alltoallv`].
#[inline(always)]
pub fn alltoallv_in_place<'m, E: Element>(
    data: &'m mut [E],
    blocks: &'m [Block],
    scratch: &'m mut [E],
) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoallv, data, Layout::Listed(blocks), scratch).only_by(&InPlace)
}

/// Sends block r of `input` to rank r, for every r, and receives into block r of `data` what rank r
/// has sent, where blocks are of elements of unlike sizes: all are bytes, as are their places and
/// lengths (MPI_Alltoallw, MPI_Ialltoallw of contiguous types). Bytes are not converted between
/// ranks of unlike byte orders. Of other types: [`alltoallw_typed`](super::alltoallw_typed).
///
/// ```
/// # use aldis_coll::{alltoallw, layout::Block};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn swap<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     two: &Comm,
/// #     mine: f64,
/// # ) -> Result<(), Error> {
/// // Two ranks: rank 0 gives an f64 for two u16.
/// let (mut sent, mut came) = ([0; 8], [0; 8]);
/// let lens = if two.rank().0 == 0 { [0, 8] } else { [4, 0] };
/// let back = if two.rank().0 == 0 { [0, 4] } else { [8, 0] };
/// sent.copy_from_slice(&mine.to_le_bytes());
/// alltoallw(&sent, &Block::packed(lens), &mut came, &Block::packed(back)).run(ep, two)
/// # }
/// ```
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv`].
#[inline(always)]
pub fn alltoallw<'m>(
    input: impl Into<Input<'m, u8>>,
    given: &'m [Block],
    data: &'m mut [u8],
    blocks: &'m [Block],
) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoallw, data, Layout::Listed(blocks), &mut [])
        .given(input.into(), Layout::Listed(given))
}

/// Swaps block r of `data`, as listed by `blocks` in bytes, for what rank r has for this one, which
/// is as long, for every r (MPI_Alltoallw, MPI_Ialltoallw with MPI_IN_PLACE), whatever algorithm
/// its options name.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv_in_place`].
#[inline(always)]
pub fn alltoallw_in_place<'m>(
    data: &'m mut [u8],
    blocks: &'m [Block],
    scratch: &'m mut [u8],
) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoallw, data, Layout::Listed(blocks), scratch).only_by(&InPlace)
}
