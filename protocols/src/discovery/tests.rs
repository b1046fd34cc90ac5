//! Ranks on a wire in memory that loses, repeats and reorders, under a clock that is set by hand.

mod codec;
mod hostile;
mod lives;
mod search;
mod wire;

use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::nic::Mac;
use aldis_hal::{Epoch, Instant, PeerId};

use super::{Asked, DiscoveryKind, DiscoverySetup, Entry, MESSAGE_BYTES_MAX, Message, Roster};

const JOB: u64 = 0xA1D1_5001;

fn setup(rank: u32, size: u32, epoch: u32) -> DiscoverySetup {
    DiscoverySetup { job: JOB, rank, size, epoch: Epoch(epoch), ..DiscoverySetup::DEFAULT }
}

/// A roster that never returns its memory.
fn roster(setup: DiscoverySetup) -> Roster<'static> {
    let entries = Box::leak(Box::new([Entry::EMPTY; 160]));
    Roster::new(setup, entries).unwrap()
}

/// The card of a rank in a life.
fn card(rank: u32, epoch: u32) -> Vec<u8> {
    std::format!("rank {rank} in life {epoch}").into_bytes()
}

/// The station of a rank.
fn station(rank: u32) -> Mac {
    let [.., high, low] = rank.to_be_bytes();
    Mac([2, 0xA1, 0xD1, 0, high, low])
}

/// Returns what a roster sends now, and where to.
fn sent(roster: &mut Roster<'_>) -> Vec<(Mac, Vec<u8>)> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let mut all = Vec::new();
    while let Some((to, bytes)) = roster.poll_transmit(&mut buffer) {
        all.push((to, bytes.to_vec()));
        roster.transmitted();
    }
    all
}

/// A message of a rank in a life, with the card that it should have.
fn message(kind: DiscoveryKind, rank: u32, epoch: u32, number: u32) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let card = card(rank, epoch);
    let message = Message { kind, job: JOB, size: 3, rank, epoch: Epoch(epoch), number, card: &card };
    message.encode(&mut buffer).unwrap().to_vec()
}

/// A hello that asks no rank.
const MUTE: DiscoveryKind = DiscoveryKind::Hello(Asked { first: 0, ranks: 0 });
