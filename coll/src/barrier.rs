//! Barrier: no rank leaves before every rank has entered.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Error, Scope};

pub use crate::algorithms::barrier::{
    ALGORITHMS, Dissemination, DisseminationRadix, DoubleRing, Linear, RecursiveDoubling, Tree, TwoProcesses,
};
use crate::caller::Caller;
use crate::collective::{Collective, Lent, Planned};
use crate::select::{Call, Options};

/// Waits until every rank of `comm` has called it (MPI_Barrier).
///
/// # Errors
/// [`Cause::UnlikeCall`](aldis_kernel::hal::Cause::UnlikeCall) if a rank has called another
/// operation; the rest as [`Collective::wait`].
pub fn barrier<'s, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
) -> Result<(), Error> {
    Options::default().barrier(caller, comm)
}

/// Starts a barrier (MPI_Ibarrier): complete once every rank of `comm` has started it.
///
/// # Errors
/// [`Cause::Full`](aldis_kernel::hal::Cause::Full) when the request pool is full; the rest as
/// [`Collective::test`].
pub fn ibarrier<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
) -> Result<Collective<'scope>, Error> {
    Options::default().ibarrier(scope, comm)
}

impl Options {
    /// [`barrier`] with these options.
    ///
    /// # Errors
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation, [`Cause::UnlikeCall`](aldis_kernel::hal::Cause::UnlikeCall) if a rank has called
    /// another operation; the rest as [`Collective::wait`].
    pub fn barrier<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        let call = Call::barrier(comm.size());
        match self.at_once(caller, comm, (&call, &ALGORITHMS), (0, None), &mut []) {
            Some(done) => done,
            None => self.plan_barrier(comm).run(caller, comm, &mut [], &mut []),
        }
    }

    /// [`ibarrier`] with these options.
    ///
    /// # Errors
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`ibarrier`] and [`Options::barrier`].
    #[inline]
    pub fn ibarrier<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'scope>, Error> {
        Collective::begin(scope, comm, self.plan_barrier(comm), Lent::stretch(&mut [], &mut []))
    }

    #[inline]
    fn plan_barrier(&self, comm: &Comm) -> Planned {
        Planned::new(Call::barrier(comm.size()), 0, &ALGORITHMS, self, None)
    }
}
