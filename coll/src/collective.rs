//! The executor: one state machine that runs every schedule over a kernel scope.
//!
//! A [`Collective`] is started by a call's `start`, as in `allreduce(..).start(..)`, and driven by
//! [`Collective::test`], [`Collective::wait`] or, with others, by [`wait_all`] and [`wait_for`].
//! The blocking calls are a scope, a start and a wait.
//!
//! **Several at once.** Each takes its own tag on the communicator's collective plane, so any
//! number may be in flight, if all ranks start them in the same order. A collective advances only
//! while it is driven: ranks that wait for theirs one by one, in different orders, wait for each
//! other. `wait_all` and `wait_for` drive all of them.
//!
//! **Started again.** What is complete can be started again, by the same plan: see
//! [`ContiguousCall::persistent`](crate::ContiguousCall::persistent).
//!
//! **Segments.** If the scratch is too short for the whole count, or it pays, the data is cut into
//! even segments and the schedule is run on each. Every rank cuts alike because every rank has the
//! same count, scratch and options. Up to [`LANES`] of them are under way at a time, each in a lane
//! with a tag and a part of the scratch of its own.
//!
//! **A full request pool** ([`Cause::Full`]) is a state, not an end. What of a round is posted
//! lands and makes room for the rest. Where nothing of a collective is under way the call returns
//! it, nothing is lost, and the same collective goes on at the next test or wait, once another
//! request of the endpoint has made room. Any other error ends the collective and is returned again
//! by every later call.
//!
//! **Request slots.** [`IN_FLIGHT_MAX`] for each collective in flight are enough for one lane of
//! each; as many again let the others begin. A round that sends and receives needs two: with one,
//! its messages go one after the other, sends first, and long ones, which wait for their receiver,
//! may wait until the deadline.
//!
//! [`IN_FLIGHT_MAX`]: crate::schedule::IN_FLIGHT_MAX

mod control_slots;
mod input;
mod lane;
mod peers;
mod persistent;
mod rounds;
mod row;
mod several;
mod typed;
mod unlike;

use core::fmt;

use crate::blocking_endpoint::BlockingEndpoint;
use crate::layout::Layout;
use crate::op::Kernel;
pub use crate::route::StartMode;
use crate::route::{Beginning, Route, RouteFacts, RouteQuery, SlotData};
use crate::schedule::{Instance, Schedule, Step};
pub use crate::select::LANES;
use crate::select::{Call, CallSpec, Options, Plan};
use crate::shared::{self, GivenBlocks, Neighbors, StartedRole};
use crate::tag;
use aldis_kernel::hal::{Activity, Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Failed, Lent, LentMut, Scope, Tag};
use control_slots::FollowingMessages;
pub use control_slots::{SlotCollective, SlotDone, Started};
pub use input::Input;
use lane::{LaneStage, Lanes, Messages, SegmentLane, no_messages};
pub(crate) use peers::Over;
pub use peers::Root;
use peers::{MessageRoute, Peers};
pub use persistent::start_all;
pub use several::{wait_all, wait_for};
use unlike::Watch;

/// Events that one test handles at most.
const POLL_BUDGET: u32 = 64;

/// The memory that a caller lends for a collective, as bytes.
pub(crate) struct CallMemory<'m> {
    pub(crate) data: &'m mut [u8],
    pub(crate) scratch: &'m mut [u8],
    pub(crate) blocks: BlockMemory<'m>,
}

impl<'m> CallMemory<'m> {
    /// Data that are one stretch, and scratch.
    pub(crate) const fn stretch(data: &'m mut [u8], scratch: &'m mut [u8]) -> Self {
        Self { data, scratch, blocks: BlockMemory::NONE }
    }

    /// Returns the data as control slots hold them. What is given is only read from then on.
    #[inline]
    fn in_slots(&mut self) -> SlotData<'m> {
        let [layout, given] = self.blocks.layouts;
        if let Some(neighbors) = self.blocks.neighbors {
            let memory = self.blocks.input.show();
            return SlotData::Neighbors(neighbors, GivenBlocks { memory, layout: given });
        }
        if let Layout::Whole = layout {
            return SlotData::Stretch(self.data.len());
        }
        let given = GivenBlocks::of(self.blocks.input.show(), given);
        SlotData::Blocks(self.data.len(), layout, given)
    }
}

/// The further memory that the caller of an operation on blocks lends.
pub(crate) struct BlockMemory<'m> {
    pub(crate) input: Input<'m, u8>,
    /// The division of data and input.
    pub(crate) layouts: [Layout<'m>; 2],
    /// The schedule, if it is this call's own.
    pub(crate) own: Option<&'m dyn Schedule>,
    /// The neighbours in a grid, if it is among these and their blocks are of one length.
    pub(crate) neighbors: Option<Neighbors<'m>>,
}

