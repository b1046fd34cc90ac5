//! All-reduce: the reduction of every rank's data on every rank.

use zerocopy::IntoBytes;

pub use crate::algorithms::allreduce::{
    ALGORITHMS, AllgatherReduce, Bcube, HalvingDoubling, Linear, Nonoverlapping, Rabenseifner,
    RecursiveDoubling, RecursiveMultiplying, Ring, SegmentedRing,
};
use crate::contiguous::ContiguousCall;
use crate::op::{Element, Kernel, Reduce};
use crate::select::{Call, CallSpec};

/// Reduces `data` of all ranks element by element and leaves the result in every rank's
/// `data` (MPI_Allreduce, MPI_Iallreduce with MPI_IN_PLACE), with the same bits on all of them.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough (none for a
/// single rank), as many as `data` are never too few, and more than that are not used.
///
/// Started, it goes on while the rank computes:
///
/// ```
/// # use aldis_coll::{allreduce, op::Sum};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn overlap<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     world: &Comm,
/// # ) -> Result<(), Error> {
/// let (mut data, mut scratch) = ([1u32; 4], [0; 4]);
/// let (lent, spare) = (&mut data, &mut scratch);
/// ep.scope(|scope| {
///     let mut sum = allreduce(Sum, lent, spare).start(scope, world)?;
///     // ... compute on other memory, `sum.test(scope)` now and then ...
///     sum.wait(scope)
/// })?;
/// data[0] += 1;
/// # Ok(()) }
/// ```
///
/// Until then the memory is lent:
///
/// ```compile_fail,E0506
/// # use aldis_coll::{allreduce, op::Sum};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn overlap<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     world: &Comm,
/// # ) -> Result<(), Error> {
/// let (mut data, mut scratch) = ([1u32; 4], [0; 4]);
/// let (lent, spare) = (&mut data, &mut scratch);
/// ep.scope(|scope| {
///     let mut sum = allreduce(Sum, lent, spare).start(scope, world)?;
///     data[0] += 1;
///     sum.wait(scope)
/// })?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn allreduce<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> ContiguousCall<'m> {
    let call = Call::allreduce::<R, E>(0, data.len(), scratch.len());
    let kernel = Some(Kernel::of::<R, E>());
    let spec = CallSpec { call, root: 0, kernel, candidates: &ALGORITHMS };
    ContiguousCall::new(spec, data.as_mut_bytes(), scratch.as_mut_bytes())
}
