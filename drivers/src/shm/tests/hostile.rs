//! Peers that say what cannot be.

use std::vec;

use aldis_hal::cause::Malformed;
use aldis_hal::transport::Transport;
use aldis_hal::{Again, Cause, PeerId, Post};

use super::{InboxesJob, SMALL, ShmLog};
use crate::shm::Geometry;

const SEQUENCE: usize = 0;
const HEAD: usize = 4;
/// The offset in a slot of the length of a message in a block.
const LENGTH: usize = 8;

/// The head of a message in a block.
const fn block(index: u32) -> u32 {
    1 << 31 | index << 16
}

/// A malformed announcement by rank 0 in the inbox of rank 1; the events that rank 1 gets.
fn announce(world: &mut InboxesJob, head: u32, len: u32, sequence: u32) -> ShmLog {
    let ring = SMALL.ring_at(0);
    world.set_word(1, ring + HEAD, head);
    world.set_word(1, ring + LENGTH, len);
    world.set_word(1, ring + SEQUENCE, sequence);
    world.poll(1, 8)
}

/// Asserts that this one of two ranks has lost the other, as a poll has logged.
fn assert_lost(world: &mut InboxesJob, rank: u32, log: &ShmLog, what: Malformed) {
    let peer = 1 - rank;
    assert_eq!(log.lost, [(peer, Cause::Malformed(what))]);
    assert_eq!(log.arrived, []);
    assert_eq!(world.short(rank, peer, b"x"), Post::Never(Cause::PeerDead));
    assert_eq!(world.reserve(rank, peer, &[0; 125]), Post::Never(Cause::PeerDead));
    assert_eq!(world.ranks[rank as usize].reach(PeerId(peer)), Err(Cause::PeerDead));
    assert_eq!(world.poll(rank, 8).events(), 0, "told once");
}

#[test]
fn announcements_outside_what_was_granted_end_the_lane() {
    let short = |len: u32| len << 16;
    for (head, len) in [
        (short(121), 0),
        (short(255), 0),
        (short(8) | 1 << 24, 0),
        (short(8) | 1 << 28, 0),
        (1 << 28 | 1 << 31, 0),
        (short(8) | 1 << 29, 0),
        (block(0) | 1 << 27, 8),
        (block(2), 8),
        (block(31), 0),
        (block(255), 8),
        (block(0), 129),
        (block(2) | 1 << 29, 8),
        (block(0) | 1 << 29, 129),
        (block(1), u32::MAX),
        (u32::MAX, u32::MAX),
    ] {
        let mut world = InboxesJob::new(SMALL, 0);
        let log = announce(&mut world, head, len, 1);
        assert_lost(&mut world, 1, &log, Malformed::Length);
    }
}

#[test]
fn a_sequence_from_the_future_ends_the_lane() {
    for ahead in [2, 5, 1 << 30] {
        let mut world = InboxesJob::new(SMALL, 0);
        let log = announce(&mut world, 0, 0, ahead);
        assert_lost(&mut world, 1, &log, Malformed::Sequence { got: ahead as u16, need: 1 });
    }
}

#[test]
fn a_sequence_from_the_past_is_no_message() {
    let mut world = InboxesJob::new(SMALL, 5);
    assert_eq!(announce(&mut world, 0, 0, 2).events(), 0);
}

#[test]
fn a_block_that_is_not_free_cannot_come_again() {
    let geometry = Geometry { blocks: 8, slots: 64, ..SMALL };
    let mut world = InboxesJob::new(geometry, 0);
    assert_eq!(world.reserve(0, 1, &[1; 125]), Post::Done);
    assert_eq!(world.poll(1, 8).arrived, [(0, vec![1; 125])]);
    // The second message stands in the first ping-pong slot, as the first was alone.
    let second = geometry.ring_at(0) + 64 * 128;
    world.set_word(1, second + HEAD, block(0));
    world.set_word(1, second + LENGTH, 125);
    world.set_word(1, second + SEQUENCE, 1);
    let log = world.poll(1, 8);
    assert_lost(&mut world, 1, &log, Malformed::Credit);
}

#[test]
fn credit_for_what_was_never_sent_ends_the_lane() {
    for (consumed, released) in [(5, 0), (u32::MAX - 3, 0), (4, 1), (4, 1 << 31)] {
        let mut world = InboxesJob::new(SMALL, 0);
        for _ in 0..4 {
            assert_eq!(world.short(0, 1, b"x"), Post::Done);
        }
        let credit = SMALL.credit_at(0);
        world.set_word(1, credit, consumed);
        world.set_word(1, credit + 4, released);
        assert_eq!(world.short(0, 1, b"x"), Post::Never(Cause::PeerDead), "the post finds it");
        let log = world.poll(0, 8);
        assert_lost(&mut world, 0, &log, Malformed::Credit);
    }
}

#[test]
fn credit_in_a_head_for_what_was_never_sent_ends_the_lane() {
    for consumed in [1, 5, 1 << 14, 0x7FFF] {
        let mut world = InboxesJob::new(SMALL, 0);
        let log = announce(&mut world, consumed, 0, 1);
        assert_lost(&mut world, 1, &log, Malformed::Credit);
    }
}

#[test]
fn credit_in_a_head_that_is_old_is_no_news() {
    for consumed in [0, 0x8000, 0xFFFF] {
        let mut world = InboxesJob::new(SMALL, 0);
        assert_eq!(announce(&mut world, consumed, 0, 1).arrived, [(0, vec![])]);
    }
}

#[test]
fn credit_that_turns_bad_while_waiting_ends_the_lane() {
    let mut world = InboxesJob::new(SMALL, 0);
    while world.short(0, 1, b"x") == Post::Done {}
    assert_eq!(world.short(0, 1, b"x"), Post::Again(Again::NoSlot));
    world.set_word(1, SMALL.credit_at(0), 77);
    let log = world.poll(0, 8);
    assert_lost(&mut world, 0, &log, Malformed::Credit);
}
