//! Reduction to one rank: the reduction of every rank's data at the root.

use aldis_kernel::Rank;
use zerocopy::IntoBytes;

pub use crate::algorithms::reduce::{
    ALGORITHMS, Binary, Binomial, Chain, InOrderBinary, Knomial, Linear, Pipeline, Rabenseifner, Ring,
};
use crate::contiguous::ContiguousCall;
use crate::op::{Element, Kernel, Reduce};
use crate::select::{Call, CallSpec};

/// Reduces `data` of all ranks element by element and leaves the result in `data` of rank
/// `root` (MPI_Reduce, MPI_Ireduce with MPI_IN_PLACE at the root). Operands stand in the order of
/// their ranks. The other ranks' `data` is working memory: what it holds afterwards depends on the
/// algorithm.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough (none for a
/// single rank), as many as `data` are never too few, and more than that are not used.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn reduce<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    scratch: &'m mut [E],
    root: Rank,
) -> ContiguousCall<'m> {
    let call = Call::reduce::<R, E>(0, data.len(), scratch.len());
    let kernel = Some(Kernel::of::<R, E>());
    let spec = CallSpec { call, root: root.0, kernel, candidates: &ALGORITHMS };
    ContiguousCall::new(spec, data.as_mut_bytes(), scratch.as_mut_bytes())
}

/// Reduces `operand` of all ranks like [`reduce`], and leaves the result in `data` of rank `root`
/// (MPI_Reduce, MPI_Ireduce). `operand` is left as it is; `data`, as long on every rank, is working
/// memory on the others. One of two ranks may call this and the other [`reduce`].
///
/// # Errors
/// Those of [`reduce`]; [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for an
/// operand of another length as well,
/// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) where it is made persistent: the
/// operand would be copied but once.
#[inline(always)]
pub fn reduce_from<'m, R: Reduce<E>, E: Element>(
    op: R,
    operand: &'m [E],
    data: &'m mut [E],
    scratch: &'m mut [E],
    root: Rank,
) -> ContiguousCall<'m> {
    reduce(op, data, scratch, root).given(operand.as_bytes())
}
