//! This module holds `unsafe` code: ranks that open sets and clear them.
//!
//! Control slots of a peer that say what cannot be.

use aldis_hal::cause::Malformed;
use aldis_hal::shared_control::{Note, START_BYTES, SharedControl};
use aldis_hal::{Cause, Cost, PeerId};
use proptest::prelude::*;

use super::InboxesJob;
use crate::shm::{Geometry, NodeRank, Shm};

const GEOMETRY: Geometry = Geometry { peers: 2, slots: 4, lanes: 32, blocks: 2, block_bytes: 128, sets: 1 };
const CONTEXT: u32 = 6;

/// Bytes of a record.
const RECORD: usize = 128;

/// Byte offsets of the words of a progress record, and of those in a slot's head.
const FINISHED: usize = 4;
const FILLED: usize = 8;
const DONE: usize = 12;
const PAYLOAD: usize = 8320;
const SLOT_CONTEXT: usize = 0;
const SEQUENCE: usize = 4;
const BYTES: usize = 8;
const ABOUT: usize = 12;

/// Whatever a word can hold, mostly close to what is expected.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..40u32, (0..40u32).prop_map(u32::wrapping_neg)]
}

/// Returns true if bytes lie in a rank's inbox.
fn is_within(world: &InboxesJob, rank: usize, at: *const u8, len: usize) -> bool {
    let inbox = world.inboxes[rank];
    let (start, inbox_bytes) = (inbox.cast::<u8>(), inbox.len());
    let first = at.addr().checked_sub(start.as_ptr().addr());
    first.is_some_and(|first| first + len <= inbox_bytes)
}

fn is_in_table(world: &InboxesJob, at: *const u8, len: usize) -> bool {
    let table = world.table.unwrap();
    let first = at.addr().checked_sub(table.cast::<u8>().as_ptr().addr());
    first.is_some_and(|first| first + len <= table.len())
}

/// Writes a word of a rank's records of the first set, of which that of its progress is the first.
fn set_word(world: &InboxesJob, rank: u32, at: usize, value: u32) {
    let Some(table) = world.table else {
        return world.set_word(rank, GEOMETRY.sets_at() as usize + at, value);
    };
    let (record, offset) = (at / RECORD, at % RECORD);
    // An odd number of ranks has a place there.
    let at = (record * 3 + rank as usize) * RECORD + offset;
    let table = table.cast::<u8>();
    // SAFETY: a word of the table, which is used through atomics alone, on one thread.
    unsafe { table.add(at).cast::<u32>().write(value.to_le()) };
}

/// A slot that was published can be read by others, so it stays what it is until all ranks have
/// finished: neither is it written again nor lent to be written.
#[test]
fn a_control_slot_that_may_be_read_is_not_written_again() {
    let mut world = InboxesJob::new(GEOMETRY, 0);
    let note = Note { operation: 1, root: 0, bytes: 5 };
    for shm in &mut world.ranks {
        // SAFETY: opened once, on all ranks alike.
        unsafe { shm.open(0, CONTEXT, 3) }.unwrap();
        assert_eq!([shm.begin(0), shm.begin(0)], [0, 1]);
    }
    let [writer, reader] = &mut world.ranks[..] else { panic!("two ranks") };
    assert_eq!(writer.publish(0, 1, note, b"later"), Ok(true), "in any order");
    assert_eq!(writer.publish(0, 0, note, b"first"), Ok(true));
    let notice = reader.look(0, 0, PeerId(0)).unwrap().unwrap();
    assert_eq!(writer.publish(0, 0, note, b"again"), Ok(false));
    assert!(writer.slot(0, 0, 5).is_none());
    assert_eq!(writer.publish(0, 0, Note { bytes: 4, ..note }, &[]), Ok(false));
    assert_eq!(notice.payload, b"first");
    // The other one is still published when the first is finished.
    writer.finish(0, 0);
    assert_eq!(writer.publish(0, 1, note, b"again"), Ok(false));
    // A slot that was lent to be written is published once, too.
    assert_eq!(writer.begin(0), 2);
    writer.slot(0, 2, 5).unwrap()[..5].copy_from_slice(b"third");
    assert_eq!(writer.publish(0, 2, note, &[]), Ok(true));
    assert!(writer.slot(0, 2, 5).is_none());
    assert_eq!(reader.begin(0), 2);
    assert_eq!(reader.look(0, 2, PeerId(0)).unwrap().unwrap().payload, b"third");
}

