//! A collective by control slots on an endpoint: its start, its turns, its end.

use core::cell::Cell;

use aldis_kernel::hal::shared_control::ControlSlotsShape;
use aldis_kernel::hal::{Activity, Cause, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, ControlSlots, Error, LentMut, Rank, Scope, Tag};

use super::{CallOutcome, FlatCollective, Role, Task};
use super::{NOBODY, SharedStage};
use crate::blocking_endpoint::BlockingEndpoint;
use crate::tag;

/// On an endpoint.
impl<R: Role> FlatCollective<R> {
    /// Starts the communicator's next collective by slots.
    ///
    /// # Errors
    /// Why it has none, or why they are not for this call.
    pub(crate) fn begin<T: Transport, P: Platform>(
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
        role: R,
    ) -> Result<Option<Self>, Cause> {
        if role.task().is_idle() {
            return Self::new(role, 0, &ControlSlotsShape::default());
        }
        let shape = scope.control_slots(comm)?.shape();
        let flat = Self::new(role, 0, &shape)?;
        let number = scope.begin_by_control_slots(comm)?;
        Ok(flat.map(|flat| Self { number, ..flat }))
    }

    /// Starts it again, once it is over, as the communicator's next collective by slots, and goes
    /// on until it must wait.
    #[inline]
    pub(crate) fn start_again<'scope, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: LentMut<'scope>,
    ) -> CallOutcome {
        if self.task().is_idle() {
            return CallOutcome::Over;
        }
        // What was begun is given up with the scope.
        scope.go_on_by_control_slots();
        let start = |slots: &mut ControlSlots<'_>, data: &mut [u8]| self.begin_again(slots, data);
        let started = scope.at_control_slots(comm, data, 0..data.len(), start);
        started.unwrap_or_else(CallOutcome::from)
    }

    /// Takes a turn, on the memory that was lent for it. Now and then it looks whether the rank
    /// that is missing is still there.
    #[inline]
    pub(crate) fn turn<'scope, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: LentMut<'scope>,
    ) -> CallOutcome {
        self.turn_of(scope, comm, data, 1)
    }

    /// Takes a turn in which it looks so many times for what is missing.
    #[inline]
    pub(crate) fn turn_of<'scope, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: LentMut<'scope>,
        looks: u32,
    ) -> CallOutcome {
        if self.is_over() {
            return CallOutcome::Over;
        }
        let turn = self.go(scope, comm, data, looks);
        let CallOutcome::Missing(rank) = turn else { return turn };
        self.missing = rank;
        self.idle = self.idle.wrapping_add(1);
        if !self.idle.is_multiple_of(LOOKS_A_ROLL_CALL) {
            return turn;
        }
        if let Ok(mut slots) = scope.control_slots(comm) {
            self.publish_wait(&mut slots);
        }
        let Err(cause) = scope.is_there(comm, Rank(rank)) else { return turn };
        // What it wrote before it left is there by now.
        match self.go(scope, comm, data, 1) {
            CallOutcome::Missing(still) if still == rank => {
                self.leave(scope, comm);
                CallOutcome::Failed(cause, Some(rank))
            }
            turn => turn,
        }
    }

    #[inline]
    fn go<'scope, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: LentMut<'scope>,
        looks: u32,
    ) -> CallOutcome {
        let whole = 0..data.len();
        let watch = |slots: &mut ControlSlots<'_>, data: &mut [u8]| Ok(self.watch(slots, data, looks));
        let went = scope.at_control_slots(comm, data, whole, watch);
        went.unwrap_or_else(CallOutcome::from)
    }

    /// Gives it up: this rank reads and writes no more of it.
    pub(crate) fn leave<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
    ) {
        if let Ok(mut slots) = scope.control_slots(comm)
            && !self.is_over()
        {
            self.give_up(&mut slots);
        }
    }

    /// Makes the error that ended it.
    #[cold]
    pub(crate) fn error(&self, comm: &Comm, cause: Cause, rank: Option<u32>) -> Error {
        let mut error = Error::new(self.task().operation, cause);
        error.context = comm.collective().context();
        match rank {
            Some(rank) => error.with(Rank(rank), error.context, Tag(self.number & Tag::MAX.0)),
            None => error,
        }
    }

    /// Returns the activity of this rank while it waits.
    pub(crate) fn activity(&self, comm: &Comm) -> Activity {
        self.task().activity(comm, Some(self.missing).filter(|rank| *rank != NOBODY))
    }
}

/// Turns that find nothing, after which it is asked whether the rank that is missing has gone on
/// without a slot: before a platform sleeps.
const LOOKS_ASTRAY: u32 = 256;

/// Turns that find nothing, after which the rank that is missing is looked for.
const LOOKS_A_ROLL_CALL: u32 = 64;

/// The error of a collective that waits for another of this rank.
pub(crate) const CROWDED: Cause = Cause::Full(Resource::ControlSlots);

