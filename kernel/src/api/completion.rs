//! Completion: testing and waiting for one, any, some or all requests of a scope (MPI 4.1
//! section 3.7).

use aldis_hal::{Activity, Cause, Handle, Operation, Platform, Transport};

use crate::api::endpoint::BUDGET;
use crate::api::poll_rounds::PollRounds;
use crate::api::scope::{Request, Scope, Stage};
use crate::engine::state::Engine;
use crate::error::{Error, Failed};
use crate::rank::{Mode, Status, WILD};
use crate::tables::list::{InScope, List};
use crate::tables::request::{self, State};

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// Takes the result if the request is over, without polling.
    pub(crate) fn take(&mut self, request: &mut Request<'scope>) -> Option<Result<Status, Failed>> {
        if !self.is_over(request) {
            return None;
        }
        let result = match request.stage {
            Stage::Null | Stage::Idle(_) => return None,
            Stage::Done(status) => Ok(status),
            Stage::Pending(handle) => self.collect(handle)?,
            Stage::Started(handle) => {
                let result = self.within.endpoint.engine.rest(handle);
                request.stage = Stage::Idle(handle);
                return Some(result?.inspect_err(|failed| self.within.endpoint.raise_kept(failed)));
            }
        };
        request.stage = Stage::Null;
        Some(result.inspect_err(|failed| self.within.endpoint.raise_kept(failed)))
    }

    /// Takes a result like `deliver`, but with the error itself, for the caller.
    fn take_with_error(&mut self, request: &mut Request<'scope>) -> Option<Result<Status, Error>> {
        self.take(request).map(|result| self.within.with_error(result))
    }

    /// Returns a request's result if it is over, after one poll; the request is null from then on
    /// (MPI_Test). A null request has no result.
    ///
    /// # Errors
    /// Why the operation failed.
    pub fn test(&mut self, request: &mut Request<'scope>) -> Result<Option<Status>, Error> {
        if let Stage::Pending(_) | Stage::Started(_) = request.stage {
            self.poll(BUDGET);
        }
        self.take_with_error(request).transpose()
    }

    /// Returns a request's result if it is over, like [`test`](Self::test), but without a poll.
    ///
    /// # Errors
    /// Why the operation failed.
    pub fn result(&mut self, request: &mut Request<'scope>) -> Result<Option<Status>, Error> {
        self.take_with_error(request).transpose()
    }

    /// See [`ScopePlane::outcome`](crate::plane::ScopePlane::outcome).
    pub(crate) fn outcome(&mut self, request: &mut Request<'scope>) -> Result<Option<Status>, Failed> {
        self.take(request).transpose()
    }

    /// See [`ScopePlane::wait_until`](crate::plane::ScopePlane::wait_until).
    pub(crate) fn wait_until<R>(
        &mut self,
        activity: Activity,
        mut check: impl FnMut(&mut Self) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let found = self.drive_until(&activity, |scope| match check(scope) {
            Ok(found) => Ok(found),
            Err(error) => Err(scope.keep_failure(&error)),
        });
        self.within.with_error(found)
    }

    /// See [`ScopePlane::drive_until`](crate::plane::ScopePlane::drive_until).
    pub(crate) fn drive_until<R>(
        &mut self,
        activity: &Activity,
        mut check: impl FnMut(&mut Self) -> Result<Option<R>, Failed>,
    ) -> Result<R, Failed> {
        let mut turns = PollRounds::default();
        loop {
            if let Some(found) = check(self).transpose() {
                self.within.end(&mut turns);
                return found;
            }
            if let Err(elapsed_ns) = self.within.turn(&mut turns, &|_| *activity) {
                return Err(self.overdue(activity, elapsed_ns));
            }
        }
    }

    /// The error of a wait that the deadline has ended.
    #[cold]
    pub(crate) fn missed(&mut self, activity: &Activity, elapsed_ns: u64) -> Error {
        let Failed = self.overdue(activity, elapsed_ns);
        self.within.endpoint.engine.failure
    }

    #[cold]
    #[inline(never)]
    fn overdue(&mut self, activity: &Activity, elapsed_ns: u64) -> Failed {
        let peer = activity.peer.map_or(WILD, |peer| peer.0);
        let tag = activity.tag.unwrap_or(WILD);
        let error = Error::about(activity.operation, Cause::TimedOut, peer, activity.context, tag);
        self.within.endpoint.fail(&error.after(elapsed_ns))
    }

    /// Waits for a request (MPI_Wait).
    ///
    /// # Errors
    /// The cause of the operation's failure; [`Cause::TimedOut`] after the scope's deadline, in
    /// which case it goes on until the scope ends; [`Cause::Stale`] for a null request.
    #[inline]
    pub fn wait(&mut self, mut request: Request<'scope>) -> Result<Status, Error> {
        self.wait_for(&mut request)
    }

    /// Waits like [`wait`](Self::wait), but for a request that is used again: a persistent one can
    /// be started anew.
    ///
    /// # Errors
    /// The cause of the operation's failure; [`Cause::TimedOut`] after the scope's deadline, in
    /// which case it goes on until the scope ends; [`Cause::Stale`] for a null request.
    #[inline]
    pub fn wait_for(&mut self, request: &mut Request<'scope>) -> Result<Status, Error> {
        match self.try_complete(request) {
            Some(status) => Ok(status),
            None => {
                let waited = self.wait_longer(request);
                self.within.with_error(waited)
            }
        }
    }

    /// Takes the result of a request that is over, and well: the way of most. `None` if it is not,
    /// and nothing has changed.
    #[inline(always)]
    pub(crate) fn try_complete(&mut self, request: &mut Request<'scope>) -> Option<Status> {
        let status = match request.stage {
            Stage::Done(status) => status,
            Stage::Pending(handle) => self.within.endpoint.engine.try_complete(handle, &mut self.requests)?,
            _ => return None,
        };
        request.stage = Stage::Null;
        Some(status)
    }

    #[inline(never)]
    pub(crate) fn wait_longer(&mut self, request: &mut Request<'scope>) -> Result<Status, Failed> {
        if let Stage::Pending(handle) | Stage::Started(handle) = request.stage {
            self.within.wait_until_complete(PollRounds::default(), handle)?;
        }
        self.take(request).unwrap_or_else(|| Err(self.within.endpoint.fail_stale()))
    }

    /// The result of a request of this scope, if it is over; its slot is free then.
    fn collect(&mut self, handle: Handle) -> Option<Result<Status, Failed>> {
        let engine = &mut self.within.endpoint.engine;
        let result = engine.collect(handle)?;
        // Its links are there until the slot is taken again.
        self.requests.remove(&mut engine.requests, handle.slot);
        Some(result)
    }

    /// Waits until one of the requests is over; its index and result, and it is null from then on
    /// (MPI_Waitany). `None` if all are null.
    ///
    /// # Errors
    /// Why that operation failed, or [`Cause::TimedOut`].
    pub fn wait_any(&mut self, requests: &mut [Request<'scope>]) -> Result<Option<(usize, Status)>, Error> {
        let activity = Activity { operation: Operation::Wait, ..Activity::default() };
        self.wait_until(activity, |scope| match scope.take_any(requests) {
            Some(result) => result.map(|found| Some(Some(found))),
            None => Ok(requests.iter().all(Request::is_null).then_some(None)),
        })
    }

    /// Waits for all requests, whatever each comes to (MPI_Waitall).
    ///
    /// # Errors
    /// The first failure; the others are waited for all the same, unless the deadline passes.
    pub fn wait_all(&mut self, requests: &mut [Request<'scope>]) -> Result<(), Error> {
        let mut first = Ok(());
        for request in requests.iter_mut().filter(|request| !request.is_null()) {
            if self.try_complete(request).is_some() {
                continue;
            }
            let waited = self.wait_longer(request);
            let result = self.within.with_error(waited).map(|_| ());
            first = first.and(result);
            if matches!(result, Err(Error { cause: Cause::TimedOut, .. })) {
                break;
            }
        }
        first
    }

    /// Cancels a request if it can still be undone without the peer: a receive that has not
    /// matched, a send that has not left (MPI_Cancel). True if so: it is over, and its status [says
    /// so](Status::is_cancelled); false if it goes on.
    /// [`recall`](crate::plane::ScopePlane::recall) asks the peer, too.
    pub fn cancel(&mut self, request: &mut Request<'scope>) -> bool {
        let (Stage::Pending(handle) | Stage::Started(handle)) = request.stage else { return false };
        let engine = &mut self.within.endpoint.engine;
        let Some(slot) = engine.requests.get(handle) else { return false };
        let (state, peer) = (slot.state, slot.peer);
        if slot.mode == Mode::Partitioned {
            return false;
        }
        let undone = state == State::Posted || (state == State::Queued && !engine.is_offered(peer, handle));
        if !undone {
            return false;
        }
        if let Stage::Started(_) = request.stage {
            engine.stop(handle);
            return true;
        }
        self.requests.remove(&mut engine.requests, handle.slot);
        self.within.endpoint.abandon(handle);
        request.stage = Stage::Done(Status::CANCELLED);
        true
    }

    /// See [`ScopePlane::recall`](crate::plane::ScopePlane::recall).
    pub(crate) fn recall(&mut self, request: &mut Request<'scope>) -> bool {
        let is_over = self.cancel(request);
        if let Stage::Pending(handle) | Stage::Started(handle) = request.stage
            && !is_over
        {
            self.within.endpoint.engine.recall(handle);
        }
        is_over
    }

    /// Lets a request go on without a wait for it (MPI_Request_free): its slot is used again once
    /// it is over and another is needed. Its memory stays lent to the scope, whose end waits for it
    /// as for any other and has its failure. A persistent one that is not under way is freed at
    /// once.
    ///
    /// ```
    /// # use aldis_kernel::{Comm, Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
    /// # fn report<T: Transport, P: Platform>(
    /// #     ep: &mut Endpoint<'_, T, P>,
    /// #     world: &Comm,
    /// #     lines: &[[u8; 64]],
    /// # ) -> Result<(), Error> {
    /// ep.scope(|s| {
    ///     for line in lines {
    ///         let sending = s.isend(world, line, Rank(0), Tag(1))?;
    ///         s.detach(sending);
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn detach(&mut self, request: Request<'scope>) {
        let (Stage::Pending(handle) | Stage::Idle(handle) | Stage::Started(handle)) = request.stage else {
            return;
        };
        if self.free_idle(handle) || self.requests().get(handle).is_none() {
            return;
        }
        let engine = &mut self.within.endpoint.engine;
        self.requests.remove(&mut engine.requests, handle.slot);
        engine.reclaim = Some(Engine::reclaim_detached);
        engine.detached.push_back(&mut engine.requests, handle.slot);
    }

    /// Returns the index and result of a request that is over, after one poll (MPI_Testany): like
    /// [`wait_any`](Self::wait_any), but `None` also if none is.
    ///
    /// # Errors
    /// Why that operation failed.
    pub fn test_any(&mut self, requests: &mut [Request<'scope>]) -> Result<Option<(usize, Status)>, Error> {
        self.poll(BUDGET);
        self.take_any(requests).transpose()
    }

    /// Returns true if all requests are over, after one poll (MPI_Testall). Nothing is taken:
    /// [`wait_all`](Self::wait_all) takes the results then, without waiting.
    pub fn test_all(&mut self, requests: &[Request<'scope>]) -> bool {
        self.poll(BUDGET);
        requests.iter().all(|request| self.is_over(request))
    }

    /// Takes every request that is over, after one poll (MPI_Testsome): tells `done` the index and
    /// result of each, and returns how many there were. They are null from then on.
    pub fn test_some(
        &mut self,
        requests: &mut [Request<'scope>],
        mut done: impl FnMut(usize, Result<Status, Error>),
    ) -> usize {
        self.poll(BUDGET);
        let mut count = 0;
        for (index, request) in requests.iter_mut().enumerate() {
            if let Some(result) = self.take_with_error(request) {
                done(index, result);
                count += 1;
            }
        }
        count
    }

    /// Takes requests like [`test_some`](Self::test_some), but waits until at least one is over
    /// (MPI_Waitsome). Zero if all are null.
    ///
    /// # Errors
    /// [`Cause::TimedOut`].
    pub fn wait_some(
        &mut self,
        requests: &mut [Request<'scope>],
        mut done: impl FnMut(usize, Result<Status, Error>),
    ) -> Result<usize, Error> {
        let activity = Activity { operation: Operation::Wait, ..Activity::default() };
        self.wait_until(activity, |scope| {
            let over =
                requests.iter().all(Request::is_null) || requests.iter().any(|request| scope.ended(request));
            Ok(over.then_some(()))
        })?;
        Ok(self.test_some(requests, &mut done))
    }

    fn take_any(&mut self, requests: &mut [Request<'scope>]) -> Option<Result<(usize, Status), Error>> {
        requests.iter_mut().enumerate().find_map(|(index, request)| {
            self.take_with_error(request).map(|result| result.map(|status| (index, status)))
        })
    }

    /// Returns true if a request's result waits to be taken.
    fn ended(&mut self, request: &Request<'scope>) -> bool {
        !request.is_null() && self.is_over(request)
    }

    #[cfg_attr(feature = "fast-paths", inline)]
    pub(crate) fn is_over(&mut self, request: &Request<'scope>) -> bool {
        match request.stage {
            Stage::Null | Stage::Idle(_) | Stage::Done(_) => true,
            Stage::Pending(handle) | Stage::Started(handle) => {
                self.requests().get(handle).is_none_or(|slot| slot.state == State::Complete)
            }
        }
    }
}

impl Engine<'_> {
    /// Frees the slots of detached requests that are over.
    fn reclaim_detached(&mut self) {
        let mut next = self.detached.front();
        while let Some(index) = next {
            next = List::<InScope>::after(&mut self.requests, index);
            let is_over = |request: &request::Request| {
                request.is_idle() || (request.state == State::Complete && request.cause.is_none())
            };
            let over = self.requests.at(index).is_some_and(|request| is_over(request));
            if let Some(handle) = self.requests.handle(index)
                && over
            {
                self.detached.remove(&mut self.requests, index);
                self.abandon(handle);
            }
        }
    }
}
