//! Fewer links than peers: who has one, who gives it back, and that nothing is lost by it.

use std::vec;

use aldis_hal::Again;

use super::*;
use crate::ethernet::EthernetCounters;

fn counters(net: &Net, rank: usize) -> EthernetCounters {
    net.nodes[rank].ethernet.counters()
}

#[test]
fn a_link_is_passed_from_an_idle_peer_to_the_next_and_order_goes_on() {
    let mut net = Net::pooled(9, 2, 1);
    for round in 0..3u8 {
        for peer in 1..9 {
            net.send(0, peer, &[round, 0]);
            net.send(0, peer, &[round, 1]);
        }
    }
    net.settle();
    for peer in 1..9 {
        let expected: Vec<_> =
            (0..3u8).flat_map(|round| [(0, vec![round, 0]), (0, vec![round, 1])]).collect();
        let log = net.nodes[peer].take();
        assert_eq!((log.arrived, log.lost), (expected, vec![]), "rank {peer}");
    }
    let EthernetCounters { opened, closed, retransmitted, malformed, .. } = counters(&net, 0);
    assert!(opened >= 3 * 8 - 2 && closed >= opened - 2, "{opened} opened, {closed} closed");
    assert_eq!((retransmitted, malformed, net.nodes[0].take().lost), (0, 0, vec![]));
}

#[test]
fn what_is_known_of_a_peer_without_a_link_is_a_row() {
    assert!(size_of::<PeerRow>() <= 32);
    let mut net = Net::pooled(9, 2, 1);
    for peer in 1..9 {
        net.send(0, peer, b"x");
    }
    net.settle();
    let held = net.nodes[0].ethernet.engine.links.iter().filter(|link| link.taken).count();
    let known = net.nodes[0].ethernet.engine.rows.iter().filter(|row| row.link().is_some()).count();
    assert!(held <= 2 && known == held);
}

/// Each asks the next of a ring, which asks the next: no link is left but the one that is kept for
/// peers that ask.
#[test]
fn a_ring_of_ranks_that_ask_each_other_comes_to_an_end() {
    const RANKS: u32 = 12;
    let mut net = Net::pooled(RANKS, 2, 1);
    for step in 1..RANKS {
        for rank in 0..RANKS {
            assert_eq!(
                net.nodes[rank as usize].short((rank + step) % RANKS, b"x"),
                Post::Again(Again::Connecting)
            );
        }
    }
    let mut left: Vec<_> =
        (0..RANKS).flat_map(|rank| (1..RANKS).map(move |step| (rank, (rank + step) % RANKS))).collect();
    net.until("all are sent", |net| {
        left.retain(|(rank, peer)| net.nodes[*rank as usize].short(*peer, &[*rank as u8]) != Post::Done);
        left.is_empty()
    });
    net.settle();
    for rank in 0..RANKS {
        let log = net.nodes[rank as usize].take();
        let mut from = log.arrived;
        from.sort();
        let expected: Vec<_> =
            (0..RANKS).filter(|from| *from != rank).map(|from| (from, vec![from as u8])).collect();
        assert_eq!((from, log.lost), (expected, vec![]), "rank {rank}");
    }
}

/// A refused post is told of once it can go: the sender does nothing but to wait for that.
#[test]
fn every_peer_that_waits_for_a_link_is_ready_once_one_is_free() {
    let mut net = Net::pooled(9, 2, 1);
    for peer in 1..9 {
        assert_eq!(net.nodes[0].short(peer, b"x"), Post::Again(Again::Connecting));
    }
    let mut told = vec![];
    net.until("all are told", |net| {
        let ready = net.nodes[0].take().ready;
        for peer in &ready {
            assert_eq!(net.nodes[0].short(*peer, b"x"), Post::Done);
        }
        told.extend(ready);
        told.len() == 8
    });
    told.sort_unstable();
    assert_eq!(told, (1..9).collect::<Vec<_>>());
}

#[test]
fn a_peer_with_frames_unacknowledged_keeps_its_link() {
    let mut net = Net::pooled(5, 2, 1);
    net.send(0, 1, b"first");
    net.send(0, 2, b"first");
    net.settle();
    net.nodes.iter_mut().for_each(|node| drop(node.take()));
    // What goes to rank 1 is lost, again and again.
    net.hub.mute(station(1), true);
    assert_eq!(net.nodes[0].short(1, b"under way"), Post::Done);
    net.send(0, 3, b"x");
    net.send(0, 4, b"x");
    let row = net.nodes[0].ethernet.engine.link_of(0).map(|link| link + 1);
    assert!(row.is_some(), "rank 1 has its link");
    net.hub.mute(station(1), false);
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, [(0, b"under way".to_vec())]);
    assert!(net.nodes.iter_mut().all(|node| node.take().lost.is_empty()));
}

