//! The tuning of layers above this one: kept here for them, of all communicators and of some, and
//! not looked into. `aldis_coll::rules` says what there is.

use aldis_hal::{Cause, Operation, Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::scope::Scope;
use crate::api::scope::sealed::Sealed;
use crate::engine::state::TuningState;
use crate::error::Error;
use crate::tables::comm::Comm;
use crate::tables::comms::Tuning;

/// The tuning that an endpoint keeps for the layers above.
pub trait EndpointTuning: Sealed {
    /// Replaces what holds for every communicator.
    fn set_tuning(&mut self, tuning: Option<Tuning>);

    /// Replaces what holds for a communicator, and takes precedence over what holds for all.
    /// Duplicates do not inherit it.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    fn set_comm_tuning(&mut self, comm: &Comm, tuning: Option<Tuning>) -> Result<(), Error>;

    /// Returns what holds for a communicator, then what holds for all. One look, unless something
    /// was ever set.
    fn tuning(&self, comm: &Comm) -> [Option<Tuning>; 2];
}

impl<T: Transport, P: Platform> EndpointTuning for Endpoint<'_, T, P> {
    fn set_tuning(&mut self, tuning: Option<Tuning>) {
        self.engine.tuning = TuningState { is_set: true, on_all: tuning };
    }

    fn set_comm_tuning(&mut self, comm: &Comm, tuning: Option<Tuning>) -> Result<(), Error> {
        let settings = self.engine.comms.settings_mut(comm);
        settings.map_err(|cause: Cause| Error::new(Operation::Group, cause).on(comm))?.tuning = tuning;
        self.engine.tuning.is_set = true;
        Ok(())
    }

    #[inline]
    fn tuning(&self, comm: &Comm) -> [Option<Tuning>; 2] {
        if self.engine.tuning.is_set { self.look_up(comm) } else { [None; 2] }
    }
}

/// The tuning of a scope's endpoint.
pub trait ScopeTuning: Sealed {
    /// See [`EndpointTuning::tuning`].
    fn tuning(&self, comm: &Comm) -> [Option<Tuning>; 2];
}

impl<T: Transport, P: Platform> ScopeTuning for Scope<'_, '_, '_, T, P> {
    #[inline]
    fn tuning(&self, comm: &Comm) -> [Option<Tuning>; 2] {
        self.within.endpoint.tuning(comm)
    }
}

impl<T, P> Endpoint<'_, T, P> {
    #[cold]
    fn look_up(&self, comm: &Comm) -> [Option<Tuning>; 2] {
        let own = self.engine.comms.settings(comm.context()).and_then(|settings| settings.tuning);
        [own, self.engine.tuning.on_all]
    }
}
