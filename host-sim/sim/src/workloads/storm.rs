//! Storms: all ranks start to send to all others at a time and in an order of their own, again and
//! again. On a wire that connects when it is first used, connections cross on all of them.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag};

use super::{DueMessage, Outcome, Random, expect, length, message};

const STORM: u32 = 1 << 29;
/// Ranks that one rank sends to at a time, for each a request slot and another for a receive.
const AT_ONCE: usize = 40;
const BUFFER_BYTES: usize = 3000;

/// Some storms, with some calm after each.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let mut random = Random::new(seed, 31);
    for storm in 0..random.within(1, 4) as u32 {
        let (number, small) = (random.draw(), random.chance(50));
        let tag = Tag(STORM | (seed as u32 & 0xFFFF) << 8 | storm << 4);
        // The distances are those of all ranks, their order within a gust is not.
        let mut distances: Vec<u32> = (1..size).collect();
        random.shuffle(&mut distances);
        let own = &mut Random::new(number, u64::from(me));
        let len = |from: u32| {
            let random = &mut Random::new(number, u64::from(from) << 32);
            if small { random.below(25) as usize } else { length(random) }
        };
        let data = message(me, number, len(me));
        for (gust, distances) in (0..).zip(distances.chunks_mut(AT_ONCE)) {
            own.shuffle(distances);
            let mut buffers = vec![vec![0; BUFFER_BYTES]; distances.len()];
            let tag = Tag(tag.0 + gust);
            let statuses = ep.scope(|scope| {
                let (mut sends, mut receives) = (Vec::new(), Vec::new());
                for distance in distances.iter() {
                    sends.push(scope.isend(&world, &data, Rank((me + distance) % size), tag)?);
                }
                for buffer in &mut buffers {
                    receives.push(scope.irecv(&world, buffer, Source::Any, tag)?);
                }
                scope.wait_all(&mut sends)?;
                receives.into_iter().map(|receive| scope.wait(receive)).collect::<Result<Vec<_>, _>>()
            })?;
            let mut due: Vec<u32> = distances.iter().map(|distance| (me + size - distance) % size).collect();
            for (status, buffer) in statuses.iter().zip(&buffers) {
                let from = status.source.0;
                expect(status, buffer, DueMessage { from, tag: tag.0, number, len: len(from) })?;
                let place = due.iter().position(|source| *source == from);
                due.swap_remove(place.ok_or_else(|| format!("rank {from} has sent twice or out of turn"))?);
            }
        }
        for _ in 0..own.below(20) {
            ep.poll(8);
        }
    }
    Ok(())
}
