//! The executor: one state machine that runs every schedule over a kernel scope.
//!
//! A [`Collective`] is started by `ibarrier`, `ibcast` or `iallreduce` and driven by [`Collective::test`],
//! [`Collective::wait`] or, with others, by [`wait_all`] and [`wait_for`]. The blocking calls are a scope, a start
//! and a wait.
//!
//! **Several at once.** Each takes its own tag on the communicator's collective plane, so any number may be in
//! flight, if all ranks start them in the same order. A collective advances only while it is driven: ranks that wait
//! for theirs one by one, in different orders, wait for each other. `wait_all` and `wait_for` drive all of them.
//!
//! **Segments.** If the scratch is too short for the whole count, the data is cut into even segments and the
//! schedule is run on each in turn. Every rank cuts alike because every rank has the same count and scratch.
//!
//! **A full request pool** ([`Cause::Full`]) is a state, not an end: the call returns it, nothing is lost, and the
//! same collective goes on at the next test or wait, once another request of the endpoint has made room. Any other
//! error ends the collective and is returned again by every later call.

use core::fmt;
use core::ops::Range;

use aldis_kernel::hal::{Activity, Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Failed, Failure, Loan, Rank, Request, Scope, Tag, Within};

use crate::op::Kernel;
use crate::schedule::{Buffer, IN_FLIGHT_MAX, Instance, Order, Span, Step};
use crate::select::{Call, Plan, Shares};
use crate::shared::{self, CROWDED, Meeting, Task, Turn};

/// Stages that one call goes through at most, before it returns: what bounds its work.
const STAGES_A_CALL: u32 = 128;

/// Events that one test handles at most.
const POLL_BUDGET: u32 = 64;

/// What a collective works on.
pub(crate) struct Memory<'scope> {
    pub(crate) data: Loan<'scope>,
    pub(crate) scratch: Loan<'scope>,
    pub(crate) element_bytes: u32,
    /// The reduction, where there is one.
    pub(crate) kernel: Option<Kernel>,
}

/// A collective that is to be started: everything but its memory.
pub(crate) struct Planned {
    pub(crate) call: Call,
    pub(crate) root: u32,
    /// How it is to be carried out, or why it cannot be.
    pub(crate) plan: Result<Plan, Cause>,
    /// Whether it is for control lines.
    pub(crate) shares: Shares,
    pub(crate) kernel: Option<Kernel>,
}

impl Planned {
    /// Carries it out on the bytes of the elements: a scope, a start and a wait.
    #[inline(never)]
    pub(crate) fn run<'s, T: Transport, P: Platform>(
        self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), Error> {
        if T::HAS_LINES
            && let Some(task) = self.by_lines(caller.endpoint(), comm)?
        {
            return shared::run(caller, comm, task, data);
        }
        let done = caller.enter(|scope| {
            let (data, scratch) = (scope.lend(data), scope.lend(scratch));
            let mut started = Collective::begin(scope, comm, self, data, scratch)?;
            drive(scope, core::slice::from_mut(&mut started), Collective::all_complete)
        });
        done.map_err(|Failed| *caller.endpoint().failure())
    }

    /// What is to be done by control lines, if this blocking call is for them.
    fn by_lines<T: Transport, P: Platform>(
        &self,
        endpoint: &mut Endpoint<'_, T, P>,
        comm: &Comm,
    ) -> Result<Option<Task>, Error> {
        if self.shares == Shares::Never {
            return Ok(None);
        }
        let task = self.task(comm);
        match task.and_then(|task| shared::check(endpoint, comm, task)) {
            Err(cause) if self.shares == Shares::Named => Err(Error::new(self.call.operation, cause)),
            went => Ok(went.and(task).ok()),
        }
    }

    fn task(&self, comm: &Comm) -> Result<Task, Cause> {
        let Call { operation, count, element_bytes, .. } = self.call;
        let whole = Instance::new(comm.rank().0, comm.size(), self.root, count)?;
        let bytes = count.saturating_mul(element_bytes as usize);
        let (rank, size, root, kernel) = (whole.rank(), whole.size(), self.root, self.kernel);
        Ok(Task { operation, rank, size, root, bytes, element_bytes, kernel })
    }
}

