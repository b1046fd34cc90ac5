//! Every neighbour gets the same block.

use aldis_kernel::hal::Operation;

use super::NeighborCall;
use crate::collective::Input;
use crate::layout::{Block, Layout};
use crate::op::Element;

/// Sends `input` to every destination, and receives what source n has sent into block n of `data`
/// (MPI_Neighbor_allgather, MPI_Ineighbor_allgather).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are not a
/// block as long as the input for each source, or that a neighbour divides otherwise; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn neighbor_allgather<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
) -> NeighborCall<'m> {
    alone(NeighborCall::new(Operation::NeighborAllgather, data, Layout::Even), input.into())
}

/// Sends `input` to every destination, and receives what source n has sent into block n of `data`,
/// as listed by `blocks` (MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn neighbor_allgatherv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    blocks: &'m [Block],
) -> NeighborCall<'m> {
    alone(NeighborCall::new(Operation::NeighborAllgatherv, data, Layout::Listed(blocks)), input.into())
}

/// Returns a call with one block for all destinations.
#[inline(always)]
fn alone<'m, E: Element>(call: NeighborCall<'m>, input: Input<'m, E>) -> NeighborCall<'m> {
    let layout = Layout::One(input.len());
    call.given(input, layout)
}
