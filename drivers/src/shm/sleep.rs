//! Receivers that sleep, and how a rank that writes what they wait for knows that it has to wake
//! them.
//!
//! A rank that has waited for long says in the first line of its inbox that it is asleep, or about
//! to be, and a rank that has written anything others wait for looks there: at that of the
//! receiver, after a message or credit; after control slots, which many read, at the number of
//! sleepers of the node that wait for such, which is counted in the inbox of its rank 0, and at the
//! word of each rank only if there are any: it says whose slots its rank has found missing. All
//! these lines are read-mostly, so that a look costs a load that hits.
//!
//! A store and then a load of another word: without a barrier between them the writer may miss the
//! sleeper and the sleeper the message. The barrier is the sleeper's alone: when it has said that
//! it sleeps it has the system put one into every rank's stream of instructions (on Linux
//! `membarrier`), looks once more for all it waits for, and only then sleeps. The writer has its
//! compiler keep the order, which costs nothing.
//!
//! A writer takes the word back before it rings, so that of several one rings as a rule; a ring too
//! many is harmless. One that is killed between the two, or a peer that writes nonsense here,
//! leaves the sleeper asleep: it sleeps for a bounded time, whatever these words say.

use aldis_hal::PeerId;

use crate::sync::{AtomicU32, Ordering, Word, light_fence};

/// True if receivers can sleep at all. A 32-bit core has no system that could wake it, and does not
/// hold the code.
pub(super) const WAKES: bool = cfg!(target_pointer_width = "64");

/// The word of a rank that sleeps, or is about to; zero is that of one that is awake.
const ASLEEP: u32 = 1;

/// The bits above that: the rank whose control slots the sleeper waits for, as its number on the
/// node plus one; zero if it waits for none.
const MISSING_AT: u32 = 1;

/// The value of these bits if it waits for more than one.
const SEVERAL: u32 = u32::MAX >> MISSING_AT;

/// Returns true if this word's rank sleeps, or is about to.
pub(super) fn is_asleep(asleep: &Word) -> bool {
    asleep.load(Ordering::Relaxed) != 0
}

/// Returns what a rank waits for that has found both missing.
const fn both(one: u32, other: u32) -> u32 {
    if one == 0 || one == other {
        other
    } else if other == 0 {
        one
    } else {
        SEVERAL
    }
}

/// The way in which the system wakes a rank that sleeps on a word; none where no rank does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarm([Option<fn(&AtomicU32)>; WAKES as usize]);

impl Alarm {
    /// Wakes ranks by this function.
    pub(super) fn new(ring: fn(&AtomicU32)) -> Self {
        Self(core::array::from_fn(|_| Some(ring)))
    }

    /// Wakes the rank whose word this is, if it sleeps: after a message to it, or credit.
    pub(super) fn rouse(self, asleep: &Word) {
        if is_asleep(asleep) {
            self.ring(asleep);
        }
    }

    /// Wakes the rank whose word this is, if it waits in its sleep for control slots of `owner`.
    pub(super) fn rouse_reader(self, asleep: &Word, owner: PeerId) {
        let told = asleep.load(Ordering::Relaxed);
        let missing = told >> MISSING_AT;
        if told != 0 && (missing == SEVERAL || missing == owner.0.wrapping_add(1)) {
            self.ring(asleep);
        }
    }

    fn ring(self, asleep: &Word) {
        if let Some(Some(ring)) = self.0.first() {
            asleep.store(0, Ordering::Relaxed);
            ring(asleep.raw());
        }
    }
}

/// Returns true if a rank of the node sleeps, or is about to, that waits for control slots; after
/// the store it may wait for.
#[inline(always)]
pub(super) fn has_sleepers(sleepers: &Word, fenced: bool) -> bool {
    light_fence(fenced);
    sleepers.load(Ordering::Relaxed) != 0
}

/// The bit of a rank's own word by which it notes there what it finds missing: while it is about to
/// sleep.
const NOTED: u32 = 1 << 31;

/// Returns true if this rank is about to sleep, by its own word.
#[inline(always)]
pub(super) fn is_watched(noted: &AtomicU32) -> bool {
    noted.load(Ordering::Relaxed) != 0
}

/// Returns what it has found missing.
fn missing(noted: &AtomicU32) -> u32 {
    noted.load(Ordering::Relaxed) & !NOTED
}

/// Notes in a rank's own word that it has found control slots of `owner` missing.
#[cold]
#[inline(never)]
pub(super) fn note_missing(noted: &AtomicU32, owner: PeerId) {
    let missing = both(missing(noted), owner.0.wrapping_add(1));
    noted.store(missing | NOTED, Ordering::Relaxed);
}

/// The words by which a rank says that it sleeps. One thread uses them at a time, whoever has a
/// copy of this.
#[derive(Clone, Copy, Debug)]
pub struct SleepWords<'m> {
    pub(super) asleep: &'m Word,
    pub(super) sleepers: &'m Word,
    /// The ranks whose control slots this one has found missing since it has last been forgotten:
    /// a word of its own memory.
    pub(super) noted: &'m AtomicU32,
}

/// The note to the others of a rank that sleeps, or is about to.
#[derive(Debug)]
pub struct ToldSleep {
    missing: u32,
}

#[cfg(target_has_atomic = "32")]
impl ToldSleep {
    /// The word of a rank that has told so.
    const fn value(&self) -> u32 {
        ASLEEP | self.missing << MISSING_AT
    }
}

#[cfg(target_has_atomic = "32")]
impl<'m> SleepWords<'m> {
    /// Forgets what this rank has found missing so far. A caller that then looks for all that it
    /// waits for, before [`lie_down`](Self::lie_down), is woken for nothing else as a rule.
    pub fn forget(&self) {
        self.noted.store(NOTED, Ordering::Relaxed);
    }

    /// Says that this rank is about to sleep. Before it does, a barrier must be in the stream of
    /// instructions of every other rank, and after that it must have looked for everything that it
    /// waits for, and have it [confirmed](Self::confirm).
    pub fn lie_down(&self) -> ToldSleep {
        let told = ToldSleep { missing: missing(self.noted) };
        self.tell(&told);
        told
    }

    /// Returns true if what this rank has found missing since it told the others is what it told.
    /// Else it has told them anew: there must be another barrier, and another look.
    pub fn confirm(&self, told: &mut ToldSleep) -> bool {
        let missing = both(told.missing, missing(self.noted));
        let is_told = missing == told.missing;
        if !is_told {
            self.count_out(told);
            told.missing = missing;
            self.tell(told);
        }
        is_told
    }

    /// Says that this rank is awake. Returns true if another rank has woken it.
    #[expect(clippy::needless_pass_by_value, reason = "it is told no more")]
    pub fn get_up(&self, told: ToldSleep) -> bool {
        let is_rung = !is_asleep(self.asleep);
        self.noted.store(0, Ordering::Relaxed);
        self.asleep.store(0, Ordering::Relaxed);
        self.count_out(&told);
        is_rung
    }

    /// Returns the word to sleep on, and its value as it is in memory as long as no rank rings.
    pub fn word(&self, told: &ToldSleep) -> (&'m AtomicU32, u32) {
        (self.asleep.raw(), told.value().to_le())
    }

    fn tell(&self, told: &ToldSleep) {
        self.asleep.store(told.value(), Ordering::Relaxed);
        if told.missing != 0 {
            self.sleepers.add(1);
        }
    }

    fn count_out(&self, told: &ToldSleep) {
        if told.missing != 0 {
            self.sleepers.add(u32::MAX);
        }
    }
}
