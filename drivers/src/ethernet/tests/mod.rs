//! Ranks on a hub in memory, under a clock that runs as fast as they do.

use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::transport::{Sink, Slot, Transport};
use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Post, Token};
use aldis_kit::hub::{self, Hub, HubNic, mac};

use super::{Config, Ethernet, EthernetMemory, EthernetStorage, Framing, PeerLink, PeerRow, Udp};

mod flow;
mod hostile;
mod lives;
mod pool;
mod torture;
mod udp;

/// Largest message of the tests.
const BYTES: usize = 256;
const WINDOW: usize = 8;
/// Other ranks at most.
const OTHERS: usize = 4;
const JOB: u64 = 7;

/// The events that a rank got, in order.
#[derive(Default)]
struct EthernetLog {
    arrived: Vec<(u32, Vec<u8>)>,
    ready: Vec<u32>,
    lost: Vec<(u32, Cause)>,
}

impl Sink for EthernetLog {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        self.arrived.push((from.0, message.to_vec()));
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {
        unreachable!("nothing is ever queued");
    }
    fn ready(&mut self, peer: PeerId) {
        self.ready.push(peer.0);
    }
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.lost.push((peer.0, cause));
    }
}

impl EthernetLog {
    fn events(&self) -> usize {
        self.arrived.len() + self.ready.len() + self.lost.len()
    }
}

/// A rank: its transport, and the events since the last look.
struct Node {
    ethernet: Ethernet<'static, HubNic>,
    log: EthernetLog,
}

impl Node {
    fn short(&mut self, to: u32, message: &[u8]) -> Post {
        let (header, payload) = message.split_at(message.len() / 3);
        self.ethernet.short(PeerId(to), header, payload)
    }

    fn reserve(&mut self, to: u32, message: &[u8]) -> Post {
        match self.ethernet.reserve(PeerId(to), message.len()) {
            Ok(mut slot) => {
                slot.bytes().copy_from_slice(message);
                slot.commit();
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }

    fn introduce(&mut self, peer: u32, epoch: u32) {
        let framing = match self.ethernet.engine.framing {
            Framing::Ethernet => Framing::Ethernet,
            Framing::Udp(_) => Framing::Udp(Udp::of_rank(peer)),
        };
        let address = framing.address(framing.station(mac(station(peer))));
        self.ethernet.introduce(PeerId(peer), Epoch(epoch), &address).unwrap();
    }

    fn take(&mut self) -> EthernetLog {
        core::mem::take(&mut self.log)
    }
}

/// The number of a rank's device.
fn station(rank: u32) -> u8 {
    rank as u8 + 1
}

/// The epoch of a rank's first life.
fn epoch(rank: u32) -> u32 {
    100 + rank
}

fn config(rank: u32, epoch: u32) -> Config {
    Config::new(PeerId(rank), Epoch(epoch), JOB, Cost::default())
}

/// All ranks of a job.
struct Net {
    hub: Hub,
    nodes: Vec<Node>,
    sizes: NetSizes,
}

/// The sizes of every rank's memory.
#[derive(Clone, Copy, Debug)]
struct NetSizes {
    others: usize,
    links: usize,
}

impl NetSizes {
    const WHOLE: Self = Self { others: OTHERS, links: OTHERS };

    fn memory(self) -> EthernetMemory<'static> {
        let Self { others, links } = self;
        let words = links * WINDOW * BYTES / size_of::<u64>();
        let ring = || (std::vec![0; words].leak(), std::vec![0; links * WINDOW].leak());
        let (rows, pool) = (std::vec![PeerRow::EMPTY; others], std::vec![PeerLink::EMPTY; links]);
        EthernetMemory::of_slices(rows.leak(), pool.leak(), [ring(), ring()], WINDOW, BYTES).unwrap()
    }
}

impl Net {
    /// Every rank introduced to every other.
    fn new(ranks: u32, seed: u64) -> Self {
        Self::framed(ranks, seed, |_| Framing::Ethernet)
    }

