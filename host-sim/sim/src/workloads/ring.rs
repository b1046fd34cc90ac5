//! Tokens round a ring, blocking.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::{DueMessage, Outcome, Random, expect, length, message};

/// Sends one token round, which grows by each rank; then all tokens move at once, with `sendrecv`.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut random = Random::new(seed, 21);
    if size > 1 {
        let mut token = [0_u64];
        if me == 0 {
            ep.send(&world, &[seed], next, Tag(1))?;
        }
        ep.recv(&world, &mut token, previous, Tag(1))?;
        let due = seed.wrapping_add(u64::from(if me == 0 { size - 1 } else { me - 1 }));
        if token != [due] {
            return Err(format!("the token is {:x} and should be {due:x}", token[0]).into());
        }
        if me != 0 {
            ep.send(&world, &[token[0].wrapping_add(1)], next, Tag(1))?;
        }
    }
    for round in 0..random.within(1, 6) {
        let (len, tag) = (length(&mut random), random.below(3) as u32 + 2);
        let number = seed ^ round;
        let mut buffer = vec![0; len];
        let data = message(me, number, len);
        // Only one rank sends here, so that wildcards change nothing.
        let (from, from_tag) = if random.chance(30) && size > 1 {
            (Source::Rank(previous), TagMatch::Any)
        } else {
            (previous.into(), Tag(tag).into())
        };
        let status = ep.sendrecv(&world, &data, next, Tag(tag), &mut buffer, from, from_tag)?;
        expect(&status, &buffer, DueMessage { from: previous.0, tag, number, len })?;
    }
    Ok(())
}
