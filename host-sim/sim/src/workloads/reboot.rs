//! A rank dies and boots again: the others see its death as a typed error, learn its new life from
//! its card, and all exchange messages with it. Nothing of the old life may come out in the new
//! one. Where no rank dies it is an exchange.
//!
//! This is the one workload that asks its virtual node for the time and for cards: what a launcher
//! or a discovery service would tell.

use core::time::Duration;

use aldis_kernel::hal::{Cause, Epoch, Instant, PeerId};
use aldis_kernel::{Error, Rank, Tag, TagMatch};

use super::super::plan::HEALED_NS;
use super::collectives::barrier_and_allreduce;
use super::{DueMessage, Outcome, Random, SimEndpoint, expect, length, message};

/// Exchanges of all with all before and while ranks die.
const ROUNDS_MAX: u64 = 6;
/// Distances to the ranks that one exchanges messages with at a time: two ranks each, and for each
/// a send and a receive.
const DISTANCES_AT_ONCE: u32 = 24;
/// Tag of the exchange after it.
const LAST: u32 = 1_000;
const BYTES_MAX: usize = 3000;
/// The time within which a live peer has answered, virtual.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) fn run(ep: &mut SimEndpoint<'_>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let mut random = Random::new(seed, 28);
    let rounds: Vec<u64> = (0..random.within(1, ROUNDS_MAX)).map(|_| random.draw()).collect();
    let last = random.draw();
    let others: Vec<u32> = (0..size).filter(|rank| *rank != me).collect();
    let mut known: Vec<Option<Epoch>> = (0..size).map(|rank| epoch_of(ep, rank)).collect();
    // One that has booted again begins where the others will be, also where these have not begun
    // yet.
    let mut dead: Vec<bool> = (0..size).map(|rank| ep.transport().boots(PeerId(rank)) > 0).collect();
    if dead[me as usize] {
        // It is to be told of the loss of any of them, and so gets to know those that it can.
        for peer in &others {
            let _ = ep.iprobe(&world, Rank(*peer), Tag(LAST));
        }
    } else {
        for (round, number) in (0..).zip(&rounds) {
            // Met again at once, while messages and frames of the old life may still be under way.
            for (peer, error) in exchange_with_all(ep, &mut dead, round, *number)? {
                meet_again(ep, peer, &mut known[peer as usize], error.into())?;
            }
        }
        // From here on no rank dies any more, and those that have died are there again.
        while ep.transport().now() < Instant(HEALED_NS) {
            ep.poll(16);
        }
    }
    // In an order that all share: no two pairs wait for each other.
    for peer in others {
        while let Err(error) = exchange(ep, peer, last) {
            meet_again(ep, peer, &mut known[peer as usize], error)?;
        }
    }
    // An error by itself would pass for what follows from a death.
    barrier_and_allreduce(ep).map_err(|error| format!("with the new life: {error}"))?;
    match ep.diagnostics().queue_depths() {
        (0, 0) => Ok(()),
        left => Err(format!("{left:?} receives and messages are left when all is over").into()),
    }
}

fn epoch_of(ep: &SimEndpoint<'_>, rank: u32) -> Option<Epoch> {
    ep.transport().card_of(PeerId(rank)).map(|card| card.epoch())
}

/// A message to and from every other rank, of as many ranks at a time as there are requests for:
/// the nearest first, so that two ranks come to each other at the same time. Tells the ranks that
/// turn out to be dead, and are left out from then on; the messages of all others must come.
fn exchange_with_all(
    ep: &mut SimEndpoint<'_>,
    dead: &mut [bool],
    round: u32,
    number: u64,
) -> Result<Vec<(u32, Error)>, Box<dyn core::error::Error>> {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (random, tag) = (&mut Random::new(number, 0), Tag(round));
    let lengths: Vec<usize> = (0..size).map(|_| length(random)).collect();
    let data = message(me, number, lengths[me as usize]);
    let mut deaths = Vec::new();
    for wave in 0..(size / 2).div_ceil(DISTANCES_AT_ONCE) {
        let live: Vec<u32> = (0..size)
            .filter(|rank| wave_of(me.abs_diff(*rank), size) == Some(wave) && !dead[*rank as usize])
            .collect();
        let mut buffers = vec![vec![0; BYTES_MAX]; live.len()];
        let results = ep.scope(|scope| {
            let mut pairs = Vec::new();
            for (peer, buffer) in live.iter().zip(buffers.iter_mut()) {
                let receiving = scope.irecv(&world, buffer, Rank(*peer), tag);
                pairs.push((receiving, scope.isend(&world, &data, Rank(*peer), tag)));
            }
            let mut results = Vec::new();
            for (receiving, sending) in pairs {
                let received = receiving.and_then(|request| scope.wait(request));
                let sent = sending.and_then(|request| scope.wait(request));
                results.push((received, sent));
            }
            Ok(results)
        })?;
        for ((peer, buffer), (received, sent)) in live.iter().zip(&buffers).zip(results) {
            match received.and_then(|status| sent.map(|_| status)) {
                Ok(status) => {
                    let len = lengths[*peer as usize];
                    expect(&status, buffer, DueMessage { from: *peer, tag: tag.0, number, len })?;
                }
                Err(error) if error.cause == Cause::PeerDead => {
                    dead[*peer as usize] = true;
                    deaths.push((*peer, error));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(deaths)
}

/// The exchange of all with all in which two ranks so far apart have theirs; `None` of a rank with
/// itself.
fn wave_of(apart: u32, size: u32) -> Option<u32> {
    Some(apart.min(size - apart).checked_sub(1)? / DISTANCES_AT_ONCE)
}

/// The last message to and from one other rank: with whatever tag, so that one that has been left
/// from before is found.
fn exchange(ep: &mut SimEndpoint<'_>, peer: u32, number: u64) -> Result<(), Box<dyn core::error::Error>> {
    let world = ep.world();
    let me = world.rank().0;
    let len = |rank: u32| length(&mut Random::new(number, rank.into()));
    let (data, mut buffer) = (message(me, number, len(me)), vec![0; BYTES_MAX]);
    let (to, tag) = (Rank(peer), Tag(LAST));
    let status = ep.within(LIMIT).sendrecv(&world, &data, to, tag, &mut buffer, to, TagMatch::Any)?;
    expect(&status, &buffer, DueMessage { from: peer, tag: LAST, number, len: len(peer) })
}

/// After `error`: waits for the card of the peer's new life, and learns it.
fn meet_again(
    ep: &mut SimEndpoint<'_>,
    peer: u32,
    known: &mut Option<Epoch>,
    error: Box<dyn core::error::Error>,
) -> Outcome {
    match error.downcast_ref::<Error>().map(|error| error.cause) {
        Some(Cause::PeerDead) => {}
        // Not by itself: that would pass for what follows from a death.
        Some(_) => return Err(format!("instead of an answer of rank {peer}: {error}").into()),
        None => return Err(error),
    }
    let card = loop {
        let card = ep.transport().card_of(PeerId(peer)).filter(|card| Some(card.epoch()) != *known);
        match card {
            Some(card) => break card,
            // It has not come back, and will not.
            None if ep.transport().now() >= Instant(HEALED_NS) => return Err(error),
            None => ep.poll(16),
        };
    };
    *known = Some(card.epoch());
    ep.connect(&card).map_err(|error| format!("the new life of rank {peer} cannot be met: {error}").into())
}
