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
//! **Started again.** What is complete can be started again, by the same plan: see [`Options::persistent`].
//!
//! **Segments.** If the scratch is too short for the whole count, the data is cut into even segments and the
//! schedule is run on each in turn. Every rank cuts alike because every rank has the same count and scratch.
//!
//! **A full request pool** ([`Cause::Full`]) is a state, not an end: the call returns it, nothing is lost, and the
//! same collective goes on at the next test or wait, once another request of the endpoint has made room. Any other
//! error ends the collective and is returned again by every later call.

mod input;
mod lines;
mod peers;
#[cfg(not(feature = "compact"))]
mod persistent;
mod ready;
mod rounds;
#[cfg(not(feature = "compact"))]
mod row;
mod several;

use core::fmt;

use crate::caller::Caller;
use crate::layout::{BLOCKS, Layout};
use crate::op::Kernel;
use crate::schedule::{Candidate, IN_FLIGHT_MAX, Instance, Step};
use crate::select::{Call, Options, Plan, Prices, Shares};
use crate::shared::{self, Meeting};
use aldis_kernel::hal::{Activity, Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::{Comm, Error, Failed, Loan, Rank, Request, Sample, Scope, Tag};
pub use input::Input;
pub(crate) use peers::Over;
use peers::{Peers, way};
#[cfg(not(feature = "compact"))]
pub use persistent::start_all;
use ready::Ready;
pub use several::{wait_all, wait_for};

/// Stages that one call goes through at most, before it returns: what bounds its work.
const STAGES_A_CALL: u32 = 128;

/// Events that one test handles at most.
const POLL_BUDGET: u32 = 64;

/// What a caller lends for a collective, as bytes.
pub(crate) struct Lent<'m> {
    pub(crate) data: &'m mut [u8],
    pub(crate) scratch: &'m mut [u8],
    pub(crate) blocks: Blocks<'m>,
}

impl<'m> Lent<'m> {
    /// Data that are one stretch, and scratch.
    pub(crate) const fn stretch(data: &'m mut [u8], scratch: &'m mut [u8]) -> Self {
        Self { data, scratch, blocks: Blocks::NONE }
    }
}

/// What the caller of an operation on blocks lends besides.
pub(crate) struct Blocks<'m> {
    pub(crate) input: Input<'m, u8>,
    /// How data and input are divided.
    pub(crate) layouts: [Layout<'m>; 2],
}

impl Blocks<'_> {
    /// No input, and data that are one stretch.
    pub(crate) const NONE: Self = Self { input: Input::NONE, layouts: [Layout::Whole; 2] };
}

/// What a collective works on.
pub(crate) struct Memory<'scope> {
    pub(crate) data: Loan<'scope>,
    pub(crate) scratch: Loan<'scope>,
    /// The input and how data and input are divided, where there are blocks.
    blocks: [(Given<'scope>, [Layout<'scope>; 2]); BLOCKS as usize],
    pub(crate) element_bytes: u32,
    /// The reduction, where there is one.
    pub(crate) kernel: Option<Kernel>,
}

/// Its input: to be read, and to be edited between starts if it was lent.
#[derive(Clone, Copy)]
pub(crate) struct Given<'scope> {
    shown: Sample<'scope>,
    lent: Option<Loan<'scope>>,
}

/// A collective that is to be started: everything but its memory.
pub(crate) struct Planned {
    pub(crate) call: Call,
    pub(crate) root: u32,
    /// How it is to be carried out, or why it cannot be.
    pub(crate) plan: Result<Plan, Cause>,
    /// The prices to choose by again if a rank shares no memory with another.
    far: Option<Prices>,
    /// Whether it is for control lines.
    pub(crate) shares: Shares,
    pub(crate) kernel: Option<Kernel>,
    /// It is made now and started later.
    #[cfg(not(feature = "compact"))]
    persistent: bool,
    /// Whom it is over, where that is not always a communicator's ranks.
    over: [Over; BLOCKS as usize],
    /// How many ranks a node has, and the prices there.
    #[cfg(not(feature = "compact"))]
    node: (u32, Prices),
}

