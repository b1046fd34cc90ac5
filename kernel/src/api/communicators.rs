//! Communicators of an endpoint, to be asked and set, and the local steps of making and freeing
//! one.

use aldis_hal::{Cause, Operation, PeerId, Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::engine::state::Engine;
use crate::error::Error;
use crate::rank::WILD;
use crate::tables::comm::Comm;
use crate::tables::group::{Comparison, Group};

/// A communicator beside the endpoint that knows it, to be asked: see [`Endpoint::comm`].
#[derive(Clone, Copy)]
pub struct CommRef<'e, 's> {
    pub(crate) engine: &'e Engine<'s>,
    pub(crate) comm: Comm,
}

/// A communicator beside the endpoint that knows it, to be set: see [`Endpoint::comm_mut`].
pub struct CommMut<'e, 's, T, P> {
    pub(crate) endpoint: &'e mut Endpoint<'s, T, P>,
    pub(crate) comm: Comm,
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// A communicator, to be asked for its groups, name, attributes, hints and error policy on this
    /// rank.
    #[inline]
    pub const fn comm(&self, comm: &Comm) -> CommRef<'_, 's> {
        CommRef { engine: &self.engine, comm: *comm }
    }

    /// A communicator, to be given a name, attributes, hints and an error policy on this rank
    /// alone, and to be aborted.
    #[inline]
    pub const fn comm_mut(&mut self, comm: &Comm) -> CommMut<'_, 's, T, P> {
        CommMut { endpoint: self, comm: *comm }
    }

    /// This process, as groups name it.
    pub const fn process(&self) -> PeerId {
        self.engine.me
    }
}

impl<'e> CommRef<'e, '_> {
    /// The group, the local one of an intercommunicator (MPI_Comm_group), borrowed from
    /// the table. To keep it while the endpoint goes on, take the union with [`Group::EMPTY`] into
    /// memory of one's own.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn group(&self) -> Result<Group<'e>, Error> {
        self.engine.comms.group(&self.comm).map_err(about(&self.comm, Operation::Group))
    }

    /// The remote group of an intercommunicator (MPI_Comm_remote_group), borrowed from the table.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`] for a communicator of one group; else as
    /// [`group`](Self::group).
    pub fn remote_group(&self) -> Result<Group<'e>, Error> {
        self.engine.comms.remote_group(&self.comm).map_err(about(&self.comm, Operation::Group))
    }

    /// Compares with another communicator (MPI_Comm_compare). Intercommunicators are compared
    /// by both groups, and are unequal to communicators of one group (MPI 4.1 section 7.6.1).
    ///
    /// # Errors
    /// [`Cause::Stale`] if one of the two was freed.
    pub fn compare(&self, other: &Comm) -> Result<Comparison, Error> {
        let (one, other) = (self, CommRef { engine: self.engine, comm: *other });
        let local = one.group()?.compare(&other.group()?);
        let remote = match (one.comm.is_inter(), other.comm.is_inter()) {
            (false, false) => Comparison::Identical,
            (true, true) => one.remote_group()?.compare(&other.remote_group()?),
            _ => Comparison::Unequal,
        };
        Ok(match (local, remote) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            (Comparison::Identical, Comparison::Identical) if one.comm.context() == other.comm.context() => {
                Comparison::Identical
            }
            (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
            _ => Comparison::Similar,
        })
    }

    /// The name (MPI_Comm_get_name); empty if it was given none.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn name(&self) -> Result<&'static str, Error> {
        self.engine.comms.name(&self.comm).map_err(about(&self.comm, Operation::Group))
    }
}

impl<T: Transport, P: Platform> CommMut<'_, '_, T, P> {
    /// Names the communicator on this rank (MPI_Comm_set_name).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn set_name(&mut self, name: &'static str) -> Result<(), Error> {
        let set = self.endpoint.engine.comms.set_name(&self.comm, name);
        set.map_err(about(&self.comm, Operation::Group))
    }
}

/// Returns the failure of an operation on a communicator, by its cause.
pub(crate) fn about(comm: &Comm, operation: Operation) -> impl Fn(Cause) -> Error {
    let context = comm.context();
    move |cause| Error::about(operation, cause, WILD, context, WILD)
}