/// A rank that has left reads no slot that it was in, and others see that it is done with all;
/// what it has published is there until its set is opened again.
#[test]
fn a_rank_that_has_left_holds_no_other_up() {
    let mut world = InboxesJob::new(GEOMETRY, 7);
    let note = Note { operation: 1, root: 0, bytes: 4 };
    for shm in &mut world.ranks {
        // SAFETY: opened once, on all ranks alike.
        unsafe { shm.open(0, CONTEXT, 3) }.unwrap();
        assert_eq!(shm.begin(0), 7);
        assert_eq!(shm.publish(0, 7, note, b"here"), Ok(true));
    }
    let [leaving, staying] = &mut world.ranks[..] else { panic!("two ranks") };
    assert_eq!(staying.begin(0), 8);
    staying.finish(0, 7);
    staying.finish(0, 8);
    let all = staying.progress(0, PeerId(1)).unwrap();
    assert_eq!((all.finished, staying.progress(0, PeerId(0)).unwrap().finished), (9, 7));
    assert!(leaving.look(0, 7, PeerId(1)).unwrap().is_some());
    leaving.leave(0);
    assert_eq!(leaving.look(0, 7, PeerId(1)).unwrap_err(), Cause::Stale);
    assert_eq!(staying.progress(0, PeerId(0)), Ok(all));
    assert_eq!(staying.begin(0), 9);
    // SAFETY: opened for another, and nothing is lent of the last one's slots.
    unsafe { leaving.open(0, CONTEXT + 1, 3) }.unwrap();
    assert_eq!(leaving.begin(0), 7);
}

proptest! {
    /// Rank 0's words are anything at all, rank 1 has begun some collectives: what it is lent is
    /// memory of the right inbox and of the right length, and the rest is nothing yet or a typed
    /// error.
    #[test]
    fn whatever_they_say_is_found_out_or_harmless(
        start: u32,
        begun in 1..=40u32,
        [finished, filled, done, sequence] in [word(), word(), word(), word()],
        (bytes, about) in (word(), word()),
        context in prop_oneof![9 => Just(CONTEXT), 1 => any::<u32>()],
        has_table: bool,
    ) {
        let of = if has_table { InboxesJob::with_table } else { InboxesJob::new };
        let mut world = of(GEOMETRY, start);
        let shm = &mut world.ranks[1];
        // SAFETY: opened once.
        unsafe { shm.open(0, CONTEXT, 3) }.unwrap();
        let number = (0..begun).map(|_| shm.begin(0)).last().unwrap();
        let first = shm.take_chunks(0, number).unwrap();
        shm.run(0, first, 100);
        let head = 1 + (number % Geometry::CONTROL_SLOTS) as usize;
        for (offset, value) in [(FINISHED, finished), (FILLED, filled), (DONE, done)] {
            set_word(&world, 0, offset, start.wrapping_add(value));
        }
        set_word(&world, 0, 0, context);
        let sequence = number.wrapping_add(sequence);
        for (offset, value) in [(BYTES, bytes), (ABOUT, about), (SLOT_CONTEXT, context), (SEQUENCE, sequence)] {
            set_word(&world, 0, head * RECORD + offset, value);
        }
        match world.ranks[1].look(0, number, PeerId(0)) {
            Ok(None) => {}
            Ok(Some(notice)) => {
                prop_assert!(context == CONTEXT && sequence == number.wrapping_add(1));
                let said = u64::from(about >> 16) << 32 | u64::from(bytes);
                // Its highest bit says where the payload stands.
                let (operation, root) = (about as u8, (about >> 8) as u8 & 0x7F);
                prop_assert_eq!(notice.note, Note { operation, root, bytes: said });
                let len = if said <= PAYLOAD as u64 { said as usize } else { START_BYTES };
                let (at, is_short) = (notice.payload.as_ptr(), (said <= RECORD as u64 - 16 || said > PAYLOAD as u64 && about & 1 << 15 == 0));
                let is_within = if has_table && is_short { is_in_table(&world, at, len) } else { is_within(&world, 0, at, len) };
                prop_assert!(notice.payload.len() == len && is_within);
            }
            Err(cause) => prop_assert!(matches!(cause, Cause::Malformed(Malformed::Sequence { .. })), "{}", cause),
        }
        for position in (0..100).map(|index| first.wrapping_add(index)) {
            let past = start.wrapping_add(filled).wrapping_sub(position);
            match world.ranks[1].chunk(0, position, PeerId(0)) {
                Ok(None) => prop_assert!(context != CONTEXT || past as i32 <= 0),
                Ok(Some(chunk)) => {
                    prop_assert!((1..=GEOMETRY.chunks(0)).contains(&past));
                    prop_assert!(chunk.len() == 128 && is_within(&world, 0, chunk.as_ptr(), 128));
                }
                Err(cause) => prop_assert_eq!(cause, Cause::Malformed(Malformed::Credit)),
            }
        }
        let progress = world.ranks[1].progress(0, PeerId(0)).unwrap();
        // SAFETY: nothing is lent of rank 1's set.
        unsafe { world.ranks[1].clear(0, progress) };
        // However far rank 0 says that it has come, rank 1 itself has finished none, and its slot
        // is in use from the ninth on.
        let note = Note { operation: 1, root: 5, bytes: PAYLOAD as u64 };
        // Of none that was begun, in no set: nothing.
        for set in [0, GEOMETRY.sets, u32::MAX] {
            world.ranks[1].finish_ahead(set, number.wrapping_add(1));
        }
        let lent = world.ranks[1].slot(0, number, note.bytes).map(|slot| (slot.as_ptr(), slot.len()));
        let mut publish = || world.ranks[1].publish(0, number, note, &[7; PAYLOAD]).unwrap();
        // Once it may be asked how far the others are.
        let wrote = publish() || publish();
        prop_assert!(!wrote || begun <= Geometry::CONTROL_SLOTS);
        prop_assert_eq!(lent.is_some(), wrote);
        prop_assert!(lent.is_none_or(|(at, len)| len == PAYLOAD && is_within(&world, 1, at, len)));
        for position in (0..100).map(|index| first.wrapping_add(index)) {
            let Some(chunk) = world.ranks[1].fill(0, position) else { continue };
            let (at, len) = (chunk.bytes.as_ptr(), chunk.bytes.len());
            prop_assert!(position.wrapping_sub(first) < GEOMETRY.chunks(0) && len == 128);
            prop_assert!(is_within(&world, 1, at, len));
        }
    }
}

