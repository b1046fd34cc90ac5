//! The calls that take typed data.

use aldis_hal::{Cause, Operation, Platform, Transport};

use super::{OfScope, Typed, TypedMut};
use crate::api::call::{CallSubject, apart};
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::matched::Matched;
use crate::api::poll_rounds::Within;
use crate::api::scope::{Request, Scope, Stage};
use crate::datatype::Types;
use crate::engine::state::{Conversion, Engine, FAST_PATHS, Started};
use crate::engine::typed::Convert;
use crate::error::{Error, Failed};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::elements::{Elements, ElementsMut, LaidOut, NO_TYPES, TypedData};
use crate::tables::request::{Backing, State};

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Lends the endpoint a table of datatypes: typed calls take types of this table, and basic
    /// ones.
    ///
    /// # Errors
    /// [`Cause::Busy`] if it has one.
    pub fn attach_types(&mut self, types: Types<'s>) -> Result<(), Error> {
        if self.engine.conversion.is_some() {
            return Err(Error::new(Operation::None, Cause::Busy));
        }
        self.engine.conversion = Some(Conversion { types, tools: &Convert });
        Ok(())
    }

    /// The table of datatypes, to make, ask and free types.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if none is attached.
    pub fn types(&mut self) -> Result<&mut Types<'s>, Error> {
        let Engine { requests, conversion, .. } = &mut self.engine;
        let Some(Conversion { types, .. }) = conversion else {
            return Err(Error::new(Operation::None, NO_TYPES));
        };
        // What messages hold is read off the requests, so that nothing need be counted when one is
        // over.
        if types.is_due(requests.used_end()) {
            types.hold_only((0..requests.used_end()).filter_map(|index| requests.at(index)?.held()));
        }
        Ok(types)
    }

    /// Sends elements of a datatype (MPI_Send, and MPI_Ssend and MPI_Rsend by the mode of `data`).
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, [`Cause::TooSmall`] if no types are attached; the rest as
    /// [`send`](Self::send).
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub fn send_typed(&mut self, comm: &Comm, data: Typed<'_>, to: Rank, tag: Tag) -> Result<Status, Error> {
        self.forever().send_typed(comm, data, to, tag)
    }

    /// Receives elements of a datatype (MPI_Recv). How many there are, [`Types::count`] and
    /// [`Types::elements`] tell from the status' bytes.
    ///
    /// # Errors
    /// [`Cause::SignatureMismatch`] for a message of other types, [`Cause::Corrupt`] for one whose
    /// checksum differs, [`Cause::Truncated`] for one longer than the room; the rest as
    /// [`recv`](Self::recv) and [`send_typed`](Self::send_typed).
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub fn recv_typed(
        &mut self,
        comm: &Comm,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().recv_typed(comm, into, from, tag)
    }

    /// Sends and receives elements of datatypes at a time (MPI_Sendrecv).
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, [`Cause::SignatureMismatch`] for a message of other types; the rest as
    /// [`send_typed`](Self::send_typed) and [`recv_typed`](Self::recv_typed).
    #[expect(clippy::too_many_arguments, reason = "the arguments of MPI_Sendrecv")]
    pub fn sendrecv_typed(
        &mut self,
        comm: &Comm,
        data: Typed<'_>,
        to: Rank,
        tag: Tag,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().sendrecv_typed(comm, data, to, tag, into, from, from_tag)
    }

    /// Sends a copy of elements of a datatype (MPI_Bsend), which is packed into the attached
    /// memory. The mode of `data` does not matter.
    ///
    /// # Errors
    /// [`Cause::Full`] when the attached memory has no room for the message; the rest as
    /// [`bsend`](Self::bsend) and [`send_typed`](Self::send_typed).
    pub fn bsend_typed(&mut self, comm: &Comm, data: Typed<'_>, to: Rank, tag: Tag) -> Result<Status, Error> {
        let target = self.engine.comms.target(comm, to, tag);
        let started = target.and_then(|target| self.engine.buffer_typed(target, &data.data));
        let started = started.or_else(|cause| self.unless_null(CallSubject::send(comm, to, tag), cause));
        let started = self.engine.with_error(started)?;
        let Self { engine, transport, .. } = self;
        let bytes = match started {
            Started::Pending(handle) => engine.requests.get(handle).map_or(0, |request| request.length),
            Started::Done(_) => 0,
        };
        let left = engine.leave_alone(started, Status { source: to, tag, bytes });
        engine.flush(transport, BUDGET);
        left.inspect_err(|error| self.raise(error))
    }

    /// Sends what is in `buffer` and receives into it (MPI_Sendrecv_replace): see
    /// [`sendrecv_replace`](Self::sendrecv_replace).
    ///
    /// # Errors
    /// [`Cause::Full`] when the attached memory has no room for the copy,
    /// [`Cause::SignatureMismatch`] for a message of other types; the rest as
    /// [`bsend_typed`](Self::bsend_typed) and [`recv_typed`](Self::recv_typed).
    pub fn sendrecv_replace_typed(
        &mut self,
        comm: &Comm,
        buffer: TypedMut<'_>,
        to: Rank,
        tag: Tag,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().sendrecv_replace_typed(comm, buffer, to, tag, from, from_tag)
    }

    /// Receives a matched message as elements of a datatype (MPI_Mrecv).
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, in which case the message
    /// is discarded, [`Cause::SignatureMismatch`] for a message of other types; the rest as
    /// [`mrecv`](Self::mrecv) and [`recv_typed`](Self::recv_typed).
    pub fn mrecv_typed(&mut self, message: Matched, into: TypedMut<'_>) -> Result<Status, Error> {
        self.forever().mrecv_typed(message, into)
    }

    /// Starts the typed receive of a matched message. The caller answers for the memory, as in
    /// [`start_recv_typed`](Self::start_recv_typed).
    fn start_mrecv_typed(&mut self, message: Matched, into: &ElementsMut) -> Result<Started, Error> {
        let ElementsMut { memory, place } = into;
        match self.engine.lay_out(TypedData::native(*memory, place)) {
            Ok(LaidOut { layout, len }) => {
                self.start_mrecv_into(&message, UserBuffer::scattered(len), Backing::Typed(layout))
            }
            Err(cause) => {
                let error = message.refused(cause);
                self.raise(&error);
                self.discard_matched(message)?;
                Err(error)
            }
        }
    }

    /// Starts a typed send. The caller answers for the memory: it stays readable until the request
    /// is complete or abandoned.
    fn start_send_typed(
        &mut self,
        comm: &Comm,
        data: &Elements,
        to: Rank,
        tag: Tag,
    ) -> Result<Started, Failed> {
        match self.try_send_plain(comm, data, to, tag) {
            0 => self.queue_send_typed(comm, data, to, tag),
            bytes => Ok(Started::Done(Status { source: to, tag, bytes: bytes as u64 })),
        }
    }

    /// Starts a typed send that something is unusual about.
    #[inline(never)]
    fn queue_send_typed(
        &mut self,
        comm: &Comm,
        data: &Elements,
        to: Rank,
        tag: Tag,
    ) -> Result<Started, Failed> {
        let target = self.engine.comms.target(comm, to, tag);
        let started = target.and_then(|target| self.engine.send_typed(target, data));
        let started = started.or_else(|cause| self.unless_null(CallSubject::send(comm, to, tag), cause))?;
        if let Started::Pending(handle) = started {
            self.flush_for(handle, |engine, transport| _ = engine.flush(transport, BUDGET));
        }
        Ok(started)
    }

    /// Starts a typed receive. The caller answers for the memory: nothing else touches it until the
    /// request is complete or abandoned.
    fn start_recv_typed(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
    ) -> Result<Started, Failed> {
        let pattern = self.pattern(comm, from, tag);
        let started = pattern.and_then(|(pattern, peer)| self.engine.receive_typed(pattern, peer, into));
        started.or_else(|cause| self.unless_null(CallSubject::recv(Operation::Recv, comm, from, tag), cause))
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// See [`Endpoint::send_typed`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::TooBig`] if the memory does not reach as
    /// far as the data, [`Cause::Stale`] for a type that was freed; the rest as
    /// [`Endpoint::send_typed`].
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub fn send_typed(&mut self, comm: &Comm, data: Typed<'_>, to: Rank, tag: Tag) -> Result<Status, Error> {
        let bytes = self.endpoint.try_send_plain(comm, &data.data, to, tag) as u64;
        if bytes > 0 {
            return Ok(Status { source: to, tag, bytes });
        }
        // Complete, or abandoned, when this returns: `data` is borrowed as long.
        let sent = apart(&(*comm, data.data), |(comm, data)| self.send_queued_typed(comm, data, to, tag));
        self.with_error(sent)
    }

    #[inline(never)]
    fn send_queued_typed(
        &mut self,
        comm: &Comm,
        data: &Elements,
        to: Rank,
        tag: Tag,
    ) -> Result<Status, Failed> {
        let started = self.endpoint.queue_send_typed(comm, data, to, tag);
        self.finish(started)
    }

    /// See [`Endpoint::recv_typed`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::SignatureMismatch`] for a message of other
    /// types, [`Cause::Corrupt`] for one whose checksum differs; the rest as
    /// [`Endpoint::recv_typed`].
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub fn recv_typed(
        &mut self,
        comm: &Comm,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let (from, tag) = (from.into(), tag.into());
        let received = match self.try_recv_plain(comm, &into.room, from, tag) {
            Some(received) => received,
            None => self.find_message_typed(comm, &into.room, from, tag),
        };
        self.with_error(received)
    }

    #[inline(never)]
    fn find_message_typed(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
    ) -> Result<Status, Failed> {
        let started = self.endpoint.start_recv_typed(comm, into, from, tag);
        self.finish(started)
    }

    /// See [`Endpoint::sendrecv_typed`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::SignatureMismatch`] for a message of other
    /// types; the rest as [`Endpoint::sendrecv_typed`].
    #[expect(clippy::too_many_arguments, reason = "the arguments of MPI_Sendrecv")]
    pub fn sendrecv_typed(
        &mut self,
        comm: &Comm,
        data: Typed<'_>,
        to: Rank,
        tag: Tag,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let receiving = self.endpoint.start_recv_typed(comm, &into.room, from.into(), from_tag.into());
        self.exchange(receiving, |within| within.endpoint.start_send_typed(comm, &data.data, to, tag))
    }

    /// See [`Endpoint::mrecv_typed`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, in which case the message is discarded,
    /// [`Cause::SignatureMismatch`] for a message of other types; the rest as
    /// [`Endpoint::mrecv_typed`].
    pub fn mrecv_typed(&mut self, message: Matched, into: TypedMut<'_>) -> Result<Status, Error> {
        let started = self.endpoint.start_mrecv_typed(message, &into.room)?;
        let finished = self.finish(Ok(started));
        self.with_error(finished)
    }

    /// See [`Endpoint::sendrecv_replace_typed`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] for the receive, while the send goes on, [`Cause::Full`] when the
    /// attached memory has no room for the copy; the rest as [`Endpoint::sendrecv_replace_typed`].
    pub fn sendrecv_replace_typed(
        &mut self,
        comm: &Comm,
        buffer: TypedMut<'_>,
        to: Rank,
        tag: Tag,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let as_one = |error: Error| error.within(Operation::SendRecv);
        self.endpoint.bsend_typed(comm, buffer.as_typed(), to, tag).map_err(as_one)?;
        self.recv_typed(comm, buffer, from, from_tag).map_err(as_one)
    }
}

