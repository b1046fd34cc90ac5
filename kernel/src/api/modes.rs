//! Sends that are complete only once they are matched (MPI 4.1 section 3.4): synchronous and ready
//! mode. Both are announced whatever their size: the clear-to-send says that a receive has matched,
//! and whether it was posted in time.

use aldis_hal::{Platform, Transport};
use zerocopy::{Immutable, IntoBytes};

use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::api::scope::{Request, Scope};
use crate::error::Error;
use crate::rank::{Mode, Rank, Status, Tag};
use crate::tables::comm::Comm;

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Sends `data` in synchronous mode (MPI_Ssend): returns only when a receive has matched it.
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why the peer
    /// cannot be sent to.
    pub fn ssend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.forever().ssend(comm, data, to, tag)
    }

    /// Sends `data` in ready mode (MPI_Rsend): the receive for it must have been posted already.
    ///
    /// # Errors
    /// [`Cause::NotReady`](aldis_hal::Cause::NotReady) if the receive had not been posted (the
    /// message was received all the same, once it was); the rest as [`send`](Self::send).
    pub fn rsend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.forever().rsend(comm, data, to, tag)
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// See [`Endpoint::ssend`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`](aldis_hal::Cause::TimedOut) after the deadline; a rank or tag out of
    /// range, a stale communicator, a full request table, or why the peer cannot be sent to.
    pub fn ssend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.send_in(Mode::Synchronous, comm, data.as_bytes(), to, tag)
    }

    /// See [`Endpoint::rsend`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`](aldis_hal::Cause::TimedOut) after the deadline,
    /// [`Cause::NotReady`](aldis_hal::Cause::NotReady) if the receive had not been posted; the rest
    /// as [`Endpoint::rsend`].
    pub fn rsend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.send_in(Mode::Ready, comm, data.as_bytes(), to, tag)
    }
}

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// Starts a send in synchronous mode (MPI_Issend): it is complete only when a receive has
    /// matched it.
    ///
    /// # Errors
    /// A full request table, after which waiting for a request helps; a rank or tag out of range, a
    /// stale communicator, or why the peer cannot be sent to.
    pub fn issend<E>(
        &mut self,
        comm: &Comm,
        data: &'scope [E],
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.isend_in(Mode::Synchronous, comm, data.as_bytes(), to, tag)
    }

    /// Starts a send in ready mode (MPI_Irsend): the receive for it must have been posted already.
    ///
    /// # Errors
    /// A full request table, a rank or tag out of range, a stale communicator, or why the peer
    /// cannot be sent to; the request fails like [`Endpoint::rsend`].
    pub fn irsend<E>(
        &mut self,
        comm: &Comm,
        data: &'scope [E],
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.isend_in(Mode::Ready, comm, data.as_bytes(), to, tag)
    }
}
