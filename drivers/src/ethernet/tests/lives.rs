//! Ranks that vanish, restart or do not fit.

use std::vec;

use super::super::MTU_OVERHEAD_BYTES;
use super::*;
use aldis_kit::hub::Faults;

/// A later life of a rank, at the same address, to which the others have been introduced.
fn reborn(net: &mut Net, rank: u32, epoch_now: u32) {
    net.hub.unplug(station(rank));
    let node = net.node(config(rank, epoch_now));
    net.nodes[rank as usize] = node;
    for peer in (0..net.nodes.len() as u32).filter(|peer| *peer != rank) {
        net.nodes[rank as usize].introduce(peer, epoch(peer));
    }
}

#[test]
fn a_peer_that_vanishes_is_lost_once() {
    let mut net = Net::pair();
    net.hub.unplug(station(1));
    assert_eq!(net.nodes[0].short(1, b"into the void"), Post::Done);
    let start = net.hub.now();
    net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::PeerDead)]);
    let took = net.hub.now().since(start);
    let give_up = aldis_protocols::reliable::LinkConfig::DEFAULT.give_up_ns;
    assert!((give_up..give_up + 2_000_000_000).contains(&took), "{took} ns");
    assert_eq!(net.nodes[0].short(1, b"x"), Post::Never(Cause::PeerDead));
    assert!(net.nodes[0].ethernet.is_idle(), "what was posted is gone with it");
    for _ in 0..100 {
        net.step(16);
    }
    assert_eq!(net.nodes[0].take().events(), 0);
}

#[test]
fn with_the_device_every_peer_is_lost_once() {
    let mut net = Net::new(3, 1);
    net.send(0, 1, b"hello");
    net.settle();
    assert_eq!(net.nodes[0].short(1, b"under way"), Post::Done);
    net.nodes.iter_mut().for_each(|node| drop(node.take()));
    for _ in 0..2 {
        net.nodes[0].ethernet.abandon(Cause::Device);
    }
    net.until("the loss", |net| net.nodes[0].log.lost.len() == 2);
    net.settle();
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::Device), (2, Cause::Device)]);
    assert!(net.nodes[0].ethernet.is_idle());
    assert_eq!(net.nodes[0].short(2, b"x"), Post::Never(Cause::PeerDead));
}

#[test]
fn answers_that_wait_are_heard_before_anyone_is_given_up() {
    let mut net = Net::pair();
    assert_eq!(net.nodes[0].short(1, b"x"), Post::Done);
    net.poll(0, 64);
    for _ in 0..20 {
        net.hub.inject(station(0), &[0; 60]);
    }
    for _ in 0..2 {
        net.hub.advance(200_000);
        net.poll(1, 64);
    }
    net.hub.advance(60_000_000_000);
    for _ in 0..8 {
        net.poll(0, 4);
    }
    assert!(net.nodes[0].take().lost.is_empty() && net.nodes[0].ethernet.is_idle());
}

#[test]
fn a_flood_of_noise_keeps_no_peer_alive() {
    let mut net = Net::pair();
    net.hub.unplug(station(1));
    assert_eq!(net.nodes[0].short(1, b"x"), Post::Done);
    for _ in 0..1200 {
        for _ in 0..5 {
            net.hub.inject(station(0), &[0; 60]);
        }
        net.poll(0, 4);
        net.hub.advance(10_000_000);
    }
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::PeerDead)]);
}

#[test]
fn a_silent_peer_is_missed_without_traffic() {
    let mut net = Net::pair();
    net.hub.unplug(station(1));
    net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::PeerDead)]);
}

#[test]
fn a_peer_that_never_answers_is_lost_once() {
    let mut net = Net::new(2, 1);
    net.hub.unplug(station(1));
    assert!(matches!(net.nodes[0].short(1, b"anyone?"), Post::Again(_)));
    net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::PeerDead)]);
    assert_eq!(net.nodes[0].short(1, b"x"), Post::Never(Cause::PeerDead));
}

#[test]
fn a_peer_that_is_only_waited_for_is_missed() {
    let mut net = Net::new(2, 1);
    net.nodes[0].ethernet.expect(PeerId(1));
    net.settle();
    assert_eq!(net.nodes[0].ethernet.counters().opened, 1, "and no message has been posted");
    net.nodes[0].ethernet.expect(PeerId(1));
    net.settle();
    assert_eq!(net.nodes[0].ethernet.counters().opened, 1, "there is one already");
    net.hub.unplug(station(1));
    net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
    net.nodes[0].ethernet.expect(PeerId(1));
    let mut net = Net::new(2, 1);
    net.hub.unplug(station(1));
    net.nodes[0].ethernet.expect(PeerId(1));
    net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::PeerDead)]);
}

