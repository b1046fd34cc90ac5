//! Sending, refusal and readiness, fairness, budgets, letting go.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use aldis_hal::transport::{Quiesce, Slot, Transport};
use aldis_hal::{
    Again, Cause, Cost, Extras, Features, Handle, Instant, PeerId, Post, Refusal, RegionId, Token,
};

use super::{InboxesJob, SMALL, ShmLog, identity, lanes, memory, region};
use crate::shm::{Geometry, NodeRank, Shm, format};

#[test]
fn every_length_arrives_whole_by_either_way() {
    let mut world = InboxesJob::new(SMALL, 0);
    for len in 0..=128 {
        let message: Vec<u8> = (0..len).map(|byte| (byte * 7 + len) as u8).collect();
        assert_eq!(world.reserve(0, 1, &message), Post::Done);
        assert_eq!(world.poll(1, 8).arrived, [(0, message.clone())]);
        if len <= 120 {
            assert_eq!(world.short(0, 1, &message), Post::Done);
            assert_eq!(world.poll(1, 8).arrived, [(0, message)]);
        }
    }
}

/// Around the length from which on payloads are written past the caches; also in the block of the
/// message before, where they are not.
#[test]
fn every_long_message_arrives_whole_wherever_its_header_ends() {
    let geometry = Geometry { blocks: 4, slots: 16, block_bytes: 16 << 10, ..SMALL };
    let mut world = InboxesJob::new(geometry, 0);
    for len in [2047, 2048, 2049, 4096, (12 << 10) - 1, 12 << 10, (16 << 10) - 48] {
        for header_len in [0, 1, 32, 48] {
            let message: Vec<u8> = (0..header_len + len).map(|byte| (byte * 7 + len) as u8).collect();
            let (header, payload) = message.split_at(header_len);
            for (from, to) in [(0, 1), (0, 1), (1, 0), (0, 1), (1, 0)] {
                assert_eq!(world.write(from, to, header, payload), Post::Done);
                assert_eq!(world.poll(to, 8).arrived, [(from, message.clone())]);
            }
        }
    }
}

/// Checks the same for a sender that is ahead of its receiver.
#[test]
fn every_long_message_of_a_sender_that_is_ahead_arrives_whole() {
    let geometry = Geometry { blocks: 8, slots: 16, block_bytes: 8192, ..SMALL };
    let mut world = InboxesJob::new(geometry, 0);
    for len in [2047, 2048, 2049, 5000, 8192 - 32] {
        let message = |first: usize| (0..32 + len).map(|byte| (byte * 7 + first) as u8).collect::<Vec<u8>>();
        let messages: Vec<Vec<u8>> = (0..8).map(message).collect();
        for message in &messages {
            assert_eq!(world.write(0, 1, &message[..32], &message[32..]), Post::Done);
        }
        let expected: Vec<_> = messages.into_iter().map(|message| (0, message)).collect();
        assert_eq!(world.poll(1, 8).arrived, expected);
    }
}

#[test]
fn every_split_of_a_short_message_arrives_whole() {
    let mut world = InboxesJob::new(SMALL, 0);
    let bytes: Vec<u8> = (1..=120).collect();
    for len in 0..=120 {
        for split in 0..=len {
            let (header, payload) = bytes[..len].split_at(split);
            assert_eq!(world.ranks[0].short(PeerId(1), header, payload), Post::Done);
            assert_eq!(world.poll(1, 8).arrived, [(0, bytes[..len].to_vec())], "{split} of {len}");
        }
    }
}

#[test]
fn a_look_sees_the_next_message_of_one_peer_and_takes_nothing() {
    let mut world = InboxesJob::new(Geometry { peers: 3, ..SMALL }, u32::MAX - 2);
    let news = |world: &InboxesJob| [0, 2].map(|peer| world.ranks[1].has_news(PeerId(peer)));
    // In ping-pong slots as a rule, in the ring where a second is under way; around the wrap of
    // positions.
    for round in 0..8 {
        assert_eq!(news(&world), [false, false]);
        assert_eq!(world.short(2, 1, &[round]), Post::Done);
        assert_eq!(news(&world), [false, true]);
        assert_eq!(world.short(2, 1, &[round]), Post::Done);
        assert_eq!((news(&world), world.poll(1, 1).arrived), ([false, true], vec![(2, vec![round])]));
        assert_eq!((news(&world), world.poll(1, 1).arrived), ([false, true], vec![(2, vec![round])]));
    }
    assert!(!world.ranks[1].has_news(PeerId(1)) && !world.ranks[1].has_news(PeerId(9)));
}

