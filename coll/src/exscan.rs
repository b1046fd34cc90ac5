//! Exclusive scan: on every rank the reduction of the ranks before it.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Error, Scope};
use zerocopy::IntoBytes;

pub use crate::algorithms::exscan::{ALGORITHMS, Linear, RecursiveDoubling};
use crate::caller::Caller;
use crate::collective::{Collective, Lent, Planned};
use crate::op::{Element, Kernel, Reduce};
use crate::select::{Call, Options};

/// Reduces `data` of every rank of `comm` before this one element by element and leaves the result
/// in `data` (MPI_Exscan with MPI_IN_PLACE). Operands stand in the order of their ranks; which are
/// combined first depends on the algorithm and on the rank, not on how many ranks come after it.
/// Before rank 0 there is none: its data stay as they are.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough (none for a
/// single rank), as many as `data` are never too few, and more than that are not used.
///
/// ```
/// # use aldis_coll::{exscan, op::Sum};
/// # use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
/// fn numbered_from<T: Transport, P: Platform>(
///     ep: &mut Endpoint<'_, T, P>,
///     mine: u64,
/// ) -> Result<u64, Error> {
///     let world = ep.world();
///     let mut before = [mine];
///     exscan(ep, &world, Sum, &mut before, &mut [0])?;
///     Ok(if world.rank().0 == 0 { 0 } else { before[0] })
/// }
/// ```
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`Collective::wait`].
pub fn exscan<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().exscan(caller, comm, op, data, scratch)
}

/// Starts an exclusive scan (MPI_Iexscan). The data can be read again when the scope is over.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; the rest as
/// [`exscan`].
pub fn iexscan<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().iexscan(scope, comm, op, data, scratch)
}

impl Options {
    /// [`exscan`] with these options.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`Collective::wait`].
    pub fn exscan<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        _op: R,
        data: &mut [E],
        scratch: &mut [E],
    ) -> Result<(), Error> {
        #[cfg(not(feature = "compact"))]
        if T::HAS_LINES {
            let call = Call::exscan::<R, E>(comm.size(), data.len(), scratch.len());
            let done = self.at_once_alone(caller, comm, &call, Kernel::of::<R, E>(), data.as_mut_bytes());
            if let Some(done) = done {
                return done;
            }
        }
        let planned = self.plan_exscan::<R, E>(comm, data.len(), scratch.len());
        planned.run(caller, comm, data.as_mut_bytes(), scratch.as_mut_bytes())
    }

    /// [`iexscan`] with these options.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::exscan`].
    pub fn iexscan<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        _op: R,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let planned = self.plan_exscan::<R, E>(comm, data.len(), scratch.len());
        Collective::begin(scope, comm, planned, Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes()))
    }

    fn plan_exscan<R: Reduce<E>, E: Element>(&self, comm: &Comm, count: usize, scratch: usize) -> Planned {
        let call = Call::exscan::<R, E>(comm.size(), count, scratch);
        Planned::new(call, 0, &ALGORITHMS, self, Some(Kernel::of::<R, E>()))
    }
}
