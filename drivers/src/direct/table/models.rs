//! This module holds `unsafe` code: loom models of reads that two sides share, over the table's
//! code. Chunks are cells whose accesses loom sees: two that write one at a time, or a reader that
//! reads one too early, fail. Each model has twins with a step left out, which must fail.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::vec::Vec;

use loom::model::Builder;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::{Chunk, Offered, ShownRegion, fence};
use crate::sync::{Ordering, UnsafeCell};

const CHUNKS: u32 = 2;
const GENERATION: u32 = 1;

const fn offered(serial: u16) -> Offered {
    Offered { serial, first: 0, len: 8, chunk_bytes: 4, chunks: CHUNKS, generation: GENERATION }
}

/// A step that a twin of a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The reader takes what the owner has taken as written.
    Wait,
    /// The owner tells a chunk as written that it could not write.
    Failure,
    /// The owner takes chunks without being engaged.
    Engagement,
    /// The reader offers again while the owner is engaged.
    Quarantine,
    /// The reader lets places stand when it lets go of its memory.
    Emptying,
    /// The owner takes chunks of offers that read another region.
    Generation,
}

/// An entry, and the reader's memory: the cells of a first read, and those of a second one.
struct SharedModel {
    entry: ShownRegion,
    cells: Vec<UnsafeCell<u32>>,
    /// Set while the owner is in its call of the system, between having looked at a place and
    /// having written there.
    within: AtomicU32,
    without: Without,
}

// SAFETY: loom finds it out if the cells are used by two threads at a time.
unsafe impl Sync for SharedModel {}
// SAFETY: as above.
unsafe impl Send for SharedModel {}

impl SharedModel {
    fn new(without: Without) -> Self {
        let cells = (0..2 * CHUNKS).map(|_| UnsafeCell::new(0)).collect();
        Self { entry: ShownRegion::new(), cells, within: AtomicU32::new(0), without }
    }

    /// Copies chunk `cell % CHUNKS`, of which the read's number is a part of what is copied.
    fn copy(&self, cell: u32, read: u32) {
        let Some(chunk) = self.cells.get(cell as usize) else { return };
        // SAFETY: the thread that has taken the chunk is alone with it, or loom fails the model.
        chunk.with_mut(|cell_at| unsafe { *cell_at += 10 * read + cell % CHUNKS + 1 });
    }

    /// The call of the system: looks at the place and writes there, to nowhere if it is empty. True
    /// if all was written.
    fn write(&self, index: u32, read: u32) -> bool {
        self.within.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let (cell, len) = self.entry.place(index).map(super::ChunkPlace::load).unwrap_or_default();
        if len > 0 {
            self.copy(cell as u32 / 4, read);
        }
        self.within.store(0, Ordering::SeqCst);
        len > 0
    }

    /// The owner polls `times` times: it helps if there is an offer and a chunk is left. Writes of
    /// the chunk `fails` fail.
    fn own(&self, times: u32, fails: Option<u32>) {
        for _ in 0..times {
            let Some(offered) = self.engage() else { continue };
            if let Chunk::Yours(chunk) = self.entry.take_back(offered.serial, offered.chunks) {
                self.help(&offered, chunk, fails);
            }
            self.entry.disengage();
        }
    }

    fn engage(&self) -> Option<Offered> {
        match self.without {
            Without::Engagement => self.entry.offered(),
            Without::Generation => self.entry.engage(self.entry.offer.generation.load(Ordering::Relaxed), 7),
            _ => self.entry.engage(GENERATION, 7),
        }
    }

    /// The owner writes a chunk that it has taken.
    fn help(&self, offered: &Offered, chunk: u32, fails: Option<u32>) {
        let written = fails != Some(chunk) && self.write(chunk, offered.serial.into());
        if written || self.without == Without::Failure {
            self.entry.tell_written(chunk);
        }
    }