impl BlockMemory<'_> {
    /// No input, and data that are one stretch.
    pub(crate) const NONE: Self =
        Self { input: Input::NONE, layouts: [Layout::Whole; 2], own: None, neighbors: None };
}

/// The memory that a collective works on.
#[derive(Clone, Copy)]
pub(crate) struct CollectiveMemory<'scope> {
    pub(crate) data: LentMut<'scope>,
    pub(crate) scratch: LentMut<'scope>,
    /// The rest, where there are blocks.
    blocks: LentBlocks<'scope>,
    pub(crate) element_bytes: u32,
    /// The reduction, where there is one.
    pub(crate) kernel: Option<Kernel>,
}

/// [`BlockMemory`] in a scope.
#[derive(Clone, Copy)]
pub(crate) struct LentBlocks<'scope> {
    input: Lent<'scope>,
    /// The input as memory that may be edited between starts, if it may.
    lent: Option<LentMut<'scope>>,
    layouts: [Layout<'scope>; 2],
    own: Option<&'scope dyn Schedule>,
}

/// The way in which a planned collective is carried out on a communicator.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    /// The whole call.
    whole: Instance,
    plan: Plan,
    tag: Tag,
    peers: Peers,
}

/// A collective that is to be begun: everything but its memory.
pub(crate) struct Planned {
    pub(crate) query: RouteQuery,
    /// The ranks it is over, where those are not always a communicator's.
    over: Over,
    /// The plan of its messages, or the cause of its refusal, if no route is to be asked for.
    pub(crate) settled: Option<Result<Plan, Cause>>,
}

impl Planned {
    /// Describes a call on a communicator: a blocking one that was not made in control slots at
    /// once, if nothing else is said.
    #[inline(always)]
    pub(crate) fn new(spec: &CallSpec, options: &Options) -> Self {
        let query = RouteQuery { spec: *spec, options: *options, beginning: Beginning::Declined };
        Self { query, over: Over::Ranks, settled: None }
    }

    /// Returns the call.
    const fn call(&self) -> &Call {
        &self.query.spec.call
    }

    /// Returns this plan, to be refused if there is a cause.
    #[inline(always)]
    pub(crate) const fn refused_if(self, refusal: Option<Cause>) -> Self {
        match refusal {
            Some(cause) => Self { settled: Some(Err(cause)), ..self },
            None => self,
        }
    }

    /// Returns the route on a communicator of a call on this memory.
    #[inline]
    fn route<'m, F: RouteFacts>(&self, facts: &mut F, comm: &Comm, lent: &mut CallMemory<'m>) -> Route<'m> {
        match (self.settled, self.query.beginning.is_driven()) {
            (Some(plan), _) => plan.map_or_else(Route::Refused, Route::Messages),
            (None, Some(_)) => self.query.route(facts, comm, lent.in_slots()),
            _ => self.query.route(facts, comm, SlotData::Untold),
        }
    }

    /// Carries it out on any lent memory: by control slots, or in a scope, a start and a wait.
    #[inline(never)]
    pub(crate) fn run<'s, T: Transport, P: Platform>(
        self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
        mut lent: CallMemory<'_>,
    ) -> Result<(), Error> {
        let route = self.route(ep.endpoint(), comm, &mut lent);
        if T::HAS_CONTROL_SLOTS
            && let Route::Slots(StartedRole::Stretch(task), _) = route
        {
            return shared::run(ep, comm, task, lent.data);
        }
        let plan = route.messages();
        let done = ep.enter(|scope| {
            let memory = CollectiveMemory::new(scope, &self, lent);
            let ready = self.ready(scope, comm, plan, &memory)?;
            // Where it stays: it is long.
            let mut begun = Collective::new(comm, ready, self.call().operation, memory);
            begun.launch(scope)?;
            begun.complete(scope)
        });
        done.map_err(|Failed| *ep.endpoint().failure())
    }

    /// Returns all of it, and how each segment is carried out by this plan, once its memory is
    /// found well. Its tag is taken here.
    #[inline]
    fn ready<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        plan: Result<Plan, Cause>,
        memory: &CollectiveMemory<'scope>,
    ) -> Result<Ready, Failed> {
        let &Call { operation, count, element_bytes, .. } = self.call();
        let root = self.query.spec.root;
        if memory.is_typed() {
            memory.check_types(scope, comm, operation)?;
        }
        let ready = match self.over {
            Over::Ranks => Instance::new(comm.rank().0, comm.size(), root, count).and_then(|whole| {
                let plan = plan?;
                let tag = if self.is_persistent() {
                    tag::of_persistent(scope.persistent_number(comm, false)?, operation, root)
                } else {
                    tag::of_call(scope.collective_number(comm)?, operation, root)
                };
                let whole = whole.with_cut(plan.node);
                Ok(Ready { whole, plan, tag, peers: Peers::Ranks })
            }),
            Over::Groups | Over::Rooted(_) => self.ready_in_row(scope, comm, plan),
        };
        let ready = ready.map_err(|cause| scope.keep_failure(&Error::new(operation, cause).on(comm)))?;
        // Nothing here converts numbers of ranks of the other byte order. Bytes have none.
        match scope.unlike(comm).filter(|_| element_bytes > 1) {
            None => Ok(ready),
            Some(rank) => {
                let error = Error::new(operation, Cause::UnlikeOrder).with(rank, comm.context(), ready.tag);
                Err(scope.keep_failure(&error))
            }
        }
    }

    /// Begins it by messages, or makes it, to be started later.
    fn begin<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        plan: Result<Plan, Cause>,
        memory: CollectiveMemory<'scope>,
    ) -> Result<Collective<'scope>, Failed> {
        let ready = self.ready(scope, comm, plan, &memory)?;
        let mut begun = Collective::new(comm, ready, self.call().operation, memory);
        if self.is_persistent() {
            begun.set_stage(LaneStage::Done);
        } else {
            begun.launch(scope)?;
        }
        Ok(begun)
    }
}

