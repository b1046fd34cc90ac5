//! Ranks with fewer lanes than peers: their shared inboxes, and lanes that change hands.

use std::vec;
use std::vec::Vec;

use aldis_hal::cause::Malformed;
use aldis_hal::transport::{Quiesce, Transport};
use aldis_hal::{Again, Cause, Extras, PeerId, Post};

use super::{InboxesJob, SMALL};
use crate::shm::Geometry;
use crate::shm::inbox::INBOX_SLOTS;
use crate::shm::path::{LaneStage, PathRecord};

/// Three ranks that have one lane each.
const ONE_LANE: Geometry = Geometry { peers: 3, lanes: 1, ..SMALL };

/// The offset of a slot's owner word, of its label's two words, and of the flags.
const fn owner_at(slot: usize) -> usize {
    Geometry::SHARED_AT + 128 + slot * 8
}
const fn label_at(geometry: Geometry, slot: usize) -> usize {
    Geometry::SHARED_SLOTS_AT + slot * geometry.shared_stride()
}
const FLAGS: usize = Geometry::SHARED_AT;

fn stage(world: &InboxesJob, rank: u32, peer: u32) -> LaneStage {
    world.ranks[rank as usize].lanes.peer(peer).unwrap().path.stage
}

/// Sends numbered messages one by one, each received before the next.
fn talk(world: &mut InboxesJob, from: u32, to: u32, numbers: core::ops::Range<u8>) {
    for number in numbers {
        assert_eq!(world.short(from, to, &[number]), Post::Done);
        assert_eq!(world.poll(to, 8).arrived, [(from, vec![number])]);
        assert_eq!(world.poll(from, 8).events(), 0);
    }
}

#[test]
fn all_reach_all_whatever_the_number_of_lanes() {
    let geometry = Geometry { peers: 40, ..SMALL };
    let mut world = InboxesJob::new(geometry, 7);
    for round in 0..40_u8 {
        let message = vec![round; if round % 3 == 0 { 128 } else { 9 }];
        let mut came = vec![Vec::new(); 40];
        for from in 0..40 {
            for to in (0..40).filter(|to| *to != from) {
                while world.reserve(from, to, &message) != Post::Done {
                    came[to as usize].extend(world.poll(to, 1000).arrived);
                    came[from as usize].extend(world.poll(from, 1000).arrived);
                }
            }
        }
        for (to, came) in (0..).zip(&mut came) {
            // Records are no events: a poll without any is not the last.
            for _ in 0..4 {
                came.extend(world.poll(to, 1000).arrived);
            }
            came.sort();
            let senders = (0..40).filter(|from| *from != to);
            assert!(came.iter().cloned().eq(senders.map(|from| (from, message.clone()))), "rank {to}");
        }
    }
    let lanes: Vec<_> = (1..40).map(|peer| stage(&world, 0, peer)).collect();
    assert_eq!(lanes.iter().filter(|stage| **stage != LaneStage::None).count(), 32, "{lanes:?}");
}

#[test]
fn a_peer_that_talks_gets_a_lane_and_one_that_is_idle_gives_it_back() {
    let mut world = InboxesJob::new(ONE_LANE, 0);
    talk(&mut world, 1, 0, 0..15);
    assert_eq!(stage(&world, 0, 1), LaneStage::None);
    talk(&mut world, 1, 0, 15..17);
    assert_eq!(stage(&world, 0, 1), LaneStage::Open);
    talk(&mut world, 1, 0, 17..40);
    // The other one talks, and there is no lane but one that is in use.
    talk(&mut world, 2, 0, 0..40);
    assert_eq!((stage(&world, 0, 1), stage(&world, 0, 2)), (LaneStage::Open, LaneStage::None));
    for _ in 0..300 {
        assert_eq!(world.poll(0, 8).events(), 0);
    }
    talk(&mut world, 2, 0, 40..64);
    assert_eq!(world.poll(1, 8).events(), 0, "it is asked, and closes the lane");
    talk(&mut world, 2, 0, 64..96);
    assert_eq!((stage(&world, 0, 1), stage(&world, 0, 2)), (LaneStage::None, LaneStage::Open));
    talk(&mut world, 1, 0, 40..80);
    talk(&mut world, 2, 0, 96..128);
}

/// The number of peers that a rank has ends for.
fn ends_in_use(world: &InboxesJob, rank: u32) -> usize {
    world.ranks[rank as usize].lanes.ends_in_use()
}