#[test]
fn what_is_too_big_never_goes() {
    let mut world = InboxesJob::new(SMALL, 0);
    assert_eq!(world.short(0, 1, &[0; 121]), Post::Never(Cause::TooBig { len: 121, max: 120 }));
    assert_eq!(world.reserve(0, 1, &[0; 129]), Post::Never(Cause::TooBig { len: 129, max: 128 }));
}

#[test]
fn a_full_ring_refuses_and_tells_when_there_is_room() {
    let mut world = InboxesJob::new(SMALL, 0);
    for number in 0..4 {
        assert_eq!(world.short(0, 1, &[number]), Post::Done);
    }
    assert_eq!(world.short(0, 1, &[4]), Post::Again(Again::NoSlot));
    assert_eq!(world.poll(0, 8).events(), 0, "not ready while nothing was consumed");
    assert_eq!(world.poll(1, 1).arrived, [(0, vec![0])]);
    assert_eq!(world.poll(0, 8).ready, [1]);
    assert_eq!(world.poll(0, 8).events(), 0, "told once");
    assert_eq!(world.short(0, 1, &[4]), Post::Done);
    let rest: Vec<_> = (1..5).map(|number| (0, vec![number])).collect();
    assert_eq!(world.poll(1, 8).arrived, rest);
}

#[test]
fn ranks_that_answer_each_other_stay_at_home_and_a_stream_takes_the_ring() {
    let mut world = InboxesJob::new(SMALL, 0);
    for round in 0..100 {
        assert_eq!(world.short(0, 1, &[round]), Post::Done);
        assert_eq!(world.poll(1, 8).arrived, [(0, vec![round])]);
        assert_eq!(world.short(1, 0, &[round]), Post::Done);
        assert_eq!(world.poll(0, 8).arrived, [(1, vec![round])]);
    }
    let sequence = |world: &InboxesJob, slot: usize| world.word(1, SMALL.ring_at(0) + slot * 128);
    let sequences: Vec<u32> = (0..6).map(|slot| sequence(&world, slot)).collect();
    assert_eq!(sequences, [1, 0, 0, 0, 99, 98], "the first message, and the last two at home");
    for number in 0..4 {
        assert_eq!(world.short(0, 1, &[number]), Post::Done);
    }
    let sequences: Vec<u32> = (0..6).map(|slot| sequence(&world, slot)).collect();
    assert_eq!(sequences, [1, 2, 3, 0, 101, 100], "two at home, as the first was alone, and two behind them");
    assert_eq!(
        world.short(0, 1, &[4]),
        Post::Again(Again::NoSlot),
        "four are under way, wherever they stand"
    );
    assert_eq!(world.poll(1, 8).arrived.len(), 4);
}

#[test]
fn credit_heard_long_after_it_was_told_is_no_news() {
    for behind in [100, 30_000, 50_000, 65_536, 70_000] {
        let mut world = InboxesJob::new(SMALL, 0);
        assert_eq!(world.short(1, 0, b"early"), Post::Done);
        for _ in 0..behind {
            assert_eq!(world.short(0, 1, &[1]), Post::Done);
            assert_eq!(world.poll(1, 8).arrived, [(0, vec![1])]);
        }
        assert_eq!(world.short(0, 1, &[2]), Post::Done);
        assert_eq!(world.short(0, 1, &[3]), Post::Done);
        assert_eq!(world.poll(0, 8).arrived, [(1, b"early".to_vec())], "{behind}");
        assert_eq!(world.short(0, 1, &[4]), Post::Done);
        assert_eq!(world.poll(1, 8).arrived, [(0, vec![2]), (0, vec![3]), (0, vec![4])], "{behind}");
    }
}