/// The form in which control slots carry out a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotForm {
    /// They hold all that a rank gives.
    Whole,
    /// They announce it, and it passes in the chunks beside them.
    Chunks,
    /// Like that, and a rank can write all of it before others have read any.
    ShortRun,
}

impl SlotForm {
    /// Returns the form for a task on a communicator that has such slots.
    ///
    /// # Errors
    /// Why it has none; [`Cause::TooBig`] for an element that is larger than a chunk, and for too
    /// many chunks.
    pub(crate) fn of(task: &Task, slots: Result<ControlSlotsShape, Cause>) -> Result<Self, Cause> {
        let shape = match slots {
            // Whatever has nothing to do needs no slots, but a communicator.
            Err(cause) if !task.is_idle() || matches!(cause, Cause::Stale | Cause::Intercommunicator) => {
                return Err(cause);
            }
            Ok(shape) if !task.is_idle() => shape,
            _ => return Ok(Self::Whole),
        };
        Ok(match task.run(&shape)? {
            None => Self::Whole,
            Some(run) if task.positions(&run).is_some_and(|ahead| ahead <= shape.chunks) => Self::ShortRun,
            Some(_) => Self::Chunks,
        })
    }
}

/// Returns true if a call in which this rank has such a role is carried out by slots of this shape.
#[inline]
pub(super) fn serves(shape: &ControlSlotsShape, role: &impl Role) -> bool {
    let task = role.task();
    if role.passes_chunks() {
        return task.root < task.size && role.run(shape).is_ok();
    }
    !task.is_idle() && task.root < task.size && role.fits(shape.slot_bytes)
}

/// Carries out a collective: a scope, a start and a wait.
pub(crate) fn run<'s, R: Role, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    role: R,
    data: &mut [u8],
) -> Result<(), Error> {
    ep.enter(|scope| {
        let data = scope.lend(data);
        let operation = role.task().operation;
        let refused = |cause| Error::new(operation, cause);
        let begun =
            FlatCollective::begin(scope, comm, role).and_then(|begun| begun.ok_or(Cause::Unsupported));
        begun.map_err(refused)?.complete(scope, comm, 0, data)
    })
}

/// Goes on with a collective that was begun at once, after so many looks that found nothing.
#[cold]
#[inline(never)]
pub(super) fn go_on<'s, R: Role, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    mut flat: FlatCollective<R>,
    looks: u32,
    data: &mut [u8],
) -> Result<(), Error> {
    ep.enter(|scope| {
        scope.go_on_by_control_slots();
        let data = scope.lend(data);
        flat.complete(scope, comm, looks, data)
    })
}

impl<R: Role> FlatCollective<R> {
    /// Waits until it is complete.
    fn complete<'scope, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        looks: u32,
        data: LentMut<'scope>,
    ) -> Result<(), Error> {
        let (task, missing) = (*self.task(), Cell::new(None));
        let went = scope.watch_until(
            looks,
            || task.activity(comm, missing.get()),
            |scope| match self.turn(scope, comm, data) {
                CallOutcome::Over => Ok(Some(())),
                CallOutcome::Moved => Ok(None),
                CallOutcome::Missing(rank) => {
                    missing.set(Some(rank));
                    if self.idle.is_multiple_of(LOOKS_ASTRAY) {
                        self.look_astray(scope, comm, rank)?;
                    }
                    Ok(None)
                }
                CallOutcome::Crowded => Err(self.error(comm, CROWDED, None)),
                CallOutcome::Failed(cause, rank) => Err(self.failed(scope, comm, cause, rank)),
            },
        );
        if let (Err(error), Some(rank)) = (&went, missing.get())
            && error.cause == Cause::TimedOut
        {
            // There may have been few turns.
            self.look_astray(scope, comm, rank)?;
        }
        went
    }

    #[cold]
    fn failed<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
        cause: Cause,
        rank: Option<u32>,
    ) -> Error {
        let error = self.error(comm, cause, rank);
        scope.raise(&error);
        error
    }

    /// Ends a call that waits if the rank that has been missing for long has sent a message of the
    /// next call by messages. Who makes this call at all writes its slot first: it waits as well,
    /// so it cannot be kept from that by another of its own.
    fn look_astray<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
        rank: u32,
    ) -> Result<(), Error> {
        if self.stage != SharedStage::Read {
            return Ok(());
        }
        let comm_plane = comm.collective();
        let Some(next) = scope.coming_number(&comm_plane) else { return Ok(()) };
        let is = |from: Rank, tag: Tag| from == Rank(rank) && tag::has_number(tag, next);
        let found = scope.newest_unexpected(&comm_plane, u64::MAX, is);
        let Some((theirs, root)) = found.and_then(|(_, tag)| tag::call(tag)) else { return Ok(()) };
        self.leave(scope, comm);
        Err(self.failed(scope, comm, self.task().unlike(theirs, root), Some(rank)))
    }
}
