//! This module holds `unsafe` code: ranks that open sets and clear them.
//!
//! Control slots of a peer that say what cannot be.

use aldis_hal::cause::Malformed;
use aldis_hal::shared_control::{Note, START_BYTES, SharedControl};
use aldis_hal::{Cause, PeerId};
use proptest::prelude::*;

use super::InboxesJob;
use crate::shm::Geometry;

const GEOMETRY: Geometry = Geometry { peers: 2, slots: 4, lanes: 32, blocks: 2, block_bytes: 128, sets: 1 };
const CONTEXT: u32 = 6;

/// Byte offsets from a set's start: of the progress record's words, of the first slot, and of words
/// in a slot.
const FINISHED: usize = 4;
const FILLED: usize = 8;
const DONE: usize = 12;
const SLOTS: usize = 128;
const SLOT: usize = 8320;
const PAYLOAD: usize = SLOT - 16;
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
    assert!(writer.slot(0, 0).is_none());
    assert_eq!(writer.publish(0, 0, Note { bytes: 4, ..note }, &[]), Ok(false));
    assert_eq!(notice.payload, b"first");
    // The other one is still published when the first is finished.
    writer.finish(0, 0);
    assert_eq!(writer.publish(0, 1, note, b"again"), Ok(false));
    // A slot that was lent to be written is published once, too.
    assert_eq!(writer.begin(0), 2);
    writer.slot(0, 2).unwrap()[..5].copy_from_slice(b"third");
    assert_eq!(writer.publish(0, 2, note, &[]), Ok(true));
    assert!(writer.slot(0, 2).is_none());
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
    ) {
        let mut world = InboxesJob::new(GEOMETRY, start);
        let shm = &mut world.ranks[1];
        // SAFETY: opened once.
        unsafe { shm.open(0, CONTEXT, 3) }.unwrap();
        let number = (0..begun).map(|_| shm.begin(0)).last().unwrap();
        let first = shm.take_chunks(0, number).unwrap();
        shm.run(0, first, 100);
        let set = GEOMETRY.sets_at() as usize;
        let slot = set + SLOTS + SLOT * (number % Geometry::CONTROL_SLOTS) as usize;
        for (offset, value) in [(FINISHED, finished), (FILLED, filled), (DONE, done)] {
            world.set_word(0, set + offset, start.wrapping_add(value));
        }
        world.set_word(0, set, context);
        let sequence = number.wrapping_add(sequence);
        for (offset, value) in [(BYTES, bytes), (ABOUT, about), (SLOT_CONTEXT, context), (SEQUENCE, sequence)] {
            world.set_word(0, slot + offset, value);
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
                prop_assert!(notice.payload.len() == len && is_within(&world, 0, notice.payload.as_ptr(), len));
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
        let lent = world.ranks[1].slot(0, number).map(|slot| (slot.as_ptr(), slot.len()));
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
