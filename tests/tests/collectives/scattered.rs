//! Reduce-scatter by every algorithm: in place and not, with much scratch and little, blocks of one
//! length and of unlike ones, operations that commute and not.

use aldis_coll::catalog::algorithms;
use aldis_coll::layout::Block;
use aldis_coll::op::{Element, Product, Reduce, Sum};
use aldis_coll::reduce_scatter::{Pairwise, Ring};
use aldis_coll::schedule::least_scratch;
use aldis_coll::{
    InputBlocks, Options, reduce_scatter, reduce_scatter_block, reduce_scatter_block_in_place,
    reduce_scatter_in_place, wait_all,
};
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_tests::thread_jobs::{Endpoint, run};

use crate::blocks::layout;
use crate::oracle::{Affine, Compose, Sample, fold, inputs};

const SIZES: [u32; 7] = [1, 2, 3, 4, 6, 7, 9];

/// Calls by every algorithm that can, and by the one that selection takes, each with scratch for
/// everything, for some, and for as little as it works with.
fn each<R: Reduce<E>, E: Element>(size: u32, longest: usize) -> Vec<(Options, usize)> {
    let known =
        algorithms(Operation::ReduceScatter).iter().filter(|known| R::COMMUTES || known.keeps_rank_order());
    let all = 2 * size as usize * longest;
    let named = known.flat_map(|known| {
        let least = least_scratch(*known, size);
        [all.max(least), all.div_ceil(5).max(least), least].map(|len| (Options::using(*known), len))
    });
    named.chain([all.max(3), 3].map(|len| (Options::default(), len))).collect()
}

/// Every form of the call on blocks as listed, where each rank gives as many elements as `len`.
fn check<R: Reduce<E> + Copy, E: Sample + Element>(
    endpoint: &mut Endpoint,
    op: R,
    list: &[Block],
    len: usize,
) {
    let world = &endpoint.world();
    let (rank, size) = (world.rank().0, world.size());
    let (seed, own) = (len as u64, list[rank as usize]);
    let given: Vec<E> = inputs(seed, rank, len);
    let reduced = fold(op, seed, size, len);
    let expected = &reduced[own.start..][..own.len];
    let longest = list.iter().map(|block| block.len).max().unwrap_or(0);
    let is_even = list.iter().all(|block| block.len == longest) && len == longest * size as usize;
    let mut in_place = given.clone();
    in_place[own.start..][..own.len].copy_from_slice(expected);
    for (options, scratch) in each::<R, E>(size, longest) {
        let mut scratch = vec![E::sample(1); scratch];
        let mut result = vec![E::sample(2); own.len];
        reduce_scatter(op, InputBlocks::new(&given, list), &mut result, &mut scratch)
            .with(&options)
            .run(endpoint, world)
            .unwrap();
        assert_eq!(result, expected, "{options:?} {}", scratch.len());
        let mut data = given.clone();
        reduce_scatter_in_place(op, &mut data, list, &mut scratch)
            .with(&options)
            .run(endpoint, world)
            .unwrap();
        assert_eq!(data, in_place, "{options:?} {}", scratch.len());
        if !is_even {
            continue;
        }
        result.fill(E::sample(3));
        reduce_scatter_block(op, &given, &mut result, &mut scratch)
            .with(&options)
            .run(endpoint, world)
            .unwrap();
        assert_eq!(result, expected, "{options:?} {}", scratch.len());
        let mut data = given.clone();
        reduce_scatter_block_in_place(op, &mut data, &mut scratch)
            .with(&options)
            .run(endpoint, world)
            .unwrap();
        assert_eq!(data, in_place, "{options:?} {}", scratch.len());
    }
}

#[test]
fn every_algorithm_reduces_and_scatters_blocks_of_one_length() {
    for size in SIZES {
        run(size, |endpoint| {
            for each in [0, 1, 5, 60] {
                let list: Vec<Block> =
                    (0..size as usize).map(|rank| Block { start: rank * each, len: each }).collect();
                let all = each * size as usize;
                check::<_, u64>(endpoint, Sum, &list, all);
                check::<_, Affine>(endpoint, Compose, &list, all);
            }
        });
    }
}

#[test]
fn every_algorithm_reduces_and_scatters_blocks_of_unlike_lengths() {
    for size in SIZES {
        run(size, |endpoint| {
            // Some are empty, one is alone, all are.
            let lens: [&dyn Fn(u32) -> usize; 3] =
                [&|rank| (rank * 7 % 5) as usize * 11, &|rank| if rank == size / 2 { 70 } else { 0 }, &|_| 0];
            for len in lens {
                // With gaps, the same places everywhere: what is reduced stands in one.
                let (list, end) = layout(0, (0..size).map(len).collect());
                check::<_, i32>(endpoint, Product, &list, end);
                check::<_, Affine>(endpoint, Compose, &list, end);
            }
        });
    }
}

