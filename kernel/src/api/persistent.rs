//! Persistent requests (MPI 4.1 section 3.9): a send or receive that is set up once and started
//! many times. Its arguments stay in its slot of the request table between the starts; its memory
//! is a part of a [`LentMut`], which the program reads and writes between them by [`Scope::edit`].

use core::ops::Range;

use aldis_hal::{Cause, Handle, Operation, PeerId, Platform, Transport};

use crate::api::call::CallSubject;
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::scope::{Request, Scope, Stage, part};
use crate::engine::state::{Engine, FAST_PATHS};
use crate::error::{Error, Failed};
use crate::memory::buffer::{LentMut, LentRange};
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch, WILD};
use crate::tables::comm::Comm;
use crate::tables::comms::SendTarget;
use crate::tables::request::{Backing, Key, Machine, State};

/// The peer of a request whose other side is [`Rank::NULL`].
pub(crate) const NO_PEER: PeerId = PeerId(u32::MAX);

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// Sets a send of a byte range of lent memory up (MPI_Send_init). [`start`](Self::start) starts
    /// it.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside; a rank or tag out of range, a stale communicator, a
    /// full request table; the rest as [`isend_part`](Self::isend_part).
    pub fn send_init(
        &mut self,
        comm: &Comm,
        loan: LentMut<'scope>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        self.send_init_in(comm, LentRange::new(loan, range), to, tag, Mode::Standard)
    }

    /// Sets a send up like [`send_init`](Self::send_init), but in synchronous mode
    /// (MPI_Ssend_init).
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside; a rank or tag out of range, a stale communicator, a
    /// full request table; the rest as [`isend_part`](Self::isend_part).
    pub fn ssend_init(
        &mut self,
        comm: &Comm,
        loan: LentMut<'scope>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        self.send_init_in(comm, LentRange::new(loan, range), to, tag, Mode::Synchronous)
    }

    /// Sets a send up like [`send_init`](Self::send_init), but in ready mode (MPI_Rsend_init).
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside; a rank or tag out of range, a stale communicator, a
    /// full request table; the rest as [`isend_part`](Self::isend_part).
    pub fn rsend_init(
        &mut self,
        comm: &Comm,
        loan: LentMut<'scope>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        self.send_init_in(comm, LentRange::new(loan, range), to, tag, Mode::Ready)
    }

    fn send_init_in(
        &mut self,
        comm: &Comm,
        lent: LentRange<LentMut<'scope>>,
        to: Rank,
        tag: Tag,
        mode: Mode,
    ) -> Result<Request<'scope>, Error> {
        let call = CallSubject::send(comm, to, tag);
        let endpoint = &mut *self.within.endpoint;
        let made = part(lent.memory.into(), lent.range).and_then(|buffer| {
            let (key, peer) = endpoint.engine.target_or_no_peer(comm, to, tag)?;
            endpoint.engine.request(State::Queued, key, peer, to.0, buffer)
        });
        let handle = made.map_err(|cause| endpoint.refuse(call, cause))?;
        if let Some(request) = endpoint.engine.requests.get(handle) {
            request.mode = mode;
        }
        Ok(self.keep_idle(handle))
    }

    /// Sets a receive into a byte range of lent memory up (MPI_Recv_init). [`start`](Self::start)
    /// starts it.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside; a rank or tag out of range, a stale communicator, a
    /// full request table; the rest as [`irecv_part`](Self::irecv_part).
    pub fn recv_init(
        &mut self,
        comm: &Comm,
        loan: LentMut<'scope>,
        range: Range<usize>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let call = CallSubject::recv(Operation::Recv, comm, from, tag);
        let endpoint = &mut *self.within.endpoint;
        let made = part(loan.into(), range).and_then(|buffer| {
            let (key, peer) = endpoint.engine.pattern_or_no_peer(comm, from, tag)?;
            endpoint.engine.request(State::Posted, key, peer, key.source, buffer)
        });
        let handle = made.map_err(|cause| endpoint.refuse(call, cause))?;
        Ok(self.keep_idle(handle))
    }

    pub(crate) fn keep_idle(&mut self, handle: Handle) -> Request<'scope> {
        let requests = self.requests();
        if let Some(request) = requests.get(handle) {
            request.state = State::Idle;
        }
        self.requests.push_back(&mut self.within.endpoint.engine.requests, handle.slot);
        Request::new(Stage::Idle(handle))
    }

    /// Starts a persistent request (MPI_Start).
    ///
    /// # Errors
    /// [`Cause::Busy`] while it is under way, [`Cause::Stale`] for one that is not persistent, or
    /// why the other side cannot be reached; it is not started then.
    pub fn start(&mut self, request: &mut Request<'scope>) -> Result<(), Error> {
        let handle = match request.stage {
            Stage::Idle(handle) => handle,
            Stage::Started(handle) => return Err(self.not_started(handle, Cause::Busy)),
            _ => return Err(self.refused(Error::new(Operation::None, Cause::Stale))),
        };
        let endpoint = &mut *self.within.endpoint;
        if FAST_PATHS && endpoint.try_restart_send(handle) {
            request.stage = Stage::Started(handle);
            return Ok(());
        }
        if let Err(cause) = endpoint.engine.restart(handle) {
            return Err(self.not_started(handle, cause));
        }
        endpoint.expect_for(handle);
        endpoint.engine.flush(&mut endpoint.transport, BUDGET);
        request.stage = Stage::Started(handle);
        Ok(())
    }

    #[cold]
    pub(crate) fn not_started(&mut self, handle: Handle, cause: Cause) -> Error {
        let progress = self.requests().get(handle).map(|slot| slot.progress());
        let error = progress.map_or(Error::new(Operation::None, cause), |progress| progress.error(cause));
        self.refused(error)
    }

    /// Starts several persistent requests (MPI_Startall).
    ///
    /// # Errors
    /// [`Cause::Busy`] for a request under way, [`Cause::Stale`] for one that is not persistent, or
    /// why the other side cannot be reached; those before the one that fails are started.
    pub fn start_all(&mut self, requests: &mut [Request<'scope>]) -> Result<(), Error> {
        requests.iter_mut().try_for_each(|request| self.start(request))
    }

    /// Reads or writes a byte range of lent memory.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside, [`Cause::Busy`] if a request of this scope is using
    /// it.
    pub fn edit(
        &mut self,
        loan: LentMut<'scope>,
        range: Range<usize>,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        self.combine(LentRange::new(loan, range), LentRange::new(loan, 0..0), |bytes, _| edit(bytes))
    }

    /// Frees the slot of a persistent request that is not under way, at the end of its scope.
    pub(crate) fn free_idle(&mut self, handle: Handle) -> bool {
        let engine = &mut self.within.endpoint.engine;
        let idle = engine.requests.get(handle).is_some_and(|request| request.is_idle());
        if idle {
            self.requests.remove(&mut engine.requests, handle.slot);
            engine.abandon(handle);
        }
        idle
    }
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Starts a persistent send and completes it at once, if its data lie in one piece and nothing
    /// stands in its way. False if something does, and nothing has changed.
    fn try_restart_send(&mut self, handle: Handle) -> bool {
        let Self { engine, transport, .. } = self;
        let Some(request) = engine.requests.get(handle) else { return false };
        let plain = match &request.backing {
            Backing::Plain => Some((request.buffer, None)),
            Backing::Typed(layout) => layout.plain().map(|(buffer, signature)| (buffer, Some(signature))),
            Backing::Pooled(_) => None,
        };
        let is_standard = request.operation == Operation::Send && request.mode == Mode::Standard;
        let Some((buffer, signature)) = plain.filter(|_| is_standard) else { return false };
        let target = SendTarget { peer: request.peer, rank: request.rank, key: request.key };
        let is_sent = engine.try_send_eager(transport, &target, buffer, signature)
            || engine.send_eager_after_looks(transport, &target, buffer, signature);
        if !is_sent {
            return false;
        }
        if let Some(request) = engine.requests.get(handle) {
            (request.state, request.machine) = (State::Complete, Machine::None);
            (request.cause, request.late, request.length) = (None, false, buffer.len() as u64);
        }
        true
    }
}

