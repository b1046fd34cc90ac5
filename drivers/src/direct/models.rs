//! This module holds `unsafe` code: loom models of a read that two sides share, over the table's code. Chunks are cells whose
//! accesses loom sees: two that write one at a time, or a reader that reads one too early, fail. Each model has a twin with a
//! step left out, which must fail.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::vec::Vec;

use loom::model::Builder;
use loom::thread;

use super::{Chunk, Entry, Offered};
use crate::sync::UnsafeCell;

const CHUNKS: u32 = 2;
const OFFERED: Offered = Offered { serial: 1, first: 0, len: 8, chunk_bytes: 4, chunks: CHUNKS };

/// An entry, and the reader's memory.
struct Shared {
    entry: Entry,
    cells: Vec<UnsafeCell<u32>>,
}

// SAFETY: loom finds it out if the cells are used by two threads at a time.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Self {
        Self { entry: Entry::new(), cells: (0..CHUNKS).map(|_| UnsafeCell::new(0)).collect() }
    }

    /// Copies a chunk.
    fn copy(&self, chunk: u32) {
        // SAFETY: whoever has taken the chunk is alone with it, or loom fails the model.
        self.cells[chunk as usize].with_mut(|cell| unsafe { *cell += chunk + 1 });
    }

    /// The owner polls twice: it helps if there is an offer and a chunk is left.
    fn own(&self) {
        for _ in 0..CHUNKS {
            let Some(offered) = self.entry.offered() else { continue };
            if let Chunk::Yours(chunk) = self.entry.take_back(offered.serial, offered.chunks, 7) {
                // An empty place is not written to.
                if self.entry.place(chunk).is_some_and(|place| place.load().1 > 0) {
                    self.copy(chunk);
                }
                self.entry.tell_helped(offered.serial, Some(offered.chunks - chunk));
            }
        }
    }

    fn await_owner(&self, taken: u32) {
        while self.entry.helped(OFFERED.serial) != Some(taken) {
            thread::yield_now();
        }
    }

    /// The reader takes what it can; when it has all, everything is there, once.
    fn read(&self, waits: bool) {
        self.entry.offer(&OFFERED, 0);
        let taken = loop {
            match self.entry.take_front(OFFERED.serial, CHUNKS) {
                Chunk::Yours(chunk) => self.copy(chunk),
                Chunk::Taken(taken) => break taken,
                Chunk::Gone => panic!("nobody else has the entry"),
            }
        };
        if waits {
            self.await_owner(taken);
        }
        // SAFETY: as in `copy`.
        let read = |cell: &UnsafeCell<u32>| cell.with(|cell| unsafe { *cell });
        assert_eq!(self.cells.iter().map(read).collect::<Vec<_>>(), [1, 2]);
    }

    /// The reader takes its memory back, and uses it for something else.
    fn take_back(&self, waits: bool) {
        self.entry.offer(&OFFERED, 0);
        let taken = self.entry.withdraw(OFFERED.serial, CHUNKS).unwrap();
        self.entry.empty_places();
        if waits {
            self.await_owner(taken);
        }
        // SAFETY: as in `copy`.
        self.cells.iter().for_each(|cell| cell.with_mut(|cell| unsafe { *cell = 9 }));
    }
}

/// Explores an owner and a reader, either of them on the spawned thread.
fn explore(reader: fn(&Shared, bool), waits: bool) {
    for spawns_owner in [true, false] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let shared = Arc::new(Shared::new());
            let other = Arc::clone(&shared);
            let thread =
                thread::spawn(move || if spawns_owner { other.own() } else { reader(&other, waits) });
            if spawns_owner {
                reader(&shared, waits)
            } else {
                shared.own()
            }
            thread.join().unwrap();
        });
    }
}

fn fails(reader: fn(&Shared, bool)) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(reader, false))).is_err()
}

#[test]
fn every_chunk_is_copied_once() {
    explore(Shared::read, true);
    assert!(fails(Shared::read), "nothing shows that the reader does not wait");
}

#[test]
fn memory_that_is_taken_back_is_left_alone() {
    explore(Shared::take_back, true);
    assert!(fails(Shared::take_back), "nothing shows that the reader does not wait");
}