#[test]
fn ranks_that_answer_each_other_use_one_block() {
    let geometry = Geometry { blocks: 8, slots: 64, ..SMALL };
    let mut world = InboxesJob::new(geometry, 0);
    for round in 0..50 {
        for (from, to) in [(0, 1), (1, 0)] {
            assert_eq!(world.reserve(from, to, &[round; 125]), Post::Done);
            assert_eq!(world.poll(to, 8).arrived, [(from, vec![round; 125])]);
        }
    }
    // Beyond the ring, its ping-pong slots and the credit line.
    let block = |index: usize| geometry.ring_at(0) + 67 * 128 + index * 128;
    assert_eq!(world.word(1, block(0)), u32::from_le_bytes([49; 4]));
    assert_eq!(world.word(1, block(1)), 0xA5A5_A5A5, "never used");
    let other = world.word(0, block(0));
    assert_eq!(other, u32::from_le_bytes([47; 4]), "answers stand there too, but those after a credit line");
    for number in 0..8 {
        assert_eq!(world.reserve(0, 1, &[number; 125]), Post::Done);
    }
    assert_eq!(
        world.reserve(0, 1, &[8; 125]),
        Post::Again(Again::NoCredit),
        "all eight are free, and no more"
    );
    assert_eq!(world.poll(1, 8).arrived.len(), 8);
    assert_eq!(world.poll(0, 8).ready, [1]);
    assert_eq!(world.reserve(0, 1, &[9; 125]), Post::Done);
}

#[test]
fn a_flood_of_blocks_after_any_volley_is_taken_at_any_pace() {
    let geometry = Geometry { blocks: 8, slots: 16, ..SMALL };
    for (volleys, first) in (0..20).flat_map(|volleys| (1..9).map(move |first| (volleys, first))) {
        let mut world = InboxesJob::new(geometry, 0);
        for _ in 0..volleys {
            for (from, to) in [(0, 1), (1, 0)] {
                assert_eq!(world.reserve(from, to, &[1; 125]), Post::Done);
                assert_eq!(world.poll(to, 8).arrived.len(), 1);
            }
        }
        let (mut sent, mut arrived) = (0, 0);
        for budget in [first, 16, first, 16] {
            while world.reserve(0, 1, &[2; 125]) == Post::Done {
                sent += 1;
            }
            let log = world.poll(1, budget);
            assert_eq!(log.lost, [], "{volleys} volleys, {sent} messages, {first} polled first");
            arrived += log.arrived.len();
            world.poll(0, 8);
        }
        assert_eq!(arrived + world.poll(1, 16).arrived.len(), sent);
    }
}

#[test]
fn blocks_run_out_before_slots_and_come_back() {
    let mut world = InboxesJob::new(SMALL, 0);
    let large = |byte| vec![byte; 125];
    assert_eq!(world.reserve(0, 1, &large(0)), Post::Done);
    assert_eq!(world.reserve(0, 1, &large(1)), Post::Done);
    assert_eq!(world.reserve(0, 1, &large(2)), Post::Again(Again::NoCredit));
    assert_eq!(world.short(0, 1, &[9]), Post::Done, "short messages need no block");
    assert_eq!(world.poll(0, 8).events(), 0);
    assert_eq!(world.poll(1, 8).arrived, [(0, large(0)), (0, large(1)), (0, vec![9])]);
    assert_eq!(world.poll(0, 8).ready, [1]);
    assert_eq!(world.reserve(0, 1, &large(2)), Post::Done);
}

