//! Collectives over the real kernel and shared-memory rings, a thread a rank, against a sequential
//! oracle.
#![allow(missing_docs)]

mod blocks;
mod by;
mod chunks;
mod direct;
mod erased;
mod hierarchy;
mod inter;
mod lanes;
mod lent;
mod neighbors;
mod oracle;
mod persistent;
mod rules;
mod scattered;
mod shared;
mod typed;
mod unlike;
mod waited;

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use aldis_coll::allreduce::{RecursiveDoubling, Ring};
use aldis_coll::barrier::TwoProcesses;
use aldis_coll::catalog::algorithms;
use aldis_coll::op::{BitXor, Sum};
use aldis_coll::schedule::Candidate;
use aldis_coll::schedule::least_scratch;
use aldis_coll::{Options, allreduce, barrier, bcast, exscan, scan, wait_all, wait_for};
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::{Rank, Source, Tag, TagMatch};
use aldis_tests::thread_jobs::{Endpoint, run, run_with_requests};
use direct::EveryToEvery;
use oracle::{Affine, Compose, Data, RandomCall, fold, inputs, noise};
use proptest::prelude::*;

fn calls(size: u32) -> impl Strategy<Value = Vec<RandomCall>> {
    let counts = prop_oneof![4 => 0..40usize, 1 => 40..2000usize];
    let scratches = prop_oneof![1 => Just(1usize), 2 => 1..50usize, 1 => Just(4000usize)];
    let operation = prop_oneof![
        1 => Just(Operation::Barrier),
        2 => Just(Operation::Bcast),
        4 => Just(Operation::Allreduce),
        4 => Just(Operation::Reduce),
        2 => Just(Operation::Scan),
        2 => Just(Operation::Exscan),
    ];
    let segments = prop_oneof![2 => Just(0), 2 => 1..20usize, 1 => 20..300usize].prop_map(NonZeroUsize::new);
    // As many algorithms as one operation has at most, and one that is none.
    let call = (operation, 0..16usize, 0..size, 0..7u8, counts, scratches, segments).prop_map(
        |(operation, algorithm, root, kind, count, scratch, segment)| {
            let algorithm = algorithm % (algorithms(operation).len() + 1);
            RandomCall { operation, algorithm, root, kind, count, scratch, segment }
        },
    );
    prop::collection::vec(call, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// All calls in flight at once; each rank waits for them in an order of its own.
    #[test]
    fn any_mix_agrees_with_the_oracle(
        (size, calls) in (1..=9u32).prop_flat_map(|size| (Just(size), calls(size))),
        seed: u64,
        by_control_slots: u8,
    ) {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let seed_of = |index: usize| seed.wrapping_add(index as u64);
            let mut data: Vec<Data> =
                calls.iter().enumerate().map(|(index, call)| call.data(seed_of(index), rank)).collect();
            let buffers = &mut data;
            endpoint.scope(|scope| {
                let mut flying = Vec::new();
                for (index, (call, data)) in calls.iter().zip(buffers.iter_mut()).enumerate() {
                    flying.push(call.start(scope, &world, data, call.options(size, by_control_slots >> index & 1 == 1))?);
                }
                let first = rank as usize % calls.len();
                wait_for(scope, &mut flying, first)?;
                assert!(flying[first].is_complete());
                wait_all(scope, &mut flying)
            }).unwrap();
            for (index, (call, data)) in calls.iter().zip(&data).enumerate() {
                call.check(seed_of(index), rank, size, data);
            }
        });
    }
}

#[test]
fn blocking_calls_work_with_and_without_a_deadline() {
    run(5, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        for round in 0..50u32 {
            let (mut data, mut scratch) = ([rank + round, 1], [0; 2]);
            allreduce(Sum, &mut data, &mut scratch).run(endpoint, &world).unwrap();
            assert_eq!(data, [10 + 5 * round, 5]);
            let mut within = endpoint.within(Duration::from_secs(60));
            barrier().run(&mut within, &world).unwrap();
            let mut data = [rank; 100];
            bcast(&mut data, Rank(round % 5)).run(&mut within, &world).unwrap();
            assert_eq!(data, [round % 5; 100]);
        }
    });
}

