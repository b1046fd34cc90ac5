//! Loom models of a rank that sleeps and of one that writes what it waits for: a message, or
//! control slots beside the number of sleepers. The sleeper's barrier is one on both sides here, as
//! in [`sleep`](super::sleep). The twins without one of the steps, or with two of them exchanged,
//! must fail: their sleeper sleeps for ever.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use aldis_hal::PeerId;
use loom::model::Builder;
use loom::thread;

use super::memory::Short;
use super::models::ModelLane;
use super::ring::{Exact, NextMessage, Orders};
use super::sleep::{Alarm, SleepWords, has_sleepers, note_missing};
use crate::sync::{AtomicU32, Ordering, Word, fence};

/// The orders that ship, with the sender's part of the barrier.
struct Fenced;
impl Orders for Fenced {
    const FENCED: bool = true;
}

/// The steps of a sleeper that can be left out.
#[derive(Clone, Copy)]
struct SleepSteps {
    has_barrier: bool,
    looks_again: bool,
    /// True if it looks for the last time before it says that it sleeps.
    says_late: bool,
    /// True if it says anew that it sleeps when it has found something else missing.
    says_anew: bool,
}

const ALL: SleepSteps =
    SleepSteps { has_barrier: true, looks_again: true, says_late: false, says_anew: true };

const TWINS: [SleepSteps; 3] = [
    SleepSteps { has_barrier: false, ..ALL },
    SleepSteps { looks_again: false, ..ALL },
    SleepSteps { says_late: true, ..ALL },
];

/// Nothing but the word wakes a sleeper of a model.
fn ring(_: &AtomicU32) {}

/// Waits for what `is_there` looks for, asleep if it is not there at once.
fn sleep_until(words: &SleepWords<'_>, steps: SleepSteps, mut is_there: impl FnMut() -> bool) {
    loop {
        words.forget();
        if is_there() || steps.says_late && is_there() {
            return;
        }
        let mut told = words.lie_down();
        let is_over = loop {
            if steps.has_barrier {
                fence(Ordering::SeqCst);
            }
            let is_over = steps.looks_again && !steps.says_late && is_there();
            if is_over || !steps.says_anew || words.confirm(&mut told) {
                break is_over;
            }
        };
        let (word, asleep) = words.word(&told);
        // As a futex: it sleeps while the word is what it was.
        while !is_over && word.load(Ordering::Relaxed) == asleep {
            thread::yield_now();
        }
        words.get_up(told);
        if is_over {
            return;
        }
    }
}

/// Explores a sleeper and a writer, either of them on the spawned thread.
fn explore<S: Send + Sync + 'static>(make: fn() -> S, roles: [fn(&S, SleepSteps); 2], steps: SleepSteps) {
    for first in [0, 1] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new(make());
            let theirs = Arc::clone(&shared);
            let thread = thread::spawn(move || roles[first](&theirs, steps));
            roles[1 - first](&shared, steps);
            thread.join().unwrap();
        });
    }
}

fn fails<S: Send + Sync + 'static>(
    make: fn() -> S,
    roles: [fn(&S, SleepSteps); 2],
    steps: SleepSteps,
) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(make, roles, steps))).is_err()
}

mod messages {
    use super::*;

    const MESSAGES: u32 = 2;

    /// A lane, whose word of sleep stands beside it, and the number of sleepers.
    struct SleptLane {
        lane: ModelLane,
        sleepers: Word,
        noted: AtomicU32,
    }

    fn shared() -> SleptLane {
        let lane = ModelLane::with_blocks(1, 4, 0);
        SleptLane { lane, sleepers: Word::new(0), noted: AtomicU32::new(0) }
    }

    fn send<O: Orders>(shared: &SleptLane, _: SleepSteps) {
        let mut end = shared.lane.outgoing::<O>();
        for number in 0..MESSAGES {
            let claim = end.claim().expect("there are more slots than messages");
            claim.send(Short::new(&number.to_le_bytes(), &[]).unwrap(), 0, &Alarm::new(ring));
        }
    }

    fn receive(shared: &SleptLane, steps: SleepSteps) {
        let SleptLane { lane, sleepers, noted } = shared;
        let mut end = lane.incoming::<Exact>();
        let words = SleepWords { asleep: lane.asleep(), sleepers, noted };
        for _ in 0..MESSAGES {
            sleep_until(&words, steps, || end.is_there());
            let NextMessage::Short(_, head) = end.next(64) else { panic!("not what was sent") };
            end.advance(head, None);
        }
    }

    #[test]
    fn wake_their_receiver() {
        explore(shared, [send::<Fenced>, receive], ALL);
    }

    #[test]
    fn need_every_step() {
        assert!(fails(shared, [send::<Exact>, receive], ALL));
        for steps in TWINS {
            assert!(fails(shared, [send::<Fenced>, receive], steps));
        }
    }
}

mod control_slots {
    use super::*;

    const OWNERS: [PeerId; 2] = [PeerId(0), PeerId(1)];

    /// The sequences of two ranks' slots, the reader's word of sleep and its own note, and the
    /// number of sleepers.
    struct SleptSlots {
        slots: [Word; 2],
        asleep: Word,
        noted: AtomicU32,
        sleepers: Word,
    }

    fn shared() -> SleptSlots {
        let word = || Word::new(0);
        SleptSlots { slots: [word(), word()], asleep: word(), noted: AtomicU32::new(0), sleepers: word() }
    }

    /// Publishes both slots, each as its owner does.
    fn publish<const FENCED: bool>(shared: &SleptSlots, _: SleepSteps) {
        let alarm = Alarm::new(ring);
        for (slot, owner) in shared.slots.iter().zip(OWNERS) {
            slot.store(1, Ordering::Release);
            if has_sleepers(&shared.sleepers, FENCED) {
                alarm.rouse_reader(&shared.asleep, owner);
            }
        }
    }

    /// Waits for both slots: it looks for the second when the first is there.
    fn look(shared: &SleptSlots, steps: SleepSteps) {
        let SleptSlots { slots, asleep, noted, sleepers } = shared;
        let words = SleepWords { asleep, sleepers, noted };
        sleep_until(&words, steps, || {
            let mut pairs = slots.iter().zip(OWNERS);
            let missing = pairs.find(|(slot, _)| slot.load(Ordering::Acquire) == 0);
            missing.inspect(|(_, owner)| note_missing(noted, *owner)).is_none()
        });
        assert_eq!(sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn wake_their_readers() {
        explore(shared, [publish::<true>, look], ALL);
    }

    #[test]
    fn need_every_step() {
        assert!(fails(shared, [publish::<false>, look], ALL));
        for steps in TWINS.into_iter().chain([SleepSteps { says_anew: false, ..ALL }]) {
            assert!(fails(shared, [publish::<true>, look], steps));
        }
    }
}
