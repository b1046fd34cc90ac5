//! A flood: every other rank sends rank 0 a burst of messages, and rank 0 reads none of them before
//! it has asked each sender for the message that it sent last. What there is no room for waits at
//! its sender: nothing is lost, and what is read comes in the order in which it was sent.

use core::time::Duration;

use aldis_coll::barrier;
use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Rank, Request, Tag};

use crate::ProgramFailure;

const COMMON: Tag = Tag(1);
const LAST: Tag = Tag(2);

/// Messages of a burst before the last one, all under way at a time: more than a small board's
/// envelopes for a peer.
pub const BURST: usize = 24;

/// Words of 64 bits in every other message, which needs a block where it waits; the others have one
/// word.
const LENGTH_MAX: usize = 16;

type Message = [u64; LENGTH_MAX];

/// Runs `count` bursts. Returns the messages that this rank has sent, or those that rank 0 has
/// received.
///
/// # Errors
/// A call that fails, a message out of order or changed, or a job of one rank.
pub fn run<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    limit: Duration,
    count: u32,
) -> Result<u64, ProgramFailure> {
    let world = ep.world();
    if world.size() < 2 {
        return Err(ProgramFailure::Ranks { min: 2, max: u32::MAX });
    }
    let mut messages = 0;
    for burst in 0..count {
        messages += if world.rank() == Rank(0) {
            drain(ep, &world, limit, burst)?
        } else {
            send(ep, &world, limit, burst)?
        };
    }
    barrier().run(&mut ep.within(limit), &world)?;
    Ok(messages)
}

/// The message with this number of a rank's burst; the last one has the number [`BURST`].
fn message(rank: Rank, burst: u32, number: usize) -> Message {
    core::array::from_fn(|place| {
        (u64::from(burst) << 32) | (u64::from(rank.0) << 16) | ((number as u64) << 8) | place as u64
    })
}

const fn length(number: usize) -> usize {
    if number.is_multiple_of(2) { 1 } else { LENGTH_MAX }
}

fn send<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    world: &Comm,
    limit: Duration,
    burst: u32,
) -> Result<u64, ProgramFailure> {
    let messages: [Message; BURST + 1] = core::array::from_fn(|number| message(world.rank(), burst, number));
    ep.within(limit).scope(|s| {
        let mut sends = [const { Request::null() }; BURST + 1];
        for (number, (request, message)) in sends.iter_mut().zip(&messages).enumerate() {
            let tag = if number == BURST { LAST } else { COMMON };
            *request = s.isend(world, &message[..length(number)], Rank(0), tag)?;
        }
        s.wait_all(&mut sends)
    })?;
    Ok(messages.len() as u64)
}

fn drain<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    world: &Comm,
    limit: Duration,
    burst: u32,
) -> Result<u64, ProgramFailure> {
    let mut messages = 0;
    for sender in 1..world.size() {
        for number in core::iter::once(BURST).chain(0..BURST) {
            let mut found: Message = [0; LENGTH_MAX];
            let tag = if number == BURST { LAST } else { COMMON };
            let status = ep.within(limit).recv(world, &mut found, Rank(sender), tag)?;
            let due = length(number);
            ProgramFailure::unless_equal("bytes of message", number as u64, status.bytes, 8 * due as u64)?;
            let expected = message(Rank(sender), burst, number);
            for (found, expected) in found.iter().zip(&expected).take(due) {
                ProgramFailure::unless_equal("message", number as u64, *found, *expected)?;
            }
            messages += 1;
        }
    }
    Ok(messages)
}