#[test]
fn no_rank_leaves_a_barrier_before_all_have_entered() {
    for size in 1..=9 {
        let entered = AtomicU32::new(0);
        let serves = |known: &&Candidate| known.serves(size);
        let named = algorithms(Operation::Barrier).iter().filter(serves).map(|&known| Options::using(known));
        let all: Vec<Options> = named.chain([Options::default()]).collect();
        run(size, |endpoint| {
            let world = endpoint.world();
            for (round, options) in (1..=20).zip(all.iter().cycle()) {
                entered.fetch_add(1, Ordering::SeqCst);
                barrier().with(options).run(endpoint, &world).unwrap();
                assert!(entered.load(Ordering::SeqCst) >= round * size);
                barrier().with(options).run(endpoint, &world).unwrap();
            }
        });
    }
}

#[test]
fn scans_leave_every_rank_what_stands_before_it() {
    run(5, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let (mut upto, mut before, mut scratch) = ([rank + 1; 3], [rank + 1; 3], [0; 2]);
        scan(Sum, &mut upto, &mut scratch).run(endpoint, &world).unwrap();
        exscan(Sum, &mut before, &mut scratch).run(endpoint, &world).unwrap();
        let sum = |ranks: u32| ranks * (ranks + 1) / 2;
        // Before rank 0 is none: its data are as they were.
        assert_eq!((upto, before), ([sum(rank + 1); 3], [sum(rank).max(1); 3]));
        let (mut upto, mut before) = ([rank + 1; 3], [rank + 1; 3]);
        for options in [Options::using(&aldis_coll::scan::Linear), Options::shared()] {
            scan(Sum, &mut upto, &mut scratch).with(&options).run(endpoint, &world).unwrap();
            assert_eq!(upto, [sum(rank + 1); 3]);
            upto = [rank + 1; 3];
        }
        exscan(Sum, &mut before, &mut []).with(&Options::shared()).run(endpoint, &world).unwrap();
        assert_eq!(before, [sum(rank).max(1); 3]);
        let none = exscan(Sum, &mut before, &mut []).run(endpoint, &world).unwrap_err();
        assert_eq!(none.cause, Cause::TooSmall { what: Resource::Scratch, need: 4, have: 0 });
    });
}

#[test]
fn an_algorithm_for_two_is_refused_to_three() {
    run(3, |endpoint| {
        let world = endpoint.world();
        let error = barrier().with(&Options::using(&TwoProcesses)).run(endpoint, &world).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Barrier, Cause::Unsupported));
    });
}

/// Sums of numbers of unlike magnitude depend on their order: same bits, or not, shows it.
#[test]
fn floating_point_results_have_the_same_bits_on_all_ranks() {
    for size in 1..=9 {
        for &algorithm in algorithms(Operation::Allreduce) {
            for (count, scratch) in [(1, 8), (7, 3.max(least_scratch(algorithm, size))), (501, 64)] {
                let results = run(size, |endpoint| {
                    let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
                    let sample = |index| {
                        let noise = noise(count as u64, rank, index);
                        if noise.is_multiple_of(97) {
                            f64::from_bits(noise | 0x7ff0_0000_0000_0001)
                        } else {
                            (noise as i64 as f64) * 2f64.powi((noise % 100) as i32 - 50)
                        }
                    };
                    let mut data: Vec<f64> = (0..count).map(sample).collect();
                    let mut scratch = vec![0.0; scratch];
                    let options = Options::using(algorithm);
                    allreduce(Sum, &mut data, &mut scratch).with(&options).run(endpoint, &world).unwrap();
                    data.into_iter().map(f64::to_bits).collect::<Vec<_>>()
                });
                assert!(results.iter().all(|bits| *bits == results[0]), "{} {size}", algorithm.name());
            }
        }
    }
}