/// Ranks that have one lane each, more of them than a rank has ends for.
const MANY: Geometry = Geometry { peers: 70, ..ONE_LANE };

#[test]
fn ends_go_from_peers_that_are_idle_to_those_that_are_talked_to() {
    // Whether credit is told at the last message, as at every one of a few, or not.
    for (slots, count) in [(4, 20), (16, 18), (16, 19), (16, 23)] {
        ends_go_to_those_that_are_talked_to(Geometry { slots, ..MANY }, count);
    }
}

fn ends_go_to_those_that_are_talked_to(geometry: Geometry, count: u8) {
    let mut world = InboxesJob::new(geometry, 0);
    for peer in 1..64 {
        talk(&mut world, 0, peer, 0..count);
        assert_eq!((stage(&world, peer, 0), ends_in_use(&world, 0)), (LaneStage::Open, peer as usize));
    }
    // The lane is granted, and taken over once a peer has been found to which nothing is sent.
    talk(&mut world, 0, 64, 0..20);
    assert_eq!((stage(&world, 64, 0), ends_in_use(&world, 0)), (LaneStage::Granted, 63));
    talk(&mut world, 0, 64, 20..60);
    assert_eq!((stage(&world, 64, 0), ends_in_use(&world, 0)), (LaneStage::Open, 63));
    for _ in 0..4 {
        (1..64).for_each(|peer| assert_eq!(world.poll(peer, 8).events(), 0));
    }
    let drained = (1..64).filter(|peer| stage(&world, *peer, 0) == LaneStage::Drained);
    let drained: Vec<_> = drained.collect();
    assert!(matches!(drained[..], [_]), "{drained:?}");
    // One that has closed its lane and talks again gets it again.
    talk(&mut world, 0, drained[0], count..80);
    assert_eq!((stage(&world, drained[0], 0), ends_in_use(&world, 0)), (LaneStage::Open, 63));
}

#[test]
fn a_lane_that_is_granted_to_a_rank_without_ends_goes_back_when_another_wants_it() {
    let mut world = InboxesJob::new(MANY, 0);
    (1..64).for_each(|peer| talk(&mut world, 0, peer, 0..20));
    for number in 20..80 {
        (1..65).for_each(|peer| {
            let first = if peer == 64 { number - 20 } else { number };
            talk(&mut world, 0, peer, first..first + 1);
        });
        let inbox = world.ranks[64].inbox.shared();
        let claimed = (0..INBOX_SLOTS).filter(|slot| inbox.owner(*slot).is_some());
        assert_eq!(claimed.count(), 0, "none of its slots is kept for the record");
    }
    assert_eq!((stage(&world, 64, 0), ends_in_use(&world, 0)), (LaneStage::Granted, 63), "all are in use");
    talk(&mut world, 1, 64, 0..17);
    assert_eq!(world.poll(0, 8).events(), 0, "it is asked, and gives the lane back");
    talk(&mut world, 1, 64, 17..40);
    assert_eq!((stage(&world, 64, 0), stage(&world, 64, 1)), (LaneStage::None, LaneStage::Open));
    assert_eq!(ends_in_use(&world, 64), 1);
    talk(&mut world, 0, 64, 60..80);
}

#[test]
fn a_peer_that_is_let_go_gives_its_ends_back() {
    let mut world = InboxesJob::new(MANY, 0);
    (1..64).for_each(|peer| talk(&mut world, 0, peer, 0..20));
    assert_eq!(world.ranks[0].quiesce(Quiesce::Peer(PeerId(5))), Ok(()));
    assert_eq!(ends_in_use(&world, 0), 62);
    talk(&mut world, 0, 64, 0..20);
    assert_eq!((stage(&world, 64, 0), ends_in_use(&world, 0)), (LaneStage::Open, 63));
}

