//! This module holds `unsafe` code: it lends the user's memory to requests and sees to it that each
//! is complete or has let go before the call returns, by error, deadline or unwinding.
//!
//! Blocking calls: loops of poll and relax, with a deadline.

use aldis_hal::{Activity, Cause, Handle, Instant, Operation, PeerId, Platform, Transport};
use aldis_protocols::header::Label;
use core::ptr::NonNull;
use core::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::call::{CallSubject, apart};
use crate::api::endpoint::{BUDGET, Endpoint, POLLS_PER_TICK};
use crate::api::matched::Matched;
use crate::api::poll_rounds::{LOOKS_A_POLL, PollRounds, Within};
use crate::engine::state::{ArmedRecv, Engine, FAST_PATHS, Started};
use crate::error::{Error, Failed};
use crate::memory::buffer::{LentMut, UserBuffer};
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch, WILD};
use crate::tables::comm::Comm;
use crate::tables::request::State;

/// The budget of a poll that looks for one message: one event for arrivals, one for what is to be
/// sent.
const LOOK: u32 = 2;

/// Lets go of requests when it drops, however that comes about.
pub(crate) struct Guard<'w, 'e, 's, T: Transport, P: Platform> {
    pub(crate) within: &'w mut Within<'e, 's, T, P>,
    pub(crate) handles: [Handle; 2],
}

impl<T: Transport, P: Platform> Guard<'_, '_, '_, T, P> {
    /// Waits for the first of the requests, after some turns.
    pub(crate) fn wait_on(self, turns: PollRounds) -> Result<Status, Failed> {
        let [handle, _] = self.handles;
        self.within.wait_for_on(turns, handle)
    }
}

/// Lets go of the armed receive when it drops, however that comes about.
struct Waiting<'w, 's, T: Transport, P: Platform> {
    endpoint: &'w mut Endpoint<'s, T, P>,
}

impl<T: Transport, P: Platform> Waiting<'_, '_, T, P> {
    /// Returns the receive, if it has been posted; the caller sees to it from here on.
    fn posted(&mut self) -> Option<Handle> {
        match core::mem::replace(&mut self.endpoint.engine.armed, ArmedRecv::None) {
            ArmedRecv::Posted(handle) => Some(handle),
            _ => None,
        }
    }
}

impl<T: Transport, P: Platform> Drop for Waiting<'_, '_, T, P> {
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    fn drop(&mut self) {
        if let ArmedRecv::Posted(handle) = self.endpoint.engine.armed {
            self.endpoint.abandon(handle);
        }
        self.endpoint.engine.armed = ArmedRecv::None;
    }
}

impl<T: Transport, P: Platform> Drop for Guard<'_, '_, '_, T, P> {
    fn drop(&mut self) {
        for handle in self.handles {
            self.within.endpoint.abandon(handle);
        }
    }
}