/// A peer that never stops sending is made to pause, when it has had its time.
#[test]
fn a_flood_keeps_no_other_peer_from_its_turn() {
    let mut net = Net::pooled(5, 2, 1);
    let mut heard = [0; 5];
    for _ in 0..20_000 {
        for peer in 1..5 {
            for _ in 0..4 {
                let _ = net.nodes[0].short(peer, b"flood");
            }
        }
        net.step(16);
        net.hub.advance(50_000);
        for (heard, node) in heard.iter_mut().zip(&mut net.nodes).skip(1) {
            *heard += node.take().arrived.len();
        }
        if heard[1..].iter().all(|count| *count > 50) {
            assert!(net.nodes[0].take().lost.is_empty());
            return;
        }
    }
    panic!("not all have had their turn: {heard:?}");
}

#[test]
fn a_handshake_without_a_link_is_turned_away_and_has_one_later() {
    let mut net = Net::pooled(6, 2, 1);
    // The links of rank 0 are those of peers that have something under way and are cut off.
    for peer in [1, 2] {
        net.send(0, peer, b"first");
    }
    net.settle();
    for peer in [1, 2] {
        net.hub.mute(station(peer), true);
        assert_eq!(net.nodes[0].short(peer, b"held"), Post::Done);
    }
    assert!(matches!(net.nodes[3].short(0, b"x"), Post::Again(_)));
    for _ in 0..40 {
        net.step(16);
    }
    assert!(counters(&net, 0).turned_away > 0 && net.nodes[3].log.ready.is_empty());
    let turned_away = counters(&net, 0).turned_away;
    assert!(turned_away < 40, "its repetitions become rare: {turned_away}");
    for peer in [1, 2] {
        net.hub.mute(station(peer), false);
    }
    net.until("its turn", |net| net.nodes[3].log.ready == [0]);
    assert_eq!(net.nodes[3].short(0, b"x"), Post::Done);
    net.settle();
    assert!(net.nodes[0].take().arrived.contains(&(3, b"x".to_vec())));
    assert!(net.nodes.iter_mut().all(|node| node.take().lost.is_empty()));
}

#[test]
fn the_death_of_a_peer_that_is_only_waited_for_is_noticed_in_turns() {
    let mut net = Net::pooled(9, 2, 1);
    for peer in 1..9 {
        net.nodes[0].ethernet.expect(PeerId(peer));
    }
    for _ in 0..200 {
        net.step(16);
    }
    assert!(net.nodes[0].take().lost.is_empty());
    for dead in [3, 7] {
        net.hub.unplug(station(dead));
        net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
        assert_eq!(net.nodes[0].take().lost, [(dead, Cause::PeerDead)]);
    }
}

#[test]
fn a_new_life_of_a_peer_without_a_link_is_noticed() {
    let mut net = Net::pooled(5, 2, 1);
    for peer in [1, 2, 3] {
        net.send(0, peer, b"hello");
    }
    net.settle();
    net.nodes[0].take();
    let has_link = |net: &Net, peer: u32| net.nodes[0].ethernet.engine.link_of(peer as usize - 1).is_some();
    let peer = (1..4).find(|peer| !has_link(&net, *peer)).expect("one has given its link back");
    net.hub.unplug(station(peer));
    let node = net.node(config(peer, 500));
    net.nodes[peer as usize] = node;
    net.nodes[peer as usize].introduce(0, epoch(0));
    assert!(matches!(net.nodes[peer as usize].short(0, b"x"), Post::Again(_)));
    net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
    assert_eq!(net.nodes[0].take().lost, [(peer, Cause::PeerDead)]);
    net.nodes[0].introduce(peer, 500);
    net.until("the connection", |net| net.nodes[peer as usize].log.ready == [0]);
    net.send(peer, 0, b"anew");
    net.settle();
    assert_eq!(net.nodes[0].take().arrived, [(peer, b"anew".to_vec())]);
}

#[test]
fn with_the_device_peers_without_links_are_lost_too() {
    let mut net = Net::pooled(80, 2, 1);
    net.send(0, 1, b"hello");
    net.settle();
    net.nodes[0].take();
    net.nodes[0].ethernet.abandon(Cause::Device);
    net.until("the loss", |net| net.nodes[0].log.lost.len() == 79);
    let mut lost: Vec<_> = net.nodes[0].take().lost;
    lost.sort_unstable_by_key(|(peer, _)| *peer);
    assert_eq!(lost, (1..80).map(|peer| (peer, Cause::Device)).collect::<Vec<_>>());
    assert_eq!(net.nodes[0].short(70, b"x"), Post::Never(Cause::PeerDead));
}
