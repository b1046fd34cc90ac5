//! The fast path of a blocking collective whose bytes stand in a control slot: while nothing is
//! unusual about it there is neither a scope nor a clock, and no state but a few numbers. Whatever
//! else comes - no rank for long, another operation, another length, a rank that is gone - is for
//! the [`Meeting`] that goes on where this ends.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, ControlSlots, Endpoint, Error, Tuning};

use super::Portions;
use super::{HERE, Here, Meeting, Role, SharedStage, Task, drive};
use crate::caller::Caller;
use crate::rules::InForce;
use crate::schedule::Candidate;
use crate::select::{Call, CallSpec, Choice, Options, Shares, reduces};
use crate::shared;

/// Looks for what is missing, before the wait is one with a deadline: a cache line's journey and
/// its writer's work many times over.
const LOOKS: u32 = 64;

/// Looks between two polls of the endpoint.
const LOOKS_A_POLL: u32 = 16;

/// Polls that a look counts for where it is decided whether to offer the core: every rank is waited
/// for, and one that has no core of its own may need this one.
const POLLS_A_LOOK: u32 = 4;

/// Collectives of a communicator, after one of which the endpoint is polled though no rank was
/// waited for: messages of others go on.
const CALLS_A_POLL: u32 = 32;

/// Events that such a poll handles at most.
const BUDGET: u32 = 16;

impl Options {
    /// Carries a blocking call out at once; `None`, and nothing done, if it is not for this.
    #[inline(always)]
    pub(crate) fn try_fast_path<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        spec: &CallSpec,
        data: &mut [u8],
    ) -> Option<Result<(), Error>> {
        let &CallSpec { ref call, root, kernel, candidates } = spec;
        if matches!(call.operation, Operation::Scan | Operation::Exscan) {
            return if T::HAS_CONTROL_SLOTS {
                self.try_scan_fast_path(caller, comm, spec, data)
            } else {
                None
            };
        }
        let meets = T::HAS_CONTROL_SLOTS && self.decide(|| caller.endpoint().tuning(comm), call, candidates);
        let (Some(here), true) = (HERE, meets) else { return None };
        let &Call { operation, size, element_bytes, .. } = call;
        let rank = comm.rank().0;
        let task = Task { operation, rank, size, root, bytes: data.len(), element_bytes, kernel };
        meet(here, caller, comm, task, data)
    }

    /// Carries out a call in which this rank has such a role.
    #[inline(always)]
    pub(crate) fn try_fast_path_as<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        call: &Call,
        role: impl Role + Copy,
        data: &mut [u8],
    ) -> Option<Result<(), Error>> {
        let meets = T::HAS_CONTROL_SLOTS && self.decide(|| caller.endpoint().tuning(comm), call, &[]);
        let (Some(here), true) = (HERE, meets) else { return None };
        if role.passes_chunks() {
            let has_slots = caller.endpoint().control_slots(comm).is_ok();
            return has_slots.then(|| drive::run(caller, comm, role, data));
        }
        meet(here, caller, comm, role, data)
    }

    /// Carries out a scan, which has nothing but its data.
    #[inline(always)]
    fn try_scan_fast_path<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        spec: &CallSpec,
        data: &mut [u8],
    ) -> Option<Result<(), Error>> {
        let portions = Portions::of_scan(spec, comm.rank().0, data.len());
        self.try_fast_path_as(caller, comm, &spec.call, &portions, data)
    }

    /// Returns true if a call is to be carried out by control slots, by a rule or else by these
    /// options.
    #[inline(always)]
    pub(crate) fn decide(
        &self,
        tuning: impl FnOnce() -> [Option<Tuning>; 2],
        call: &Call,
        candidates: &[Candidate],
    ) -> bool {
        match self.ruled(tuning, call) {
            Some(shares) => shares != Shares::Never,
            None => self.meets(call, candidates),
        }
    }

    /// Returns the verdict of the rules on control slots for a call; `None` if no rule is for it.
    #[inline]
    fn ruled(&self, tuning: impl FnOnce() -> [Option<Tuning>; 2], call: &Call) -> Option<Shares> {
        let tuning = tuning();
        let open = self.open().filter(|_| tuning.iter().any(Option::is_some))?;
        InForce::of(tuning).ruling(call, &open).map(|(_, ruling)| ruling.shares)
    }

    /// Returns true if a call is for control slots, if they are there. No other algorithm has fewer
    /// rounds, nor fewer bytes on their way: so prices are asked only where a root reduces more
    /// than it would otherwise.
    #[inline(always)]
    pub(crate) fn meets(&self, call: &Call, candidates: &[Candidate]) -> bool {
        match self.choice {
            _ if self.fixes_bits(call) => false,
            Choice::Named(_) => false,
            // A mistake for which the call gets an error elsewhere.
            Choice::Auto if reduces(call.operation) && call.scratch == 0 => false,
            _ if shared::is_in_control_slots(call.operation) => !shared::is_too_long(call),
            Choice::Shared => true,
            Choice::Auto if call.size == 2 || call.operation != Operation::Reduce => true,
            Choice::Auto => self.shares(call, &call.select(candidates, self)) != Shares::Never,
        }
    }
}