#[test]
fn large_messages_go_through_little_scratch() {
    run(3, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let count = 100_000;
        for scratch in [1000, count] {
            for options in [Options::default(), Options::using(&RecursiveDoubling), Options::using(&Ring)] {
                let mut data = inputs::<u64>(3, rank, count);
                let mut scratch = vec![0; scratch];
                allreduce(BitXor, &mut data, &mut scratch).with(&options).run(endpoint, &world).unwrap();
                assert_eq!(data, fold::<u64, _>(BitXor, 3, 3, count));
            }
        }
        let mut data = inputs::<u64>(4, rank, count);
        bcast(&mut data, Rank(2)).run(endpoint, &world).unwrap();
        assert_eq!(data, inputs::<u64>(4, 2, count));
    });
}

/// Collectives match on a plane of their own: messages of the user with any tag and wildcards do
/// not meet them.
#[test]
fn messages_of_the_user_do_not_meet_those_of_collectives() {
    run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let (out, mut into) = ([rank; 3], [0; 3]);
        let (mut data, mut scratch) = ([rank; 8], [0; 8]);
        let (receive, reduce, spare) = (&mut into, &mut data, &mut scratch);
        endpoint
            .scope(|scope| {
                let from_left = scope.irecv(&world, receive, Source::Any, TagMatch::Any)?;
                let mut sum = allreduce(Sum, reduce, spare).start(scope, &world)?;
                let to_right = scope.isend(&world, &out, Rank((rank + 1) % 4), Tag(0))?;
                sum.wait(scope)?;
                scope.wait_all(&mut [from_left, to_right])
            })
            .unwrap();
        assert_eq!((into, data), ([(rank + 3) % 4; 3], [6; 8]));
    });
}

#[test]
fn bad_arguments_are_refused_before_anything_is_sent() {
    run(3, |endpoint| {
        let world = endpoint.world();
        let error = bcast(&mut [1u8], Rank(3)).run(endpoint, &world).unwrap_err();
        assert_eq!(
            (error.operation, error.cause),
            (Operation::Bcast, Cause::RankOutOfRange { rank: 3, size: 3 })
        );
        let error = allreduce(Sum, &mut [1u32, 2], &mut []).run(endpoint, &world).unwrap_err();
        let scratch = Cause::TooSmall { what: Resource::Scratch, need: 4, have: 0 };
        assert_eq!((error.operation, error.cause), (Operation::Allreduce, scratch));
        let one = Affine { a: 1, b: 0 };
        let ring = Options::using(&Ring);
        let error = allreduce(Compose, &mut [one], &mut [one]).with(&ring).run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::Unsupported);
        assert_eq!(barrier().with(&ring).run(endpoint, &world).unwrap_err().cause, Cause::Unsupported);
        // All ranks are still in step.
        let mut data = [1u8; 3];
        allreduce(Sum, &mut data, &mut [0; 2]).run(endpoint, &world).unwrap();
        assert_eq!(data, [3; 3]);
    });
}

#[test]
fn unlike_counts_are_found() {
    let results = run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let mut data = [0u32; 10];
        let error = allreduce(Sum, &mut data[..8 + 2 * rank], &mut [0; 10])
            .with(&Options::using(&RecursiveDoubling))
            .run(endpoint, &world)
            .unwrap_err();
        (error.operation, error.peer(), error.cause)
    });
    assert_eq!(
        results[0],
        (Operation::Allreduce, Some(Rank(1)), Cause::UnlikeLength { own: 32, theirs: 40 })
    );
    let shorter = Cause::UnlikeLength { own: 40, theirs: 32 };
    assert_eq!(results[1], (Operation::Allreduce, Some(Rank(0)), shorter));
}

/// Other scratch makes other segments.
#[test]
fn unlike_scratch_is_found() {
    let results = run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let (mut data, mut scratch) = ([0u32; 10], [0; 10]);
        let options = Options::using(&RecursiveDoubling);
        allreduce(Sum, &mut data, &mut scratch[..5 * (rank + 1)])
            .with(&options)
            .run(endpoint, &world)
            .unwrap_err()
            .cause
    });
    assert_eq!(results, [(20, 40), (40, 20)].map(|(own, theirs)| Cause::UnlikeLength { own, theirs }));
}

