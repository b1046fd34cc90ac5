//! A note on the status board: several words that one process writes and others read. A sequence
//! number is odd while they are written (a seqlock: Boehm, "Can seqlocks get along with programming
//! language memory models?", MSPC 2012); a reader that meets a writer which died in the middle says
//! so instead of waiting.

use aldis_hal::{Activity, Operation, PeerId};

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Attempts of a reader to see a note that is not being rewritten.
const READ_ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 64 };

/// The orders of a note's accesses; the models relax or leave out one by one.
pub trait NoteOrders {
    /// A fence stands between the odd sequence number and the words.
    const OPENS_FIRST: bool = true;
    /// The store of the even sequence number, after the words.
    const CLOSE: Ordering = Ordering::Release;
    /// The first load of the sequence number.
    const LOOK: Ordering = Ordering::Acquire;
    /// A fence stands between the words and the second load of the sequence number.
    const LOOKS_LAST: bool = true;
}

/// The orders that ship.
pub struct Exact;
impl NoteOrders for Exact {}

/// An activity and when it began, as words that can be stored one by one.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ActivityNote {
    /// Odd while the note is being written.
    pub sequence: AtomicU32,
    operation: AtomicU32,
    context: AtomicU32,
    reserved: AtomicU32,
    /// The peer plus one; zero for none.
    peer: AtomicU64,
    /// The tag plus one; zero for none.
    tag: AtomicU64,
    bytes: AtomicU64,
    since_ns: AtomicU64,
    /// Zero while it lasts.
    until_ns: AtomicU64,
}

impl ActivityNote {
    /// Replaces the note. By the board's one writer.
    pub fn write<O: NoteOrders>(&self, noted: Noted) {
        let Noted { activity, since_ns, until_ns } = noted;
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        if O::OPENS_FIRST {
            fence(Ordering::Release);
        }
        self.operation.store(activity.operation as u32, Ordering::Relaxed);
        self.context.store(activity.context, Ordering::Relaxed);
        self.peer.store(activity.peer.map_or(0, |peer| u64::from(peer.0) + 1), Ordering::Relaxed);
        self.tag.store(activity.tag.map_or(0, |tag| u64::from(tag) + 1), Ordering::Relaxed);
        self.bytes.store(activity.bytes, Ordering::Relaxed);
        self.since_ns.store(since_ns, Ordering::Relaxed);
        self.until_ns.store(until_ns, Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(2), O::CLOSE);
    }

    /// The words as they stand, and whether they belong together.
    pub fn read<O: NoteOrders>(&self) -> (Noted, bool) {
        let mut noted = Noted::default();
        for _ in 0..READ_ATTEMPTS {
            let before = self.sequence.load(O::LOOK);
            noted = self.words();
            if O::LOOKS_LAST {
                fence(Ordering::Acquire);
            }
            if before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before {
                return (noted, true);
            }
            core::hint::spin_loop();
        }
        (noted, false)
    }

    fn words(&self) -> Noted {
        let narrow = |word: u64| word.checked_sub(1).and_then(|value| u32::try_from(value).ok());
        let operation = u8::try_from(self.operation.load(Ordering::Relaxed)).ok();
        Noted {
            activity: Activity {
                operation: operation.and_then(Operation::from_number).unwrap_or_default(),
                peer: narrow(self.peer.load(Ordering::Relaxed)).map(PeerId),
                tag: narrow(self.tag.load(Ordering::Relaxed)),
                context: self.context.load(Ordering::Relaxed),
                bytes: self.bytes.load(Ordering::Relaxed),
            },
            since_ns: self.since_ns.load(Ordering::Relaxed),
            until_ns: self.until_ns.load(Ordering::Relaxed),
        }
    }
}

/// A noted wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Noted {
    /// The operation that was waited for, with its details.
    pub activity: Activity,
    /// The time at which the wait was noted, ns of the machine's monotonic clock.
    pub since_ns: u64,
    /// The time at which it ended; zero while it lasts.
    pub until_ns: u64,
}

#[cfg(test)]
#[cfg(loom)]
mod models {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::sync::Arc;

    use loom::model::Builder;
    use loom::thread;

    use super::*;

    /// Declares twins of [`Exact`] in which one order is another.
    macro_rules! mutant {
        ($($name:ident { $differs:item })*) => {$(
            struct $name;
            impl NoteOrders for $name { $differs }
        )*};
    }

    mutant! {
        WritesFirst { const OPENS_FIRST: bool = false; }
        CloseRelaxed { const CLOSE: Ordering = Ordering::Relaxed; }
        LookRelaxed { const LOOK: Ordering = Ordering::Relaxed; }
        LooksOnce { const LOOKS_LAST: bool = false; }
    }

    /// A note all of whose words are of this number; every other one is the same in all, for fewer
    /// words to explore.
    fn noted(number: u32) -> Noted {
        let activity = Activity { peer: Some(PeerId(number)), bytes: number.into(), ..Activity::default() };
        Noted { activity, since_ns: 0, until_ns: number.into() }
    }

    /// Reads, and reads again: what is settled is one note, and no earlier one than before.
    fn look<O: NoteOrders>(note: &ActivityNote) {
        let mut last = 1;
        for _ in 0..2 {
            let (found, settled) = note.read::<O>();
            if settled {
                assert_eq!(found, noted(found.until_ns as u32));
                assert!((last..=2).contains(&found.until_ns));
                last = found.until_ns;
            }
        }
    }

    /// Explores a rank that replaces its note and one that reads it, either of them on the spawned
    /// thread.
    fn explore<O: NoteOrders>() {
        for spawns_writer in [true, false] {
            let mut builder = Builder::new();
            builder.preemption_bound = Some(2);
            builder.check(move || {
                let note = Arc::new(ActivityNote::default());
                note.write::<Exact>(noted(1));
                let theirs = Arc::clone(&note);
                let thread = thread::spawn(move || {
                    if spawns_writer { theirs.write::<O>(noted(2)) } else { look::<O>(&theirs) }
                });
                if spawns_writer {
                    look::<O>(&note)
                } else {
                    note.write::<O>(noted(2))
                }
                thread.join().unwrap();
                assert_eq!(note.read::<Exact>(), (noted(2), true));
            });
        }
    }

    #[test]
    fn a_settled_note_is_one_note() {
        explore::<Exact>();
    }

    #[test]
    fn a_note_needs_each_of_its_orders() {
        let mutants: [(fn(), &str); 4] = [
            (explore::<WritesFirst>, "open first"),
            (explore::<CloseRelaxed>, "close"),
            (explore::<LookRelaxed>, "look"),
            (explore::<LooksOnce>, "look last"),
        ];
        for (explore, what) in mutants {
            assert!(catch_unwind(AssertUnwindSafe(explore)).is_err(), "nothing shows `{what}`");
        }
    }
}
