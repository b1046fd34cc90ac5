//! Reduce-scatter: the reduction of every rank's data, divided among the ranks.

use aldis_kernel::hal::Operation;

pub use crate::algorithms::blocks::reduce_scatter::{
    ALGORITHMS, Butterfly, Linear, Nonoverlapping, Pairwise, RecursiveDoubling, RecursiveHalving, Ring,
};
use crate::block_call::{BlockCall, InputBlocks};
use crate::collective::Input;
use crate::layout::{Block, Layout};
use crate::op::{Element, Kernel, Reduce};

/// Reduces `input` of all ranks, a block for every rank, element by element, and leaves block r of
/// the result in `data` of rank r (MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block).
///
/// `scratch` is working memory, of the same length on every rank: three elements are enough (none
/// for a single rank), three blocks make messages of whole ones, and with twice the input every
/// algorithm has what it needs.
///
/// ```
/// # use aldis_coll::{op::Sum, reduce_scatter_block};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn total<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     world: &Comm,
/// # ) -> Result<(), Error> {
/// // Four ranks, of whose vectors of eight elements each keeps a quarter of the sum.
/// let (input, mut mine) = ([0.5_f64; 8], [0.0; 2]);
/// reduce_scatter_block(Sum, &input, &mut mine, &mut [0.0; 16]).run(ep, world)
/// # }
/// ```
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for an input that is no
/// whole blocks of the length of `data`, or that another rank divides otherwise;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn reduce_scatter_block<'m, R: Reduce<E>, E: Element>(
    _op: R,
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> BlockCall<'m> {
    BlockCall::new(Operation::ReduceScatterBlock, data, Layout::Own, scratch)
        .given(input.into(), Layout::Even)
        .reducing(Kernel::of::<R, E>())
}

/// Reduces in place, as [`reduce_scatter_block`] (MPI_Reduce_scatter_block,
/// MPI_Ireduce_scatter_block with MPI_IN_PLACE): `data` are a block for every rank, of which this
/// rank's own becomes its result, where it stands. The others are left as they are.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest
/// as [`reduce_scatter_block`].
#[inline(always)]
pub fn reduce_scatter_block_in_place<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> BlockCall<'m> {
    BlockCall::new(Operation::ReduceScatterBlock, data, Layout::Even, scratch).reducing(Kernel::of::<R, E>())
}

/// Reduces the input of all ranks and leaves block r of the result, of its length as listed, in
/// `data` of rank r (MPI_Reduce_scatter, MPI_Ireduce_scatter). Places may differ from rank to rank,
/// lengths not; [`Block::packed`] lists blocks one behind the other, as MPI has them.
///
/// `scratch` is as in [`reduce_scatter_block`]; a block of it is one of the longest.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, and data are as long as this rank's;
/// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the input; else as
/// [`reduce_scatter_block`].
#[inline(always)]
pub fn reduce_scatter<'m, R: Reduce<E>, E: Element>(
    _op: R,
    given: InputBlocks<'m, E>,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> BlockCall<'m> {
    BlockCall::new(Operation::ReduceScatter, data, Layout::Own, scratch)
        .given(given.input, Layout::Listed(given.blocks))
        .reducing(Kernel::of::<R, E>())
}

/// Reduces in place, as [`reduce_scatter`] (MPI_Reduce_scatter, MPI_Ireduce_scatter with
/// MPI_IN_PLACE): this rank's block of `data`, of those listed by `blocks`, becomes its result,
/// where it stands.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest as
/// [`reduce_scatter`].
#[inline(always)]
pub fn reduce_scatter_in_place<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    blocks: &'m [Block],
    scratch: &'m mut [E],
) -> BlockCall<'m> {
    BlockCall::new(Operation::ReduceScatter, data, Layout::Listed(blocks), scratch)
        .reducing(Kernel::of::<R, E>())
}