#[test]
fn a_wire_that_is_cut_in_one_direction_ends_both_sides_and_can_be_mended() {
    let mut net = Net::pair();
    net.hub.mute(station(0), true);
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(net.nodes[from].short(to, b"cut"), Post::Done);
    }
    net.until("both losses", |net| net.nodes.iter().all(|node| !node.log.lost.is_empty()));
    for _ in 0..50 {
        net.step(16);
    }
    let (zero, one) = (net.nodes[0].take(), net.nodes[1].take());
    assert_eq!((zero.lost, one.lost), (vec![(1, Cause::PeerDead)], vec![(0, Cause::PeerDead)]));
    assert_eq!((zero.arrived.len(), one.arrived.len()), (1, 0));
    net.hub.mute(station(0), false);
    for (rank, peer) in [(0, 1), (1, 0)] {
        net.nodes[rank as usize].introduce(peer, epoch(peer));
    }
    net.send(1, 0, b"mended");
    net.settle();
    assert_eq!(net.nodes[0].take().arrived, [(1, b"mended".to_vec())]);
}

/// More rows than one poll looks at: each is noticed, and the living are served meanwhile.
#[test]
fn a_hundred_dead_peers_are_each_lost_once() {
    const RANKS: u32 = 101;
    let mut net = Net { hub: Hub::new(1), nodes: Vec::new(), sizes: NetSizes::WHOLE };
    let storage = Box::leak(Box::new(EthernetStorage::<{ RANKS as usize - 1 }, WINDOW, BYTES>::new()));
    let nic = net.hub.nic(station(0), BYTES + MTU_OVERHEAD_BYTES);
    let ethernet = Ethernet::new(nic, storage.memory(), config(0, epoch(0))).unwrap();
    net.nodes.push(Node { ethernet, log: EthernetLog::default() });
    let mut alive = net.node(config(1, epoch(1)));
    alive.introduce(0, epoch(0));
    net.nodes.push(alive);
    for peer in 1..RANKS {
        net.nodes[0].introduce(peer, epoch(peer));
        assert!(matches!(net.nodes[0].short(peer, b"anyone?"), Post::Again(_)));
    }
    let mut count = 0u8;
    net.until("all losses", |net| {
        count += u8::from(count < 100 && net.nodes[0].short(1, &[count]) == Post::Done);
        net.nodes[0].log.lost.len() as u32 == RANKS - 2
    });
    net.settle();
    let mut lost: Vec<_> = net.nodes[0].take().lost;
    lost.sort_unstable_by_key(|(peer, _)| *peer);
    assert_eq!(lost, (2..RANKS).map(|peer| (peer, Cause::PeerDead)).collect::<Vec<_>>());
    let numbers: Vec<_> = net.nodes[1].take().arrived.into_iter().map(|(_, message)| message[0]).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    assert_eq!(net.nodes[0].short(1, b"alive"), Post::Done);
}

#[test]
fn a_long_computation_kills_no_peer_and_is_no_round_trip() {
    const LONG_NS: u64 = 100_000_000_000;
    let mut net = Net { hub: Hub::new(1), nodes: Vec::new(), sizes: NetSizes::WHOLE };
    net.hub.advance(LONG_NS);
    for rank in 0..2 {
        let mut config = config(rank, epoch(rank));
        config.link.silence_ns = 0;
        let mut node = net.node(config);
        node.introduce(1 - rank, epoch(1 - rank));
        net.nodes.push(node);
    }
    for round in 0..4 {
        // Long after boot, before the first poll; and then long after the last one.
        net.send(0, 1, &[round]);
        net.settle();
        assert_eq!(net.nodes[1].take().arrived, [(0, vec![round])]);
        net.hub.advance(LONG_NS);
    }
    assert_eq!(net.nodes[0].short(1, b"last"), Post::Done);
    net.hub.advance(LONG_NS);
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, [(0, b"last".to_vec())]);
    assert_eq!(net.nodes[0].ethernet.counters().retransmitted, 0);
    assert!(net.nodes.iter_mut().all(|node| node.take().lost.is_empty()));
    let link = &net.nodes[0].ethernet.engine.links[0].link;
    assert!(link.round_trip_ns().unwrap() < 1_000_000, "{:?}", link.round_trip_ns());
}

#[test]
fn posts_between_all_polls_keep_no_timer_from_passing() {
    let mut net = Net::pair();
    net.hub.script([hub::Fate::Lose; WINDOW]);
    for _ in 0..WINDOW {
        assert_eq!(net.nodes[0].short(1, b"lost"), Post::Done);
    }
    for _ in 0..200 {
        net.hub.advance(500_000);
        let _ = net.nodes[0].short(1, b"more");
        net.poll(0, 16);
        net.poll(1, 16);
    }
    assert!(net.nodes[1].take().arrived.len() > 2 * WINDOW);
}

