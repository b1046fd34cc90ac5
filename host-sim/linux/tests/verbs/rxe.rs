//! Ranks as transports of one process, polled in turn.

mod faults;
mod lives;
mod memory;
mod messages;

use core::time::Duration;
use std::time::Instant as Clock;

use aldis_hal::{Cause, Epoch, Instant, PeerId, Post, Sink, Token, Transport};
use aldis_linux::platform::monotonic_ns;
use aldis_linux::verbs::{Verbs, VerbsConfig};

/// The deliveries of a transport.
#[derive(Debug, Default)]
struct Log {
    messages: Vec<(u32, Vec<u8>)>,
    completed: Vec<(u32, Result<(), Cause>)>,
    ready: Vec<u32>,
    lost: Vec<(u32, Cause)>,
}

impl Sink for Log {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        assert_eq!(message.as_ptr().align_offset(8), 0);
        self.messages.push((from.0, message.to_vec()));
    }
    fn completed(&mut self, token: Token, result: Result<(), Cause>) {
        self.completed.push((token.0.slot, result));
    }
    fn ready(&mut self, peer: PeerId) {
        self.ready.push(peer.0);
    }
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.lost.push((peer.0, cause));
    }
}

/// A rank and what its sink was told.
struct Rank {
    verbs: Verbs,
    log: Log,
}

const LONGEST: usize = 16 << 10;

/// Reads the environment: the tests are run with each manager of connections.
fn config() -> VerbsConfig {
    VerbsConfig::from_environment().unwrap()
}

/// The life of a rank that a job begins with.
fn epoch(rank: usize) -> Epoch {
    Epoch(0xFFFF_FFF0 + rank as u32)
}

/// A job, all of whose ranks have been introduced to each other.
fn job(ranks: usize) -> Vec<Rank> {
    job_of(ranks, &config())
}

fn job_of(ranks: usize, config: &VerbsConfig) -> Vec<Rank> {
    let mut all: Vec<_> = (0..ranks).map(|me| Rank::open(me, epoch(me), ranks, config)).collect();
    (0..ranks).flat_map(|me| (0..ranks).map(move |other| (me, other))).for_each(|(me, other)| {
        if me != other {
            introduce(&mut all, me, other, epoch(other));
        }
    });
    all
}

/// Tells rank `me` of this life of another.
fn introduce(ranks: &mut [Rank], me: usize, other: usize, epoch: Epoch) {
    let address = ranks[other].verbs.address();
    ranks[me].verbs.introduce(PeerId(other as u32), epoch, &address).unwrap();
}

/// A pair of ranks that are connected: each has sent a message, so that neither owes the other
/// anything.
fn connected() -> Vec<Rank> {
    let mut ranks = job(2);
    for (from, to) in [(0, 1), (1, 0)] {
        send(&mut ranks, from, to as u32, b"first");
        until(&mut ranks, "arrival", |ranks| !ranks[to].log.messages.is_empty());
        ranks[to].log = Log::default();
    }
    ranks
}

impl Rank {
    fn open(me: usize, epoch: Epoch, ranks: usize, config: &VerbsConfig) -> Self {
        let verbs = Verbs::open(PeerId(me as u32), epoch, ranks as u32, config).unwrap();
        Self { verbs, log: Log::default() }
    }

    fn poll(&mut self, budget: u32) -> u32 {
        let events = self.verbs.poll(budget, Instant(monotonic_ns()), &mut self.log);
        assert!(events <= budget);
        events
    }
}

/// Polls all until `done`; panics if that takes too long.
fn until(ranks: &mut [Rank], what: &str, mut done: impl FnMut(&mut [Rank]) -> bool) {
    let start = Clock::now();
    while !done(ranks) {
        if ranks.iter_mut().map(|rank| rank.poll(7)).sum::<u32>() == 0 {
            std::thread::yield_now();
        }
        let logs: Vec<_> = ranks.iter().map(|rank| (&rank.log.ready, &rank.log.lost)).collect();
        assert!(start.elapsed() < Duration::from_secs(60), "hangs: {what} {logs:?}");
    }
}

/// Posts until it is taken, with all polled in between.
fn send(ranks: &mut [Rank], from: usize, to: u32, message: &[u8]) {
    let (header, payload) = message.split_at(message.len().min(16));
    until(ranks, "send", |ranks| match ranks[from].verbs.short(PeerId(to), header, payload) {
        Post::Done => true,
        Post::Again(_) => false,
        other => panic!("{other:?}"),
    });
}

/// A pattern that differs between messages and places.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(131)) as u8).collect()
}
