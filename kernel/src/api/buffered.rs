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
//!     ep.send_buffer().of(logs).attach(memory)?;
//!     ep.bsend(logs, b"started", Rank(0), Tag(1))?;
//!     ep.send_buffer().of(logs).detach()
//! }
//! ```

use aldis_hal::{Activity, Cause, Operation, Platform, Resource, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::call::CallSubject;
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::poll_rounds::Within;
use crate::engine::direct::lends;
use crate::engine::state::{Engine, Started};
use crate::error::Error;
use crate::memory::buffer::{LentMut, UserBuffer};
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::list::{InScope, Ring};
use crate::tables::staging::StagingSizes;

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// The memory for buffered sends: the endpoint's, or a communicator's by
    /// [`of`](SendBuffer::of).
    pub fn send_buffer(&mut self) -> SendBuffer<'_, 's, T, P> {
        self.forever().send_buffer()
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
            return Err(CallSubject::send(comm, to, tag).refused(Cause::Full(Resource::SendBuffer)));
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

impl<'e, 's, T: Transport, P: Platform> Within<'e, 's, T, P> {
    /// See [`Endpoint::send_buffer`]; the deadline is that of [`flush`](SendBuffer::flush) and
    /// [`detach`](SendBuffer::detach).
    pub const fn send_buffer(self) -> SendBuffer<'e, 's, T, P> {
        SendBuffer { within: self, comm: None }
    }

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
}

/// The memory for buffered sends: a communicator's, or the endpoint's for those on communicators
/// that have none of their own. Made by [`Endpoint::send_buffer`] and [`Within::send_buffer`].
pub struct SendBuffer<'e, 's, T, P> {
    within: Within<'e, 's, T, P>,
    /// The communicator whose memory it is; `None` for the endpoint's.
    comm: Option<Comm>,
}

impl<'s, T: Transport, P: Platform> SendBuffer<'_, 's, T, P> {
    /// The memory of a communicator, for buffered sends on that alone.
    #[must_use]
    pub const fn of(mut self, comm: &Comm) -> Self {
        self.comm = Some(*comm);
        self
    }

    /// Lends memory (MPI_Buffer_attach, MPI_Comm_attach_buffer). A communicator's is to be detached
    /// before the communicator is freed, or it is not given back.
    ///
    /// # Errors
    /// [`Cause::Busy`] while other memory is attached, [`Cause::Stale`] for a freed communicator.
    pub fn attach(&mut self, memory: &'s mut [u8]) -> Result<(), Error> {
        let engine = &mut self.within.endpoint.engine;
        let attached = match &self.comm {
            None if engine.attached.is_some() => Err(Cause::Busy),
            None => {
                // SAFETY: the engine, which is gone before 's is over, is the only one that has it,
                // until `detach` gives it back once no send uses it.
                engine.attached = Some(unsafe { LentMut::new(memory) }.whole());
                Ok(())
            }
            Some(comm) => match engine.comms.settings_mut(comm) {
                Ok(settings) if settings.attached.is_scattered() => {
                    // SAFETY: as above; the row is the engine's.
                    settings.attached = unsafe { LentMut::new(memory) }.whole();
                    Ok(())
                }
                Ok(_) => Err(Cause::Busy),
                Err(cause) => Err(cause),
            },
        };
        attached.map_err(|cause| self.raised(cause))
    }

    /// Lends the endpoint memory, for as long as it lives, in which messages of middle length are
    /// copied for receivers that have it mapped: their sends are over before they are received.
    /// Of use where the transport says that it [is
    /// mapped](aldis_hal::RemoteMemory::is_mapped); messages take a sixteenth of it at most, or as
    /// the `sizes` say, and each holds a request until it is received. It is not for buffered
    /// sends, and of no communicator.
    ///
    /// # Errors
    /// [`Cause::Busy`] if it has been lent some already, [`Cause::Unsupported`] for a
    /// communicator's and for a transport that touches no memory.
    pub fn lend_staging(&mut self, memory: &'s mut [u8], sizes: StagingSizes) -> Result<(), Error> {
        if self.comm.is_some() || !lends::<T>() {
            return Err(self.raised(Cause::Unsupported));
        }
        // SAFETY: the engine, which is gone before 's is over, is the only one that has it.
        let memory = unsafe { LentMut::new(memory) }.whole();
        let is_first = self.within.endpoint.engine.buffered.staging.lend(memory, sizes);
        if is_first { Ok(()) } else { Err(self.raised(Cause::Busy)) }
    }

    /// Takes the memory back, once every message in it has been received (MPI_Buffer_detach,
    /// MPI_Comm_detach_buffer). Empty if none was attached.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline while some message is not received, in which case the
    /// memory stays attached; [`Cause::Stale`] for a freed communicator.
    pub fn detach(&mut self) -> Result<&'s mut [u8], Error> {
        self.flush()?;
        let engine = &mut self.within.endpoint.engine;
        let attached = match &self.comm {
            None => Ok(engine.attached.take().unwrap_or(UserBuffer::NONE)),
            Some(comm) => {
                let settings = engine.comms.settings_mut(comm);
                settings.map(|settings| core::mem::replace(&mut settings.attached, UserBuffer::NONE))
            }
        };
        let attached = attached.map_err(|cause| self.raised(cause))?;
        // SAFETY: whatever the engine or a row of the table has attached was lent for 's, the life
        // of the table, by `attach`, which consumed an exclusive borrow of it; buffers made of it
        // were given to buffered sends only, none of which is left; and neither has it any more.
        Ok(unsafe { attached.give_back() })
    }

    /// Waits until every message in the memory has been received (MPI_Buffer_flush,
    /// MPI_Comm_flush_buffer).
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline while some message is not received, [`Cause::Stale`]
    /// for a freed communicator.
    pub fn flush(&mut self) -> Result<(), Error> {
        let comm = self.comm;
        let known = self.within.endpoint.engine.messages_of(comm.as_ref()).map(drop);
        known.map_err(|cause| self.raised(cause))?;
        let overdue = self.error(Cause::TimedOut);
        let activity =
            Activity { operation: Operation::Send, context: overdue.context, ..Activity::default() };
        let flushed = self.within.wait(
            |_| activity,
            |engine| engine.is_flushed(comm.as_ref()).is_ok_and(|is_flushed| is_flushed).then_some(()),
        );
        flushed.map_err(|elapsed_ns| self.within.endpoint.raised(overdue.after(elapsed_ns)))
    }

    /// Returns true if every message in the memory has been received, after one poll
    /// (MPI_Buffer_iflush or MPI_Comm_iflush_buffer with MPI_Test).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn is_flushed(&mut self) -> Result<bool, Error> {
        let endpoint = &mut *self.within.endpoint;
        endpoint.poll(BUDGET);
        endpoint.engine.is_flushed(self.comm.as_ref()).map_err(|cause| self.raised(cause))
    }

    fn error(&self, cause: Cause) -> Error {
        let error = Error::new(Operation::Send, cause);
        self.comm.map_or(error, |comm| error.on(&comm))
    }

    fn raised(&mut self, cause: Cause) -> Error {
        let error = self.error(cause);
        self.within.endpoint.raised(error)
    }
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

    /// The messages in a communicator's own memory; in the endpoint's without one.
    fn messages_of(&mut self, comm: Option<&Comm>) -> Result<&Ring<InScope>, Cause> {
        match comm {
            None => Ok(&self.buffered.messages),
            Some(comm) => self.comms.settings_mut(comm).map(|settings| &settings.buffered),
        }
    }

    fn is_flushed(&mut self, comm: Option<&Comm>) -> Result<bool, Cause> {
        self.messages_of(comm).map(|messages| messages.at().is_none())
    }
}