#[test]
fn a_program_brings_an_algorithm_of_its_own() {
    for size in 2..=5 {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            for (count, scratch) in [(1, 5), (30, 200), (100, 35)] {
                let mut data = inputs::<Affine>(5, rank, count);
                let mut scratch = vec![Affine { a: 0, b: 0 }; scratch];
                allreduce(Compose, &mut data, &mut scratch)
                    .with(&Options::using(&EveryToEvery))
                    .run(endpoint, &world)
                    .unwrap();
                assert_eq!(data, fold::<Affine, _>(Compose, 5, size, count));
            }
        });
    }
}

#[test]
fn a_deadline_names_who_is_missing() {
    let results = run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        if rank == 3 {
            return None;
        }
        let error = barrier().run(&mut endpoint.within(Duration::from_millis(30)), &world).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Barrier, Cause::TimedOut));
        assert!(error.elapsed_ns >= 30_000_000);
        error.peer()
    });
    // Round 0 waits for the rank before, round 1 for the one two before.
    assert_eq!(results[0], Some(Rank(3)));
}

/// Every slot is held by other requests: a typed error, not a hang; the collective goes on when
/// they give way.
#[test]
fn a_full_request_pool_is_an_error_that_passes() {
    let starved = AtomicU32::new(0);
    run_with_requests::<4, ()>(2, |endpoint: &mut Endpoint<'_, '_>| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let other = Rank(1 - rank);
        let mut held = [[0u8; 4]; 4];
        let (mut data, mut scratch) = ([rank + 1; 2], [0; 2]);
        let (held, data_ref, scratch_ref) = (&mut held, &mut data, &mut scratch);
        endpoint
            .scope(|scope| {
                let [first, second, third, fourth] = held;
                let mut holding = [
                    scope.irecv(&world, first, other, Tag(1))?,
                    scope.irecv(&world, second, other, Tag(2))?,
                    scope.irecv(&world, third, other, Tag(3))?,
                    scope.irecv(&world, fourth, other, Tag(4))?,
                ];
                let mut sum = allreduce(Sum, data_ref, scratch_ref).start(scope, &world)?;
                let error = sum.wait(scope).unwrap_err();
                assert_eq!(error.operation, Operation::Allreduce);
                assert_eq!(error.cause, Cause::Full(Resource::Requests));
                assert_eq!(sum.test(scope).unwrap_err().cause, Cause::Full(Resource::Requests));
                // What the other rank sends first would need no slot here: both have seen the error
                // before either sends.
                starved.fetch_add(1, Ordering::SeqCst);
                while starved.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
                for request in &mut holding {
                    assert!(scope.cancel(request));
                }
                sum.wait(scope)
            })
            .unwrap();
        assert_eq!(data, [3; 2]);
    });
}

#[test]
fn a_failed_collective_stays_failed() {
    run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let (mut data, mut scratch) = ([0u8; 2], [0u8; 2]);
        let (data, scratch) = (&mut data[..=rank], &mut scratch);
        let error = endpoint.scope(|scope| {
            let mut sum = allreduce(Sum, data, scratch)
                .with(&Options::using(&RecursiveDoubling))
                .start(scope, &world)?;
            let error = sum.wait(scope).unwrap_err();
            assert_eq!(sum.test(scope), Err(error));
            assert_eq!(sum.wait(scope), Err(error));
            let told = format!("{sum:?}");
            assert!(
                told.starts_with("allreduce by recursive_doubling, ") && told.contains(", failed: "),
                "{told}"
            );
            Ok(error)
        });
        assert_eq!(error.unwrap().operation, Operation::Allreduce);
    });
}

#[test]
fn a_dropped_collective_ends_with_its_scope() {
    run(2, |endpoint| {
        let world = endpoint.world();
        let mut data = [endpoint.world().rank().0; 4];
        let buffer = &mut data;
        // Dropped at once: the scope's end waits for what was posted.
        endpoint.scope(|scope| bcast(buffer, Rank(1)).start(scope, &world).map(drop)).unwrap();
        assert_eq!(data, [1; 4]);
    });
}
