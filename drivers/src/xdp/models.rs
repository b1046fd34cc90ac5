//! This module holds `unsafe` code: loom models of a ring, with twins that must fail. The frames
//! are cells, whose accesses loom sees.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use loom::model::Builder;
use loom::thread;

use super::error::XdpRing;
use super::ring::{Exact, RingEnd, RingProgress, RingWords, XdpOrders, read_address, write_address};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};

struct PublishRelaxed;
impl XdpOrders for PublishRelaxed {
    const PUBLISH: Ordering = Ordering::Relaxed;
}

struct SeeRelaxed;
impl XdpOrders for SeeRelaxed {
    const SEE: Ordering = Ordering::Relaxed;
}

/// Entries, and frames that go through them: the first entry is used twice.
const ENTRIES: usize = 2;
const FRAMES: u64 = 3;

/// A ring, and a frame for each entry.
struct RingMemory {
    producer: AtomicU32,
    consumer: AtomicU32,
    flags: AtomicU32,
    entries: [AtomicU32; 2 * ENTRIES],
    frames: [UnsafeCell<u64>; ENTRIES],
}

// SAFETY: loom finds it out if a cell is used by two threads at a time.
unsafe impl Sync for RingMemory {}
// SAFETY: as above.
unsafe impl Send for RingMemory {}

impl RingMemory {
    fn new() -> Self {
        let zero = || AtomicU32::new(0);
        Self {
            producer: zero(),
            consumer: zero(),
            flags: zero(),
            entries: core::array::from_fn(|_| zero()),
            frames: core::array::from_fn(|_| UnsafeCell::new(0)),
        }
    }

    fn words(&self) -> RingWords<'_> {
        let Self { producer, consumer, flags, entries, .. } = self;
        RingWords { producer, consumer, flags, entries }
    }

    /// Waits for an entry that this end may work on.
    fn next<O: XdpOrders>(&self, progress: &mut RingProgress) -> [&AtomicU32; 2] {
        while progress.seen() == 0 && progress.look::<O>(self.words()).unwrap() == 0 {
            progress.publish::<O>(self.words());
            thread::yield_now();
        }
        progress.entry::<2>(self.words()).unwrap().each_ref()
    }

    /// Produces the frames, one an entry, each published at once.
    fn produce<O: XdpOrders>(&self) {
        let mut progress = RingProgress::new(XdpRing::Transmit, RingEnd::Producer, ENTRIES as u32);
        for frame in 1..=FRAMES {
            let entry = self.next::<O>(&mut progress);
            // SAFETY: loom checks that nothing else accesses the cell meanwhile.
            self.frames[(frame as usize - 1) % ENTRIES].with_mut(|cell| unsafe { *cell = frame });
            write_address(entry, frame);
            progress.advance();
            progress.publish::<O>(self.words());
        }
    }

    /// Consumes the frames: each is whole, and in order. Entries are given back in batches.
    fn consume<O: XdpOrders>(&self) {
        let mut progress = RingProgress::new(XdpRing::Receive, RingEnd::Consumer, ENTRIES as u32);
        for frame in 1..=FRAMES {
            let entry = self.next::<O>(&mut progress);
            assert_eq!(read_address(entry), frame);
            // SAFETY: loom checks that nothing writes the cell meanwhile.
            assert_eq!(self.frames[(frame as usize - 1) % ENTRIES].with(|cell| unsafe { *cell }), frame);
            progress.advance();
            if progress.unpublished() == ENTRIES as u32 {
                progress.publish::<O>(self.words());
            }
        }
    }
}

/// Explores a ring, either end of it on the spawned thread.
fn explore<O: XdpOrders>() {
    for spawns_producer in [true, false] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let ring = Arc::new(RingMemory::new());
            let theirs = Arc::clone(&ring);
            let thread =
                thread::spawn(
                    move || {
                        if spawns_producer { theirs.produce::<O>() } else { theirs.consume::<O>() }
                    },
                );
            if spawns_producer {
                ring.consume::<O>()
            } else {
                ring.produce::<O>()
            }
            thread.join().unwrap();
        });
    }
}

#[test]
fn addresses_go_through_entries_that_are_used_again() {
    explore::<Exact>();
}

#[test]
fn an_index_needs_both_of_its_orders() {
    for explore in [explore::<PublishRelaxed> as fn(), explore::<SeeRelaxed>] {
        assert!(catch_unwind(AssertUnwindSafe(explore)).is_err());
    }
}