impl Engine<'_> {
    /// Returns what a persistent send keeps of its other side.
    pub(crate) fn target_or_no_peer(
        &mut self,
        comm: &Comm,
        to: Rank,
        tag: Tag,
    ) -> Result<(Key, PeerId), Cause> {
        match self.comms.target(comm, to, tag) {
            Err(cause) if CallSubject::send(comm, to, tag).is_null(cause) => Ok((Key::NONE, NO_PEER)),
            target => target.map(|target| (target.key, target.peer)),
        }
    }

    /// Returns what a persistent receive keeps of its other side.
    pub(crate) fn pattern_or_no_peer(
        &mut self,
        comm: &Comm,
        from: Source,
        tag: TagMatch,
    ) -> Result<(Key, PeerId), Cause> {
        match self.pattern(comm, from, tag) {
            Err(cause) if CallSubject::recv(Operation::Recv, comm, from, tag).is_null(cause) => {
                Ok((Key::NONE, NO_PEER))
            }
            pattern => pattern.map(|(key, peer)| (key, peer.unwrap_or_default())),
        }
    }

    /// Starts the persistent request behind `handle`.
    fn restart(&mut self, handle: Handle) -> Result<(), Cause> {
        let request = self.requests.get(handle).ok_or(Cause::Stale)?;
        if request.mode == Mode::Partitioned {
            return self.start_round(handle);
        }
        let (key, peer, buffer) = (request.key, request.peer, request.buffer);
        request.machine = Machine::None;
        (request.cause, request.late, request.length) = (None, false, buffer.len() as u64);
        if peer == NO_PEER {
            (request.rank, request.tag, request.length) = (Status::NULL.source.0, Status::NULL.tag.0, 0);
            self.complete(handle.slot, None);
            return Ok(());
        }
        if request.operation == Operation::Send {
            self.presence(peer)?;
            if let Some(request) = self.requests.get(handle) {
                request.state = State::Queued;
            }
            self.queue_send(peer, handle.slot);
            return Ok(());
        }
        (request.rank, request.tag) = (key.source, key.tag);
        self.end_probe();
        if let Some(index) = self.matcher.find_unexpected(&key) {
            return self.receive_kept(index, buffer, Some(handle)).map(|_| ());
        }
        let peer = (key.source != WILD).then_some(peer);
        self.may_come(key.context, peer)?;
        self.post_slot(handle.slot, peer);
        Ok(())
    }

    /// The result of a persistent request that is over, which is idle from then on.
    pub(crate) fn rest(&mut self, handle: Handle) -> Option<Result<Status, Failed>> {
        let request = self.requests.get(handle)?;
        let result = request.result(&mut self.failure);
        request.state = State::Idle;
        Some(result)
    }

    /// Takes a persistent request back that has not matched or left: it is over.
    pub(crate) fn stop(&mut self, handle: Handle) {
        let Some(request) = self.requests.get(handle) else { return };
        let (state, peer) = (request.state, request.peer);
        match state {
            State::Posted => self.matcher.unpost(&mut self.requests, handle.slot),
            _ => self.leave_send_queue(peer, handle.slot),
        }
        self.complete(handle.slot, Some(Cause::Cancelled));
    }
}
