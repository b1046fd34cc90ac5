//! All-reduce: the reduction of every rank's data on every rank.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Error, Scope};
use zerocopy::IntoBytes;

pub use crate::algorithms::allreduce::{
    ALGORITHMS, AllgatherReduce, Bcube, HalvingDoubling, Linear, Nonoverlapping, Rabenseifner,
    RecursiveDoubling, RecursiveMultiplying, Ring, SegmentedRing,
};
use crate::caller::Caller;
use crate::collective::{Collective, Lent, Planned};
use crate::op::{Element, Kernel, Reduce};
use crate::select::{Call, Options};

/// Reduces `data` of all ranks of `comm` element by element and leaves the result in every rank's
/// `data` (MPI_Allreduce with MPI_IN_PLACE), with the same bits on all of them.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough (none for a
/// single rank), as many as `data` are never too few, and more than that are not used.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`Collective::wait`].
pub fn allreduce<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().allreduce(caller, comm, op, data, scratch)
}

/// Starts an all-reduce (MPI_Iallreduce). The data can be read again when the scope is over.
///
/// ```
/// # use aldis_coll::{iallreduce, op::Sum};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn overlap<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, world: &Comm) -> Result<(), Error> {
/// let (mut data, mut scratch) = ([1u32; 4], [0; 4]);
/// let (lent, spare) = (&mut data, &mut scratch);
/// ep.scope(|scope| {
///     let mut sum = iallreduce(scope, world, Sum, lent, spare)?;
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
/// # use aldis_coll::{iallreduce, op::Sum};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn overlap<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, world: &Comm) -> Result<(), Error> {
/// let (mut data, mut scratch) = ([1u32; 4], [0; 4]);
/// let (lent, spare) = (&mut data, &mut scratch);
/// ep.scope(|scope| {
///     let mut sum = iallreduce(scope, world, Sum, lent, spare)?;
///     data[0] += 1;
///     sum.wait(scope)
/// })?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; the rest as
/// [`allreduce`].
pub fn iallreduce<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().iallreduce(scope, comm, op, data, scratch)
}

impl Options {
    /// [`allreduce`] with these options.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation, or one that does not keep rank order when the reduction does not commute; the
    /// rest as [`Collective::wait`].
    #[inline(always)]
    pub fn allreduce<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        _op: R,
        data: &mut [E],
        scratch: &mut [E],
    ) -> Result<(), Error> {
        let call = Call::allreduce::<R, E>(comm.size(), data.len(), scratch.len());
        let what = (0, Some(Kernel::of::<R, E>()));
        match self.at_once(caller, comm, (&call, &ALGORITHMS), what, data.as_mut_bytes()) {
            Some(done) => done,
            None => {
                let planned = self.plan_allreduce::<R, E>(comm, data.len(), scratch.len());
                planned.run(caller, comm, data.as_mut_bytes(), scratch.as_mut_bytes())
            }
        }
    }

    /// [`iallreduce`] with these options.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::allreduce`].
    #[inline]
    pub fn iallreduce<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        _op: R,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let planned = self.plan_allreduce::<R, E>(comm, data.len(), scratch.len());
        Collective::begin(scope, comm, planned, Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes()))
    }

    #[inline(always)]
    fn plan_allreduce<R: Reduce<E>, E: Element>(&self, comm: &Comm, count: usize, scratch: usize) -> Planned {
        let call = Call::allreduce::<R, E>(comm.size(), count, scratch);
        Planned::new(call, 0, &ALGORITHMS, self, Some(Kernel::of::<R, E>()))
    }
}
