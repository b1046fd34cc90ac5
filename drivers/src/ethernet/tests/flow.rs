//! Tests of what a transport promises, on a wire that does no harm.

use std::vec;

use aldis_hal::transport::Quiesce;
use aldis_hal::{Again, Caps, Extras, Features};
use aldis_kit::hub::{DESCRIPTORS, LATENCY_NS};

use super::super::MTU_OVERHEAD_BYTES;
use super::*;

#[test]
fn the_first_post_connects_and_messages_follow_in_order() {
    let mut net = Net::new(2, 1);
    assert_eq!(net.nodes[0].short(1, b"early"), Post::Again(Again::Connecting));
    net.poll(0, 1);
    assert_eq!(net.hub.waiting(station(1)).len(), 1, "the handshake has begun");
    net.until("the connection", |net| net.nodes[0].log.ready == [1]);
    for number in 0..50u8 {
        net.send(0, 1, &vec![number; usize::from(number) * 5]);
        net.send(1, 0, &[number]);
    }
    net.settle();
    let (there, back) = (net.nodes[1].take(), net.nodes[0].take());
    assert_eq!(there.arrived, (0..50u8).map(|n| (0, vec![n; usize::from(n) * 5])).collect::<Vec<_>>());
    assert_eq!(back.arrived, (0..50u8).map(|n| (1, vec![n])).collect::<Vec<_>>());
    let counters = net.nodes[0].ethernet.counters();
    assert_eq!((counters.messages_sent, counters.messages_received, counters.opened), (50, 50, 1));
    assert_eq!((counters.retransmitted, counters.stale, counters.malformed), (0, 0, 0));
}

#[test]
fn two_that_connect_at_once_share_one_connection() {
    let mut net = Net::new(2, 1);
    for (rank, peer) in [(0, 1), (1, 0)] {
        assert_eq!(net.nodes[rank].short(peer, b"x"), Post::Again(Again::Connecting));
    }
    net.until("both", |net| net.nodes.iter().all(|node| node.log.ready.len() == 1));
    assert_eq!((net.nodes[0].short(1, b"a"), net.nodes[1].short(0, b"b")), (Post::Done, Post::Done));
    net.settle();
    assert_eq!(net.nodes[0].take().arrived, [(1, b"b".to_vec())]);
    assert_eq!(net.nodes[1].take().arrived, [(0, b"a".to_vec())]);
    assert!(net.nodes.iter().all(|node| node.ethernet.counters().opened == 1));
}

#[test]
fn a_post_goes_out_at_once() {
    let mut net = Net::pair();
    assert_eq!(net.nodes[0].reserve(1, b"now"), Post::Done);
    let frames = net.hub.waiting(station(1));
    assert!(frames.len() == 1 && frames[0].windows(3).any(|bytes| bytes == b"now"));
}

#[test]
fn messages_of_a_poll_leave_together() {
    let mut net = Net::pair();
    net.nodes[0].ethernet.cork();
    for number in 0..3 {
        assert_eq!(net.nodes[0].short(1, &[number]), Post::Done);
    }
    assert!(net.hub.waiting(station(1)).is_empty());
    net.nodes[0].ethernet.uncork(false);
    assert_eq!(net.hub.waiting(station(1)).len(), 3);
    assert_eq!(net.nodes[0].short(1, b"alone"), Post::Done);
    assert_eq!(net.hub.waiting(station(1)).len(), 4);
    net.settle();
    assert_eq!(net.nodes[1].take().arrived.len(), 4);
}

#[test]
fn a_refused_post_changed_nothing_and_hears_when_there_is_room() {
    let mut net = Net::pair();
    for number in 0..WINDOW as u8 {
        assert_eq!(net.nodes[0].short(1, &[number]), Post::Done);
    }
    for _ in 0..3 {
        assert!(matches!(net.nodes[0].short(1, b"refused"), Post::Again(Again::NoSlot | Again::NoCredit)));
        assert!(matches!(net.nodes[0].reserve(1, b"refused"), Post::Again(Again::NoSlot | Again::NoCredit)));
    }
    net.settle();
    let expected: Vec<_> = (0..WINDOW as u8).map(|number| (0, vec![number])).collect();
    assert_eq!(net.nodes[1].take().arrived, expected);
    assert_eq!(net.nodes[0].take().ready, [1], "told once");
    assert_eq!(net.nodes[0].short(1, b"next"), Post::Done);
}