#[test]
fn a_dropped_slot_has_taken_nothing() {
    let mut world = InboxesJob::new(SMALL, 0);
    for _ in 0..20 {
        for len in [8, 125] {
            let mut slot = world.ranks[0].reserve(PeerId(1), len).unwrap();
            assert_eq!(slot.bytes().len(), len);
            slot.bytes().fill(0xEE);
        }
    }
    assert_eq!(world.poll(1, 8).events(), 0);
    assert_eq!(world.reserve(0, 1, &[1; 125]), Post::Done);
    assert_eq!(world.reserve(0, 1, &[2; 125]), Post::Done);
    assert_eq!(world.short(0, 1, &[3]), Post::Done);
    let arrived = world.poll(1, 8).arrived;
    assert_eq!(arrived, [(0, vec![1; 125]), (0, vec![2; 125]), (0, vec![3])]);
}

#[test]
fn readiness_and_arrivals_share_a_budget_of_one() {
    let mut world = InboxesJob::new(SMALL, 0);
    let (mut arrived, mut ready) = (0, 0);
    for _ in 0..100 {
        while world.short(0, 1, &[0]) == Post::Done {}
        while world.short(1, 0, &[0]) == Post::Done {}
        let _ = world.poll(1, 8);
        let log = world.poll(0, 1);
        arrived += log.arrived.len();
        ready += log.ready.len();
    }
    assert!(arrived >= 40 && ready >= 40, "{arrived} arrivals, {ready} times ready");
}

/// Each sender's share when all are greedy and the receiver's budget is small.
fn shares(geometry: Geometry, budget: u32, polls: u32) -> BTreeMap<u32, u32> {
    let mut world = InboxesJob::new(geometry, 0);
    let mut shares = BTreeMap::new();
    for _ in 0..polls {
        for sender in 1..geometry.peers {
            while world.short(sender, 0, &[0]) == Post::Done {}
        }
        for (from, _) in world.poll(0, budget).arrived {
            *shares.entry(from).or_default() += 1;
        }
    }
    shares
}

#[test]
fn greedy_senders_get_equal_shares() {
    for peers in [5, 40] {
        let geometry = Geometry { peers, slots: 32, lanes: 32, blocks: 1, block_bytes: 64, sets: 0 };
        for budget in [1, 3, 7, 64] {
            let shares = shares(geometry, budget, 400);
            assert_eq!(shares.len() as u32, peers - 1, "{peers} ranks, budget {budget}: {shares:?}");
            let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
            assert!(most - least <= 64.max(most / 5), "{peers} ranks, budget {budget}: {shares:?}");
        }
    }
}

#[test]
fn a_flood_is_cut_into_bursts() {
    let mut world =
        InboxesJob::new(Geometry { peers: 3, slots: 64, lanes: 32, blocks: 1, block_bytes: 64, sets: 0 }, 0);
    while world.short(1, 0, &[1]) == Post::Done {}
    assert_eq!(world.short(2, 0, &[2]), Post::Done);
    let arrived = world.poll(0, 1000).arrived;
    assert!(arrived.contains(&(2, vec![2])));
    assert_eq!(arrived.len(), 17, "sixteen of the flood at a time");
}

#[test]
fn a_nodes_ranks_are_ranks_of_the_job() {
    const FIRST: u32 = 5;
    for peers in [3, 20, 40] {
        let geometry = Geometry { peers, ..SMALL };
        let inboxes: Vec<_> = (0..peers).map(|_| memory(geometry.inbox_bytes())).collect();
        let join = |number: u32, short: u32| {
            let inbox = region(inboxes[number as usize]);
            let lanes = lanes((FIRST - short) as usize + geometry.lane_entries());
            Shm::of_node(
                NodeRank { first: PeerId(FIRST), identity: identity(number) },
                inbox,
                lanes,
                Cost::default(),
            )
        };
        for (number, inbox) in (0..peers).zip(&inboxes) {
            format(&region(*inbox), geometry, identity(number)).unwrap();
        }
        let (mut first, mut last) = (join(0, 0).unwrap(), join(peers - 1, 0).unwrap());
        let (one, other) = (PeerId(FIRST), PeerId(FIRST + peers - 1));
        let their = |number: u32| (region(inboxes[number as usize]), identity(number));
        let (inbox, owner) = their(0);
        assert_eq!(last.attach(PeerId(0), inbox, owner), Err(Cause::BadRegion), "numbers are no ranks");
        let (inbox, owner) = their(0);
        last.attach(one, inbox, owner).unwrap();
        let (inbox, owner) = their(peers - 1);
        first.attach(other, inbox, owner).unwrap();
        assert_eq!(first.reach(PeerId(peers - 1)), Err(Cause::Unreachable));
        for _ in 0..300 {
            assert_eq!(last.poll(8, Instant(0), &mut ShmLog::default()), 0);
        }
        assert_eq!(first.short(other, b"by ", b"name"), Post::Done);
        let mut log = ShmLog::default();
        for _ in 0..2 {
            last.poll(8, Instant(0), &mut log);
        }
        assert_eq!(log.arrived, [(FIRST, b"by name".to_vec())]);
        let refused = join(1, 1).unwrap_err();
        assert!(
            matches!(refused, Cause::TooSmall { need, .. } if need as usize == FIRST as usize + geometry.lane_entries()),
            "{refused}"
        );
    }
}