impl<'scope, 's, T: Transport, P: Platform> Scope<'scope, '_, 's, T, P> {
    /// Starts a send of elements of a datatype (MPI_Isend, and MPI_Issend and MPI_Irsend by the
    /// mode of `data`).
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, a full request table; the rest as [`isend`](Self::isend) and
    /// [`Endpoint::send_typed`].
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    pub fn isend_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        data: Typed<'scope, M>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let sending = self.start_send_typed(comm, &data, to, tag);
        self.within.with_error(sending)
    }

    /// See [`ScopePlane::start_send_typed`](crate::plane::ScopePlane::start_send_typed).
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    pub(crate) fn start_send_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        data: &Typed<'scope, M>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        let endpoint = &mut *self.within.endpoint;
        if FAST_PATHS {
            let bytes = endpoint.try_send_plain(comm, &data.data, to, tag) as u64;
            if bytes > 0 {
                return Ok(Request::new(Stage::Done(Status { source: to, tag, bytes })));
            }
        }
        apart(&(*comm, data.data), |(comm, data)| self.queue_send_typed(comm, data, to, tag))
    }

    #[inline(never)]
    fn queue_send_typed(
        &mut self,
        comm: &Comm,
        data: &Elements,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        let started = self.within.endpoint.queue_send_typed(comm, data, to, tag)?;
        Ok(self.keep(started))
    }

    /// Starts a receive of elements of a datatype (MPI_Irecv).
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, a full request table; the rest as [`irecv`](Self::irecv) and
    /// [`Endpoint::recv_typed`].
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    pub fn irecv_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope, M>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Error> {
        let receiving = self.start_recv_typed(comm, into, from, tag);
        self.within.with_error(receiving)
    }

    /// See [`ScopePlane::start_recv_typed`](crate::plane::ScopePlane::start_recv_typed).
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    pub(crate) fn start_recv_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope, M>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Failed> {
        let (from, tag) = (from.into(), tag.into());
        let endpoint = &mut *self.within.endpoint;
        if FAST_PATHS
            && let Some(handle) = endpoint.try_post_plain(comm, &into.room, from, tag, &mut self.requests)
        {
            return Ok(Request::new(Stage::Pending(handle)));
        }
        apart(&(*comm, into.room), |(comm, room)| self.find_message_typed(comm, room, from, tag))
    }

    #[inline(never)]
    fn find_message_typed(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
    ) -> Result<Request<'scope>, Failed> {
        let started = self.within.endpoint.start_recv_typed(comm, into, from, tag)?;
        Ok(self.keep(started))
    }

    /// Starts the receive of a matched message as elements of a datatype (MPI_Imrecv).
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, in which case the message
    /// is discarded; the rest as [`Endpoint::mrecv_typed`], but for the message's length, which the
    /// request fails for.
    pub fn imrecv_typed<M: OfScope<'scope>>(
        &mut self,
        message: Matched,
        into: TypedMut<'scope, M>,
    ) -> Result<Request<'scope>, Error> {
        let started = self.within.endpoint.start_mrecv_typed(message, &into.room)?;
        Ok(self.keep(started))
    }

    /// Sets a send of elements of a datatype up (MPI_Send_init, and MPI_Ssend_init and
    /// MPI_Rsend_init by the mode of `data`). [`start`](Self::start) starts it.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, a full request table; the rest as [`isend_typed`](Self::isend_typed).
    pub fn send_init_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        data: Typed<'scope, M>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let &Elements { memory, ref place, mode, checked } = &data.data;
        let endpoint = &mut *self.within.endpoint;
        let made = endpoint.engine.target_or_no_peer(comm, to, tag).and_then(|(key, peer)| {
            let data = TypedData { memory, place, form: endpoint.engine.form_to(peer), checked };
            endpoint.engine.request_typed(State::Queued, key, peer, to.0, data)
        });
        let handle = made.map_err(|cause| endpoint.refuse(CallSubject::send(comm, to, tag), cause))?;
        if let Some(request) = endpoint.engine.requests.get(handle) {
            request.mode = mode;
        }
        Ok(self.keep_idle(handle))
    }

    /// Sets a receive of elements of a datatype up (MPI_Recv_init). [`start`](Self::start) starts
    /// it.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, a full request table; the rest as [`irecv_typed`](Self::irecv_typed).
    pub fn recv_init_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope, M>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let ElementsMut { memory, place } = &into.room;
        let endpoint = &mut *self.within.endpoint;
        let made = endpoint.engine.pattern_or_no_peer(comm, from, tag).and_then(|(key, peer)| {
            let data = TypedData::native(*memory, place);
            endpoint.engine.request_typed(State::Posted, key, peer, key.source, data)
        });
        let call = CallSubject::recv(Operation::Recv, comm, from, tag);
        let handle = made.map_err(|cause| endpoint.refuse(call, cause))?;
        Ok(self.keep_idle(handle))
    }
}