/// Carries out a call whose slots say all; `None`, and nothing done, if it has none, or its bytes
/// do not stand in them.
#[cfg_attr(
    not(target_pointer_width = "64"),
    expect(unreachable_code, unused_variables, reason = "nothing meets where words have 32 bits")
)]
#[inline(always)]
fn meet<'s, R: Role + Copy, T: Transport, P: Platform>(
    here: Here,
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    role: R,
    data: &mut [u8],
) -> Option<Result<(), Error>> {
    let endpoint = caller.endpoint();
    let (mut slots, platform) = endpoint.control_slots_beside(comm).ok()?;
    let mut encounter = Encounter::begin(&mut slots, role, data)?;
    let mut settled = encounter.look(&mut slots, platform, data);
    while settled.is_none() && encounter.looks < LOOKS {
        endpoint.poll(BUDGET);
        settled = encounter.look_again(endpoint, comm, data);
    }
    if encounter.number.is_multiple_of(CALLS_A_POLL) {
        endpoint.poll(BUDGET);
    }
    match settled {
        Some(Ok(())) => Some(Ok(())),
        Some(Err((cause, rank))) => {
            let error = encounter.meeting(here).error(comm, cause, rank);
            endpoint.raise(&error);
            Some(Err(error))
        }
        None => Some(drive::go_on(caller, comm, encounter.meeting(here), encounter.looks, data)),
    }
}

/// A collective whose bytes stand in a slot, under way.
struct Encounter<R> {
    role: R,
    number: u32,
    stage: SharedStage,
    /// The first rank whose slot has not been read.
    next: u32,
    /// Looks that found nothing.
    looks: u32,
}

impl<R: Role + Copy> Encounter<R> {
    /// Starts the communicator's next collective by slots and writes this rank's slot; `None`, and
    /// nothing done, for what does not stand in slots.
    #[inline(always)]
    fn begin(slots: &mut ControlSlots<'_>, role: R, data: &[u8]) -> Option<Self> {
        let task = role.task();
        if task.is_idle() || task.root >= task.size || !role.fits(slots.shape().slot_bytes) {
            return None;
        }
        let mut this = Self { role, number: slots.begin(), stage: SharedStage::Enter, next: 0, looks: 0 };
        if slots.admits(this.number) {
            this.enter(slots, data);
        } else {
            // Not before another of this rank's own is over.
            this.looks = LOOKS;
        }
        Some(this)
    }

    /// Writes this rank's slot, if others read it and no rank reads it still for what stood there.
    #[inline(always)]
    fn enter(&mut self, slots: &mut ControlSlots<'_>, data: &[u8]) {
        if !self.role.task().gives() || self.role.give(slots, self.number, data).is_ok() {
            self.stage = SharedStage::Hear;
        }
    }

    /// Counts a look that found nothing; whether others are to have their turn.
    #[inline(always)]
    fn rests(&mut self, platform: &mut impl Platform) -> bool {
        self.looks += 1;
        platform.relax(self.looks * POLLS_A_LOOK);
        self.looks.is_multiple_of(LOOKS_A_POLL)
    }

    /// Looks for the others' slots, for a while: `None` if one is not there, or not as expected.
    #[inline(always)]
    fn look(
        &mut self,
        slots: &mut ControlSlots<'_>,
        platform: &mut impl Platform,
        data: &mut [u8],
    ) -> Option<Result<(), (Cause, Option<u32>)>> {
        while self.stage == SharedStage::Enter {
            if self.looks >= LOOKS || self.rests(platform) {
                return None;
            }
            self.enter(slots, data);
        }
        while self.next < self.role.task().size {
            if self.role.listens_to(self.next) && !self.hears(slots) {
                if self.rests(platform) {
                    return None;
                }
                continue;
            }
            self.next += 1;
        }
        let finishing = Finishing { slots, number: self.number };
        Some(self.role.settle(finishing.slots, self.number, data))
    }

    /// Looks again, after the endpoint was polled.
    #[cold]
    #[inline(never)]
    fn look_again<T: Transport, P: Platform>(
        &mut self,
        endpoint: &mut Endpoint<'_, T, P>,
        comm: &Comm,
        data: &mut [u8],
    ) -> Option<Result<(), (Cause, Option<u32>)>> {
        match endpoint.control_slots_beside(comm) {
            Ok((mut slots, platform)) => self.look(&mut slots, platform, data),
            Err(_) => {
                self.looks = LOOKS;
                None
            }
        }
    }

    #[inline(always)]
    fn hears(&self, slots: &ControlSlots<'_>) -> bool {
        match slots.look(self.number, self.next) {
            Ok(Some(said)) => self.role.hear(self.next, said.note).is_ok(),
            _ => false,
        }
    }

    /// Makes the meeting that goes on with it.
    #[cold]
    fn meeting(&self, here: Here) -> Meeting<R> {
        let &Self { role, number, stage, next, .. } = self;
        Meeting { role, number, stage, next, idle: 0, missing: None, said: false, run: None, _here: here }
    }
}

/// Finishes a collective when it drops, also when the reduction of a user's own panics.
struct Finishing<'l, 'a> {
    slots: &'l mut ControlSlots<'a>,
    number: u32,
}

impl Drop for Finishing<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.slots.finish(self.number);
    }
}
