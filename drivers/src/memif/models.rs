//! This module holds `unsafe` code: loom models of both rings, with twins that must fail. The
//! buffers are cells, whose accesses loom sees.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use loom::model::Builder;
use loom::thread;

use super::ring::{BufferPlace, DescriptorWords, Exact, MemifOrders, MemifRole, RingProgress, RingWords};
use crate::sync::{AtomicU16, Ordering, UnsafeCell};

struct PublishRelaxed;
impl MemifOrders for PublishRelaxed {
    const PUBLISH: Ordering = Ordering::Relaxed;
}

struct SeeRelaxed;
impl MemifOrders for SeeRelaxed {
    const SEE: Ordering = Ordering::Relaxed;
}

/// Slots, and frames that go through them: the first slot is used twice.
const SLOTS: usize = 2;
const FRAMES: u32 = 3;

/// A ring, and a buffer for each slot.
struct RingMemory {
    flags: AtomicU16,
    head: AtomicU16,
    tail: AtomicU16,
    descriptors: [DescriptorWords; SLOTS],
    buffers: [UnsafeCell<u32>; SLOTS],
}

// SAFETY: loom finds it out if a cell is used by two threads at a time.
unsafe impl Sync for RingMemory {}
// SAFETY: as above.
unsafe impl Send for RingMemory {}

impl RingMemory {
    fn new() -> Self {
        Self {
            flags: AtomicU16::new(0),
            head: AtomicU16::new(0),
            tail: AtomicU16::new(0),
            descriptors: core::array::from_fn(|_| DescriptorWords::new()),
            buffers: core::array::from_fn(|_| UnsafeCell::new(0)),
        }
    }

    fn words(&self) -> RingWords<'_> {
        let Self { flags, head, tail, descriptors, .. } = self;
        RingWords { flags, head, tail, descriptors }
    }

    /// Waits for a slot that this end may work on.
    fn next<O: MemifOrders>(&self, progress: &mut RingProgress) -> usize {
        while progress.usable::<O>(self.words()).unwrap() == 0 {
            thread::yield_now();
        }
        progress.slot(self.words(), 0)
    }

    /// Writes the frames, one to a slot.
    fn write<O: MemifOrders>(&self, mut progress: RingProgress) {
        for frame in 1..=FRAMES {
            let slot = self.next::<O>(&mut progress);
            // SAFETY: loom checks that nothing else accesses the cell meanwhile.
            self.buffers[slot].with_mut(|cell| unsafe { *cell = frame });
            self.descriptors[slot].write(BufferPlace {
                region: 0,
                offset: 0,
                length: frame,
                has_next: false,
            });
            progress.advance::<O>(self.words(), 1);
        }
    }

    /// Reads the frames: each is whole, and in order.
    fn read<O: MemifOrders>(&self, mut progress: RingProgress) {
        for frame in 1..=FRAMES {
            let slot = self.next::<O>(&mut progress);
            assert_eq!(self.descriptors[slot].read().length, frame);
            // SAFETY: loom checks that nothing writes the cell meanwhile.
            assert_eq!(self.buffers[slot].with(|cell| unsafe { *cell }), frame);
            progress.advance::<O>(self.words(), 1);
        }
    }
}

/// Explores a ring of each direction, either end of it on the spawned thread.
fn explore<O: MemifOrders>() {
    for (client_writes, spawns_writer) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let ring = Arc::new(RingMemory::new());
            let [mut client, server] = [MemifRole::Client, MemifRole::Server].map(RingProgress::new);
            // All buffers of a ring to the client are the server's at the beginning.
            client.begin::<Exact>(ring.words(), if client_writes { 0 } else { SLOTS as u16 });
            let (writer, reader) = if client_writes { (client, server) } else { (server, client) };
            let theirs = Arc::clone(&ring);
            let thread = thread::spawn(move || {
                if spawns_writer { theirs.write::<O>(writer) } else { theirs.read::<O>(reader) }
            });
            if spawns_writer {
                ring.read::<O>(reader)
            } else {
                ring.write::<O>(writer)
            }
            thread.join().unwrap();
        });
    }
}

#[test]
fn frames_go_through_slots_that_are_used_again() {
    explore::<Exact>();
}

#[test]
fn a_ring_needs_both_of_its_orders() {
    for explore in [explore::<PublishRelaxed> as fn(), explore::<SeeRelaxed>] {
        assert!(catch_unwind(AssertUnwindSafe(explore)).is_err());
    }
}
