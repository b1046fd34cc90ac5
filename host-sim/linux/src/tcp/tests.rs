//! Ranks of one process that exchange messages over the loopback.

mod faults;
mod landing;
mod lending;
mod links;
mod pair;
mod rests;
mod strangers;
mod tls;

use core::time::Duration;
use std::time::Instant as Clock;

use aldis_hal::{Cause, Epoch, Extras, Instant, Partial, PeerId, Post, RemoteMemory, Sink, Token, Transport};

use super::{Family, Interfaces, JobKey, Tcp, TcpConfig, TcpIdentity};

/// The record of what a transport has delivered.
#[derive(Debug, Default)]
struct Log {
    messages: Vec<(u32, Vec<u8>)>,
    ready: Vec<u32>,
    lost: Vec<(u32, Cause)>,
    completed: Vec<Token>,
    /// The memory in which long messages land, if they are to.
    runway: Option<Vec<u8>>,
    /// Calls after which the receive is let go of.
    lends: Option<u32>,
    /// The number of messages that have landed.
    landed: u32,
}

impl Sink for Log {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        self.messages.push((from.0, message.to_vec()));
    }
    fn completed(&mut self, token: Token, result: Result<(), Cause>) {
        assert_eq!(result, Ok(()));
        self.completed.push(token);
    }
    fn ready(&mut self, peer: PeerId) {
        self.ready.push(peer.0);
    }
    fn land(
        &mut self,
        _: PeerId,
        Partial { head, landed, length }: Partial<'_>,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let Some(runway) = &mut self.runway else { return false };
        assert_eq!(head.len(), 48);
        if let Some(left) = &mut self.lends {
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        runway.resize(length, 0);
        fill(&mut runway[landed..]);
        true
    }
    fn landed(&mut self, from: PeerId, head: &[u8]) {
        self.landed += 1;
        let runway = self.runway.as_ref().expect("lent");
        self.messages.push((from.0, [head, runway].concat()));
    }
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.lost.push((peer.0, cause));
    }
}

/// A rank and what its sink was told.
struct Rank {
    tcp: Tcp,
    log: Log,
}

/// The epoch of a rank.
fn epoch(rank: u32) -> Epoch {
    Epoch(100 + rank)
}

const KEY: [u8; 32] = [7; 32];

/// On the loopback interface alone.
fn config(family: Family) -> TcpConfig {
    let interfaces = Interfaces { include: vec!["lo".into()], exclude: Vec::new(), family: Some(family) };
    TcpConfig { interfaces, ..TcpConfig::default() }
}

impl Rank {
    fn listen(me: u32, ranks: u32, config: &TcpConfig) -> Self {
        let tcp = Tcp::listen(identity(me, ranks), config).unwrap();
        Self { tcp, log: Log::default() }
    }

    fn meet(&mut self, other: u32, address: &[u8]) {
        self.tcp.introduce(PeerId(other), epoch(other), address).unwrap();
    }

    fn poll(&mut self, budget: u32) -> u32 {
        let events = self.tcp.poll(budget, Instant(0), &mut self.log);
        assert!(events <= budget);
        events
    }

    fn counters(&self) -> &super::Counters {
        self.tcp.counters().unwrap()
    }
}

/// A rank of a job of so many.
fn identity(me: u32, ranks: u32) -> TcpIdentity {
    TcpIdentity { me: PeerId(me), epoch: epoch(me), ranks, key: JobKey::new(KEY) }
}

/// A job, all of whose ranks have been introduced to each other.
fn job(ranks: u32, config: &TcpConfig) -> Vec<Rank> {
    let mut all: Vec<_> = (0..ranks).map(|me| Rank::listen(me, ranks, config)).collect();
    introduce(&mut all);
    all
}

/// Each rank learns where the others are.
fn introduce(all: &mut [Rank]) {
    let addresses: Vec<_> = all.iter().map(|rank| rank.tcp.address()).collect();
    for (me, rank) in all.iter_mut().enumerate() {
        for (other, address) in addresses.iter().enumerate().filter(|(other, _)| *other != me) {
            rank.meet(other as u32, address);
        }
    }
}

/// Polls all until `done`; panics with what they are if that takes too long.
fn until(ranks: &mut [Rank], what: &str, mut done: impl FnMut(&mut [Rank]) -> bool) {
    let start = Clock::now();
    while !done(ranks) {
        let events: u32 = ranks.iter_mut().map(|rank| rank.poll(64)).sum();
        if events == 0 {
            std::thread::yield_now();
        }
        if start.elapsed() > Duration::from_secs(20) {
            for rank in ranks.iter() {
                eprintln!("{:?}: {} {:?}", rank.tcp.me(), rank.counters(), rank.log.lost);
            }
            panic!("hangs: {what}");
        }
    }
}

/// Posts a header and a payload until they are taken, with all polled in between.
fn send(ranks: &mut [Rank], from: usize, to: u32, [header, payload]: [&[u8]; 2]) {
    until(ranks, "send", |ranks| match ranks[from].tcp.short(PeerId(to), header, payload) {
        Post::Done => true,
        Post::Again(_) => false,
        other => panic!("{other:?}"),
    });
}

/// A pattern that differs between messages and places.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(131)) as u8).collect()
}