#[test]
fn ranks_of_another_job_do_not_fit() {
    let mut net = Net::new(1, 1);
    let mut other = config(1, epoch(1));
    other.connect.job += 1;
    let node = net.node(other);
    net.nodes.push(node);
    net.nodes[0].introduce(1, epoch(1));
    net.nodes[1].introduce(0, epoch(0));
    assert!(matches!(net.nodes[0].short(1, b"x"), Post::Again(_)));
    net.until("the refusal", |net| !net.nodes[0].log.lost.is_empty());
    assert_eq!(net.nodes[0].take().lost, [(1, Cause::Incompatible)]);
    assert_eq!(net.nodes[0].short(1, b"x"), Post::Never(Cause::PeerDead));
}

#[test]
fn other_message_sizes_do_not_fit() {
    let mut net = Net::new(1, 1);
    let storage = Box::leak(Box::new(EthernetStorage::<OTHERS, WINDOW, 128>::new()));
    let nic = net.hub.nic(station(1), 1500);
    let ethernet = Ethernet::new(nic, storage.memory(), config(1, epoch(1))).unwrap();
    net.nodes.push(Node { ethernet, log: EthernetLog::default() });
    net.nodes[0].introduce(1, epoch(1));
    net.nodes[1].introduce(0, epoch(0));
    assert!(matches!(net.nodes[1].short(0, b"x"), Post::Again(_)));
    net.until("the refusal", |net| !net.nodes[1].log.lost.is_empty());
    assert_eq!(net.nodes[1].take().lost, [(0, Cause::Incompatible)]);
}

#[test]
fn a_life_that_was_not_introduced_waits_until_it_is() {
    let mut net = Net::new(2, 1);
    net.hub.unplug(station(0));
    net.nodes[0] = net.node(config(0, epoch(0)));
    assert!(matches!(net.nodes[1].short(0, b"x"), Post::Again(_)));
    for _ in 0..20 {
        net.step(16);
    }
    assert_eq!(net.nodes.iter_mut().map(|node| node.take().events()).sum::<usize>(), 0);
    assert!(net.nodes[0].ethernet.counters().unknown > 0);
    net.nodes[0].introduce(1, epoch(1));
    net.until("the connection", |net| net.nodes[1].log.ready == [0]);
    net.send(1, 0, b"at last");
    net.settle();
    assert_eq!(net.nodes[0].take().arrived, [(1, b"at last".to_vec())]);
}

#[test]
fn a_restart_is_a_loss_and_nothing_of_the_old_life_reaches_the_new() {
    for seed in 0..40 {
        let mut net = Net::new(3, seed);
        net.hub.set_faults(Faults::all(10 * (seed % 8), 4_000_000));
        for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2), (0, 2)] {
            net.send(from, to, b"old");
        }
        for _ in 0..seed % 7 {
            let _ = (net.nodes[0].short(1, b"old"), net.nodes[1].short(0, b"old"));
            net.step(16);
        }
        reborn(&mut net, 1, 777);
        net.nodes[0].take();

        // The new life asks, and so the old one is known to be over; it stays out until it is
        // introduced.
        assert!(matches!(net.nodes[1].short(0, b"new"), Post::Again(_)));
        net.until("the loss", |net| !net.nodes[0].log.lost.is_empty());
        for _ in 0..50 {
            net.step(16);
        }
        let log = net.nodes[0].take();
        assert_eq!(log.lost, [(1, Cause::PeerDead)], "seed {seed}");
        assert!(log.arrived.iter().all(|(from, message)| *from != 1 || message == b"old"));
        assert_eq!(net.nodes[0].short(1, b"x"), Post::Never(Cause::PeerDead));
        assert_eq!(net.nodes[1].take().events(), 0, "seed {seed}: not connected, not refused for good");

        net.nodes[0].introduce(1, 777);
        for (from, to) in [(0, 1), (1, 0)] {
            net.send(from, to, b"new");
        }
        net.send(0, 2, b"old");
        net.settle();
        let of_one =
            |log: EthernetLog| log.arrived.into_iter().filter(|(from, _)| *from < 2).collect::<Vec<_>>();
        assert_eq!(of_one(net.nodes[0].take()), [(1, b"new".to_vec())], "seed {seed}");
        assert_eq!(net.nodes[1].take().arrived, [(0, b"new".to_vec())], "seed {seed}");
        assert!(net.nodes[2].take().lost.iter().all(|lost| *lost == (1, Cause::PeerDead)));
    }
}