impl<'s, T: Transport, P: Platform> Within<'_, 's, T, P> {
    /// Waits for the request behind `handle` and takes its result.
    #[inline]
    pub(crate) fn wait_for(&mut self, handle: Handle) -> Result<Status, Failed> {
        self.wait_for_on(PollRounds::default(), handle)
    }

    fn wait_for_on(&mut self, turns: PollRounds, handle: Handle) -> Result<Status, Failed> {
        self.wait_until_complete(turns, handle)?;
        match self.endpoint.engine.collect(handle) {
            Some(result) => result.inspect_err(|failed| self.endpoint.raise_kept(failed)),
            None => Err(self.endpoint.fail_stale()),
        }
    }

    /// Waits until the request behind `handle` is complete, and leaves the result there.
    pub(crate) fn wait_until_complete(&mut self, turns: PollRounds, handle: Handle) -> Result<(), Failed> {
        let waited = self.wait_on(
            turns,
            |engine| engine.activity(handle),
            |engine| {
                engine
                    .requests
                    .get(handle)
                    .is_none_or(|request| request.state == State::Complete)
                    .then_some(())
            },
        );
        waited.map_err(|elapsed_ns| self.overdue(handle, elapsed_ns))
    }

    /// Looks for the message of a posted receive that names its sender, which is mostly not long in
    /// coming: a look costs less than a poll. `None` if it is over then; else the rounds that have
    /// found nothing.
    pub(crate) fn look_for(&mut self, handle: Handle) -> Option<PollRounds> {
        let Endpoint { engine, .. } = &mut *self.endpoint;
        let request = engine.requests.get(handle).filter(|request| request.state != State::Complete)?;
        if request.state != State::Posted || request.key.source == WILD {
            return Some(PollRounds::default());
        }
        let peer = request.peer;
        for looks in 0..POLLS_PER_TICK {
            let endpoint = &mut *self.endpoint;
            if looks % LOOKS_A_POLL == 0 || endpoint.transport.has_news(peer) {
                endpoint.poll(BUDGET);
                match endpoint.engine.requests.get(handle)?.state {
                    State::Posted => {}
                    State::Complete => return None,
                    _ => return Some(PollRounds::default()),
                }
            }
            endpoint.platform.relax(looks + 1);
        }
        Some(PollRounds::after(POLLS_PER_TICK))
    }

    #[cold]
    pub(crate) fn overdue(&mut self, handle: Handle, elapsed_ns: u64) -> Failed {
        let Some(request) = self.endpoint.engine.requests.get(handle) else {
            return self.endpoint.fail_stale();
        };
        let error = request.progress().error(Cause::TimedOut).after(elapsed_ns);
        self.endpoint.fail(&error)
    }

    /// Waits for an operation that was started on memory of this call's caller.
    pub(crate) fn finish(&mut self, started: Result<Started, Failed>) -> Result<Status, Failed> {
        match started {
            Ok(Started::Done(status)) => Ok(status),
            Ok(Started::Pending(handle)) => self.wait_guarded(handle),
            Err(failed) => Err(failed),
        }
    }

    /// Returns the result of a call that may have failed for its caller: with the kept error in
    /// place of its marker.
    #[inline]
    pub(crate) fn with_error<R>(&self, result: Result<R, Failed>) -> Result<R, Error> {
        self.endpoint.engine.with_error(result)
    }

    /// Waits for a request, which lets go of its memory however this ends.
    fn wait_guarded(&mut self, handle: Handle) -> Result<Status, Failed> {
        Guard { within: self, handles: [handle, Handle::default()] }.wait_on(PollRounds::default())
    }

    /// The endpoint, for what needs no deadline.
    pub const fn endpoint(&mut self) -> &mut Endpoint<'s, T, P> {
        self.endpoint
    }

    /// See [`Endpoint::send`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a rank or tag out of range, a stale communicator, a
    /// full request table, or why the peer cannot be sent to.
    #[inline(always)]
    pub fn send<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.send_in(Mode::Standard, comm, data.as_bytes(), to, tag)
    }

    /// Sends in any mode: complete, or abandoned, when it returns.
    #[inline(always)]
    pub(crate) fn send_in(
        &mut self,
        mode: Mode,
        comm: &Comm,
        bytes: &[u8],
        to: Rank,
        tag: Tag,
    ) -> Result<Status, Error> {
        // SAFETY: sends only read, and the request is complete or abandoned before the borrow of
        // `bytes` ends.
        let buffer = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), bytes.len()) };
        if FAST_PATHS && mode == Mode::Standard && self.endpoint.try_send(comm, buffer, to, tag) {
            return Ok(Status { source: to, tag, bytes: buffer.len() as u64 });
        }
        let sent = apart(comm, |comm| self.send_queued(comm, buffer, to, tag, mode));
        self.with_error(sent)
    }

    #[inline(never)]
    fn send_queued(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        to: Rank,
        tag: Tag,
        mode: Mode,
    ) -> Result<Status, Failed> {
        let started = self.endpoint.start_send(comm, buffer, to, tag, mode);
        self.finish(started)
    }

    /// Starts a receive into memory of the caller.
    ///
    /// # Safety
    /// Before the exclusive borrow of `bytes` ends, the caller completes or abandons the request,
    /// or takes its buffer away (`Endpoint::borrow`), and does not touch them before.
    pub(crate) unsafe fn start_recv(
        &mut self,
        comm: &Comm,
        bytes: &mut [u8],
        from: Source,
        tag: TagMatch,
    ) -> Result<Started, Failed> {
        let len = bytes.len();
        // SAFETY: the caller promised that the request lets go of `bytes` before the borrow of them
        // ends, and that nothing else touches them before.
        let buffer = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), len) };
        self.endpoint.start_recv(comm, buffer, from, tag)
    }

    /// See [`Endpoint::recv`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::Truncated`] for a message longer than the
    /// buffer; the rest as [`Endpoint::recv`].
    #[inline]
    pub fn recv<E>(
        &mut self,
        comm: &Comm,
        buffer: &mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes,
    {
        let received = self.recv_in(comm, buffer.as_mut_bytes(), from.into(), tag.into());
        self.with_error(received)
    }

    #[inline]
    fn recv_in(
        &mut self,
        comm: &Comm,
        bytes: &mut [u8],
        from: Source,
        tag: TagMatch,
    ) -> Result<Status, Failed> {
        let len = bytes.len();
        // SAFETY: the receive is complete or has let go (`Waiting`, `Guard`) before the exclusive
        // borrow of `bytes` ends, and they are not touched before.
        let buffer = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), len) };
        let Ok((pattern, peer)) = self.endpoint.pattern(comm, from, tag) else {
            return self.find_message(comm, buffer, from, tag);
        };
        if let Some(peer) = peer
            && self.endpoint.engine.arm(pattern, peer, buffer, None)
        {
            let call = CallSubject::recv(Operation::Recv, comm, from, tag);
            let found = self.await_message(peer, call);
            return found.unwrap_or_else(|| self.find_message(comm, buffer, from, tag));
        }
        match self.endpoint.engine.try_receive_kept(&pattern, buffer, Label::NONE) {
            Some(status) => Ok(status),
            None => self.find_message(comm, buffer, from, tag),
        }
    }

    /// Looks for the message of the receive that waits, and posts it if it is long in coming or
    /// something else comes. `None` if it could not be posted: nothing has been received.
    #[inline(always)]
    pub(crate) fn await_message(
        &mut self,
        peer: PeerId,
        call: CallSubject,
    ) -> Option<Result<Status, Failed>> {
        let mut looks = 0;
        let mut waiting = Waiting { endpoint: self.endpoint };
        loop {
            if looks % LOOKS_A_POLL == 0 || waiting.endpoint.transport.has_news(peer) {
                waiting.endpoint.poll(LOOK);
            }
            if let ArmedRecv::Delivered(bytes) = waiting.endpoint.engine.armed {
                return Some(Ok(call.status(bytes)));
            }
            if looks == POLLS_PER_TICK || !matches!(waiting.endpoint.engine.armed, ArmedRecv::Armed { .. }) {
                break;
            }
            looks += 1;
            waiting.endpoint.platform.relax(looks);
        }
        waiting.endpoint.engine.post_armed();
        let posted = waiting.posted();
        drop(waiting);
        posted.map(|handle| self.wait_longer(handle, looks))
    }

    /// Waits for a receive after so many looks for its message, and sees to it that it lets go of
    /// its memory however this ends.
    #[inline(never)]
    fn wait_longer(&mut self, handle: Handle, looks: u32) -> Result<Status, Failed> {
        Guard { within: self, handles: [handle, Handle::default()] }.wait_on(PollRounds::after(looks))
    }

    #[inline(never)]
    fn find_message(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        from: Source,
        tag: TagMatch,
    ) -> Result<Status, Failed> {
        let started = self.endpoint.start_recv(comm, buffer, from, tag);
        self.finish(started)
    }

    /// See [`Endpoint::mrecv`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, in which case the message is discarded;
    /// [`Cause::Truncated`] for a message longer than the buffer, [`Cause::Stale`] for a token of
    /// another endpoint; the rest as [`Endpoint::mrecv`].
    pub fn mrecv<E>(&mut self, message: Matched, buffer: &mut [E]) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes,
    {
        // SAFETY: `finish` completes or abandons the request before the borrow of `buffer` ends.
        let lent = unsafe { LentMut::new(buffer.as_mut_bytes()) };
        let started = self.endpoint.start_mrecv(&message, lent.whole())?;
        let finished = self.finish(Ok(started));
        self.with_error(finished)
    }

    /// See [`Endpoint::sendrecv`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::Truncated`] for a message longer than the
    /// buffer; the rest as [`Endpoint::sendrecv`].
    #[expect(clippy::too_many_arguments, reason = "the arguments of MPI_Sendrecv")]
    pub fn sendrecv<E, F>(
        &mut self,
        comm: &Comm,
        data: &[E],
        to: Rank,
        tag: Tag,
        buffer: &mut [F],
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
        F: FromBytes + IntoBytes,
    {
        let bytes = data.as_bytes();
        // SAFETY: sends only read, and the request is complete or abandoned when `exchange`
        // returns, before the borrow of `data` ends.
        let outgoing = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), bytes.len()) };
        // SAFETY: the receive is complete or abandoned when `exchange` returns, before the borrow
        // of `buffer` ends.
        let receiving = unsafe { self.start_recv(comm, buffer.as_mut_bytes(), from.into(), from_tag.into()) };
        self.exchange(receiving, |within| within.endpoint.start_send(comm, outgoing, to, tag, Mode::Standard))
    }

    /// Waits for a receive and for a send that is started after it, both on memory of this call's
    /// caller.
    pub(crate) fn exchange(
        &mut self,
        receiving: Result<Started, Failed>,
        send: impl FnOnce(&mut Self) -> Result<Started, Failed>,
    ) -> Result<Status, Error> {
        let exchanged = self.exchange_all(receiving, send);
        self.with_error(exchanged).map_err(|error| error.within(Operation::SendRecv))
    }

    fn exchange_all(
        &mut self,
        receiving: Result<Started, Failed>,
        send: impl FnOnce(&mut Self) -> Result<Started, Failed>,
    ) -> Result<Status, Failed> {
        let receiving = receiving?;
        let mut guard = Guard { within: self, handles: [Handle::default(); 2] };
        if let Started::Pending(handle) = receiving {
            guard.handles = [handle, Handle::default()];
        }
        let sending = send(guard.within)?;
        if let (Started::Pending(handle), [_, second]) = (&sending, &mut guard.handles) {
            *second = *handle;
        }
        let mut result = |started| match started {
            Started::Done(status) => Ok(status),
            Started::Pending(handle) => guard.within.wait_for(handle),
        };
        result(sending)?;
        result(receiving)
    }
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Sends a small message in standard mode, if nothing stands in its way, as is usual. False if
    /// something does, and nothing has changed: [`start_send`](Self::start_send) is for all.
    ///
    /// It answers in a register. An answer in memory is stored in pieces, and if its caller loads a
    /// larger one, that waits until the stores before it are done: those of the message too, whose
    /// line another core has. Then no two messages are under way to it at a time.
    #[inline(always)]
    pub(crate) fn try_send(&mut self, comm: &Comm, buffer: UserBuffer, to: Rank, tag: Tag) -> bool {
        match self.engine.comms.target(comm, to, tag) {
            Ok(target) => self.engine.try_send_eager(&mut self.transport, &target, buffer, None),
            Err(_) => false,
        }
    }

    /// The blocking calls with a deadline: each must be done before `limit` from now, or it fails
    /// with [`Cause::TimedOut`] and says who is missing.
    pub fn within(&mut self, limit: Duration) -> Within<'_, 's, T, P> {
        self.engine.now = self.platform.now();
        let (start, deadline) = (self.engine.now, self.engine.now.after(limit));
        Within { endpoint: self, start: Some(start), deadline }
    }

    /// Blocking calls without a deadline.
    #[inline]
    pub(crate) fn forever(&mut self) -> Within<'_, 's, T, P> {
        Within { endpoint: self, start: None, deadline: Instant::NEVER }
    }

    /// Sends `data` to rank `to` (MPI_Send, standard mode): returns once `data` may be reused.
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why the peer
    /// cannot be sent to.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub fn send<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.forever().send_in(Mode::Standard, comm, data.as_bytes(), to, tag)
    }

    /// Receives a message into `buffer` (MPI_Recv).
    ///
    /// # Errors
    /// [`Cause::Truncated`] for a message longer than the buffer; a rank or tag out of range, a
    /// stale communicator, a full request table, or why no message can come.
    #[cfg_attr(feature = "fast-paths", inline)]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub fn recv<E>(
        &mut self,
        comm: &Comm,
        buffer: &mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes,
    {
        self.forever().recv(comm, buffer, from, tag)
    }

    /// Sends and receives at a time, so that ranks that exchange do not wait for each other
    /// (MPI_Sendrecv). Returns the status of the receive.
    ///
    /// # Errors
    /// [`Cause::Truncated`] for a message longer than the buffer; a rank or tag out of range, a
    /// stale communicator, a full request table, or why a peer cannot be reached.
    #[expect(clippy::too_many_arguments, reason = "the arguments of MPI_Sendrecv")]
    pub fn sendrecv<E, F>(
        &mut self,
        comm: &Comm,
        data: &[E],
        to: Rank,
        tag: Tag,
        buffer: &mut [F],
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
        F: FromBytes + IntoBytes,
    {
        self.forever().sendrecv(comm, data, to, tag, buffer, from, from_tag)
    }
}

impl Engine<'_> {
    /// Returns what a rank that waits for a request is doing.
    pub(crate) fn activity(&mut self, handle: Handle) -> Activity {
        self.requests.get(handle).map(|request| request.progress().activity()).unwrap_or_default()
    }
}
