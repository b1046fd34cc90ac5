//! This module holds `unsafe` code: several ranks in one process. The inboxes are plain vectors of
//! cache lines, the ranks take turns.

use core::ptr::{self, NonNull};
use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::transport::{Sink, Slot, Transport};
use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Post, Token};

use super::region::format_at;
use super::{Geometry, Identity, Lane, RecordTable, Region, Shm};

mod control_slots;
mod flow;
mod hostile;
mod model;
mod regions;
mod shared;
mod sleep;

/// A cache line of raw memory, read only through regions.
#[expect(dead_code, reason = "accessed by address")]
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct InboxLine([u8; 64]);

/// Memory for one inbox. Given away; a [`InboxesJob`] takes back its own.
pub(super) fn memory(bytes: usize) -> NonNull<[u8]> {
    memory_of(0xA5, bytes)
}

fn memory_of(byte: u8, bytes: usize) -> NonNull<[u8]> {
    let lines = std::vec![InboxLine([byte; 64]); bytes.div_ceil(64)].leak();
    NonNull::slice_from_raw_parts(NonNull::from(lines).cast(), bytes)
}

/// Gives back what [`memory`] has given away, over which no transport is any more.
fn give_back(memory: NonNull<[u8]>) {
    let lines = memory.cast::<InboxLine>().as_ptr();
    let lines = ptr::slice_from_raw_parts_mut(lines, memory.len().div_ceil(64));
    // SAFETY: leaked by `memory` as a boxed slice of that length; the transports over it are gone.
    drop(unsafe { Box::from_raw(lines) });
}

/// Formats a region that is known to be zero and one of zeros that is not, and returns true if both
/// hold the same then.
fn formats_zeros_alike(geometry: Geometry) -> bool {
    let [fresh, cleared] = [(); 2].map(|()| memory_of(0, geometry.inbox_bytes()));
    // SAFETY: as in `region`, and nobody has written to it.
    let known = unsafe { Region::fresh(fresh.cast(), fresh.len()) };
    for region in [known, region(cleared)] {
        super::format(&region, geometry, identity(1)).unwrap();
    }
    // SAFETY: leaked by `memory_of`, and no region is made over them any more.
    unsafe { fresh.as_ref() == cleared.as_ref() }
}

pub(super) fn region(memory: NonNull<[u8]>) -> Region<'static> {
    // SAFETY: leaked by `memory`, hence valid for ever, or until a world has dropped the transports
    // that use it. Used through regions alone, by transports that keep the protocol and by tests
    // that write single words between polls, on one thread.
    unsafe { Region::new(memory.cast(), memory.len()) }
}

/// A table of records in memory of zeros.
pub(super) fn record_table(memory: NonNull<[u8]>) -> RecordTable<'static> {
    // SAFETY: as in `region`.
    unsafe { RecordTable::new(memory.cast(), memory.len()) }
}

pub(super) fn identity(rank: u32) -> Identity {
    Identity { job: 0xA1D1_5000_0000_0001, owner: PeerId(rank), epoch: Epoch(100 + rank) }
}

/// The events that a rank got, in order.
#[derive(Default)]
pub(super) struct ShmLog {
    pub(super) arrived: Vec<(u32, Vec<u8>)>,
    pub(super) ready: Vec<u32>,
    pub(super) lost: Vec<(u32, Cause)>,
}

impl Sink for ShmLog {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        assert_eq!(message.as_ptr().align_offset(8), 0, "messages start 8-byte aligned");
        self.arrived.push((from.0, message.to_vec()));
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {
        unreachable!("nothing is ever queued");
    }
    fn ready(&mut self, peer: PeerId) {
        self.ready.push(peer.0);
    }
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.lost.push((peer.0, cause));
    }
}

impl ShmLog {
    pub(super) fn events(&self) -> usize {
        self.arrived.len() + self.ready.len() + self.lost.len()
    }
}

/// All ranks of a job.
pub(super) struct InboxesJob {
    pub(super) ranks: Vec<Shm<'static>>,
    pub(super) inboxes: Vec<NonNull<[u8]>>,
    /// The table of records, if there is one.
    pub(super) table: Option<NonNull<[u8]>>,
    lanes: Vec<*mut [Lane]>,
}

impl Drop for InboxesJob {
    fn drop(&mut self) {
        self.ranks.clear();
        self.inboxes.drain(..).chain(self.table).for_each(give_back);
        for lanes in self.lanes.drain(..) {
            // SAFETY: leaked by `apart`; the transport that used them is gone.
            drop(unsafe { Box::from_raw(lanes) });
        }
    }
}