/// A peer's inbox is looked at before the first message to it: what is amiss there is told then.
#[test]
fn a_peer_that_is_never_talked_to_is_never_looked_at() {
    let is_met = |world: &InboxesJob, rank: usize| {
        world.ranks[rank].lanes.iter().map(|peer| peer.path.is_met).collect::<Vec<_>>()
    };
    let mut world = InboxesJob::apart(Geometry { peers: 5, ..ONE_LANE }, 0);
    // No inbox, one of another version, and one of an earlier life.
    world.set_word(2, 0, 0);
    world.set_word(3, 4, world.word(3, 4) + 1);
    world.set_word(4, 11 * 4, 9);
    for (rank, peer) in (0..2).flat_map(|rank| (0..5).map(move |peer| (rank, peer))) {
        let expected = if rank == peer { Err(Cause::Unreachable) } else { Ok(()) };
        assert_eq!(world.attach(rank, peer), expected, "{rank} to {peer}");
    }
    assert_eq!(is_met(&world, 1), [true, false, false, false, false], "rank 0 counts those that sleep");
    talk(&mut world, 1, 0, 0..15);
    assert_eq!(is_met(&world, 0), [false; 5], "it has sent nothing");
    talk(&mut world, 1, 0, 15..40);
    assert_eq!(is_met(&world, 0), [false, true, false, false, false], "it has granted a lane");
    for (peer, cause) in [(2, Cause::BadRegion), (3, Cause::Incompatible), (4, Cause::BadRegion)] {
        assert_eq!(world.short(1, peer, b"short"), Post::Never(cause), "to {peer}");
        assert_eq!(world.reserve(1, peer, &[0; 128]), Post::Never(cause), "to {peer}");
    }
    world.set_word(0, 0, 0);
    assert_eq!(world.attach(2, 0), Err(Cause::BadRegion));
}

/// All learn who has left, after the last message of each, in a lane or in the inbox.
#[test]
fn a_rank_that_leaves_is_lost_to_all_once_its_messages_are_taken() {
    let mut world = InboxesJob::new(Geometry { peers: 5, ..ONE_LANE }, 0);
    talk(&mut world, 1, 0, 0..40);
    assert_eq!(stage(&world, 0, 1), LaneStage::Open);
    for last in 0..3 {
        assert_eq!(world.short(1, 0, &[last]), Post::Done);
        assert_eq!(world.short(2, 0, &[last]), Post::Done);
    }
    for rank in 1..4_usize {
        assert!((0..4).all(|peer| world.ranks[rank].tells_departure(PeerId(peer)) != (peer == rank as u32)));
        world.ranks[rank].depart();
    }
    let (mut arrived, mut lost) = (Vec::new(), Vec::new());
    while lost.len() < 3 {
        let log = world.poll(0, 1);
        assert_eq!(log.events(), 1, "each poll brings something");
        arrived.extend(log.arrived);
        if let [(peer, cause)] = log.lost[..] {
            assert_eq!(cause, Cause::PeerLeft);
            assert_eq!(arrived.iter().filter(|(from, _)| *from == peer).count(), [0, 3, 3, 0][peer as usize]);
            lost.push(peer);
        }
    }
    assert_eq!(lost, [1, 2, 3], "in the order in which they left");
    // One that has never talked to them, and one that has left itself.
    for rank in [4, 2] {
        let others = [1, 2, 3].into_iter().filter(|peer| *peer != rank);
        let expected: Vec<_> = others.map(|peer| (peer, Cause::PeerLeft)).collect();
        assert_eq!(world.poll(rank, 8).lost, expected, "rank {rank}");
    }
    world.ranks[4].depart();
    world.ranks[0].depart();
    let lost = [(4, Cause::PeerLeft), (0, Cause::PeerLeft)];
    assert_eq!(world.poll(3, 8).lost[2..], lost);
    assert!((0..5).all(|rank| world.poll(rank, 8).arrived.is_empty()));
}

/// No number in the log is trusted.
#[test]
fn what_cannot_be_in_the_log_of_departures_is_passed_over() {
    let mut world = InboxesJob::new(ONE_LANE, 0);
    for (place, value) in [1, 9, u32::MAX].into_iter().enumerate() {
        world.set_word(0, ONE_LANE.departures_at() + 4 * place, value);
    }
    assert_eq!(world.poll(0, 8).lost, [], "the first is itself");
    world.ranks[2].depart();
    assert_eq!(world.poll(0, 8).lost, [], "there is no room");
    assert_eq!(world.poll(1, 8).lost, [(0, Cause::PeerLeft)]);
}

#[test]
fn a_full_inbox_refuses_and_tells_when_there_is_room() {
    let mut world = InboxesJob::new(ONE_LANE, 0);
    let mut sent = 0;
    while world.short(1, 0, &[sent]) == Post::Done {
        sent += 1;
    }
    assert_eq!(sent, 8, "an eighth of the slots");
    assert_eq!(world.reserve(1, 0, &[0; 128]), Post::Again(Again::NoSlot));
    assert_eq!(world.poll(1, 8).events(), 0);
    assert_eq!(world.poll(0, 3).arrived, (0..3).map(|number| (1, vec![number])).collect::<Vec<_>>());
    assert_eq!(world.poll(1, 8).ready, [0]);
    assert_eq!(world.short(1, 0, &[8]), Post::Done);
}

