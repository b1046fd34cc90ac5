//! Collectives that are carried out by control slots instead of messages: see [`shared`].

use core::fmt;

use aldis_kernel::hal::{Activity, Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Failed, LentMut, Scope, Tag};

use super::lane::LaneStage;
use super::{BlockMemory, CallMemory, Collective, CollectiveMemory, LentBlocks, Planned};
use super::{POLL_BUDGET, Peers, Progress, Ready};
use crate::route::{Beginning, SlotData};
use crate::schedule::{Instance, divide};
use crate::select::Plan;
use crate::shared::{self, CROWDED, CallOutcome, FlatCollective, HERE, Here, Role, StartedRole, Task};
use crate::tag;

/// A call that was begun, and how it goes on.
#[must_use = "a collective advances only while it is tested or waited for"]
#[expect(clippy::large_enum_variant, reason = "there is no heap, and who keeps it keeps what it is")]
pub enum Started<'scope> {
    /// Not at all: it was over as soon as it was started.
    Over(SlotDone<'scope>),
    /// By control slots.
    InSlots(SlotCollective<'scope>),
    /// By messages, or made to be started, by either.
    ByMessages(Collective<'scope>),
}

impl<'scope> Started<'scope> {
    /// Returns it as a collective of either kind.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for an operation that no control slots serve: none is begun so.
    pub fn into_collective<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<Collective<'scope>, Error> {
        match self {
            Self::Over(SlotDone { comm, task, data }) => {
                let over = FlatCollective::over(StartedRole::Stretch(task)).ok_or(Cause::Unsupported);
                let flat = over.map_err(|cause| Error::new(task.operation, cause))?;
                Collective::in_slots(scope, SlotCollective { comm, data, flat, failure: None })
            }
            Self::InSlots(flat) => Collective::in_slots(scope, flat),
            Self::ByMessages(collective) => Ok(collective),
        }
    }
}

impl fmt::Debug for Started<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(done) => done.fmt(f),
            Self::InSlots(flat) => flat.fmt(f),
            Self::ByMessages(collective) => collective.fmt(f),
        }
    }
}

/// A collective that was over by control slots as soon as it was started, with its data.
pub struct SlotDone<'scope> {
    comm: Comm,
    task: Task,
    data: LentMut<'scope>,
}

impl fmt::Debug for SlotDone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}, over", self.task.operation, shared::NAME)
    }
}

/// A collective that goes by control slots, under way in a scope. It takes a fifth of the memory of
/// a [`Collective`]: none of it is for messages.
#[must_use = "a collective advances only while it is tested or waited for"]
pub struct SlotCollective<'scope> {
    comm: Comm,
    data: LentMut<'scope>,
    flat: FlatCollective<StartedRole<'scope>>,
    /// The cause that has ended it, and the rank that it is about.
    failure: Option<(Cause, Option<u32>)>,
}

