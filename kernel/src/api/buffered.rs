//! This module holds `unsafe` code: it gives attached memory back once no buffered send uses it.
//!
//! Buffered sends (MPI 4.1 section 3.6): a send in standard mode of a copy, which lies in memory
//! that the user has attached, for as long as it takes: to the endpoint, or to a communicator for
//! what is sent on that alone. Where there is room is kept in the requests themselves, so that
//! messages cost their bytes and nothing else (MPI_BSEND_OVERHEAD is zero).
//!
//! ```
//! use aldis_kernel::{Comm, Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
//!
//! /// Log lines never wait, and never take the room of anything else.
//! fn log<'s, T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'s, T, P>,
//!     memory: &'s mut [u8],
//!     logs: &Comm,
//! ) -> Result<&'s mut [u8], Error> {
//!     ep.attach_comm_buffer(logs, memory)?;
//!     ep.bsend(logs, b"started", Rank(0), Tag(1))?;
//!     ep.detach_comm_buffer(logs)
//! }
//! ```

use aldis_hal::{Activity, Cause, Operation, Platform, Resource, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::call::Call;
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::poll_rounds::Within;
use crate::engine::state::{Engine, Started};
use crate::error::Error;
use crate::memory::buffer::{Buffer, Loan};
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch, WILD};
use crate::tables::comm::Comm;
use crate::tables::list::{InScope, Ring};

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Lends the endpoint memory for buffered sends (MPI_Buffer_attach): those on communicators
    /// that have none of their own.
    ///
    /// # Errors
    /// [`Cause::Busy`] while other memory is attached.
    pub fn attach_buffer(&mut self, memory: &'s mut [u8]) -> Result<(), Error> {
        if self.engine.attached.is_some() {
            return Err(self.raised(Error::new(Operation::Send, Cause::Busy)));
        }
        self.engine.attached = Some(Loan::new(memory).whole());
        Ok(())
    }

    /// Lends a communicator memory for the buffered sends on it (MPI_Comm_attach_buffer). It is to
    /// be detached before the communicator is freed, or it is not given back.
    ///
    /// # Errors
    /// [`Cause::Busy`] while other memory is attached to it, [`Cause::Stale`] for a freed
    /// communicator.
    pub fn attach_comm_buffer(&mut self, comm: &Comm, memory: &'s mut [u8]) -> Result<(), Error> {
        let attached = match self.engine.comms.settings_mut(comm) {
            Ok(settings) if settings.attached.is_scattered() => {
                settings.attached = Loan::new(memory).whole();
                Ok(())
            }
            Ok(_) => Err(Cause::Busy),
            Err(cause) => Err(cause),
        };
        attached.map_err(|cause| self.raised(about(comm, cause)))
    }

    /// Takes the memory back, once every message in it has been received (MPI_Buffer_detach). Empty
    /// if none was attached.
    ///
    /// # Errors
    /// None without a deadline; see [`Within::detach_buffer`].
    pub fn detach_buffer(&mut self) -> Result<&'s mut [u8], Error> {
        self.forever().detach_buffer()
    }

    /// Takes a communicator's memory back, once every message in it has been received
    /// (MPI_Comm_detach_buffer). Empty if none was attached to it.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn detach_comm_buffer(&mut self, comm: &Comm) -> Result<&'s mut [u8], Error> {
        self.forever().detach_comm_buffer(comm)
    }

    /// Waits until every message in the endpoint's memory has been received (MPI_Buffer_flush).
    ///
    /// # Errors
    /// None without a deadline; see [`Within::flush_buffer`].
    pub fn flush_buffer(&mut self) -> Result<(), Error> {
        self.forever().flush_buffer()
    }

    /// Waits until every message in a communicator's memory has been received
    /// (MPI_Comm_flush_buffer).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn flush_comm_buffer(&mut self, comm: &Comm) -> Result<(), Error> {
        self.forever().flush_comm_buffer(comm)
    }

    /// Returns true if every message in the endpoint's memory has been received, after one poll
    /// (MPI_Buffer_iflush with MPI_Test).
    pub fn is_buffer_flushed(&mut self) -> bool {
        self.poll(BUDGET);
        self.engine.buffered.messages.at().is_none()
    }

    /// Returns true if every message in a communicator's memory has been received, after one poll
    /// (MPI_Comm_iflush_buffer with MPI_Test).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn is_comm_buffer_flushed(&mut self, comm: &Comm) -> Result<bool, Error> {
        self.poll(BUDGET);
        let flushed = self.engine.messages_of(comm).map(|messages| messages.at().is_none());
        flushed.map_err(|cause| self.raised(about(comm, cause)))
    }

    /// Sends a copy of `data` (MPI_Bsend): returns at once, whatever the receiver does.
    ///
    /// # Errors
    /// [`Cause::Full`] when the memory attached to the communicator, or to the endpoint if none is,
    /// has no room for the message; the rest as [`send`](Self::send).
    pub fn bsend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        let bytes = data.as_bytes();
        let Some(room) = self.engine.room_for(comm.context(), bytes.len()) else {
            return Err(Call::send(comm, to, tag).refused(Cause::Full(Resource::SendBuffer)));
        };
        room.write(0, bytes);
        let started = self.start_send(comm, room, to, tag, Mode::Standard);
        let started = self.engine.with_error(started)?;
        let status = Status { source: to, tag, bytes: bytes.len() as u64 };
        self.engine.leave_alone(started, status).inspect_err(|error| self.raise(error))
    }

    /// Sends what is in `buffer` and receives into it (MPI_Sendrecv_replace). What is sent is
    /// copied to the memory that is attached for buffered sends. Returns the status of the receive.
    ///
    /// # Errors
    /// [`Cause::Full`] when the attached memory has no room for the copy, [`Cause::Truncated`] for
    /// a message longer than the buffer; the rest as [`bsend`](Self::bsend) and
    /// [`recv`](Self::recv).
    pub fn sendrecv_replace<E>(
        &mut self,
        comm: &Comm,
        buffer: &mut [E],
        to: Rank,
        tag: Tag,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes + Immutable,
    {
        self.forever().sendrecv_replace(comm, buffer, to, tag, from, from_tag)
    }
}