/// Payloads of all lengths come as they were given, by a copy or written in place, wherever they
/// stand: in a head, in a body, or beside the bodies.
#[test]
fn payloads_of_all_lengths_are_whole_with_a_table_and_without() {
    for of in [InboxesJob::new, InboxesJob::with_table] {
        let mut world = of(GEOMETRY, u32::MAX - 3);
        for shm in &mut world.ranks {
            // SAFETY: opened once, on all ranks alike.
            unsafe { shm.open(0, CONTEXT, 3) }.unwrap();
        }
        let bytes = |len: usize| (0..len).map(|at| (at * 7 + len) as u8).collect::<std::vec::Vec<_>>();
        for len in [0, 1, 8, 48, 111, 112, 113, 2047, 2048, PAYLOAD - 1, PAYLOAD] {
            for in_place in [false, true] {
                let [writer, reader] = &mut world.ranks[..] else { panic!("two ranks") };
                let (number, note) = (writer.begin(0), Note { operation: 1, root: 0, bytes: len as u64 });
                assert_eq!(reader.begin(0), number);
                let given = bytes(len);
                if in_place {
                    writer.slot(0, number, len as u64).unwrap()[..len].copy_from_slice(&given);
                }
                let payload = if in_place { &[] } else { &given[..] };
                let published = writer.publish(0, number, note, payload).unwrap()
                    || writer.publish(0, number, note, payload).unwrap();
                assert!(published, "{len} bytes");
                let notice = reader.look(0, number, PeerId(0)).unwrap().unwrap();
                assert_eq!((notice.note, notice.payload), (note, &given[..]), "{len} bytes");
                let at = notice.payload.as_ptr();
                let is_in_table = world.table.is_some() && is_in_table(&world, at, len);
                assert_eq!(is_in_table, world.table.is_some() && len <= RECORD - 16, "{len} bytes");
                assert!(is_in_table || is_within(&world, 0, at, len), "{len} bytes");
                let [writer, reader] = &mut world.ranks[..] else { panic!("two ranks") };
                reader.finish(0, number);
                writer.finish(0, number);
                let theirs = writer.progress(0, PeerId(1)).unwrap();
                // SAFETY: nothing is lent, and the only other rank has come so far.
                unsafe { writer.clear(0, theirs) };
            }
        }
        let note = Note { operation: 1, root: 0, bytes: 8 };
        let [writer, _] = &mut world.ranks[..] else { panic!("two ranks") };
        let number = writer.begin(0);
        for (bytes, len, max) in [(8, 9, 8), (200, 201, 200), (PAYLOAD as u64 + 1, 13, START_BYTES as u64)] {
            let found = writer.publish(0, number, Note { bytes, ..note }, &[0; PAYLOAD][..len]);
            assert_eq!(found, Err(Cause::TooBig { len: len as u64, max }), "longer than its note says");
        }
    }
}

