//! Collectives in flight while messages pass between their ranks, waited for in an order that each
//! rank draws by itself.

use aldis_coll::op::Sum;
use aldis_coll::{allreduce, barrier, bcast, wait_all};
use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::{DueMessage, Outcome, Random, expect, length, message};

const OVERLAP: u32 = 1 << 28;
/// Messages that each rank sends and receives meanwhile.
const MESSAGES_MAX: u64 = 8;

/// Some rounds; ranks do not wait for each other in between.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 32);
    for round in 0..random.within(1, 4) as u32 {
        let number = random.draw();
        self::round(ep, Tag(OVERLAP | (seed as u32 & 0xFFFF) << 8 | round), number)?;
    }
    Ok(())
}

fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, tag: Tag, number: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let random = &mut Random::new(number, 0);
    let (root, words) = (random.below(u64::from(size)) as u32, random.within(1, 60) as usize);
    // Each message goes the same distance from every rank.
    let messages: Vec<(u32, usize)> = (0..random.within(1, MESSAGES_MAX))
        .map(|_| (random.below(u64::from(size)) as u32, length(random)))
        .collect();
    let bytes = length(random) + 1;
    let own = &mut Random::new(number, 1 + u64::from(me));
    let data: Vec<Vec<u8>> =
        (0..).zip(&messages).map(|(of, (_, len))| message(me, number ^ of, *len)).collect();
    let mut buffers: Vec<Vec<u8>> = messages.iter().map(|(_, len)| vec![0; *len]).collect();
    let mut sums: Vec<u64> = (0..words as u64).map(|at| at + u64::from(me)).collect();
    let mut scratch = vec![0; random.within(1, words as u64) as usize];
    let mut news = if me == root { message(root, number, bytes) } else { vec![0; bytes] };
    let (collectives_first, messages_first) = (own.chance(50), own.chance(50));
    let statuses = ep.scope(|scope| {
        let (mut sends, mut receives, mut flying) = (Vec::new(), Vec::new(), Vec::new());
        let (news, sums, scratch) = (&mut news, &mut sums, &mut scratch);
        if collectives_first {
            flying.push(bcast(news, Rank(root)).start(scope, &world)?);
            flying.push(allreduce(Sum, sums, scratch).start(scope, &world)?);
            flying.push(barrier().start(scope, &world)?);
            for ((distance, _), buffer) in messages.iter().zip(&mut buffers) {
                let from = Rank((me + size - distance) % size);
                receives.push(scope.irecv(&world, buffer, from, tag)?);
            }
        } else {
            for ((distance, _), buffer) in messages.iter().zip(&mut buffers) {
                let from = Source::Rank(Rank((me + size - distance) % size));
                receives.push(scope.irecv(&world, buffer, from, TagMatch::Tag(tag))?);
            }
            flying.push(bcast(news, Rank(root)).start(scope, &world)?);
            scope.poll(own.below(4) as u32);
            flying.push(allreduce(Sum, sums, scratch).start(scope, &world)?);
            flying.push(barrier().start(scope, &world)?);
        }
        for ((distance, _), data) in messages.iter().zip(&data) {
            sends.push(scope.isend(&world, data, Rank((me + distance) % size), tag)?);
        }
        if messages_first {
            scope.wait_all(&mut sends)?;
        }
        wait_all(scope, &mut flying)?;
        let statuses =
            receives.into_iter().map(|receive| scope.wait(receive)).collect::<Result<Vec<_>, _>>()?;
        scope.wait_all(&mut sends)?;
        Ok(statuses)
    })?;
    for ((of, (distance, len)), (status, buffer)) in (0..).zip(&messages).zip(statuses.iter().zip(&buffers)) {
        let from = (me + size - distance) % size;
        expect(status, buffer, DueMessage { from, tag: tag.0, number: number ^ of, len: *len })?;
    }
    let ranks = u64::from(size);
    let right = (0..).zip(&sums).all(|(at, sum)| *sum == ranks * at + ranks * (ranks - 1) / 2);
    match (right, news == message(root, number, bytes)) {
        (true, true) => Ok(()),
        (false, _) => Err("a sum is wrong".into()),
        (true, false) => Err("a broadcast is wrong".into()),
    }
}
