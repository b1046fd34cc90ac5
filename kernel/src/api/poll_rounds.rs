//! Waiting: turns of poll and rest, the clock now and then, and the note to the platform of a wait
//! that is long.

use core::mem;

use aldis_hal::{Activity, Instant, Platform, Transport};

use crate::api::endpoint::{BUDGET, Endpoint, POLLS_PER_TICK};
use crate::engine::state::Engine;

/// Idle polls after which the platform gets a note of what this rank waits for: long enough to stay
/// off the fast path.
pub(crate) const NOTE_AFTER: u32 = 128;

/// Looks for a poll of the endpoint, in a wait for what one rank sends or what several write into
/// memory: messages of others wait for less than a microsecond, and a look costs next to nothing.
pub(crate) const LOOKS_A_POLL: u32 = 16;

/// An endpoint's blocking calls under a deadline. Made by [`Endpoint::within`].
pub struct Within<'e, 's, T, P> {
    pub(crate) endpoint: &'e mut Endpoint<'s, T, P>,
    pub(crate) start: Option<Instant>,
    pub(crate) deadline: Instant,
}

/// The polls of a blocking call so far, and the peer that the platform has a note of.
#[derive(Default)]
pub(crate) struct PollRounds {
    polls: u32,
    /// Polls in a row that found nothing.
    idle: u32,
    noted: Noted,
}

/// The peer that this rank waits for by the platform's last note: noted anew when that changes, and
/// taken back when the wait is over. 0 before a note, 1 for any peer, two more than the peer, and
/// all bits set once that may have changed.
#[derive(Default)]
pub(crate) struct Noted(u32);

impl Noted {
    /// Tells the platform what is waited for, unless it knows.
    pub(crate) fn note<T: Transport, P: Platform>(
        &mut self,
        endpoint: &mut Endpoint<'_, T, P>,
        activity: Activity,
    ) {
        let peer = activity.peer.map_or(1, |peer| peer.0.saturating_add(2));
        if mem::replace(&mut self.0, peer) != peer {
            endpoint.note(activity);
        }
    }

    /// Marks the note as old: something else may be waited for, also of the same peer.
    pub(crate) const fn expire(&mut self) {
        if self.0 != 0 {
            self.0 = u32::MAX;
        }
    }

    /// Takes back the platform's note.
    #[inline]
    pub(crate) fn end(&mut self, platform: &mut impl Platform) {
        if mem::take(&mut self.0) != 0 {
            platform.note(Activity::NONE);
        }
    }
}

impl PollRounds {
    /// So many polls have found nothing.
    pub(crate) const fn after(idle: u32) -> Self {
        Self { polls: idle, idle, noted: Noted(0) }
    }
}

impl<'s, T: Transport, P: Platform> Within<'_, 's, T, P> {
    /// Polls until `check` finds something. After the deadline: the nanoseconds since the call
    /// began.
    #[inline]
    pub(crate) fn wait<R>(
        &mut self,
        activity: impl Fn(&mut Engine<'s>) -> Activity,
        check: impl FnMut(&mut Engine<'s>) -> Option<R>,
    ) -> Result<R, u64> {
        self.wait_on(PollRounds::default(), activity, check)
    }

    /// Waits like [`wait`](Self::wait), but after some turns.
    #[inline]
    pub(crate) fn wait_on<R>(
        &mut self,
        mut turns: PollRounds,
        activity: impl Fn(&mut Engine<'s>) -> Activity,
        mut check: impl FnMut(&mut Engine<'s>) -> Option<R>,
    ) -> Result<R, u64> {
        loop {
            if let Some(found) = check(&mut self.endpoint.engine) {
                self.end(&mut turns);
                return Ok(found);
            }
            self.turn(&mut turns, &activity)?;
        }
    }

    /// Takes one turn of a blocking call: a poll, rest if it found nothing, now and then a look at
    /// the clock, and always once it has found nothing for so long that it may rest for long. After
    /// the deadline the wait is over.
    pub(crate) fn turn(
        &mut self,
        turns: &mut PollRounds,
        activity: &dyn Fn(&mut Engine<'s>) -> Activity,
    ) -> Result<(), u64> {
        // Before the poll: what that completes is seen before the deadline.
        let tick = turns.idle >= POLLS_PER_TICK || turns.polls.is_multiple_of(POLLS_PER_TICK);
        if turns.polls != 0 && tick {
            if turns.polls >= NOTE_AFTER {
                let activity = activity(&mut self.endpoint.engine);
                turns.noted.note(self.endpoint, activity);
            }
            self.tick().inspect_err(|_| self.endpoint.platform.note(Activity::NONE))?;
        }
        turns.polls = turns.polls.wrapping_add(1);
        if self.endpoint.poll(BUDGET) > 0 {
            turns.idle = 0;
        } else {
            turns.idle = turns.idle.saturating_add(1);
            self.endpoint.platform.relax(turns.idle);
        }
        Ok(())
    }

    /// A turn of a wait for what is written in memory: a look there is cheap and a poll is not, so
    /// only one in [`LOOKS_A_POLL`] polls, until it has waited for so long that it may rest.
    #[inline]
    pub(crate) fn turn_beside(
        &mut self,
        turns: &mut PollRounds,
        activity: &dyn Fn(&mut Engine<'s>) -> Activity,
    ) -> Result<(), u64> {
        if turns.idle >= POLLS_PER_TICK || turns.idle % LOOKS_A_POLL == LOOKS_A_POLL - 1 {
            return self.turn(turns, activity);
        }
        turns.idle += 1;
        self.endpoint.platform.relax(turns.idle);
        Ok(())
    }

    /// Takes back the platform's note, when the wait is over.
    #[inline]
    pub(crate) fn end(&mut self, turns: &mut PollRounds) {
        turns.noted.end(&mut self.endpoint.platform);
    }

    /// Reads the clock; after the deadline, gives the nanoseconds since the start as the error.
    #[cold]
    fn tick(&mut self) -> Result<(), u64> {
        let now = self.endpoint.platform.now();
        self.endpoint.engine.now = now;
        let start = *self.start.get_or_insert(now);
        if now >= self.deadline { Err(now.since(start).max(1)) } else { Ok(()) }
    }
}