#[test]
fn a_dropped_slot_has_taken_nothing() {
    let mut net = Net::pair();
    let sent = net.nodes[0].ethernet.counters();
    for _ in 0..3 * WINDOW {
        net.nodes[0].ethernet.reserve(PeerId(1), 9).unwrap().bytes().fill(0xEE);
    }
    assert_eq!(net.nodes[0].ethernet.counters(), sent);
    assert!(net.nodes[0].ethernet.is_idle());
    net.send(0, 1, b"whole");
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, [(0, b"whole".to_vec())]);
}

#[test]
fn padding_is_not_part_of_a_message() {
    let mut net = Net::pair();
    for len in 0..4 {
        net.send(0, 1, &[7; 4][..len]);
    }
    assert!(net.hub.waiting(station(1)).iter().all(|frame| frame.len() == 60));
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, (0..4).map(|len| (0, vec![7; len])).collect::<Vec<_>>());
}

#[test]
fn what_cannot_go_is_told() {
    let mut net = Net::new(2, 1);
    let node = &mut net.nodes[0];
    for absent in [0, 2, 9, u32::MAX] {
        assert_eq!(node.short(absent, b"x"), Post::Never(Cause::Unreachable), "rank {absent}");
        assert_eq!(node.ethernet.reach(PeerId(absent)), Err(Cause::Unreachable));
    }
    let max = BYTES as u64;
    assert_eq!(node.short(1, &[0; BYTES + 1]), Post::Never(Cause::TooBig { len: max + 1, max }));
    let Caps { features, limits, .. } = *node.ethernet.reach(PeerId(1)).unwrap();
    assert_eq!((limits.short_bytes_max, limits.bcopy_bytes_max), (BYTES as u32, BYTES as u32));
    assert!(features.contains(Features::ORDERED | Features::RELIABLE | Features::TIMED));
    assert_eq!(node.ethernet.features(), features);

    let own = node.ethernet.address();
    let wrong: [&[u8]; 4] = [b"", &[2; 7], &[0xFF; 6], &own];
    for address in wrong {
        assert_eq!(node.ethernet.introduce(PeerId(2), Epoch(1), address), Err(Cause::Unreachable));
    }
    for rank in [0, 5] {
        assert_eq!(node.ethernet.introduce(PeerId(rank), Epoch(1), &[2; 6]), Err(Cause::Unreachable));
    }
}

#[test]
fn a_device_that_is_too_small_and_times_that_contradict_are_refused() {
    let hub = Hub::new(1);
    let mut storage = EthernetStorage::<1, 8, BYTES>::new();
    let need = BYTES + MTU_OVERHEAD_BYTES;
    let small = Ethernet::new(hub.nic(1, need - 1), storage.memory(), config(0, 1)).err();
    assert_eq!(small, Some(Cause::TooBig { len: need as u64, max: need as u64 - 1 }));
    let unborn = Ethernet::new(hub.nic(1, need), storage.memory(), config(0, 0)).err();
    assert_eq!(unborn, Some(Cause::Incompatible));
    let mut hasty = config(0, 1);
    hasty.link.give_up_ns = 0;
    assert!(matches!(Ethernet::new(hub.nic(1, need), storage.memory(), hasty), Err(Cause::Malformed(_))));
}

#[test]
fn letting_go_ends_it_for_this_peer_alone() {
    let mut net = Net::new(3, 1);
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        net.send(from, to, b"hello");
    }
    net.settle();
    net.nodes.iter_mut().for_each(|node| drop(node.take()));

    assert_eq!(net.nodes[1].short(0, b"under way"), Post::Done);
    let node = &mut net.nodes[0];
    assert_eq!(node.ethernet.quiesce(Quiesce::Peer(PeerId(1))), Ok(()));
    assert_eq!(node.ethernet.quiesce(Quiesce::Peer(PeerId(0))), Err(Cause::Stale));
    assert_eq!(node.short(1, b"x"), Post::Never(Cause::PeerDead));
    assert_eq!(node.ethernet.reach(PeerId(1)), Err(Cause::PeerDead));
    net.send(2, 0, b"still here");
    net.until("the other one", |net| !net.nodes[0].log.arrived.is_empty());
    net.until("the peer notices", |net| !net.nodes[1].log.lost.is_empty());
    assert_eq!(net.nodes[1].log.lost, [(0, Cause::PeerDead)]);
    let EthernetLog { arrived, lost, ready } = net.nodes[0].take();
    assert_eq!((arrived, lost, ready), (vec![(2, b"still here".to_vec())], vec![], vec![]));
    assert!(net.nodes[0].ethernet.counters().stale > 0);

    for (rank, peer) in [(0, 1), (1, 0)] {
        net.nodes[rank as usize].introduce(peer, epoch(peer));
    }
    net.send(0, 1, b"again");
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, [(0, b"again".to_vec())]);
}