/// The start of what stands elsewhere is as whole as a short payload.
#[test]
fn a_start_stands_in_the_head() {
    let mut world = InboxesJob::with_table(GEOMETRY, 0);
    for shm in &mut world.ranks {
        // SAFETY: opened once, on all ranks alike.
        unsafe { shm.open(0, CONTEXT, 3) }.unwrap();
        assert_eq!(shm.begin(0), 0);
    }
    let note = Note { operation: 1, root: 0, bytes: PAYLOAD as u64 + 1 };
    assert_eq!(world.ranks[0].publish(0, 0, note, &[3; START_BYTES]), Ok(true));
    let notice = world.ranks[1].look(0, 0, PeerId(0)).unwrap().unwrap();
    assert_eq!((notice.note, notice.payload), (note, &[3; START_BYTES][..]));
    assert!(is_in_table(&world, notice.payload.as_ptr(), START_BYTES));
}

/// A table that is too short or not aligned is refused, and any table once ranks are attached or a
/// set is open.
#[test]
fn a_bad_table_of_records_is_refused() {
    let bytes = GEOMETRY.record_table_bytes();
    let table = super::memory_of(0, bytes + 128);
    let found = |shm: Shm<'static>, skip: usize, len: usize| {
        // SAFETY: within the memory.
        let start = unsafe { table.cast::<u8>().add(skip) };
        let part = core::ptr::NonNull::slice_from_raw_parts(start, len);
        shm.with_record_table(super::record_table(part)).map(drop)
    };
    for (skip, len, expected) in
        [(0, bytes - 1, Err(Cause::BadRegion)), (8, bytes, Err(Cause::BadRegion)), (64, bytes, Ok(()))]
    {
        let mut world = InboxesJob::apart(GEOMETRY, 0);
        assert_eq!(found(world.ranks.remove(0), skip, len), expected);
    }
    let mut world = InboxesJob::new(GEOMETRY, 0);
    assert_eq!(found(world.ranks.remove(0), 0, bytes), Err(Cause::Stale));
    let mut world = InboxesJob::apart(GEOMETRY, 0);
    // SAFETY: opened once.
    unsafe { world.ranks[0].open(0, CONTEXT, 3) }.unwrap();
    assert_eq!(found(world.ranks.remove(0), 0, bytes), Err(Cause::Stale));
    super::give_back(table);
}

/// The ranks of a second node, which are numbered from where the first one's end, find each other's
/// records and probes in their table.
#[test]
fn a_table_counts_from_the_nodes_first_rank() {
    const FIRST: u32 = 5;
    let geometry = Geometry { peers: 3, ..GEOMETRY };
    let mut world = InboxesJob::apart(geometry, 0);
    let table = super::memory_of(0, geometry.record_table_bytes());
    world.ranks = (0..3)
        .map(|number| {
            let rank = NodeRank { first: PeerId(FIRST), identity: super::identity(number) };
            let lanes = super::lanes(geometry.lane_entries() + FIRST as usize);
            let inbox = super::region(world.inboxes[number as usize]);
            let shm = Shm::of_node(rank, inbox, lanes, Cost::default()).unwrap();
            shm.with_record_table(super::record_table(table)).unwrap()
        })
        .collect();
    for (number, peer) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let inbox = super::region(world.inboxes[peer as usize]);
        let identity = super::identity(peer);
        world.ranks[number as usize].attach(PeerId(FIRST + peer), inbox, identity).unwrap();
    }
    let note = Note { operation: 1, root: 0, bytes: 4 };
    for (shm, number) in world.ranks.iter_mut().zip(0u32..) {
        // SAFETY: opened once, on all ranks alike.
        unsafe { shm.open(0, CONTEXT, 7) }.unwrap();
        assert_eq!(shm.begin(0), 0);
        assert_eq!(shm.publish(0, 0, note, &number.to_le_bytes()), Ok(true));
    }
    for shm in &world.ranks {
        for number in 0..3u32 {
            let notice = shm.look(0, 0, PeerId(FIRST + number)).unwrap().unwrap();
            assert_eq!(notice.payload, number.to_le_bytes());
        }
        assert!(shm.look(0, 0, PeerId(FIRST + 3)).is_err() && shm.look(0, 0, PeerId(0)).is_err());
    }
    // One that opens the set by this context for other ranks is found out, wherever it is counted.
    let [.., last] = &mut world.ranks[..] else { panic!("three ranks") };
    // SAFETY: it reads nothing of what it was opened for before.
    let found = unsafe { last.open(0, CONTEXT + 1, 7).and_then(|()| last.open(0, CONTEXT, 5)) };
    assert_eq!(found, Err(Cause::Stale));
    world.table = Some(table);
}