impl<'scope> Memory<'scope> {
    /// The loan and byte range of `span` in the segment that starts at element `base`.
    #[inline(never)]
    fn part(&self, span: Span, base: usize) -> (Loan<'scope>, Range<usize>) {
        let (loan, first) = match span.buffer {
            Buffer::Data => (self.data, base.saturating_add(span.start)),
            Buffer::Scratch => (self.scratch, span.start),
        };
        let bytes = |elements: usize| elements.saturating_mul(self.element_bytes as usize);
        (loan, bytes(first)..bytes(first.saturating_add(span.len)))
    }

    fn bytes(&self, span: Span) -> u64 {
        (span.len as u64).saturating_mul(self.element_bytes.into())
    }
}

/// Where a collective stands within its round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The message of the step with this index is to be posted.
    Post(u32),
    /// As many messages are posted; some may be incomplete.
    Land(u32),
    /// Every segment is done.
    Done,
    /// Ended by its error.
    Failed,
}

/// What driving a collective led to.
#[derive(Clone, Copy)]
enum Progress {
    Done,
    /// Its messages are under way.
    Waiting,
    /// There is no request slot for its next message: its error says so.
    Starved,
    /// Its error has ended it.
    Failed,
}

/// A collective in flight in a scope. Dropping it lets go of it; its messages end with the scope.
#[must_use = "a collective advances only while it is tested or waited for"]
#[repr(C)]
pub struct Collective<'scope> {
    /// Something has happened since this was last cleared.
    moved: bool,
    stage: Stage,
    round: u32,
    /// First element of the segment being worked on.
    base: usize,
    plan: Plan,
    /// The whole call; segments differ in the count.
    whole: Instance,
    memory: Memory<'scope>,
    tag: Tag,
    comm: Comm,
    /// Why it stopped, once it has.
    error: Error,
    /// The round's requests by the index of their step; null once they are complete.
    requests: [Request<'scope>; IN_FLIGHT_MAX],
    /// How far it has come, if it is carried out by control lines.
    meeting: Option<Meeting>,
}