/// The outcome of driving a collective, or a lane of it. Where lanes differ, the last of these
/// stands for all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Done,
    /// There is no request slot for its next message, and none is under way: its error says so.
    Starved,
    /// Its messages are under way.
    Waiting,
    /// Its error has ended it.
    Failed,
}

/// A collective in flight in a scope, or between its starts. Dropping it lets go of it; its
/// messages end with the scope.
#[must_use = "a collective advances only while it is tested or waited for"]
#[repr(C)]
pub struct Collective<'scope> {
    /// True if something has happened since this was last cleared.
    moved: bool,
    lanes: Lanes,
    plan: Plan,
    /// The whole call; segments differ in the count.
    whole: Instance,
    memory: CollectiveMemory<'scope>,
    tag: Tag,
    comm: Comm,
    peers: Peers,
    /// The error that has stopped it, once it has stopped.
    error: Error,
    /// Each lane's.
    messages: [Messages<'scope>; LANES],
    /// The progress by control slots, if it is carried out by them.
    flat: Option<SlotCollective<'scope>>,
    /// The messages that follow, if only control slots say whether there are any.
    following: Option<FollowingMessages>,
    watch: Watch,
}

impl<'scope> Collective<'scope> {
    /// Starts a planned collective; its tag is taken here, in the same order on every rank. What
    /// can be posted is under way when this returns; a full request pool is reported by the first
    /// test.
    #[inline]
    pub(crate) fn begin<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: Planned,
        mut lent: CallMemory<'scope>,
    ) -> Result<Started<'scope>, Error> {
        let route = planned.route(scope, comm, &mut lent);
        if T::HAS_CONTROL_SLOTS
            && let Route::Slots(role, _) = route
        {
            return match planned.is_persistent() {
                true => Self::kept_in_slots(scope, comm, lent.data, role).map(Started::ByMessages),
                false => SlotCollective::begin(scope, comm, lent.data, role),
            };
        }
        let memory = CollectiveMemory::new(scope, &planned, lent);
        match planned.begin(scope, comm, route.messages(), memory) {
            Ok(begun) => Ok(Started::ByMessages(begun)),
            Err(Failed) => Err(*scope.failure()),
        }
    }

    /// Before its first message.
    #[inline]
    fn new(
        comm: &Comm,
        Ready { whole, plan, tag, peers }: Ready,
        operation: Operation,
        memory: CollectiveMemory<'scope>,
    ) -> Self {
        let is_idle = memory.schedule(&plan).rounds(&whole.with_count(plan.segment)) == 0;
        Self {
            comm: comm.collective(),
            tag,
            peers,
            plan,
            whole,
            memory,
            lanes: Lanes::new(&plan, is_idle),
            error: Error::new(operation, Cause::Busy),
            moved: false,
            messages: no_messages(),
            flat: None,
            following: None,
            watch: Watch::default(),
        }
    }

    /// The schedule it runs.
    #[inline]
    fn schedule(&self) -> &dyn Schedule {
        self.memory.schedule(&self.plan)
    }

    /// Posts what can be posted at once.
    #[inline]
    fn launch<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Failed> {
        let is_persistent = tag::is_persistent(self.tag);
        let before = if is_persistent { None } else { scope.begin_call(&self.comm, self.tag) };
        self.watch = Watch::opened(before);
        // It may be over at once, like a root's that has sent: it still is the one before the next.
        if self.is_complete() {
            self.close(scope);
        }
        match self.advance(scope) {
            Progress::Failed => Err(scope.keep_failure(&self.error)),
            Progress::Done | Progress::Waiting | Progress::Starved => Ok(()),
        }
    }

    /// Drives it as far as it goes without waiting, after one poll; whether it is complete.
    ///
    /// # Errors
    /// [`Cause::Full`] when the request pool is full: nothing is lost, go on later. Any other error
    /// has ended it: those of sends and receives; [`Cause::UnlikeLength`] when a rank called it
    /// with another count or scratch, [`Cause::UnlikeCall`] when it called another operation, or
    /// with another root, now or just before.
    #[inline]
    pub fn test<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<bool, Error> {
        scope.poll(POLL_BUDGET);
        self.progress(scope)
    }

    /// Drives it like [`test`](Self::test), but without a poll, for a caller that drives several.
    ///
    /// # Errors
    /// Those of [`test`](Self::test).
    #[inline]
    pub fn progress<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<bool, Error> {
        let progress = self.advance(scope);
        self.outcome(progress)
    }

    /// Returns true if it is complete, or its error.
    fn outcome(&self, progress: Progress) -> Result<bool, Error> {
        match progress {
            Progress::Done => Ok(true),
            Progress::Waiting => Ok(false),
            Progress::Starved | Progress::Failed => Err(self.error),
        }
    }

    /// Waits until it is complete. Drives this one alone: see [`wait_for`] for several that other
    /// ranks may wait for in another order.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the scope's deadline, naming a rank that is missing;
    /// [`Cause::UnlikeCall`] and [`Cause::UnlikeLength`] if ranks have made unlike calls; the rest
    /// as [`test`](Self::test).
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
            let went = scope.drive_until(&activity, |scope| self.turn(scope));
            let went = went.map_err(|failed| self.look_at_the_deadline(scope, failed));
            went?;
        }
        Ok(())
    }

    /// Takes one turn where no other collective can free a request slot; `Some` if anything
    /// happened.
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

    /// Returns true if it is complete or was not started, as of the last time it was driven.
    pub fn is_complete(&self) -> bool {
        self.lanes.are_done()
    }

    /// The algorithm it runs, and its segments.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the operation that was called; its algorithm may be that of another operation.
    fn operation(&self) -> Operation {
        self.error.operation
    }

    /// Returns the activity of this rank while it waits: the first message of the oldest segment
    /// that is missing.
    fn activity<T: Transport>(&self) -> Activity {
        if T::HAS_CONTROL_SLOTS
            && let Some(flat) = &self.flat
        {
            return flat.activity();
        }
        let missing = self.missing();
        let step = missing.and_then(|(lane, index)| self.step_of(lane, index));
        let lane = missing.map_or(self.lanes.now(), |(lane, _)| lane);
        let (place, bytes) = match step {
            Some(Step::Recv { from, into }) => (Some(from), self.memory.bytes(into)),
            Some(Step::Send { to, from }) => (Some(to), self.memory.bytes(from)),
            _ => (None, 0),
        };
        let MessageRoute { comm, tag, peer } = self.way(lane, place.unwrap_or_default());
        let (operation, context) = (self.operation(), comm.context());
        Activity { operation, peer: place.map(|_| PeerId(peer.0)), tag: Some(tag.0), context, bytes }
    }

    /// Returns the route of a lane's messages to a place.
    #[inline]
    fn way(&self, lane: &SegmentLane, place: u32) -> MessageRoute<'_> {
        self.peers.way(&self.comm, self.tag_of(lane), place)
    }
}

impl fmt::Debug for Collective<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}, tag {}, ", self.operation(), self.plan.algorithm.name(), self.tag)?;
        let oldest = self.lanes.oldest();
        match oldest.stage {
            LaneStage::Done => f.write_str("complete"),
            LaneStage::Failed => write!(f, "failed: {}", self.error),
            LaneStage::Post(_) | LaneStage::Land(_) => {
                write!(f, "at element {}, round {}", oldest.base, oldest.round)
            }
        }
    }
}
