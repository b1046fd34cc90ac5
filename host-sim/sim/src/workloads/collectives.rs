//! Collectives in random order, against sums and bytes that each rank can work out by itself.

use aldis_coll::op::{BitXor, Sum};
use aldis_coll::{allreduce, barrier, bcast, wait_all};
use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank};

use super::{Outcome, Random, length, message};

/// A few calls, the same on every rank.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let mut random = Random::new(seed, 24);
    for call in 0..random.within(1, 8) {
        let number = seed.wrapping_add(call);
        let count = length(&mut random) / 8 + 1;
        let scratch = random.within(1, count as u64) as usize;
        match random.below(4) {
            0 => barrier().run(ep, &world)?,
            1 => {
                let root = random.below(u64::from(size)) as u32;
                let mut data = if me == root { message(me, number, count) } else { vec![0; count] };
                bcast(&mut data, Rank(root)).run(ep, &world)?;
                same(data == message(root, number, count), "broadcast", call)?;
            }
            2 => {
                let mut data = words(me, number, count);
                allreduce(Sum, &mut data, &mut vec![0; scratch]).run(ep, &world)?;
                same(data == folded(size, number, count, u64::wrapping_add), "sum", call)?;
            }
            _ => {
                let (mut one, mut other) = (words(me, number, count), words(me, !number, count));
                let (mut scratch_one, mut scratch_other) = (vec![0; scratch], vec![0; scratch]);
                ep.scope(|scope| {
                    let mut flying = [
                        allreduce(BitXor, &mut one, &mut scratch_one).start(scope, &world)?,
                        barrier().start(scope, &world)?,
                        allreduce(Sum, &mut other, &mut scratch_other).start(scope, &world)?,
                    ];
                    wait_all(scope, &mut flying)
                })?;
                same(one == folded(size, number, count, |a, b| a ^ b), "exclusive or", call)?;
                same(other == folded(size, !number, count, u64::wrapping_add), "sum", call)?;
            }
        }
    }
    Ok(())
}

/// A barrier and a sum of all rank numbers.
pub(super) fn barrier_and_allreduce<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    barrier().run(ep, &world)?;
    let mut data = [u64::from(world.rank().0)];
    allreduce(Sum, &mut data, &mut [0]).run(ep, &world)?;
    let size = u64::from(world.size());
    same(data == [size * (size - 1) / 2], "sum", 0)
}

fn words(rank: u32, number: u64, count: usize) -> Vec<u64> {
    let mut random = Random::new(number, u64::from(rank));
    (0..count).map(|_| random.draw()).collect()
}

fn folded(size: u32, number: u64, count: usize, fold: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    let mut folded = words(0, number, count);
    for rank in 1..size {
        for (into, from) in folded.iter_mut().zip(words(rank, number, count)) {
            *into = fold(*into, from);
        }
    }
    folded
}

fn same(is: bool, what: &str, call: u64) -> Outcome {
    if is { Ok(()) } else { Err(format!("the {what} of call {call} is wrong").into()) }
}