#[test]
fn what_was_sent_before_attaching_is_delivered_after_it() {
    for peers in [2, 30, 40] {
        let mut world = InboxesJob::apart(Geometry { peers, ..SMALL }, 0);
        world.attach(0, 1).unwrap();
        assert_eq!(world.short(0, 1, b"early"), Post::Done);
        for _ in 0..5 {
            assert_eq!(world.poll(1, 8).events(), 0);
        }
        assert_eq!(world.short(1, 0, b"no"), Post::Never(Cause::Unreachable));
        world.attach(1, 0).unwrap();
        assert_eq!(world.poll(1, 8).arrived, [(0, b"early".to_vec())]);
    }
}

#[test]
fn a_quiesced_peer_is_gone_for_good() {
    for peers in [2, 30, 40] {
        let mut world = InboxesJob::new(Geometry { peers, ..SMALL }, 0);
        assert_eq!(world.short(1, 0, b"cut off"), Post::Done);
        while world.short(0, 1, &[1]) == Post::Done {}
        world.ranks[0].quiesce(Quiesce::Peer(PeerId(1))).unwrap();
        for _ in 0..5 {
            assert_eq!(world.poll(1, 8).lost, []);
            assert_eq!(world.poll(0, 8).events(), 0, "neither arrival nor readiness");
        }
        assert_eq!(world.short(0, 1, b"x"), Post::Never(Cause::PeerDead));
        assert_eq!(world.reserve(0, 1, &[0; 125]), Post::Never(Cause::PeerDead));
        assert_eq!(world.ranks[0].reach(PeerId(1)), Err(Cause::PeerDead));
        assert_eq!(world.attach(0, 1), Err(Cause::Stale));
        assert_eq!(world.ranks[0].quiesce(Quiesce::Peer(PeerId(1))), Ok(()), "a second time is no harm");
    }
}

#[test]
fn there_is_nothing_else_to_quiesce() {
    let mut world = InboxesJob::new(SMALL, 0);
    let shm = &mut world.ranks[0];
    for what in [
        Quiesce::Peer(PeerId(0)),
        Quiesce::Peer(PeerId(9)),
        Quiesce::Region(RegionId::default()),
        Quiesce::Post(Token(Handle::default())),
    ] {
        assert_eq!(shm.quiesce(what), Err(Cause::Stale));
    }
}

#[test]
fn it_reaches_others_and_says_what_it_can() {
    let mut world = InboxesJob::new(SMALL, 0);
    let shm = &mut world.ranks[0];
    let caps = shm.reach(PeerId(1)).unwrap();
    assert_eq!((caps.limits.short_bytes_max, caps.limits.bcopy_bytes_max), (120, 128));
    assert_eq!(caps.features, Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE);
    for peer in [0, 2, u32::MAX] {
        assert_eq!(shm.reach(PeerId(peer)), Err(Cause::Unreachable));
        assert_eq!(shm.short(PeerId(peer), &[], &[]), Post::Never(Cause::Unreachable));
        assert_eq!(shm.reserve(PeerId(peer), 1).err(), Some(Refusal::Never(Cause::Unreachable)));
    }
    assert_eq!(shm.name(), "shm");
}
