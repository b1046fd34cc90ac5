//! The parts that all futures have in common: a request slot, a deadline, and a sleeper.

use core::mem;
use core::task::{Context, Poll};
use core::time::Duration;

use aldis_hal::{Cause, Handle, Instant, Operation, Platform, Transport};
use aldis_protocols::rendezvous::{ReceiverStep, SenderStep};

use super::{Core, Futures, Sleeper};
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::engine::state::Engine;
use crate::error::Error;
use crate::rank::{Status, WILD};
use crate::tables::request::{Machine, State};

/// The state of a future.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FutureStage {
    /// The future has not been polled.
    New,
    /// Its request is under way.
    Started,
    /// The future is over.
    Over,
}

/// A future's hold on the endpoint.
pub(super) struct Ticket<'a, 'e, 's, T, P> {
    futures: &'a Futures<'e, 's, T, P>,
    /// The request, once there is one.
    pub(super) handle: Handle,
    stage: FutureStage,
    limit: Option<Duration>,
    start: Instant,
    deadline: Instant,
}

/// The steps of one kind of future, each time with the endpoint at hand. No pointer stays in the
/// endpoint in between.
pub(crate) trait Operate<'s, T, P> {
    /// Starts it: over at once, or under way with this handle.
    fn start(&mut self, endpoint: &mut Endpoint<'s, T, P>) -> Result<Begun, Error>;

    /// Goes on with it. `None` while there is nothing to do.
    fn go_on(&mut self, endpoint: &mut Endpoint<'s, T, P>, handle: Handle) -> Option<Result<Status, Error>>;
}

/// The outcome of starting.
pub(crate) enum Begun {
    Over(Status),
    UnderWay(Handle),
}

impl<'a, 'e, 's, T: Transport, P: Platform> Ticket<'a, 'e, 's, T, P> {
    pub(super) const fn new(futures: &'a Futures<'e, 's, T, P>) -> Self {
        let handle = Handle { slot: 0, generation: 0 };
        let (start, deadline) = (Instant(0), Instant::NEVER);
        Self { futures, handle, stage: FutureStage::New, limit: None, start, deadline }
    }

    /// Sets how long it may take from the first poll on.
    pub(super) const fn within(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// Polls the future that does `operation`: with a poll of the endpoint if it cannot go on
    /// without.
    pub(super) fn poll(
        &mut self,
        operation: &mut impl Operate<'s, T, P>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Status, Error>> {
        let fail = |cause| Poll::Ready(Err(Error::new(Operation::Wait, cause)));
        // Cloned and dropped outside of the borrow: what that does is not known here.
        let mut waker = Some(context.waker().clone());
        let found = {
            let Ok(mut core) = self.futures.core.try_borrow_mut() else { return fail(Cause::Busy) };
            let found = match self.stage {
                FutureStage::Over => return fail(Cause::Stale),
                FutureStage::New => self.begin(operation, core.endpoint),
                FutureStage::Started => self.go_on(operation, core.endpoint),
            };
            let found = found.or_else(|| {
                core.endpoint.poll(BUDGET);
                self.go_on(operation, core.endpoint)
            });
            let found = found.or_else(|| self.overdue(core.endpoint));
            match found {
                Some(_) => {
                    self.stage = FutureStage::Over;
                    waker = core.give_up(self.handle);
                    core.rouse();
                }
                None => self.sleep(&mut core, &mut waker),
            }
            found
        };
        drop(waker);
        self.futures.wake();
        found.map_or(Poll::Pending, Poll::Ready)
    }

    /// Goes on with an operation that is under way; its failure does what its communicator's policy
    /// asks for.
    fn go_on(
        &self,
        operation: &mut impl Operate<'s, T, P>,
        endpoint: &mut Endpoint<'s, T, P>,
    ) -> Option<Result<Status, Error>> {
        let found = operation.go_on(endpoint, self.handle)?;
        Some(found.inspect_err(|error| endpoint.raise(error)))
    }

    fn begin(
        &mut self,
        operation: &mut impl Operate<'s, T, P>,
        endpoint: &mut Endpoint<'s, T, P>,
    ) -> Option<Result<Status, Error>> {
        if let Some(limit) = self.limit {
            self.start = endpoint.platform.now();
            self.deadline = self.start.after(limit);
        }
        match operation.start(endpoint) {
            Ok(Begun::Over(status)) => Some(Ok(status)),
            Ok(Begun::UnderWay(handle)) => {
                (self.handle, self.stage) = (handle, FutureStage::Started);
                self.go_on(operation, endpoint)
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// The failure of a future whose deadline has passed.
    fn overdue(&self, endpoint: &mut Endpoint<'s, T, P>) -> Option<Result<Status, Error>> {
        if self.deadline == Instant::NEVER {
            return None;
        }
        let now = endpoint.platform.now();
        if now < self.deadline {
            return None;
        }
        let progress = endpoint.engine.requests.get(self.handle)?.progress();
        let error = progress.error(Cause::TimedOut).after(now.since(self.start).max(1));
        Some(Err(endpoint.raised(error)))
    }

    /// Sees to it that the task is woken, leaving the waker that was there before in the place of
    /// its own.
    fn sleep(&self, core: &mut Core<'e, 's, T, P>, waker: &mut Option<core::task::Waker>) {
        if let Some(sleeper) = core.sleepers.get_mut(self.handle.slot as usize) {
            let new = Sleeper { handle: self.handle, deadline: self.deadline, waker: waker.take() };
            *waker = mem::replace(sleeper, new).waker;
        }
    }
}

impl<T, P> Drop for Ticket<'_, '_, '_, T, P> {
    fn drop(&mut self) {
        if self.stage == FutureStage::Started {
            // From within a call of the endpoint nothing can be done: as if it were forgotten.
            let waker = self.futures.core.try_borrow_mut().map(|mut core| core.give_up(self.handle));
            drop(waker);
        }
    }
}

impl Engine<'_> {
    /// Returns true if the future of this request has something to do.
    pub(super) fn can_go_on(&mut self, handle: Handle) -> bool {
        let Some(request) = self.requests.get(handle) else { return true };
        let (key, peer) = (request.key, request.peer);
        match (request.state, &request.machine) {
            (State::Complete, _) => true,
            (State::Sending, Machine::Send(sender)) => sender.step(1) != SenderStep::Wait,
            (State::Receiving, Machine::Recv(receiver)) => receiver.step() == ReceiverStep::Piece,
            (State::Probing, _) => {
                let peer = (key.source != WILD).then_some(peer);
                self.matcher.find_unexpected(&key).is_some() || self.may_come(key.context, peer).is_err()
            }
            _ => false,
        }
    }
}
