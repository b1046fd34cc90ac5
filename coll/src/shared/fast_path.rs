//! The fast path of a blocking collective whose bytes stand in a control slot: while nothing is
//! unusual about it there is neither a scope nor a clock, and no state but a few numbers. Whatever
//! else comes - no rank for long, another operation, another length, a rank that is gone - is for
//! the [`FlatCollective`] that goes on where this ends.

use aldis_kernel::hal::shared_control::ControlSlotsShape;
use aldis_kernel::hal::{Cause, Instant, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, ControlSlots, Endpoint, Error};

use super::{CallOutcome, Contributions, FlatCollective, HERE, Here, NOBODY, Role, SharedStage, drive};
use crate::blocking_endpoint::BlockingEndpoint;

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

/// Carries a blocking call out in control slots, for which it is; `None`, and nothing done, if its
/// communicator has none, or its bytes do not stand in them, or are passed in chunks of slots of
/// this shape later than in a message.
#[cfg_attr(
    not(target_pointer_width = "64"),
    expect(unreachable_code, unused_variables, reason = "there are none where words have 32 bits")
)]
#[inline(always)]
pub(crate) fn try_run_unless<'s, R: Role + Copy, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    role: R,
    data: &mut [u8],
    prefers_message: impl FnOnce(&ControlSlotsShape) -> bool,
) -> Option<Result<(), Error>> {
    let (Some(here), role) = (HERE, role) else { return None };
    if role.is_passed() {
        let shape = ep.endpoint().control_slots(comm).ok()?.shape();
        if prefers_message(&shape) {
            return None;
        }
        if role.passes_chunks() {
            return drive::serves(&shape, &role).then(|| drive::run(ep, comm, role, data));
        }
    }
    let endpoint = ep.endpoint();
    let (mut slots, platform) = endpoint.control_slots_beside(comm).ok()?;
    let task = role.task();
    if task.is_idle() || task.root >= task.size || !role.fits(slots.shape().slot_bytes) {
        return None;
    }
    let (number, stage) = (slots.begin(), SharedStage::Enter);
    let mut attempt = FlatAttempt { role, number, stage, next: 0, looks: 0 };
    let mut settled = None;
    if slots.admits(number) {
        settled = attempt.look(&mut slots, platform, data);
    } else {
        // Not before another of this rank's own is over.
        attempt.looks = LOOKS;
    }
    while settled.is_none() && attempt.looks < LOOKS {
        endpoint.poll(BUDGET);
        settled = attempt.look_again(endpoint, comm, data);
    }
    if attempt.number.is_multiple_of(CALLS_A_POLL) {
        endpoint.poll(BUDGET);
    }
    match settled {
        Some(Ok(())) => Some(Ok(())),
        Some(Err((cause, rank))) => {
            let error = attempt.flat_collective(here).error(comm, cause, rank);
            endpoint.raise(&error);
            Some(Err(error))
        }
        None => Some(drive::go_on(ep, comm, attempt.flat_collective(here), attempt.looks, data)),
    }
}

/// Carries a blocking call out like [`try_run_unless`], whatever is known of messages.
#[inline(always)]
pub(crate) fn try_run<'s, R: Role + Copy, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    role: R,
    data: &mut [u8],
) -> Option<Result<(), Error>> {
    try_run_unless(ep, comm, role, data, |_| false)
}

/// Starts a collective whose bytes stand in a slot, and looks once whether all others have written
/// theirs: then it is over, and `None` is returned. Its data are of no request.
///
/// # Errors
/// Those of a blocking one.
#[cfg_attr(
    not(target_pointer_width = "64"),
    expect(
        unreachable_code,
        unused_mut,
        unused_variables,
        reason = "there are none where words have 32 bits"
    )
)]
#[inline]
pub(crate) fn try_start<R: Role>(
    slots: &mut ControlSlots<'_>,
    comm: &Comm,
    role: R,
    data: &mut [u8],
) -> Result<Option<FlatCollective<R>>, Error> {
    let Some(here) = HERE else { return Err(Error::new(role.task().operation, Cause::Unsupported)) };
    let mut flat = FlatCollective::entering(role, slots.begin(), here);
    match flat.look_once(slots, data) {
        Some(Ok(())) => Ok(None),
        Some(Err((cause, rank))) => Err(flat.error(comm, cause, rank)),
        None => Ok(Some(flat)),
    }
}