impl Planned {
    /// By the options, from these algorithms.
    #[inline(always)]
    pub(crate) fn new(
        call: Call,
        root: u32,
        candidates: &[Candidate],
        options: &Options,
        kernel: Option<Kernel>,
    ) -> Self {
        let selected = call.select(candidates, options);
        #[cfg(not(feature = "compact"))]
        let selected = selected.and_then(|selected| match selected.plan.algorithm.crosses() {
            true => Err(Cause::Unsupported),
            false => Ok(selected),
        });
        let (plan, shares) = (selected.map(|selected| selected.plan), options.shares(&call, &selected));
        Self {
            call,
            root,
            plan,
            far: options.far_prices(),
            shares,
            kernel,
            #[cfg(not(feature = "compact"))]
            persistent: options.persistent,
            over: [Over::Ranks; _],
            #[cfg(not(feature = "compact"))]
            node: (options.node, options.prices),
        }
    }

    /// Whether it is to be carried out by the algorithm of this name.
    #[cfg(not(feature = "compact"))]
    pub(crate) fn is_by(&self, name: &str) -> bool {
        self.plan.is_ok_and(|plan| plan.algorithm.name() == name)
    }

    /// The same, to be refused for this.
    #[cfg(not(feature = "compact"))]
    pub(crate) fn refused(self, cause: Cause) -> Self {
        Self { plan: Err(cause), far: None, shares: Shares::Never, ..self }
    }

    /// Carries it out on the bytes of the elements.
    #[inline(never)]
    pub(crate) fn run<'s, T: Transport, P: Platform>(
        self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), Error> {
        self.run_on(caller, comm, Lent::stretch(data, scratch))
    }

    /// The same on whatever is lent: a scope, a start and a wait.
    pub(crate) fn run_on<'s, T: Transport, P: Platform>(
        self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        lent: Lent<'_>,
    ) -> Result<(), Error> {
        if T::HAS_LINES
            && let Some(task) = self.by_lines(caller.endpoint(), comm)?
        {
            return shared::run(caller, comm, task, lent.data);
        }
        let done = caller.enter(|scope| {
            let memory = Memory::new(scope, &self, lent);
            let ready = self.ready(scope, comm)?;
            let mut started = Collective::new(comm, ready, self.call.operation, memory);
            started.launch(scope)?;
            started.complete(scope)
        });
        done.map_err(|Failed| *caller.endpoint().failure())
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

/// A message of a round.
struct Message<'scope> {
    /// Null once it is complete, or its piece is.
    request: Request<'scope>,
    /// Which piece of it the request is; without a request, the piece that comes next, or 0 if there is none.
    piece: [u32; BLOCKS as usize],
}

impl Message<'_> {
    fn piece(&self) -> u32 {
        self.piece.first().map_or(0, |piece| *piece)
    }

    fn set_piece(&mut self, number: u32) {
        self.piece.fill(number);
    }
}

/// A collective in flight in a scope, or between its starts. Dropping it lets go of it; its messages end with the scope.
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
    peers: [Peers; BLOCKS as usize],
    /// Why it stopped, once it has.
    error: Error,
    /// The round's messages by the index of their step.
    messages: [Message<'scope>; IN_FLIGHT_MAX],
    /// How far it has come, if it is carried out by control lines.
    meeting: Option<Meeting>,
}