impl<'scope> SlotCollective<'scope> {
    /// Starts it by the control slots of the communicator, for which it is, and goes on until it
    /// must wait.
    #[inline]
    pub(super) fn begin<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [u8],
        role: StartedRole<'scope>,
    ) -> Result<Started<'scope>, Error> {
        let (comm, task) = (*comm, *role.task());
        // What was begun is given up with the scope.
        scope.go_on_by_control_slots();
        if let Ok(mut slots) = scope.control_slots(&comm)
            && role.stands_in(&slots.shape())
        {
            return match shared::try_start(&mut slots, &comm, role, data) {
                Ok(None) => Ok(Started::Over(SlotDone { comm, task, data: scope.lend(data) })),
                Ok(Some(flat)) => {
                    let data = scope.lend(data);
                    Ok(Started::InSlots(Self { comm, data, flat: flat.started(), failure: None }))
                }
                Err(error) => {
                    scope.raise(&error);
                    Err(error)
                }
            };
        }
        let data = scope.lend(data);
        Self::begin_by_turns(scope, &comm, data, role).map(Started::InSlots)
    }

    /// Starts it like [`begin`](Self::begin), but for what no slot holds, or nothing is to be done
    /// for.
    #[inline(never)]
    fn begin_by_turns<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: LentMut<'scope>,
        role: StartedRole<'scope>,
    ) -> Result<Self, Error> {
        let mut this = Self::before_turns(scope, comm, data, role)?;
        match this.turn(scope, 1) {
            CallOutcome::Failed(cause, rank) => Err(this.error(cause, rank)),
            _ => Ok(this),
        }
    }

    /// Starts it, before its first turn.
    fn before_turns<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: LentMut<'scope>,
        role: StartedRole<'scope>,
    ) -> Result<Self, Error> {
        let operation = role.task().operation;
        let begun =
            FlatCollective::begin(scope, comm, role).and_then(|begun| begun.ok_or(Cause::Unsupported));
        let flat = begun.map_err(|cause| Error::new(operation, cause))?.started();
        Ok(Self { comm: *comm, data, flat, failure: None })
    }

    /// Drives it as far as it goes without waiting; whether it is complete. The endpoint is polled
    /// if it is not.
    ///
    /// # Errors
    /// Those of [`progress`](Self::progress).
    pub fn test<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<bool, Error> {
        let is_complete = self.progress(scope)?;
        if !is_complete {
            scope.poll(POLL_BUDGET);
        }
        Ok(is_complete)
    }

    /// Drives it as far as it goes without waiting and without a poll: whether it is complete.
    ///
    /// # Errors
    /// [`Cause::Full`] while it waits for another of this rank that is not driven: go on later. Any
    /// other error has ended it: [`Cause::UnlikeLength`] when a rank called it with another count,
    /// [`Cause::UnlikeCall`] when it called another operation, or the cause why a rank is gone.
    #[inline]
    pub fn progress<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<bool, Error> {
        self.watch(scope, 1)
    }

    /// Drives it like [`progress`](Self::progress), and looks so many times for what other ranks
    /// are to write: what ends it stands in memory, for which no poll is needed.
    ///
    /// # Errors
    /// Those of [`progress`](Self::progress).
    #[inline]
    pub fn watch<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        looks: u32,
    ) -> Result<bool, Error> {
        match self.turn(scope, looks) {
            CallOutcome::Over => Ok(true),
            CallOutcome::Moved | CallOutcome::Missing(_) => Ok(false),
            CallOutcome::Crowded => Err(self.error(CROWDED, None)),
            CallOutcome::Failed(cause, rank) => Err(self.error(cause, rank)),
        }
    }

    /// Starts it again, as the communicator's next collective by slots, and goes on until it must
    /// wait.
    fn start<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Error> {
        if let CallOutcome::Failed(cause, rank) = self.flat.start_again(scope, &self.comm, self.data) {
            self.failure = Some((cause, rank));
            let error = self.error(cause, rank);
            scope.raise(&error);
            return Err(error);
        }
        Ok(())
    }

    /// Returns true if it is complete, as of the last time it was driven.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.flat.is_over() && self.failure.is_none()
    }

    /// Returns true if a slot did not hold all that a rank gives.
    fn is_long(&self) -> bool {
        self.flat.role().is_long()
    }

    /// Takes a turn with so many looks, unless it has failed.
    #[inline]
    fn turn<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        looks: u32,
    ) -> CallOutcome {
        if let Some((cause, rank)) = self.failure {
            return CallOutcome::Failed(cause, rank);
        }
        let turn = match self.flat.turn_of(scope, &self.comm, self.data, looks) {
            // What every rank knows to stand in slots does.
            CallOutcome::Over if self.is_long() && !self.flat.role().has_unknown_lengths() => {
                CallOutcome::from(Cause::Incompatible)
            }
            turn => turn,
        };
        if let CallOutcome::Failed(cause, rank) = turn {
            self.failure = Some((cause, rank));
            scope.raise(&self.error(cause, rank));
        }
        turn
    }

    #[cold]
    fn error(&self, cause: Cause, rank: Option<u32>) -> Error {
        self.flat.error(&self.comm, cause, rank)
    }

    /// Returns the activity of this rank while it waits.
    pub(super) fn activity(&self) -> Activity {
        self.flat.activity(&self.comm)
    }
}