impl InboxesJob {
    /// Every rank attached to every other.
    pub(super) fn new(geometry: Geometry, start: u32) -> Self {
        Self::apart(geometry, start).joined(geometry)
    }

    /// Every rank attached to every other, their records in a table.
    pub(super) fn with_table(geometry: Geometry, start: u32) -> Self {
        let mut world = Self::apart(geometry, start);
        let table = memory_of(0, geometry.record_table_bytes());
        world.table = Some(table);
        let with_table = |shm: Shm<'static>| shm.with_record_table(record_table(table)).unwrap();
        world.ranks = world.ranks.drain(..).map(with_table).collect();
        world.joined(geometry)
    }

    fn joined(mut self, geometry: Geometry) -> Self {
        let world = &mut self;
        for rank in 0..geometry.peers {
            for peer in (0..geometry.peers).filter(|peer| *peer != rank) {
                world.attach(rank, peer).unwrap();
            }
        }
        self
    }

    /// Ranks that are not attached to each other yet.
    pub(super) fn apart(geometry: Geometry, start: u32) -> Self {
        let inboxes: Vec<_> = (0..geometry.peers).map(|_| memory(geometry.inbox_bytes())).collect();
        let mut world = Self { ranks: Vec::new(), inboxes, table: None, lanes: Vec::new() };
        for rank in 0..geometry.peers {
            let (inbox, identity) = (world.inboxes[rank as usize], identity(rank));
            format_at(&region(inbox), geometry, identity, start).unwrap();
            let lanes = ptr::from_mut(lanes(geometry.lane_entries()));
            world.lanes.push(lanes);
            // SAFETY: leaked just now, lent once, and taken back when the transport is gone.
            let lanes = unsafe { &mut *lanes };
            world.ranks.push(Shm::new(identity, region(inbox), lanes, Cost::default()).unwrap());
        }
        world
    }

    pub(super) fn attach(&mut self, rank: u32, peer: u32) -> Result<(), Cause> {
        let inbox = region(self.inboxes[peer as usize]);
        self.ranks[rank as usize].attach(PeerId(peer), inbox, identity(peer))
    }

    pub(super) fn short(&mut self, from: u32, to: u32, message: &[u8]) -> Post {
        let (header, payload) = message.split_at(message.len() / 3);
        self.ranks[from as usize].short(PeerId(to), header, payload)
    }

    pub(super) fn reserve(&mut self, from: u32, to: u32, message: &[u8]) -> Post {
        match self.ranks[from as usize].reserve(PeerId(to), message.len()) {
            Ok(mut slot) => {
                slot.bytes().copy_from_slice(message);
                slot.commit();
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }

    /// Sends a message whose first bytes are its header, as a whole.
    pub(super) fn write(&mut self, from: u32, to: u32, header: &[u8], payload: &[u8]) -> Post {
        match self.ranks[from as usize].reserve(PeerId(to), header.len() + payload.len()) {
            Ok(mut slot) => {
                slot.write(header, payload);
                slot.commit();
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }

    /// Polls once; returns what was delivered.
    pub(super) fn poll(&mut self, rank: u32, budget: u32) -> ShmLog {
        let mut log = ShmLog::default();
        let events = self.ranks[rank as usize].poll(budget, Instant(0), &mut log);
        assert_eq!(log.events(), events as usize, "poll tells what it did");
        assert!(events <= budget, "and keeps to its budget");
        log
    }

    /// Sets a control word of a rank's inbox, by byte offset.
    pub(super) fn set_word(&self, rank: u32, offset: usize, value: u32) {
        // SAFETY: within the inbox and aligned, as `at` checks; everyone is on this thread and
        // between polls.
        unsafe { self.at(rank, offset).write(value.to_le()) };
    }

    /// A control word of a rank's inbox, by byte offset.
    pub(super) fn word(&self, rank: u32, offset: usize) -> u32 {
        // SAFETY: as in `set_word`.
        u32::from_le(unsafe { self.at(rank, offset).read() })
    }

    fn at(&self, rank: u32, offset: usize) -> *mut u32 {
        let inbox = self.inboxes[rank as usize];
        let (start, len) = (inbox.cast::<u8>(), inbox.len());
        assert!(offset + 4 <= len && offset.is_multiple_of(4));
        start.as_ptr().wrapping_add(offset).cast()
    }
}

/// Empty lanes, given away.
pub(super) fn lanes(count: usize) -> &'static mut [Lane] {
    let lanes: Vec<Lane> = (0..count).map(|_| Lane::EMPTY).collect();
    Box::leak(lanes.into_boxed_slice())
}

pub(super) const SMALL: Geometry =
    Geometry { peers: 2, slots: 4, lanes: 32, blocks: 2, block_bytes: 128, sets: 0 };