impl<'scope> Collective<'scope> {
    /// Starts a planned collective; its tag is taken here, in the same order on every rank. What can be posted is
    /// under way when this returns; a full request pool is reported by the first test.
    #[inline]
    pub(crate) fn start<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: Planned,
        data: Loan<'scope>,
        scratch: Loan<'scope>,
    ) -> Result<Self, Error> {
        if T::HAS_LINES && planned.shares == Shares::Named {
            return Self::start_by_lines(scope, comm, &planned, data, scratch);
        }
        Self::begin(scope, comm, planned, data, scratch).map_err(|Failed| *scope.failure())
    }

    fn begin<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: Planned,
        data: Loan<'scope>,
        scratch: Loan<'scope>,
    ) -> Result<Self, Failed> {
        let Planned { call: Call { operation, count, element_bytes, .. }, root, plan, kernel, .. } = planned;
        let ready = Instance::new(comm.rank().0, comm.size(), root, count)
            .and_then(|whole| Ok((whole, plan?, scope.collective_number(comm)?)));
        let (whole, plan, tag) = match ready {
            Ok(ready) => ready,
            Err(cause) => return Err(scope.keep_failure(&Error::new(operation, cause).on(comm))),
        };
        let memory = Memory { data, scratch, element_bytes, kernel };
        let idle = plan.algorithm.rounds(&whole.with_count(plan.segment)) == 0;
        let mut started = Self {
            comm: comm.collective(),
            tag,
            plan,
            whole,
            memory,
            base: 0,
            round: 0,
            stage: if idle { Stage::Done } else { Stage::Post(0) },
            error: Error::new(operation, Cause::Busy),
            moved: false,
            requests: [const { Request::null() }; IN_FLIGHT_MAX],
            meeting: None,
        };
        match started.advance(scope) {
            Progress::Failed => Err(scope.keep_failure(&started.error)),
            Progress::Done | Progress::Waiting | Progress::Starved => Ok(started),
        }
    }

    /// As [`start`](Self::start), by the control lines of the communicator.
    fn start_by_lines<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: &Planned,
        data: Loan<'scope>,
        scratch: Loan<'scope>,
    ) -> Result<Self, Error> {
        let Call { operation, count, element_bytes, .. } = planned.call;
        let whole = Instance::new(comm.rank().0, comm.size(), planned.root, count);
        let begun = planned.task(comm).and_then(|task| Meeting::begin(scope, comm, task));
        let algorithm = shared::algorithm(operation).ok_or(Cause::Unsupported);
        let refused = |cause| Error::new(operation, cause);
        let mut started = Self {
            comm: comm.collective(),
            tag: Tag(0),
            plan: Plan { algorithm: algorithm.map_err(refused)?, segment: count },
            whole: whole.map_err(refused)?,
            memory: Memory { data, scratch, element_bytes, kernel: planned.kernel },
            base: 0,
            round: 0,
            stage: Stage::Post(0),
            error: Error::new(operation, Cause::Busy),
            moved: false,
            requests: [const { Request::null() }; IN_FLIGHT_MAX],
            meeting: begun.map_err(refused)?,
        };
        match started.advance(scope) {
            Progress::Failed => Err(started.error),
            Progress::Done | Progress::Waiting | Progress::Starved => Ok(started),
        }
    }

    /// As [`advance`](Self::advance), by control lines.
    fn meet<T: Transport, P: Platform>(&mut self, scope: &mut Scope<'scope, '_, '_, T, P>) -> Progress {
        let Some(meeting) = &mut self.meeting else { return Progress::Failed };
        match (self.stage, meeting.turn(scope, &self.comm, self.memory.data)) {
            (Stage::Failed, _) => return Progress::Failed,
            (_, Turn::Over) => {
                self.moved |= self.stage != Stage::Done;
                self.stage = Stage::Done;
                return Progress::Done;
            }
            (_, Turn::Moved) => self.moved = true,
            (_, Turn::Missing(_)) => {}
            (_, Turn::Crowded) => {
                self.error = meeting.error(&self.comm, CROWDED, None);
                return Progress::Starved;
            }
            (_, Turn::Failed(cause, rank)) => {
                self.error = meeting.error(&self.comm, cause, rank);
                scope.raise(&self.error);
                self.stage = Stage::Failed;
                return Progress::Failed;
            }
        }
        Progress::Waiting
    }

    /// Drives it as far as it goes without waiting, after one poll; whether it is complete.
    ///
    /// # Errors
    /// [`Cause::Full`] when the request pool is full: nothing is lost, go on later. Any other error has ended it:
    /// those of sends and receives, and [`Cause::LengthMismatch`] when a rank called it with another count or
    /// scratch.
    #[inline]
    pub fn test<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<bool, Error> {
        scope.poll(POLL_BUDGET);
        match self.advance(scope) {
            Progress::Done => Ok(true),
            Progress::Waiting => Ok(false),
            Progress::Starved | Progress::Failed => Err(self.error),
        }
    }

    /// Waits until it is complete. Drives this one alone: see [`wait_for`] for several that other ranks may wait for
    /// in another order.
    ///
    /// # Errors
    /// As [`test`](Self::test), and [`Cause::TimedOut`] after the scope's deadline, naming a rank that is missing.
    pub fn wait<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Error> {
        drive(scope, core::slice::from_mut(self), Self::all_complete).map_err(|Failed| *scope.failure())
    }

    fn all_complete(set: &[Self]) -> bool {
        set.iter().all(Self::is_complete)
    }

    /// Whether it is complete, as of the last time it was driven.
    pub const fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// The algorithm it runs, and its segments.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    fn operation(&self) -> Operation {
        self.plan.algorithm.operation()
    }

    /// The segment being worked on, as the schedule sees it.
    #[inline]
    fn instance(&self) -> Instance {
        let left = self.whole.count().saturating_sub(self.base);
        self.whole.with_count(left.min(self.plan.segment))
    }

    fn step(&self, index: u32) -> Option<Step> {
        self.plan.algorithm.step(&self.instance(), self.round, index)
    }

    /// Goes on until it must wait, is over, or has done enough for one call.
    fn advance<T: Transport, P: Platform>(&mut self, scope: &mut Scope<'scope, '_, '_, T, P>) -> Progress {
        if T::HAS_LINES && self.meeting.is_some() {
            return self.meet(scope);
        }
        for _ in 0..STAGES_A_CALL {
            let moved = match self.stage {
                Stage::Post(index) => self.post(scope, index),
                Stage::Land(messages) => self.land(scope, messages),
                Stage::Done => return Progress::Done,
                Stage::Failed => return Progress::Failed,
            };
            match moved {
                Ok(true) => self.moved = true,
                Ok(false) => return Progress::Waiting,
                Err(Failed) if matches!(self.error.cause, Cause::Full(_)) => return Progress::Starved,
                Err(Failed) => {
                    self.fail(scope);
                    return Progress::Failed;
                }
            }
        }
        Progress::Waiting
    }

    /// Posts the round's messages from the one with `index` on.
    fn post<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        mut index: u32,
    ) -> Result<bool, Failed> {
        let instance = self.instance();
        for request in self.requests.iter_mut().skip(index as usize) {
            let posted = match self.plan.algorithm.step(&instance, self.round, index) {
                Some(Step::Recv { from, into }) => {
                    let (loan, range) = self.memory.part(into, self.base);
                    scope.start_recv_part(&self.comm, loan, range, Rank(from), self.tag)
                }
                Some(Step::Send { to, from }) => {
                    let (loan, range) = self.memory.part(from, self.base);
                    scope.start_send_part(&self.comm, loan, range, Rank(to), self.tag)
                }
                _ => break,
            };
            match posted {
                Ok(posted) => *request = posted,
                Err(Failed) => return Err(self.stop(scope.failure())),
            }
            index += 1;
            self.moved = true;
            self.stage = Stage::Post(index);
        }
        self.stage = Stage::Land(index);
        Ok(true)
    }

    /// Once all messages of the round are complete: its local steps, and on to the next round.
    fn land<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        messages: u32,
    ) -> Result<bool, Failed> {
        for index in 0..messages {
            if !self.landed(scope, index)? {
                return Ok(false);
            }
        }
        let mut index = messages;
        while let Some(step) = self.step(index) {
            self.work(scope, step)?;
            index += 1;
        }
        self.next_round();
        Ok(true)
    }

    /// Whether the message with this index is complete. Once it is, its request is null.
    #[inline]
    fn landed<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        index: u32,
    ) -> Result<bool, Failed> {
        let Some(request) = self.requests.get_mut(index as usize) else { return Ok(true) };
        if request.is_null() {
            return Ok(true);
        }
        let status = match scope.outcome(request) {
            Ok(Some(status)) => status,
            Ok(None) => return Ok(false),
            Err(Failed) => return Err(self.stop(scope.failure())),
        };
        self.moved = true;
        match self.step(index) {
            Some(Step::Recv { from, into }) if status.bytes != self.memory.bytes(into) => {
                let (left, right) = (status.bytes, self.memory.bytes(into));
                let failed = self.refuse(Cause::LengthMismatch { left, right });
                self.error = self.error.with(Rank(from), self.comm.context(), self.tag);
                scope.raise(&self.error);
                Err(failed)
            }
            _ => Ok(true),
        }
    }

    /// Carries out a local step.
    fn work<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        step: Step,
    ) -> Result<(), Failed> {
        let (into, from, order) = match step {
            Step::Reduce { into, from, order } => (into, from, Some(order)),
            Step::Copy { into, from } => (into, from, None),
            Step::Recv { .. } | Step::Send { .. } => return Err(self.refuse(Cause::Unsupported)),
        };
        let kernel = self.memory.kernel;
        let mut result = Ok(());
        let (into, from) = (self.memory.part(into, self.base), self.memory.part(from, self.base));
        let combined = scope.combine(into, from, |into, from| result = combine(kernel, into, from, order));
        match (combined, result) {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(cause)) => Err(self.refuse(cause)),
            (Err(error), _) => Err(self.stop(&error)),
        }
    }

    fn next_round(&mut self) {
        self.round += 1;
        if self.round >= self.plan.algorithm.rounds(&self.instance()) {
            self.round = 0;
            self.base = self.base.saturating_add(self.plan.segment);
        }
        let over = self.round == 0 && self.base >= self.whole.count();
        self.stage = if over { Stage::Done } else { Stage::Post(0) };
    }

    /// Stops for an error of a message.
    #[cold]
    #[inline(never)]
    fn stop(&mut self, error: &Error) -> Failed {
        self.error = error.within(self.operation());
        Failed
    }

    /// Stops for an error of its own.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, cause: Cause) -> Failed {
        self.error = Error::new(self.operation(), cause).on(&self.comm);
        Failed
    }

    /// Ends it and lets go of what can still be undone.
    #[cold]
    fn fail<T: Transport, P: Platform>(&mut self, scope: &mut Scope<'scope, '_, '_, T, P>) {
        for request in &mut self.requests {
            scope.cancel(request);
        }
        self.stage = Stage::Failed;
    }

    /// What this rank is doing while it waits: the first message of the round that is missing.
    fn activity(&self) -> Activity {
        if let Some(meeting) = &self.meeting {
            return meeting.activity(&self.comm);
        }
        let missing = self.requests.iter().position(|request| !request.is_null());
        let step = missing.and_then(|index| self.step(index as u32));
        let (peer, bytes) = match step {
            Some(Step::Recv { from, into }) => (Some(PeerId(from)), self.memory.bytes(into)),
            Some(Step::Send { to, from }) => (Some(PeerId(to)), self.memory.bytes(from)),
            _ => (None, 0),
        };
        let (operation, context) = (self.operation(), self.comm.context());
        Activity { operation, peer, tag: Some(self.tag.0), context, bytes }
    }
}