impl fmt::Debug for SlotCollective<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.flat.is_over() { "over" } else { "under way" };
        write!(f, "{} by {}, {state}", self.flat.role().task().operation, shared::NAME)
    }
}

/// The messages that follow a call of which only control slots say whether they hold all.
pub(super) struct FollowingMessages {
    planned: Planned,
    _here: Here,
}

impl<'scope> Collective<'scope> {
    /// Begins a call that is waited for, of which only control slots say whether they hold all that
    /// ranks give. Its messages, if any follow, are numbered as those of a blocking call: after the
    /// slots.
    #[inline(never)]
    pub(crate) fn begin_of_unknown_lengths<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: Planned,
        mut lent: CallMemory<'scope>,
    ) -> Result<Started<'scope>, Error> {
        let role = match planned.settled {
            None => planned.query.role_of_unknown_lengths(scope, comm, lent.in_slots()),
            Some(_) => None,
        };
        let Some(role) = role else { return Self::begin(scope, comm, planned, lent) };
        let memory = CollectiveMemory::new(scope, &planned, lent);
        // What was begun is given up with the scope.
        scope.go_on_by_control_slots();
        let flat = SlotCollective::before_turns(scope, comm, memory.data, role)?;
        let following = HERE.map(|_here| FollowingMessages { planned, _here });
        let mut begun = Self { following, ..Self::on_memory(memory, flat)? };
        begun.set_stage(LaneStage::Post(0));
        match begun.advance_in_slots(scope, 1) {
            Progress::Failed => Err(begun.error),
            _ => Ok(Started::ByMessages(begun)),
        }
    }

    /// Ends the part by control slots, which have been read: the last one, unless they say that
    /// messages follow.
    #[inline]
    fn settle_slots<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Progress {
        let Some(following) = self.following.take() else {
            self.set_stage(LaneStage::Done);
            return Progress::Done;
        };
        match self.follow_slots(scope, following) {
            Ok(()) if self.is_complete() => Progress::Done,
            Ok(()) => Progress::Waiting,
            Err(Failed) => {
                (self.error, self.flat) = (*scope.failure(), None);
                self.set_stage(LaneStage::Failed);
                Progress::Failed
            }
        }
    }

    /// Advances to the number of the call after this one, which had no message on this rank: others
    /// may have had some for the root of a gather.
    fn skip_messages<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: Comm,
    ) -> Result<(), Cause> {
        match self.operation() {
            Operation::Gatherv => scope.collective_number(&comm).map(drop),
            _ => Ok(()),
        }
    }

    /// Begins the messages that follow, if control slots say that blocks are longer.
    #[inline(never)]
    fn follow_slots<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        following: FollowingMessages,
    ) -> Result<(), Failed> {
        let (mut planned, operation) = (following.planned, self.operation());
        let Some(flat) = &self.flat else { return Ok(()) };
        let comm = flat.comm;
        if !flat.is_long() {
            self.set_stage(LaneStage::Done);
            let skipped = self.skip_messages(scope, comm);
            return skipped.map_err(|cause| scope.keep_failure(&Error::new(operation, cause).on(&comm)));
        }
        let mut memory = self.memory;
        if operation == Operation::Gatherv {
            memory.blocks.layouts[0] = memory.blocks.layouts[0].without_short(memory.element_bytes);
        }
        planned.query.beginning = Beginning::Declined;
        let plan = planned.query.route(scope, &comm, SlotData::Untold).messages();
        let ready = planned.ready(scope, &comm, plan, &memory)?;
        *self = Self::new(&comm, ready, operation, memory);
        let launched = self.launch(scope);
        self.moved = true;
        launched
    }

    /// Wraps one that goes by control slots.
    #[cold]
    fn in_slots<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        flat: SlotCollective<'scope>,
    ) -> Result<Self, Error> {
        let Task { element_bytes, kernel, .. } = *flat.flat.role().task();
        let (data, scratch) = (flat.data, scope.lend::<u8>(&mut []));
        let blocks = LentBlocks::new(scope, BlockMemory::NONE);
        Self::on_memory(CollectiveMemory { data, scratch, blocks, element_bytes, kernel }, flat)
    }

    /// Wraps one that goes by control slots on this memory.
    #[cold]
    fn on_memory(memory: CollectiveMemory<'scope>, flat: SlotCollective<'scope>) -> Result<Self, Error> {
        let Task { operation, rank, size, root, element_bytes, .. } = *flat.flat.role().task();
        let refused = |cause| Error::new(operation, cause);
        let algorithm = shared::algorithm(operation).ok_or(Cause::Unsupported).map_err(refused)?;
        let count = divide(memory.data.len(), element_bytes as usize).0;
        let whole = Instance::new(rank, size, root, count).map_err(refused)?;
        let plan = Plan::in_turn(algorithm, count);
        let ready = Ready { whole, plan, tag: Tag(0), peers: Peers::Ranks };
        let (comm, is_over) = (flat.comm, flat.is_complete());
        let mut wrapped = Self { flat: Some(flat), ..Self::new(&comm, ready, operation, memory) };
        wrapped.set_stage(if is_over { LaneStage::Done } else { LaneStage::Post(0) });
        Ok(wrapped)
    }

    /// Makes one that goes by control slots whenever it is [started](Self::start), on a
    /// communicator that it has to itself.
    #[cold]
    pub(super) fn kept_in_slots<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [u8],
        role: StartedRole<'scope>,
    ) -> Result<Self, Error> {
        let Task { operation, root, .. } = *role.task();
        let refused = |cause| Error::new(operation, cause).on(comm);
        let flat = FlatCollective::over(role).ok_or(Cause::Unsupported).map_err(refused)?.started();
        let number = scope.persistent_number(comm, false).map_err(refused)?;
        let flat = SlotCollective { comm: *comm, data: scope.lend(data), flat, failure: None };
        let kept = Self::in_slots(scope, flat)?;
        Ok(Self { tag: tag::of_persistent(number, operation, root), ..kept })
    }

    /// Starts it by control slots, if it was made to be started there.
    pub(super) fn start_in_slots<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Error> {
        let is_kept = tag::is_persistent(self.tag);
        let Some(flat) = self.flat.as_mut().filter(|_| is_kept) else {
            return Err(self.refused(scope, Cause::Unsupported));
        };
        let started = flat.start(scope);
        let is_over = flat.is_complete();
        if let Err(error) = started {
            self.error = error;
            self.set_stage(LaneStage::Failed);
            return Err(error);
        }
        self.set_stage(if is_over { LaneStage::Done } else { LaneStage::Post(0) });
        Ok(())
    }

    /// Returns true if it goes by control slots.
    #[inline]
    pub const fn is_in_slots(&self) -> bool {
        self.flat.is_some()
    }

    /// Drives it like [`progress`](Self::progress), and looks so many times for what other ranks
    /// are to write to control slots, if it goes by them: what ends it stands in memory then, for
    /// which no poll is needed.
    ///
    /// # Errors
    /// Those of [`progress`](Self::progress).
    pub fn watch<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        looks: u32,
    ) -> Result<bool, Error> {
        if T::HAS_CONTROL_SLOTS && self.flat.is_some() {
            let progress = self.advance_in_slots(scope, looks);
            return self.outcome(progress);
        }
        self.progress(scope)
    }

    /// Like [`advance`](Self::advance), but by control slots, with so many looks.
    pub(super) fn advance_in_slots<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        looks: u32,
    ) -> Progress {
        let Some(flat) = &mut self.flat else { return Progress::Failed };
        match flat.turn(scope, looks) {
            CallOutcome::Over => {
                self.moved |= !self.lanes.are_done();
                return self.settle_slots(scope);
            }
            CallOutcome::Moved => self.moved = true,
            CallOutcome::Missing(_) => {}
            CallOutcome::Crowded => {
                self.error = flat.error(CROWDED, None);
                return Progress::Starved;
            }
            CallOutcome::Failed(cause, rank) => {
                let comm = flat.comm;
                self.error = flat.error(cause, rank);
                self.set_stage(LaneStage::Failed);
                if self.following.take().is_some() {
                    // Its error is told in any case.
                    let _ = self.skip_messages(scope, comm);
                }
                return Progress::Failed;
            }
        }
        Progress::Waiting
    }
}