    /// The reader takes what is left of its offer, waits for the owner, and reads the chunks that
    /// the owner has not recorded.
    fn read_all(&self, offered: &Offered, first: u32) {
        let taken = loop {
            match self.entry.take_front(offered.serial, CHUNKS) {
                Chunk::Yours(chunk) => self.copy(first + chunk, offered.serial.into()),
                Chunk::Taken(taken) => break taken,
                Chunk::Gone => panic!("no other owner has the entry"),
            }
        };
        if self.without == Without::Wait {
            return;
        }
        while self.entry.is_engaged() {
            thread::yield_now();
        }
        let missing = offered.taken_from_back(taken) & !self.entry.written();
        for chunk in (0..CHUNKS).filter(|chunk| missing & super::bit(*chunk) != 0) {
            self.copy(first + chunk, offered.serial.into());
        }
    }

    /// The reader lets go of the memory of its offer: afterwards no owner writes there.
    fn let_go(&self, offered: &Offered) {
        let _ = self.entry.withdraw(offered.serial, CHUNKS);
        self.entry.close();
        if self.entry.is_engaged() {
            if self.without != Without::Emptying {
                self.entry.empty_places();
            }
            // An owner that is engaged and not within is stopped, for all that is known here.
            while self.entry.is_engaged() && self.within.load(Ordering::SeqCst) != 0 {
                thread::yield_now();
            }
        }
    }

    fn values(&self, cells: core::ops::Range<usize>) -> Vec<u32> {
        // SAFETY: as in `copy`.
        self.cells[cells].iter().map(|cell| cell.with(|cell| unsafe { *cell })).collect()
    }

    /// Uses the memory of the first read for something else.
    fn reuse(&self) {
        // SAFETY: as in `copy`.
        self.cells[..2].iter().for_each(|cell| cell.with_mut(|cell| unsafe { *cell = 99 }));
    }

    /// Reads once: when the reader has all, everything is there, once.
    fn read(&self) {
        assert!(self.entry.take_help());
        self.entry.offer(&offered(1), 0);
        self.read_all(&offered(1), 0);
        assert_eq!(self.values(0..2), [11, 12]);
    }

    fn offer_first(&self) {
        assert!(self.entry.take_help());
        self.entry.offer(&offered(1), 0);
    }

    /// The reader takes its memory back, and uses it for something else.
    fn take_back(&self) {
        self.offer_first();
        self.let_go(&offered(1));
        self.reuse();
    }

    /// The reader takes its memory back, uses it for something else, and reads the next piece in
    /// the same entry: with the owner's help if that is not at the first one still.
    fn read_twice(&self) {
        self.take_back();
        self.read_again();
    }

    fn read_again(&self) {
        if self.entry.is_engaged() && self.without != Without::Quarantine {
            // Alone.
            (0..CHUNKS).for_each(|chunk| self.copy(CHUNKS + chunk, 2));
        } else {
            self.entry.offer(&offered(2), 4 * u64::from(CHUNKS));
            self.read_all(&offered(2), CHUNKS);
        }
        assert_eq!(self.values(2..4), [21, 22]);
        assert_eq!(self.values(0..2), [99, 99]);
    }

    /// A reader whose region has gone, and another one of the region that is shown there now: the
    /// owner has nothing to do with the first, and the other does not get the entry's help before
    /// the first has let go.
    fn read_stale(&self) {
        let stale = Offered { generation: GENERATION + 2, ..offered(1) };
        assert!(self.entry.take_help());
        self.entry.offer(&stale, 0);
        assert!(!self.entry.take_help());
        (0..CHUNKS).for_each(|chunk| self.copy(chunk, 1));
        assert_eq!(self.values(0..2), [11, 12]);
        self.let_go(&stale);
    }
}

/// The owner's part: it polls so many times, and fails to write one chunk.
#[derive(Clone, Copy)]
struct OwnerRun {
    times: u32,
    fails: Option<u32>,
}

impl OwnerRun {
    const ONCE: Self = Self { times: 1, fails: None };
    const TWICE: Self = Self { times: 2, fails: None };
}

/// Preemptions at most: no mutant needs more to fail.
const BOUND: usize = 2;

