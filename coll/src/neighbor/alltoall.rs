//! Every neighbour gets a block of its own.

use aldis_kernel::hal::Operation;
use zerocopy::IntoBytes;

use super::NeighborCall;
use crate::collective::Input;
use crate::layout::{Block, Layout, TypedBlock};
use crate::op::Element;

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data` (MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data or input that are
/// no whole blocks, of one length in both, or that a neighbour divides otherwise; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn neighbor_alltoall<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
) -> NeighborCall<'m> {
    NeighborCall::new(Operation::NeighborAlltoall, data, Layout::Even).given(input.into(), Layout::Even)
}

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data`; the blocks of the input are listed by `given`, those of the data by `blocks`
/// (MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// one outside; else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn neighbor_alltoallv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [Block],
    data: &'m mut [E],
    blocks: &'m [Block],
) -> NeighborCall<'m> {
    NeighborCall::new(Operation::NeighborAlltoallv, data, Layout::Listed(blocks))
        .given(input.into(), Layout::Listed(given))
}

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data`, where blocks are of elements of unlike sizes: all are bytes, as are their
/// places and lengths, listed by `given` and `blocks` (MPI_Neighbor_alltoallw,
/// MPI_Ineighbor_alltoallw of contiguous types). Bytes are not converted between ranks of unlike
/// byte orders. Of other types: [`neighbor_alltoallw_typed`].
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// one outside; the rest as [`neighbor_alltoallv`].
#[inline(always)]
pub fn neighbor_alltoallw<'m>(
    input: impl Into<Input<'m, u8>>,
    given: &'m [Block],
    data: &'m mut [u8],
    blocks: &'m [Block],
) -> NeighborCall<'m> {
    NeighborCall::new(Operation::NeighborAlltoallw, data, Layout::Listed(blocks))
        .given(input.into(), Layout::Listed(given))
}

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data` (MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw). Each block is of a datatype
/// of its own, listed by `given` and `blocks`, as in [`alltoallw_typed`](crate::alltoallw_typed):
/// the rim of a field is sent into the neighbour's halo as it stands. Types must be there until the
/// call is complete.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a
/// block outside of its buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type
/// that was freed; the rest as [`alltoallw_typed`](crate::alltoallw_typed).
#[inline(always)]
pub fn neighbor_alltoallw_typed<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [TypedBlock],
    data: &'m mut [E],
    blocks: &'m [TypedBlock],
) -> NeighborCall<'m> {
    NeighborCall::new(Operation::NeighborAlltoallw, data.as_mut_bytes(), Layout::Typed(blocks))
        .given(input.into().into_bytes(), Layout::Typed(given))
}