#[test]
fn a_sender_that_is_killed_while_it_writes_stops_no_other() {
    let geometry = Geometry { peers: 40, ..SMALL };
    let mut world = InboxesJob::new(geometry, 0);
    // Rank 39 has claimed slots and is gone.
    for slot in 0..8 {
        world.set_word(0, owner_at(slot), 40);
    }
    for round in 0..100 {
        for from in 1..39 {
            assert_eq!(world.short(from, 0, &[round]), Post::Done, "from {from}");
        }
        let mut arrived = 0;
        for _ in 0..2 {
            let log = world.poll(0, 1000);
            assert_eq!(log.lost, []);
            arrived += log.arrived.len();
        }
        assert_eq!(arrived, 38);
    }
}

#[test]
fn what_cannot_be_ends_the_traffic_of_its_sender_alone() {
    let record = |record: PathRecord| 1 << 31 | record.word();
    for (sequence, about, what) in [
        (0, 129, Malformed::Length),
        (0, 1 << 30, Malformed::Length),
        (64, 8, Malformed::Sequence { got: 64, need: 0 }),
        (u32::MAX, 8, Malformed::Sequence { got: 0xFFFF, need: 0 }),
        (0, 1 << 31, Malformed::Control),
        (0, record(PathRecord::Close), Malformed::Control),
        (0, record(PathRecord::HandOver(0)), Malformed::Control),
        (0, record(PathRecord::Grant(1)), Malformed::Control),
        (0, u32::MAX, Malformed::Control),
    ] {
        let mut world = InboxesJob::new(ONE_LANE, 0);
        world.set_word(0, owner_at(5), 2);
        world.set_word(0, label_at(ONE_LANE, 5), sequence);
        world.set_word(0, label_at(ONE_LANE, 5) + 4, about);
        world.set_word(0, FLAGS, 1 << 5);
        let log = world.poll(0, 8);
        assert_eq!((log.arrived.len(), log.lost), (0, vec![(1, Cause::Malformed(what))]), "{about:#x}");
        assert_eq!(world.short(0, 1, b"x"), Post::Never(Cause::PeerDead));
        assert_eq!(world.short(1, 0, b"late"), Post::Done, "it does not know yet");
        assert_eq!(world.short(2, 0, b"fine"), Post::Done);
        assert_eq!(world.poll(0, 8).arrived, [(2, b"fine".to_vec())]);
    }
}

#[test]
fn what_is_of_no_sender_ends_the_inbox_and_no_lane() {
    for owner in [0, 1, 4, u32::MAX] {
        let mut world = InboxesJob::new(ONE_LANE, 0);
        talk(&mut world, 2, 0, 0..20);
        assert_eq!(stage(&world, 0, 2), LaneStage::Open);
        world.set_word(0, owner_at(63), owner);
        world.set_word(0, FLAGS + 4, 1 << 31);
        let mut lost = world.poll(0, 8).lost;
        lost.extend(world.poll(0, 8).lost);
        assert_eq!(lost, [(1, Cause::Malformed(Malformed::Credit))], "owner {owner}");
        assert_eq!(world.short(2, 0, b"fine"), Post::Done);
        assert_eq!(world.poll(0, 8).arrived, [(2, b"fine".to_vec())]);
        assert_eq!(world.short(0, 2, b"too"), Post::Done);
    }
}

#[test]
fn an_answer_in_a_block_of_no_lane_is_refused() {
    let mut world = InboxesJob::new(ONE_LANE, 0);
    talk(&mut world, 1, 0, 0..17);
    assert_eq!(stage(&world, 0, 1), LaneStage::Open);
    // Of an answer, in the first slot of the lane after the hand-over, and in the ping-pong slot.
    for (at, sequence) in [(0, 1), (4 * 128, 1)] {
        world.set_word(0, ONE_LANE.ring_at(0) + at + 4, 1 << 31 | 1 << 29);
        world.set_word(0, ONE_LANE.ring_at(0) + at + 8, 8);
        world.set_word(0, ONE_LANE.ring_at(0) + at, sequence);
    }
    let log = world.poll(0, 8);
    assert_eq!((log.arrived.len(), log.lost), (0, vec![(1, Cause::Malformed(Malformed::Length))]));
}