/// Bytes of `from` into those of `into`: reduced if there is an order, else copied.
fn combine(kernel: Option<Kernel>, into: &mut [u8], from: &[u8], order: Option<Order>) -> Result<(), Cause> {
    match (kernel, order) {
        (Some(kernel), Some(order)) => kernel.run(into, from, order),
        (None, Some(_)) => Err(Cause::Unsupported),
        (_, None) if into.len() != from.len() => {
            Err(Cause::LengthMismatch { left: into.len() as u64, right: from.len() as u64 })
        }
        (_, None) => {
            into.copy_from_slice(from);
            Ok(())
        }
    }
}

/// Waits until all of them are complete, in whatever order other ranks wait for theirs.
///
/// # Errors
/// As [`Collective::wait`]; the first failure ends the wait, the others go on when driven again.
pub fn wait_all<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
) -> Result<(), Error> {
    drive(scope, set, Collective::all_complete).map_err(|Failed| *scope.failure())
}

/// Waits until the one at `index` is complete (at once if there is none), and drives the others meanwhile: MPI's rule
/// that any order of waiting is right.
///
/// # Errors
/// As [`wait_all`].
pub fn wait_for<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
    index: usize,
) -> Result<(), Error> {
    let driven = drive(scope, set, |set| set.get(index).is_none_or(Collective::is_complete));
    driven.map_err(|Failed| *scope.failure())
}