/// Lengths are alike on all ranks; places need not be.
#[test]
fn places_differ_from_rank_to_rank() {
    for size in [3, 4, 5] {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let lens: Vec<usize> = (0..size as usize).map(|rank| rank * 9 % 20).collect();
            let (list, end) = layout(rank, lens);
            // Element `at` of block b is worth b and its place in it, on every rank.
            let mut input = vec![u32::MAX; end];
            for (number, block) in list.iter().enumerate() {
                for at in 0..block.len {
                    input[block.start + at] = (1000 * number + at) as u32;
                }
            }
            let own = list[rank as usize].len;
            for known in algorithms(Operation::ReduceScatter) {
                let (mut data, mut scratch) = (vec![0; own], vec![0; 90]);
                let options = Options::using(*known);
                reduce_scatter(Sum, InputBlocks::new(&input, &list), &mut data, &mut scratch)
                    .with(&options)
                    .run(endpoint, &world)
                    .unwrap();
                assert!((0..own).all(|at| data[at] == size * (1000 * rank + at as u32)), "{options:?}");
            }
        });
    }
}

#[test]
fn several_reductions_that_are_scattered_fly_at_once() {
    for size in 1..=5 {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let all = 40 * size as usize;
            let (input, expected) = (inputs::<u64>(1, rank, all), fold::<u64, _>(Sum, 1, size, all));
            let list: Vec<Block> =
                (0..size as usize).map(|rank| Block { start: rank * 40, len: 40 - rank }).collect();
            let own = list[rank as usize];
            let (mut one, mut other) = (vec![0; 40], vec![0; own.len]);
            let (mut third, mut fourth) = (input.clone(), input.clone());
            let mut scratch = [[0; 3].to_vec(), vec![0; 2 * all], vec![0; 17], vec![0; 200]];
            let [a, b, c, d] = &mut scratch;
            let (data, results) = ((&mut third, &mut fourth), (&mut one, &mut other));
            let (input, list) = (&input, &list);
            endpoint
                .scope(|scope| {
                    let mut flying = [
                        reduce_scatter_block(Sum, input, results.0, a).start(scope, &world)?,
                        reduce_scatter(Sum, InputBlocks::new(input, list), results.1, b)
                            .start(scope, &world)?,
                        reduce_scatter_block_in_place(Sum, data.0, c).start(scope, &world)?,
                        reduce_scatter_in_place(Sum, data.1, list, d).start(scope, &world)?,
                    ];
                    wait_all(scope, &mut flying)
                })
                .unwrap();
            let expected = &expected[own.start..][..40];
            assert_eq!((&one[..], &third[own.start..][..40]), (expected, expected));
            assert_eq!(
                (&other[..], &fourth[own.start..][..own.len]),
                (&expected[..own.len], &expected[..own.len])
            );
        });
    }
}

#[test]
fn what_cannot_be_reduced_and_scattered_is_refused_before_anything_is_sent() {
    run(3, |endpoint| {
        let world = endpoint.world();
        let cause = |result: Result<(), aldis_kernel::Error>| result.unwrap_err().cause;
        let mismatch = |left, right| Cause::LengthMismatch { left, right };
        let whole = reduce_scatter_block(Sum, &[1u8; 7], &mut [0; 2], &mut [0; 9]).run(endpoint, &world);
        assert_eq!(cause(whole), mismatch(7, 6));
        let long = reduce_scatter_block(Sum, &[1u8; 6], &mut [0; 3], &mut [0; 9]).run(endpoint, &world);
        assert_eq!(cause(long), mismatch(2, 3));
        let list = Block::packed([2, 2, 2]);
        let short = reduce_scatter(Sum, InputBlocks::new(&[1u8; 6], &list), &mut [0; 1], &mut [0; 9])
            .run(endpoint, &world);
        assert_eq!(cause(short), mismatch(1, 2));
        let few = reduce_scatter_in_place(Sum, &mut [1u8; 6], &list[..2], &mut [0; 9]).run(endpoint, &world);
        assert_eq!(cause(few), mismatch(2, 3));
        let outside = reduce_scatter_in_place(Sum, &mut [1u8; 5], &list, &mut [0; 9]).run(endpoint, &world);
        assert_eq!(cause(outside), Cause::TooBig { len: 6, max: 5 });
        let scratch = reduce_scatter_block_in_place(Sum, &mut [1u32; 6], &mut []).run(endpoint, &world);
        let error = scratch.unwrap_err();
        assert_eq!(error.operation, Operation::ReduceScatterBlock);
        assert!(matches!(error.cause, Cause::TooSmall { what: Resource::Scratch, have: 0, .. }), "{error}");
        let one = [Affine { a: 1, b: 0 }; 3];
        let mut scratch = one;
        let ring = reduce_scatter_block_in_place(Compose, &mut one.clone(), &mut scratch)
            .with(&Options::using(&Ring))
            .run(endpoint, &world);
        assert_eq!(cause(ring), Cause::Unsupported, "its operands are not in order");
        let pairwise = reduce_scatter_block_in_place(Sum, &mut [1u16; 3], &mut [0; 2])
            .with(&Options::using(&Pairwise))
            .run(endpoint, &world);
        assert_eq!(cause(pairwise), Cause::TooSmall { what: Resource::Scratch, need: 6, have: 4 });
        // All ranks are still in step.
        let mut data = [1u8; 3];
        reduce_scatter_block_in_place(Sum, &mut data, &mut [0; 3]).run(endpoint, &world).unwrap();
        assert_eq!(data[world.rank().0 as usize], 3);
    });
}
