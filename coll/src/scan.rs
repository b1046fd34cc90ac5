//! Scan: on every rank the reduction of the ranks up to and including it.

use zerocopy::IntoBytes;

pub use crate::algorithms::scan::{ALGORITHMS, Linear, RecursiveDoubling};
use crate::contiguous::ContiguousCall;
use crate::op::{Element, Kernel, Reduce};
use crate::select::{Call, CallSpec};

/// Reduces `data` of every rank up to and including this one element by element and
/// leaves the result in `data` (MPI_Scan, MPI_Iscan with MPI_IN_PLACE). Operands stand in the order
/// of their ranks; which are combined first depends on the algorithm and on the rank, not on how
/// many ranks come after it.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough (none for a
/// single rank), as many as `data` are never too few, and more than that are not used.
///
/// ```
/// # use aldis_coll::{scan, op::Sum};
/// # use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
/// fn numbered_from<T: Transport, P: Platform>(
///     ep: &mut Endpoint<'_, T, P>,
///     mine: u64,
/// ) -> Result<u64, Error> {
///     let world = ep.world();
///     let mut up_to_here = [mine];
///     scan(Sum, &mut up_to_here, &mut [0]).run(ep, &world)?;
///     Ok(up_to_here[0] - mine)
/// }
/// ```
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn scan<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> ContiguousCall<'m> {
    let call = Call::scan::<R, E>(0, data.len(), scratch.len());
    let kernel = Some(Kernel::of::<R, E>());
    let spec = CallSpec { call, root: 0, kernel, candidates: &ALGORITHMS };
    ContiguousCall::new(spec, data.as_mut_bytes(), scratch.as_mut_bytes())
}