/// Drives the set until it `is_over`.
fn drive<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
    is_over: impl Fn(&[Collective<'scope>]) -> bool,
) -> Result<(), Failed> {
    while !is_over(set) {
        // What is waited for, and so what is told to the platform and named after a deadline, changes with every
        // message; hence a wait of its own for each.
        let waiting = set.iter().find(|collective| !collective.is_complete());
        let activity = waiting.map(Collective::activity).unwrap_or_default();
        scope.drive_until(&activity, |scope| advance_all(scope, set))?;
    }
    Ok(())
}

/// One turn for each; `Some` if anything happened.
fn advance_all<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
) -> Result<Option<()>, Failed> {
    let (mut moved, mut under_way, mut starved) = (false, false, None);
    for collective in set {
        collective.moved = false;
        match collective.advance(scope) {
            Progress::Done => {}
            Progress::Waiting => under_way = true,
            Progress::Starved => starved = Some(&collective.error),
            Progress::Failed => return Err(scope.keep_failure(&collective.error)),
        }
        moved |= collective.moved;
    }
    match starved {
        // Nobody here will free a request slot.
        Some(error) if !moved && !under_way => Err(scope.keep_failure(error)),
        _ => Ok(moved.then_some(())),
    }
}

impl fmt::Debug for Collective<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}, tag {}, ", self.operation(), self.plan.algorithm.name(), self.tag)?;
        match self.stage {
            Stage::Done => f.write_str("complete"),
            Stage::Failed => write!(f, "failed: {}", self.error),
            Stage::Post(_) | Stage::Land(_) => write!(f, "at element {}, round {}", self.base, self.round),
        }
    }
}

/// What a blocking collective can be called on: an [`Endpoint`], or one [`Within`] a deadline.
pub trait Caller<'s, T: Transport, P: Platform> {
    /// The endpoint, for what is done without waiting.
    fn endpoint(&mut self) -> &mut Endpoint<'s, T, P>;

    /// Runs `body` in a scope.
    ///
    /// # Errors
    /// As [`Endpoint::scope`].
    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E>;
}

impl<'s, T: Transport, P: Platform> Caller<'s, T, P> for Endpoint<'s, T, P> {
    fn endpoint(&mut self) -> &mut Self {
        self
    }

    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.enter(body)
    }
}

impl<'s, T: Transport, P: Platform> Caller<'s, T, P> for Within<'_, 's, T, P> {
    fn endpoint(&mut self) -> &mut Endpoint<'s, T, P> {
        self.endpoint()
    }

    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.enter(body)
    }
}