/// Explores an owner and a reader, either of them on the spawned thread; an owner that polls once,
/// in longer models, there alone.
fn explore(reader: fn(&SharedModel), without: Without, owner: OwnerRun) {
    explore_within(BOUND, reader, without, owner);
}

fn explore_within(bound: usize, reader: fn(&SharedModel), without: Without, owner: OwnerRun) {
    let OwnerRun { times, fails } = owner;
    for spawns_owner in [true, false] {
        if times == 1 && !spawns_owner {
            continue;
        }
        let mut builder = Builder::new();
        builder.preemption_bound = Some(bound);
        builder.check(move || {
            let shared = Arc::new(SharedModel::new(without));
            let other = Arc::clone(&shared);
            let thread =
                thread::spawn(move || if spawns_owner { other.own(times, fails) } else { reader(&other) });
            if spawns_owner {
                reader(&shared)
            } else {
                shared.own(times, fails)
            }
            thread.join().unwrap();
        });
    }
}

fn fails(reader: fn(&SharedModel), without: Without, owner: OwnerRun) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(reader, without, owner))).is_err()
}

#[test]
fn every_chunk_is_copied_once() {
    explore(SharedModel::read, Without::Nothing, OwnerRun::TWICE);
    assert!(
        fails(SharedModel::read, Without::Wait, OwnerRun::TWICE),
        "nothing shows that the reader does not wait"
    );
}

#[test]
fn what_the_owner_could_not_write_is_read() {
    for chunk in 0..CHUNKS {
        explore(SharedModel::read, Without::Nothing, OwnerRun { fails: Some(chunk), ..OwnerRun::TWICE });
        assert!(
            fails(SharedModel::read, Without::Failure, OwnerRun { fails: Some(chunk), ..OwnerRun::TWICE }),
            "nothing shows a failure told as success"
        );
    }
}

#[test]
fn memory_that_is_taken_back_is_left_alone() {
    explore(SharedModel::take_back, Without::Nothing, OwnerRun::TWICE);
    for without in [Without::Engagement, Without::Emptying] {
        assert!(fails(SharedModel::take_back, without, OwnerRun::TWICE), "nothing shows the step left out");
    }
}

/// Explores an owner that has taken a chunk of the first offer and stopped, while the reader takes
/// its memory back and reads again; with any number of preemptions.
fn explore_stopped(without: Without) {
    Builder::new().check(move || {
        let shared = Arc::new(SharedModel::new(without));
        shared.offer_first();
        let offered = shared.engage().unwrap();
        let Chunk::Yours(chunk) = shared.entry.take_back(offered.serial, offered.chunks) else {
            panic!("all chunks are there to be taken");
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            other.help(&offered, chunk, None);
            other.entry.disengage();
        });
        shared.let_go(&self::offered(1));
        shared.reuse();
        shared.read_again();
        thread.join().unwrap();
    });
}

#[test]
fn a_stopped_owner_writes_no_old_chunk_to_a_later_read() {
    explore_stopped(Without::Nothing);
    let fails = catch_unwind(|| explore_stopped(Without::Quarantine)).is_err();
    assert!(fails, "nothing shows an offer too early");
}

/// With one preemption: the owner is not stopped here, but comes before, between and after.
#[test]
fn an_owner_that_comes_at_any_time_writes_no_old_chunk_to_a_later_read() {
    explore_within(1, SharedModel::read_twice, Without::Nothing, OwnerRun::ONCE);
}

#[test]
#[ignore = "a minute: cargo xtask test --full"]
fn an_owner_that_comes_at_any_time_and_stops_writes_no_old_chunk() {
    explore(SharedModel::read_twice, Without::Nothing, OwnerRun::ONCE);
    assert!(
        fails(SharedModel::read_twice, Without::Quarantine, OwnerRun::ONCE),
        "nothing shows an offer too early"
    );
}

#[test]
fn an_offer_of_a_region_that_is_gone_is_not_helped() {
    explore(SharedModel::read_stale, Without::Nothing, OwnerRun::ONCE);
    assert!(
        fails(SharedModel::read_stale, Without::Generation, OwnerRun::ONCE),
        "nothing shows a write for another region"
    );
}
