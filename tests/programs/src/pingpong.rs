//! Ping-pong: a message to the partner and back, again and again; every word is verified, each way.

use core::fmt::Write;
use core::time::Duration;

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Tag};

use crate::ProgramFailure;

const PING: Tag = Tag(1);
const PONG: Tag = Tag(2);

/// Words of 64 bits in a message: one that goes inline, an eager one, and one beyond the eager size
/// of most boards.
const LENGTHS: [usize; 3] = [1, 8, 256];
const LENGTH_MAX: usize = 256;

/// Ranks 0 and 1 play, 2 and 3, and so on; a rank without a partner plays with itself. Each length
/// goes there and back `count` times. Returns the messages that this rank has sent.
///
/// # Errors
/// A call that fails, or a word that came back changed.
pub fn run<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    limit: Duration,
    count: u32,
    out: &mut dyn Write,
) -> Result<u64, ProgramFailure> {
    let world = ep.world();
    let me = world.rank();
    let partner = if me.0 ^ 1 < world.size() { Rank(me.0 ^ 1) } else { me };
    for length in LENGTHS {
        let mut trip_ns_min = u64::MAX;
        let start = ep.platform().now();
        for round in 0..count {
            let start = ep.platform().now();
            RoundTrip { partner, length, round: round.into() }.make(ep, limit)?;
            trip_ns_min = trip_ns_min.min(ep.platform().now().since(start));
        }
        let ns = ep.platform().now().since(start);
        if me <= partner && count > 0 {
            let (bytes, mean) = (8 * length, ns / u64::from(count));
            writeln!(out, "{bytes} B to rank {partner} and back: mean {mean} ns, best {trip_ns_min} ns")?;
        }
    }
    Ok(u64::from(count) * LENGTHS.len() as u64)
}

/// A message there and back. Each way has contents of its own.
struct RoundTrip {
    partner: Rank,
    /// Words of 64 bits.
    length: usize,
    round: u64,
}

impl RoundTrip {
    /// Sends the message there and back.
    fn make<T: Transport, P: Platform>(
        self,
        ep: &mut Endpoint<'_, T, P>,
        limit: Duration,
    ) -> Result<(), ProgramFailure> {
        let Self { partner, length, round } = self;
        let world = &ep.world();
        let (mut ping, mut pong, mut heard) = ([0_u64; LENGTH_MAX], [0; LENGTH_MAX], [0; LENGTH_MAX]);
        let (ping, pong, heard) = (&mut ping[..length], &mut pong[..length], &mut heard[..length]);
        fill(ping, round, PING);
        fill(pong, round, PONG);
        let me = world.rank();
        let mut within = ep.within(limit);
        if me == partner {
            within.sendrecv(world, ping, me, PING, heard, me, PING)?;
            verify(heard, ping)
        } else if me < partner {
            within.send(world, ping, partner, PING)?;
            within.recv(world, heard, partner, PONG)?;
            verify(heard, pong)
        } else {
            within.recv(world, heard, partner, PING)?;
            verify(heard, ping)?;
            Ok(within.send(world, pong, partner, PONG).map(|_| ())?)
        }
    }
}

/// Words that no other message and no other place has.
fn fill(message: &mut [u64], round: u64, tag: Tag) {
    for (place, word) in (0..).zip(message) {
        *word = round << 32 | u64::from(tag.0) << 16 | place;
    }
}

fn verify(found: &[u64], expected: &[u64]) -> Result<(), ProgramFailure> {
    for (place, (found, expected)) in (0..).zip(found.iter().zip(expected)) {
        ProgramFailure::unless_equal("word", place, *found, *expected)?;
    }
    Ok(())
}