#[test]
fn without_descriptors_frames_wait_for_the_next_poll() {
    let mut net = Net::new(3, 1);
    for to in [1, 2] {
        net.send(0, to, b"hello");
    }
    net.settle();
    net.hub.advance(LATENCY_NS);
    for number in 0..WINDOW as u8 {
        for to in [1, 2] {
            assert_eq!(net.nodes[0].short(to, &[number]), Post::Done);
        }
    }
    let waiting = |net: &Net| [1, 2].map(|peer| net.hub.waiting(station(peer)).len());
    assert_eq!(waiting(&net), [DESCRIPTORS / 2; 2]);
    assert!(net.nodes[0].ethernet.counters().no_descriptor > 0);
    net.hub.advance(LATENCY_NS);
    net.hub.calls(station(0));
    net.poll(0, 2);
    assert_eq!(net.hub.calls(station(0)).transmit, 2, "no more than the budget");
    net.poll(0, 64);
    assert_eq!(waiting(&net), [DESCRIPTORS; 2], "all peers get their share");
    net.settle();
    assert_eq!(net.nodes[0].ethernet.counters().retransmitted, 0);
    for peer in [1, 2] {
        let numbers: Vec<_> = net.nodes[peer].take().arrived.into_iter().skip(1).map(|(_, m)| m[0]).collect();
        assert_eq!(numbers, (0..WINDOW as u8).collect::<Vec<_>>());
    }
}

#[test]
fn work_of_a_poll_is_bounded_by_its_budget() {
    let mut net = Net::pair();
    net.hub.calls(station(1));
    for _ in 0..40 {
        net.hub.inject(station(1), &[0; 60]);
    }
    for budget in [0, 1, 2, 7] {
        assert_eq!(net.poll(1, budget), budget, "noise counts as well");
        let calls = net.hub.calls(station(1));
        assert!(calls.receive <= budget && calls.transmit <= budget, "{budget}: {calls:?}");
    }
    for budget in [1, 1, 1, 5, 64] {
        for number in 0..WINDOW as u8 {
            net.send(0, 1, &[number; BYTES]);
        }
        net.hub.advance(LATENCY_NS);
        net.hub.calls(station(1));
        net.poll(1, budget);
        let calls = net.hub.calls(station(1));
        assert!(calls.receive <= budget + 1 && calls.transmit <= budget, "{budget}: {calls:?}");
    }
}

#[test]
fn a_flood_from_one_peer_does_not_starve_another() {
    let mut net = Net::new(3, 1);
    for from in [1, 2] {
        net.send(from, 0, b"hello");
        net.send(0, from, b"hello");
    }
    net.settle();
    net.nodes[0].take();
    net.nodes[2].take();
    let mut flood = 0;
    for round in 0..200 {
        while net.nodes[1].short(0, &[1; BYTES]) == Post::Done {
            flood += 1;
        }
        if round % 10 == 0 {
            assert_eq!(net.nodes[2].short(0, b"a word"), Post::Done);
            assert_eq!(net.nodes[0].short(2, b"an answer"), Post::Done);
        }
        net.step(4);
    }
    let words = net.nodes[0].take().arrived.iter().filter(|(from, _)| *from == 2).count();
    let answers = net.nodes[2].take().arrived.len();
    assert!(words >= 19 && answers >= 19 && flood > 200, "{words} words, {answers} answers in {flood}");
}

#[test]
fn a_budget_of_one_is_enough_for_everything() {
    let mut net = Net::pair();
    // The first of eight is lost, so that the others wait in the reorder ring for it.
    net.hub.script([hub::Fate::Lose]);
    for number in 0..WINDOW as u8 {
        assert_eq!(net.nodes[0].short(1, &[number]), Post::Done);
    }
    assert!(matches!(net.nodes[0].short(1, b"more"), Post::Again(_)));
    for _ in 0..2000 {
        net.step(1);
    }
    let numbers: Vec<_> = net.nodes[1].take().arrived.into_iter().map(|(_, message)| message[0]).collect();
    assert_eq!(numbers, (0..WINDOW as u8).collect::<Vec<_>>());
    assert_eq!(net.nodes[0].take().ready, [1]);
    assert_eq!(net.nodes[1].ethernet.counters().reordered, WINDOW as u64 - 1);
}