impl<'s, T: Transport, P: Platform> Within<'_, 's, T, P> {
    /// See [`Endpoint::sendrecv_replace`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] for the receive, while the send goes on; [`Cause::Full`] when the
    /// attached memory has no room for the copy, [`Cause::Truncated`] for a message longer than the
    /// buffer; the rest as [`Endpoint::sendrecv_replace`].
    pub fn sendrecv_replace<E>(
        &mut self,
        comm: &Comm,
        buffer: &mut [E],
        to: Rank,
        tag: Tag,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes + Immutable,
    {
        let as_one = |error: Error| error.within(Operation::SendRecv);
        if to != Rank::NULL {
            self.endpoint.bsend(comm, buffer, to, tag).map_err(as_one)?;
        }
        self.recv(comm, buffer, from, from_tag).map_err(as_one)
    }

    /// See [`Endpoint::detach_buffer`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] while some message is not received; the memory stays attached.
    pub fn detach_buffer(&mut self) -> Result<&'s mut [u8], Error> {
        self.flush_buffer()?;
        let attached = self.endpoint.engine.attached.take();
        // SAFETY: `attach_buffer` consumed an exclusive borrow of it for 's; parts of it were given
        // to buffered sends only, none of which is left; and the engine has it no more.
        Ok(attached.map_or(Default::default(), |attached| unsafe { attached.give_back() }))
    }

    /// See [`Endpoint::detach_comm_buffer`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] while some message is not received, in which case the memory stays
    /// attached; [`Cause::Stale`] for a freed communicator.
    pub fn detach_comm_buffer(&mut self, comm: &Comm) -> Result<&'s mut [u8], Error> {
        self.flush_comm_buffer(comm)?;
        let endpoint = &mut *self.endpoint;
        let settings = endpoint.engine.comms.settings_mut(comm);
        let attached = settings.map(|settings| core::mem::replace(&mut settings.attached, Buffer::NONE));
        let attached = attached.map_err(|cause| endpoint.raised(about(comm, cause)))?;
        // SAFETY: whatever lies in a row of the table was lent for 's, the life of the table, by
        // `attach_comm_buffer`; buffers made of it were given to buffered sends only, none of which
        // is left; and the row has it no more.
        Ok(unsafe { attached.give_back() })
    }

    /// See [`Endpoint::flush_buffer`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] while some message is not received.
    pub fn flush_buffer(&mut self) -> Result<(), Error> {
        let overdue = Error::new(Operation::Send, Cause::TimedOut);
        self.flush(overdue, |engine| engine.buffered.messages.at().is_none())
    }

    /// See [`Endpoint::flush_comm_buffer`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] while some message is not received, [`Cause::Stale`] for a freed
    /// communicator.
    pub fn flush_comm_buffer(&mut self, comm: &Comm) -> Result<(), Error> {
        let known = self.endpoint.engine.messages_of(comm).map(drop);
        known.map_err(|cause| self.endpoint.raised(about(comm, cause)))?;
        let overdue = about(comm, Cause::TimedOut);
        self.flush(overdue, |engine| engine.messages_of(comm).is_ok_and(|messages| messages.at().is_none()))
    }

    fn flush(
        &mut self,
        overdue: Error,
        mut is_over: impl FnMut(&mut Engine<'_>) -> bool,
    ) -> Result<(), Error> {
        let activity =
            Activity { operation: Operation::Send, context: overdue.context, ..Activity::default() };
        let flushed = self.wait(|_| activity, |engine| is_over(engine).then_some(()));
        flushed.map_err(|elapsed_ns| self.endpoint.raised(overdue.after(elapsed_ns)))
    }
}

fn about(comm: &Comm, cause: Cause) -> Error {
    Error::about(Operation::Send, cause, WILD, comm.context(), WILD)
}

impl Engine<'_> {
    /// Lets a buffered send that has been started free itself, and with it its room. `status` is
    /// that of one that goes on.
    ///
    /// # Errors
    /// The cause of its failure, if it has failed already.
    pub(crate) fn leave_alone(&mut self, started: Started, status: Status) -> Result<Status, Error> {
        let handle = match started {
            Started::Done(status) => return Ok(status),
            Started::Pending(handle) => handle,
        };
        if let Some(result) = self.collect(handle) {
            return self.with_error(result);
        }
        self.keep_buffered(handle.slot);
        Ok(status)
    }

    /// The messages in a communicator's own memory.
    fn messages_of(&mut self, comm: &Comm) -> Result<&Ring<InScope>, Cause> {
        self.comms.settings_mut(comm).map(|settings| &settings.buffered)
    }
}