impl<'scope> Collective<'scope> {
    /// Starts a planned collective; its tag is taken here, in the same order on every rank. What can be posted is
    /// under way when this returns; a full request pool is reported by the first test.
    #[inline]
    pub(crate) fn begin<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: Planned,
        lent: Lent<'scope>,
    ) -> Result<Self, Error> {
        let memory = Memory::new(scope, &planned, lent);
        #[cfg(not(feature = "compact"))]
        if planned.persistent {
            return Self::make(scope, comm, &planned, memory);
        }
        if T::HAS_LINES && planned.shares == Shares::Named {
            return Self::start_by_lines(scope, comm, &planned, memory);
        }
        Self::begin_by_messages(scope, comm, planned, memory).map_err(|Failed| *scope.failure())
    }

    fn begin_by_messages<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: Planned,
        memory: Memory<'scope>,
    ) -> Result<Self, Failed> {
        let ready = planned.ready(scope, comm)?;
        let mut started = Self::new(comm, ready, planned.call.operation, memory);
        started.launch(scope)?;
        Ok(started)
    }

    /// Before its first message.
    #[inline]
    fn new(
        comm: &Comm,
        Ready { whole, plan, tag, peers }: Ready,
        operation: Operation,
        memory: Memory<'scope>,
    ) -> Self {
        let stage = Self::first_stage(&plan, &whole);
        Self {
            comm: comm.collective(),
            tag,
            peers,
            plan,
            whole,
            memory,
            base: 0,
            round: 0,
            stage,
            error: Error::new(operation, Cause::Busy),
            moved: false,
            messages: [const { Message { request: Request::null(), piece: [0; _] } }; IN_FLIGHT_MAX],
            meeting: None,
        }
    }

    /// Where it begins; at the end, if it has nothing to do.
    #[inline]
    fn first_stage(plan: &Plan, whole: &Instance) -> Stage {
        let idle = plan.algorithm.rounds(&whole.with_count(plan.segment)) == 0;
        if idle { Stage::Done } else { Stage::Post(0) }
    }

    /// Posts what can be posted at once.
    #[inline]
    fn launch<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Failed> {
        match self.advance(scope) {
            Progress::Failed => Err(scope.keep_failure(&self.error)),
            Progress::Done | Progress::Waiting | Progress::Starved => Ok(()),
        }
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
        self.complete(scope).map_err(|Failed| *scope.failure())
    }

    /// Drives this one alone until it is complete.
    #[inline]
    fn complete<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Failed> {
        while !self.is_complete() {
            let activity = self.activity::<T>();
            scope.drive_until(&activity, |scope| self.turn(scope))?;
        }
        Ok(())
    }

    /// One turn where nobody else can free a request slot; `Some` if anything happened.
    fn turn<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<Option<()>, Failed> {
        self.moved = false;
        match (self.advance(scope), self.moved) {
            (Progress::Failed, _) | (Progress::Starved, false) => Err(scope.keep_failure(&self.error)),
            (_, moved) => Ok(moved.then_some(())),
        }
    }

    fn all_complete(set: &[Self]) -> bool {
        set.iter().all(Self::is_complete)
    }

    /// Whether it is complete or was not started, as of the last time it was driven.
    pub const fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// The algorithm it runs, and its segments.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What was called; its algorithm may be that of another operation.
    fn operation(&self) -> Operation {
        self.error.operation
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

    /// Ends it and lets go of what can still be undone.
    #[cold]
    fn fail<T: Transport, P: Platform>(&mut self, scope: &mut Scope<'scope, '_, '_, T, P>) {
        for message in &mut self.messages {
            scope.cancel(&mut message.request);
        }
        self.stage = Stage::Failed;
    }

    /// What this rank is doing while it waits: the first message of the round that is missing.
    fn activity<T: Transport>(&self) -> Activity {
        if T::HAS_LINES
            && let Some(meeting) = &self.meeting
        {
            return meeting.activity(&self.comm);
        }
        let missing = self.messages.iter().position(|message| !message.request.is_null());
        let step = missing.and_then(|index| self.step(index as u32));
        let (place, bytes) = match step {
            Some(Step::Recv { from, into }) => (Some(from), self.memory.bytes(into)),
            Some(Step::Send { to, from }) => (Some(to), self.memory.bytes(from)),
            _ => (None, 0),
        };
        let (comm, tag, rank) = self.way(place.unwrap_or_default());
        let (operation, context) = (self.operation(), comm.context());
        Activity { operation, peer: place.map(|_| PeerId(rank.0)), tag: Some(tag.0), context, bytes }
    }

    /// How a place is reached.
    #[inline]
    fn way(&self, place: u32) -> (&Comm, Tag, Rank) {
        way(&self.peers, (&self.comm, self.tag), place)
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
