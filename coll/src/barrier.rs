//! Barrier: no rank leaves before every rank has entered.

mod dissemination;

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Scope};
pub use dissemination::Dissemination;

use crate::collective::{Caller, Collective, Memory};
use crate::schedule::{Algorithm, Instance};
use crate::select::{Call, Options};

/// Every algorithm for it.
pub static ALGORITHMS: [Algorithm; 1] = [&Dissemination];

/// Waits until every rank of `comm` has called it (MPI_Barrier).
///
/// # Errors
/// As [`Collective::wait`].
pub fn barrier<'s, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
) -> Result<(), Error> {
    Options::default().barrier(caller, comm)
}

/// Starts a barrier (MPI_Ibarrier): complete once every rank of `comm` has started it.
///
/// # Errors
/// As [`Collective::test`].
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
    /// As there, and [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation.
    pub fn barrier<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        caller.enter(|scope| self.ibarrier(scope, comm)?.wait(scope))
    }

    /// [`ibarrier`] with these options.
    ///
    /// # Errors
    /// As there and at [`Options::barrier`].
    #[inline]
    pub fn ibarrier<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'scope>, Error> {
        let refused = |cause| Error::new(Operation::Barrier, cause);
        let whole = Instance::new(comm.rank().0, comm.size(), 0, 0).map_err(refused)?;
        let plan = Call::barrier(comm.size()).select(&ALGORITHMS, self).map_err(refused)?;
        let memory = Memory {
            data: scope.lend::<u8>(&mut []),
            scratch: scope.lend::<u8>(&mut []),
            element_bytes: 1,
            kernel: None,
        };
        Collective::start(scope, comm, plan, whole, memory)
    }
}
