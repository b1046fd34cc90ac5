//! This module holds `unsafe` code: a global allocator that counts.
//!
//! Floods at full size, between threads over shared memory: nothing is lost, and memory is the same
//! before, during and after. No rank's thread allocates anything while it is flooded or floods, and
//! no table ever holds more than it has room for. The same floods in small are cases of the
//! conformance suite (`conformance/../flow_control.rs`), over every transport and for a thousand
//! seeds in the simulator.
#![allow(missing_docs)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use aldis_kernel::hal::PeerId;
use aldis_kernel::{Error, Rank, Source, Tag, TagMatch};
use aldis_tests::storage::{REQUESTS, Room};
use aldis_tests::threads::{ThreadEndpoint, run};

/// The system's allocator, and how often each thread has called it.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is coming to its end has no count any more.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the same.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FLOOD: Tag = Tag(1);
const TALK: Tag = Tag(2);

/// Runs a part of a flood on this rank, with the allocator looked at before and after and every
/// bound at the end.
fn without_memory(
    ep: &mut ThreadEndpoint<'_, '_>,
    part: impl FnOnce(&mut ThreadEndpoint<'_, '_>) -> Result<(), Error>,
) -> Result<(), String> {
    let before = CALLS.get();
    let result = part(ep);
    let calls = CALLS.get() - before;
    result.map_err(|error| error.to_string())?;
    let (counters, room) = (*ep.counters(), ep.card().room);
    let size = ep.world().size();
    assert_eq!(calls, 0, "the allocator was called in the flood");
    assert!(counters.unexpected_peak <= u32::from(room.envelopes) * size, "{counters:?}");
    assert!(counters.requests_peak as usize <= REQUESTS, "{counters:?}");
    for peer in 0..size {
        let credits = ep.diagnostics().credits(PeerId(peer)).expect("all are connected");
        assert!(credits.envelopes.held() <= room.envelopes && credits.blocks.held() <= room.blocks);
    }
    Ok(())
}

/// The count of a message is in its first bytes.
fn numbered(buffer: &mut [u8], number: u32) {
    buffer[..4].copy_from_slice(&number.to_le_bytes());
}

fn number(buffer: &[u8]) -> u32 {
    u32::from_le_bytes(buffer[..4].try_into().expect("four bytes"))
}

/// Sends at a time: with the receives of a part, as many as there are request slots for.
const AT_ONCE: usize = 32;

/// Sends `count` messages of `len` bytes, as many at a time as there are slots.
fn flood(ep: &mut ThreadEndpoint<'_, '_>, to: Rank, count: u32, len: usize) -> Result<(), Error> {
    let world = ep.world();
    let mut data = [[0_u8; 1024]; AT_ONCE];
    for first in (0..count).step_by(AT_ONCE) {
        for (number, data) in (first..count).zip(&mut data) {
            numbered(data, number);
        }
        ep.scope(|scope| {
            for data in data.iter().take((count - first) as usize) {
                // The scope's end waits for them.
                drop(scope.isend(&world, &data[..len], to, FLOOD)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Receives `count` messages of each of the others from any source, each sender's in order.
fn drain(ep: &mut ThreadEndpoint<'_, '_>, senders: u32, count: u32) -> Result<(), Error> {
    let world = ep.world();
    let (mut next, mut buffer) = ([0; 10], [0_u8; 1024]);
    for _ in 0..senders * count {
        let status = ep.recv(&world, &mut buffer, Source::Any, FLOOD)?;
        let due = &mut next[status.source.0 as usize];
        assert_eq!(number(&buffer), *due, "of rank {}", status.source);
        *due += 1;
    }
    assert!(next.iter().all(|next| [0, count].contains(next)));
    Ok(())
}

/// Ping-pongs with another rank.
fn talk(ep: &mut ThreadEndpoint<'_, '_>, other: Rank, rounds: u32) -> Result<(), Error> {
    let world = ep.world();
    for round in 0..rounds {
        let mut got = [0];
        ep.sendrecv(&world, &[round], other, TALK, &mut got, other, TALK)?;
        assert_eq!(got, [round]);
    }
    Ok(())
}

/// Ranks 1 to 8 flood rank 0, which posts nothing and exchanges messages with rank 9 meanwhile, and
/// then takes what there is.
fn eight_to_one(room: Room, count: u32, len: usize) {
    let went = run(10, room, |ep| match ep.world().rank().0 {
        0 => without_memory(ep, |ep| {
            talk(ep, Rank(9), 300)?;
            drain(ep, 8, count)
        }),
        9 => without_memory(ep, |ep| talk(ep, Rank(0), 300)),
        _ => without_memory(ep, |ep| flood(ep, Rank(0), count, len)),
    });
    assert_eq!(went.map(|ranks| ranks.len()), Ok(10));
}

#[test]
fn eight_flood_one_that_posts_nothing_and_talks_to_another() {
    for room in Room::ALL {
        eight_to_one(room, 1000, 8);
    }
}

#[test]
fn a_rendezvous_storm() {
    for room in [Room::Least, Room::More] {
        eight_to_one(room, 200, 1024);
    }
}

#[test]
fn two_ranks_flood_each_other() {
    for room in Room::ALL {
        let went = run(2, room, |ep| {
            without_memory(ep, |ep| {
                let (world, other) = (ep.world(), Rank(1 - ep.world().rank().0));
                let mut data = [[0_u8; 48]; AT_ONCE];
                for first in (0..5000).step_by(AT_ONCE) {
                    let mut buffers = [[0_u8; 48]; AT_ONCE];
                    (first..).zip(&mut data).for_each(|(number, data)| numbered(data, number));
                    ep.scope(|scope| {
                        for data in &data {
                            drop(scope.isend(&world, data, other, FLOOD)?);
                        }
                        for buffer in &mut buffers {
                            let receiving = scope.irecv(&world, buffer, Source::Any, TagMatch::Any)?;
                            scope.wait(receiving)?;
                        }
                        Ok(())
                    })?;
                    assert!((first..).zip(&buffers).all(|(due, buffer)| number(buffer) == due));
                }
                Ok(())
            })
        });
        assert_eq!(went.map(|ranks| ranks.len()), Ok(2));
    }
}

/// See that the count can fail: a rank that allocates is found.
#[test]
fn an_allocation_is_seen() {
    let before = CALLS.get();
    drop(core::hint::black_box(Box::new(1)));
    assert_eq!(CALLS.get() - before, 2);
}
