//! A wire that does everything to frames, and all of it at once: every message exactly once and in
//! order, and an end.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

use super::*;
use aldis_kit::hub::Faults;

/// The messages to be sent, and those sent and seen so far.
struct Traffic {
    /// Messages of each pair.
    count: u32,
    /// Numbers taken and seen so far, by sender and receiver.
    sent: Vec<Vec<u32>>,
    seen: Vec<Vec<u32>>,
}

impl Traffic {
    fn new(ranks: u32, count: u32) -> Self {
        let none = std::vec![std::vec![0; ranks as usize]; ranks as usize];
        Self { count, sent: none.clone(), seen: none }
    }

    /// Message `number` of a pair: who, to whom, which, and filler that depends on all of it.
    fn message(from: u32, to: u32, number: u32) -> Vec<u8> {
        let mixed = (from * 31 + to * 17 + number).wrapping_mul(0x9E37_79B9);
        let len = 3 + mixed as usize % (BYTES - 2);
        let mut message = std::vec![mixed as u8; len];
        message[..3].copy_from_slice(&[from as u8, to as u8, number as u8]);
        message
    }

    /// Posts whatever each rank can.
    fn post(&mut self, net: &mut Net) {
        let ranks = net.nodes.len() as u32;
        for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
            let sent = &mut self.sent[from as usize][to as usize];
            let node = &mut net.nodes[from as usize];
            while from != to && *sent < self.count {
                let message = Self::message(from, to, *sent);
                let post = if sent.is_multiple_of(2) {
                    node.short(to, &message)
                } else {
                    node.reserve(to, &message)
                };
                match post {
                    Post::Done => *sent += 1,
                    Post::Again(_) => break,
                    other => panic!("rank {from} to rank {to}: {other:?}"),
                }
            }
        }
    }

    /// Checks what came.
    fn check(&mut self, net: &mut Net) {
        for (to, node) in (0..).zip(&mut net.nodes) {
            let log = node.take();
            assert_eq!(log.lost, [], "no peer dies here");
            for (from, message) in log.arrived {
                let seen = &mut self.seen[from as usize][to as usize];
                assert_eq!(message, Self::message(from, to, *seen), "number {seen} from {from} to {to}");
                *seen += 1;
            }
        }
    }

    fn is_done(&self) -> bool {
        let pairs = |counts: &Vec<Vec<u32>>| counts.iter().flatten().filter(|n| **n == self.count).count();
        let all = self.seen.len() * (self.seen.len() - 1);
        self.count == 0 || pairs(&self.seen) == all
    }
}

/// A run of many messages over a bad wire.
#[derive(Clone, Copy)]
struct Torture {
    ranks: u32,
    seed: u64,
    faults: Faults,
    /// Messages of each rank to each other.
    count: u32,
    /// Events of a poll.
    budget: u32,
    /// Links of each rank, where there are fewer than peers.
    links: Option<usize>,
}

/// Runs it all; the time it took, in virtual nanoseconds.
fn torture(run: Torture) -> u64 {
    let Torture { ranks, seed, faults, count, budget, links } = run;
    // Every other history is one of datagrams.
    let plain: fn(u32) -> Framing = |_| Framing::Ethernet;
    let framing = if seed.is_multiple_of(2) { plain } else { |rank| Framing::Udp(Udp::of_rank(rank)) };
    let others = ranks as usize - 1;
    let sizes = links.map_or(NetSizes::WHOLE, |links| NetSizes { others, links: links.min(others) });
    let mut net = Net::sized(ranks, seed, framing, sizes);
    net.hub.set_faults(faults);
    let mut traffic = Traffic::new(ranks, count);
    let mut steps = 0;
    while !traffic.is_done() || net.nodes.iter().any(|node| !node.ethernet.is_idle()) {
        traffic.post(&mut net);
        assert!(net.step(budget), "nothing moves any more");
        traffic.check(&mut net);
        steps += 1;
        assert!(steps < 200_000, "no end: {:?}", traffic.seen);
    }
    net.hub.now().0
}

#[test]
fn many_seeds_of_a_bad_wire() {
    for seed in 0..100 {
        let ranks = 2 + seed as u32 % 4;
        let faults = Faults::all(10 + 20 * (seed % 5), 3_000_000);
        let ns = torture(Torture {
            ranks,
            seed,
            faults,
            count: 40,
            budget: 1 + (seed as u32 * 7) % 40,
            links: None,
        });
        assert!(ns < 60_000_000_000, "seed {seed} took {ns} ns");
    }
}

/// Every rank talks to every other at once, through links for two to five of them.
#[test]
fn many_seeds_of_a_bad_wire_with_fewer_links_than_peers() {
    for seed in 0..60 {
        let ranks = 4 + seed as u32 % 7;
        let faults = Faults::all(10 + 10 * (seed % 5), 3_000_000);
        let links = Some(2 + seed as usize % 4);
        let run = Torture { ranks, seed, faults, count: 12, budget: 1 + (seed as u32 * 7) % 40, links };
        let ns = torture(run);
        assert!(ns < 300_000_000_000, "seed {seed} took {ns} ns");
    }
}

#[test]
fn a_good_wire_takes_no_longer_than_its_windows() {
    let ns =
        torture(Torture { ranks: 3, seed: 1, faults: Faults::NONE, count: 200, budget: 64, links: None });
    // 200 messages in windows of 8: 25 round trips and their delayed acknowledgements, and the
    // handshake's.
    assert!(ns < 30 * (2 * super::hub::LATENCY_NS + 100_000), "{ns} ns");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn everything_arrives_once_and_in_order(
        ranks in 2u32..=5,
        seed in any::<u64>(),
        (lose, duplicate, corrupt, cut, delay) in (0u64..250, 0u64..150, 0u64..100, 0u64..100, 0u64..150),
        delay_ns_max in 1u64..20_000_000,
        count in 0u32..60,
        budget in 1u32..64,
        links in proptest::option::of(2usize..4),
    ) {
        let faults = Faults { lose, duplicate, corrupt, cut, delay, delay_ns_max };
        let run = Torture { ranks, seed, faults, count, budget, links };
        let ns = torture(run);
        prop_assert_eq!(ns, torture(run), "one seed, one history");
    }
}