impl<R: Role> FlatCollective<R> {
    /// Begins it as the next collective of these slots, once it is over, and goes on until it must
    /// wait.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for an element that is larger than a chunk, and for too many chunks.
    pub(super) fn begin_again(
        &mut self,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<CallOutcome, Cause> {
        self.run = self.role.run(&slots.shape())?;
        (self.number, self.stage) = (slots.begin(), SharedStage::Enter);
        (self.next, self.idle, self.missing, self.has_published) = (0, 0, NOBODY, false);
        if self.run.is_some() {
            return Ok(self.advance(slots, data));
        }
        Ok(match self.look_once(slots, data) {
            Some(Ok(())) => CallOutcome::Over,
            Some(Err((cause, rank))) => CallOutcome::Failed(cause, rank),
            None => CallOutcome::Moved,
        })
    }

    /// Writes this rank's slot, and looks once whether all others have written theirs: then it is
    /// over, and its result is returned.
    #[inline(always)]
    fn look_once(
        &mut self,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Option<Result<(), (Cause, Option<u32>)>> {
        let (number, stage) = (self.number, self.stage);
        let mut attempt = FlatAttempt { role: &self.role, number, stage, next: 0, looks: LOOKS - 1 };
        let settled = if slots.admits(number) { attempt.look(slots, &mut NoRest, data) } else { None };
        let FlatAttempt { stage, next, .. } = attempt;
        (self.stage, self.next) = (if settled.is_some() { SharedStage::Over } else { stage }, next);
        settled
    }
}

/// The platform of a caller that looks once: it does not wait.
struct NoRest;

impl Platform for NoRest {
    fn now(&self) -> Instant {
        Instant::default()
    }

    fn relax(&mut self, _idle: u32) {}

    fn entropy(&mut self) -> u64 {
        0
    }
}

/// A collective whose bytes stand in a slot, under way.
struct FlatAttempt<R> {
    role: R,
    number: u32,
    stage: SharedStage,
    /// The first rank whose slot has not been read.
    next: u32,
    /// Looks that found nothing.
    looks: u32,
}

impl<R: Role + Copy> FlatAttempt<R> {
    /// Counts a look that found nothing; whether others are to have their turn.
    #[inline(always)]
    fn rests(&mut self, platform: &mut impl Platform) -> bool {
        self.looks += 1;
        platform.relax(self.looks * POLLS_A_LOOK);
        self.looks.is_multiple_of(LOOKS_A_POLL)
    }

    /// Writes this rank's slot, if others read it and that is still to be done, and looks for
    /// theirs, for a while: `None` if one is not there, or not as expected.
    #[inline(always)]
    fn look(
        &mut self,
        slots: &mut ControlSlots<'_>,
        platform: &mut impl Platform,
        data: &mut [u8],
    ) -> Option<Result<(), (Cause, Option<u32>)>> {
        while self.stage == SharedStage::Enter {
            // Another rank may still read what stood there.
            if !self.role.task().gives() || self.role.give(slots, self.number, data).is_ok() {
                self.stage = SharedStage::Read;
            } else if self.rests(platform) {
                return None;
            }
        }
        let mut finishing = Finishing { slots, number: self.number, is_read: false, is_ahead: false };
        let mut last = None;
        while self.next < self.role.task().size {
            if self.role.reads_slot_of(self.next) {
                match finishing.slots.look(self.number, self.next) {
                    Ok(Some(notice)) if self.role.check_note(self.next, notice.note).is_ok() => {
                        last = Some((self.next, notice.payload));
                    }
                    _ => {
                        if self.rests(platform) {
                            return None;
                        }
                        continue;
                    }
                }
            }
            self.next += 1;
        }
        (finishing.is_read, finishing.is_ahead) = (true, last.is_none());
        if !self.role.task().receives() {
            return Some(Ok(()));
        }
        let given = Contributions { slots: finishing.slots, number: self.number, last };
        match self.role.settle(&given, data) {
            Ok(()) => Some(Ok(())),
            Err((cause, rank)) => refused(cause, rank),
        }
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

    /// Makes the collective that goes on with it.
    #[cold]
    fn flat_collective(&self, here: Here) -> FlatCollective<R> {
        let &Self { role, number, stage, next, .. } = self;
        FlatCollective { stage, next, ..FlatCollective::entering(role, number, here) }
    }
}

/// Returns the error of a collective that is over. Out of the way, so that nothing is copied where
/// there is none: what is written and at once copied in larger pieces waits until every store
/// before has left the core.
#[cold]
#[inline(never)]
fn refused(cause: Cause, rank: Option<u32>) -> Option<Result<(), (Cause, Option<u32>)>> {
    Some(Err((cause, rank)))
}

/// Finishes a collective of which all is read when it drops, also when the reduction of a user's
/// own panics.
struct Finishing<'l, 'a> {
    slots: &'l mut ControlSlots<'a>,
    number: u32,
    is_read: bool,
    /// True if no slot was read in the last look.
    is_ahead: bool,
}

impl Drop for Finishing<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        match (self.is_read, self.is_ahead) {
            (false, _) => {}
            (true, false) => self.slots.finish(self.number),
            (true, true) => self.slots.finish_ahead(self.number),
        }
    }
}
