//! Reductions by functions that are known only when the program runs.

use core::num::NonZeroU32;

use aldis_coll::Options;
use aldis_coll::catalog::algorithms;
use aldis_coll::dyn_op::DynReduction;
use aldis_coll::dyn_op::reduce_by;
use aldis_coll::op::{Function, Kernel};
use aldis_coll::schedule::Order;
use aldis_kernel::Rank;
use aldis_kernel::hal::{Cause, Operation};
use aldis_tests::thread_jobs::run;

/// `x -> a x + b`, one after the other: the right one first. Modulo 2^8 less the token, so that
/// what is given arrives.
const COMPOSE: Function = |token, into, from, order| {
    for (into, from) in into.chunks_exact_mut(2).zip(from.chunks_exact(2)) {
        let (left, right) = match order {
            Order::IntoFirst => ([into[0], into[1]], [from[0], from[1]]),
            Order::FromFirst => ([from[0], from[1]], [into[0], into[1]]),
        };
        into.copy_from_slice(&compose(token, left, right));
    }
    Ok(())
};

fn compose(token: usize, left: [u8; 2], right: [u8; 2]) -> [u8; 2] {
    let [[a, b], [c, d]] = [left, right].map(|pair| pair.map(usize::from));
    [a * c, a * d + b].map(|number| (number % (256 - token)) as u8)
}

const KERNEL: Kernel = Kernel::of_function(COMPOSE, 3, NonZeroU32::new(2).unwrap(), false);

fn element(rank: u32, at: usize) -> [u8; 2] {
    [rank as u8 * 2 + 1, (at as u8).wrapping_mul(7) ^ rank as u8]
}

/// The elements of these ranks, one after the other.
fn fold(ranks: core::ops::RangeInclusive<u32>, at: usize) -> [u8; 2] {
    ranks.map(|rank| element(rank, at)).reduce(|left, right| compose(3, left, right)).unwrap()
}

#[test]
fn every_algorithm_that_keeps_order_takes_a_function_of_the_program() {
    const COUNT: usize = 37;
    for size in [1, 2, 3, 5, 8] {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            for operation in [Operation::Reduce, Operation::Allreduce, Operation::Scan, Operation::Exscan] {
                let named =
                    algorithms(operation).iter().filter(|it| it.serves(size) && it.keeps_rank_order());
                for options in named.map(|it| Options::using(*it)).chain([Options::default()]) {
                    let root = Rank(size / 2);
                    let what = DynReduction { operation, kernel: KERNEL, root };
                    let own = (0..COUNT).map(|at| element(rank, at));
                    let mut data = own.collect::<Vec<_>>().into_flattened();
                    reduce_by(what, &mut data, &mut [0; 2 * COUNT])
                        .with(&options)
                        .run(endpoint, &world)
                        .unwrap();
                    let ranks = match operation {
                        Operation::Reduce if world.rank() != root => continue,
                        Operation::Exscan if rank == 0 => continue,
                        Operation::Exscan => 0..=rank - 1,
                        Operation::Scan => 0..=rank,
                        _ => 0..=size - 1,
                    };
                    let expected = (0..COUNT).map(|at| fold(ranks.clone(), at));
                    assert_eq!(
                        data,
                        expected.collect::<Vec<_>>().into_flattened(),
                        "{operation} {options:?}"
                    );
                }
            }
        });
    }
}

#[test]
fn what_is_no_reduction_or_no_whole_elements_is_refused() {
    run(2, |endpoint| {
        let world = endpoint.world();
        let mut refused = |operation, bytes: usize| {
            let what = DynReduction { operation, kernel: KERNEL, root: Rank(0) };
            let (mut data, mut scratch) = (vec![0; bytes], vec![0; bytes]);
            let result = reduce_by(what, &mut data, &mut scratch).run(endpoint, &world);
            result.unwrap_err().cause
        };
        assert_eq!(refused(Operation::Allreduce, 5), Cause::LengthMismatch { left: 5, right: 4 });
        assert_eq!(refused(Operation::Bcast, 4), Cause::Unsupported);
        assert_eq!(refused(Operation::Allgather, 4), Cause::Unsupported);
    });
}
