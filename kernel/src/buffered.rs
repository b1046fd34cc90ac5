//! This module holds `unsafe` code: it gives attached memory back once no buffered send uses it.
//!
//! Buffered sends (MPI 4.1 section 3.6): a send in standard mode of a copy, which lies in memory that the user has
//! attached, for as long as it takes. Where there is room is read off the requests themselves, so that messages cost
//! their bytes and nothing else (MPI_BSEND_OVERHEAD is zero).

use aldis_hal::{Activity, Cause, Operation, Platform, Resource, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::blocking::Within;
use crate::buffer::{self, Buffer, Loan};
use crate::call::Call;
use crate::comm::Comm;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, Started};
use crate::error::Error;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::request::State;

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Lends the endpoint memory for buffered sends (MPI_Buffer_attach).
    ///
    /// # Errors
    /// [`Cause::Busy`] while other memory is attached.
    pub fn attach_buffer(&mut self, memory: &'s mut [u8]) -> Result<(), Error> {
        if self.engine.attached.is_some() {
            return Err(Error::new(Operation::Send, Cause::Busy));
        }
        self.engine.attached = Some(Loan::new(memory));
        Ok(())
    }

    /// Takes the memory back, once every message in it has been received (MPI_Buffer_detach). Empty if none was
    /// attached.
    ///
    /// # Errors
    /// None without a deadline; see [`Within::detach_buffer`].
    pub fn detach_buffer(&mut self) -> Result<&'s mut [u8], Error> {
        self.forever().detach_buffer()
    }

    /// Sends a copy of `data` (MPI_Bsend): returns at once, whatever the receiver does.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and [`Cause::Full`] when the attached memory has no room for it.
    pub fn bsend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        let bytes = data.as_bytes();
        let Some(room) = self.engine.room_for(bytes.len()) else {
            return Err(Call::send(comm, to, tag).refused(Cause::Full(Resource::SendBuffer)));
        };
        room.write(0, bytes);
        let started = self.start_send(comm, room, to, tag, Mode::Standard)?;
        let status = Status { source: to, tag, bytes: bytes.len() as u64 };
        Ok(self.engine.leave_alone(started, status))
    }

    /// Sends what is in `buffer` and receives into it (MPI_Sendrecv_replace). What is sent is copied to the memory that
    /// is attached for buffered sends. Returns the status of the receive.
    ///
    /// # Errors
    /// As for [`bsend`](Self::bsend) and [`recv`](Self::recv).
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
    /// As there, and [`Cause::TimedOut`] for the receive: the send goes on.
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
        let activity = Activity { operation: Operation::Send, ..Activity::default() };
        self.wait(|_| activity, |engine| (!engine.is_buffering()).then_some(()))
            .map_err(|elapsed_ns| Error::new(Operation::Send, Cause::TimedOut).after(elapsed_ns))?;
        let attached = self.endpoint.engine.attached.take();
        // SAFETY: buffers made of the loan were given to buffered sends only, none of which is left; this was the
        // only copy of the loan that was kept.
        Ok(attached.map_or(Default::default(), |loan| unsafe { loan.give_back() }))
    }
}

impl Engine<'_> {
    /// A buffered send has been started: it frees itself, and with it its room.
    pub(crate) fn leave_alone(&mut self, started: Started, status: Status) -> Status {
        let handle = match started {
            Started::Done(status) => return status,
            Started::Pending(handle) => handle,
        };
        if let Some(request) = self.requests.get(handle) {
            request.orphan = true;
        }
        status
    }

    /// The first `len` bytes of the attached memory that no message lies in. Bounded: every step passes a message.
    pub(crate) fn room_for(&mut self, len: usize) -> Option<Buffer> {
        let attached = self.attached?;
        let mut start = 0usize;
        loop {
            let room = attached.part(start..start.checked_add(len)?)?;
            let Some(end) = self.message_in(room) else { return Some(room) };
            start = end.checked_sub(attached.whole().address())?;
        }
    }

    /// Whether a buffered send is under way.
    pub(crate) fn is_buffering(&mut self) -> bool {
        self.attached.is_some_and(|attached| self.message_in(attached.whole()).is_some())
    }

    /// The end of a message that lies in `memory`, if any does.
    fn message_in(&mut self, memory: Buffer) -> Option<usize> {
        (0..self.requests.used_end()).find_map(|index| {
            let request = self.requests.at(index)?;
            let live = matches!(request.state, State::Queued | State::Sending);
            let message = request.memory();
            let hit = live && buffer::overlap(message, memory);
            hit.then(|| message.address().wrapping_add(message.len()))
        })
    }
}