    /// Every rank introduced to every other, with links for a few of them.
    fn pooled(ranks: u32, links: usize, seed: u64) -> Self {
        Self::sized(ranks, seed, |_| Framing::Ethernet, NetSizes { others: ranks as usize - 1, links })
    }

    /// Every rank introduced to every other, with a framing for each.
    fn framed(ranks: u32, seed: u64, framing: fn(u32) -> Framing) -> Self {
        Self::sized(ranks, seed, framing, NetSizes::WHOLE)
    }

    fn sized(ranks: u32, seed: u64, framing: fn(u32) -> Framing, sizes: NetSizes) -> Self {
        let mut net = Self { hub: Hub::new(seed), nodes: Vec::new(), sizes };
        for rank in 0..ranks {
            let node = net.node(Config { framing: framing(rank), ..config(rank, epoch(rank)) });
            net.nodes.push(node);
        }
        for rank in 0..ranks {
            for peer in (0..ranks).filter(|peer| *peer != rank) {
                net.nodes[rank as usize].introduce(peer, epoch(peer));
            }
        }
        net
    }

    /// Two ranks with a connection between them, and nothing on the wire.
    fn pair() -> Self {
        let mut net = Self::new(2, 1);
        net.send(0, 1, b"first");
        net.settle();
        assert_eq!(net.nodes[1].take().arrived, [(0, b"first".to_vec())]);
        net.nodes[0].take();
        net
    }

    /// A rank that knows no peer.
    fn node(&self, config: Config) -> Node {
        let nic = self.hub.nic(station(config.connect.rank), BYTES + config.framing.mtu_overhead_bytes());
        let memory = self.sizes.memory();
        Node { ethernet: Ethernet::new(nic, memory, config).unwrap(), log: EthernetLog::default() }
    }

    /// Polls once; returns the number of events.
    fn poll(&mut self, rank: u32, budget: u32) -> u32 {
        let node = &mut self.nodes[rank as usize];
        let before = node.log.events();
        let events = node.ethernet.poll(budget, self.hub.now(), &mut node.log);
        assert!(events <= budget, "a poll keeps to its budget");
        assert!(node.log.events() - before <= events as usize, "and tells what it did");
        events
    }

    /// Polls every rank once and lets the time pass until the next thing happens. False: nothing
    /// ever will.
    fn step(&mut self, budget: u32) -> bool {
        let mut next = self.hub.next_arrival().unwrap_or(Instant::NEVER);
        for rank in 0..self.nodes.len() as u32 {
            self.poll(rank, budget);
        }
        next = next.min(self.hub.next_arrival().unwrap_or(Instant::NEVER));
        for node in &self.nodes {
            next = next.min(node.ethernet.poll_at());
        }
        if next == Instant::NEVER {
            return false;
        }
        // A poll takes its time: without a descriptor the next one is due at once.
        self.hub.advance(200);
        self.hub.advance_to(next);
        true
    }

    /// Steps until `done`, and fails after much longer than anything may take.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            assert!(self.step(16) || done(self), "nothing moves any more: {what}");
        }
        panic!("never: {what}");
    }

    /// Until everything posted has arrived and nothing but keep-alives is left.
    fn settle(&mut self) {
        self.until("all is quiet", |net| {
            let now = net.hub.now();
            let quiet = |node: &Node| node.ethernet.is_idle() && node.ethernet.poll_at() > now;
            net.hub.next_arrival().is_none() && net.nodes.iter().all(quiet)
        });
        for rank in 0..self.nodes.len() as u32 {
            while self.poll(rank, 64) != 0 {}
        }
    }

    /// Posts, and waits where that is called for.
    fn send(&mut self, from: u32, to: u32, message: &[u8]) {
        while let Post::Again(_) = self.nodes[from as usize].short(to, message) {
            let heard = self.nodes[from as usize].log.ready.len();
            self.until("a refused post hears of it", |net| {
                net.nodes[from as usize].log.ready[heard..].contains(&to)
            });
        }
    }
}
