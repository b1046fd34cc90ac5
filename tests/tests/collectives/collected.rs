//! Barriers and short allreduces of so many ranks that the first reads all control slots: results,
//! and what the others are told that wait for it.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use aldis_coll::op::{Reduce, Sum};
use aldis_coll::{Options, allreduce, barrier, bcast, wait_all};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Error, Rank, Tag};
use aldis_tests::thread_jobs::{Endpoint, run};

use super::oracle::{Affine, Compose};

const RANKS: u32 = 18;

/// Collectives after which each control slot has been used more than once.
const ROUNDS: u32 = 20;

fn sum(endpoint: &mut Endpoint<'_, '_>, data: &mut [u64]) -> Result<(), Error> {
    let world = endpoint.world();
    let mut scratch = vec![0; data.len()];
    allreduce(Sum, data, &mut scratch).with(&Options::shared()).run(endpoint, &world)
}

#[test]
fn results_are_those_of_all_ranks_in_their_order() {
    let bits = run(RANKS, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let mut bits = Vec::new();
        for round in 0..ROUNDS {
            // The longest that stands in a slot, and the shortest.
            for count in [1, 512] {
                let mut data = vec![u64::from(rank + round); count];
                sum(endpoint, &mut data).unwrap();
                assert_eq!(data, vec![u64::from(RANKS * (RANKS - 1) / 2 + RANKS * round); count]);
            }
            let affine = |rank: u32| Affine { a: 2 * rank + 1, b: rank + round };
            let (mut data, mut scratch) = ([affine(rank)], [affine(0)]);
            allreduce(Compose, &mut data, &mut scratch).run(endpoint, &world).unwrap();
            let expected = (1..RANKS).map(affine).fold(affine(0), Compose::reduce);
            assert_eq!(data, [expected]);
            barrier().run(endpoint, &world).unwrap();
            let (mut data, mut scratch) = ([1.0 / f64::from(3 + rank + round)], [0.0]);
            allreduce(Sum, &mut data, &mut scratch).run(endpoint, &world).unwrap();
            bits.push(data[0].to_bits());
        }
        bits
    });
    assert!(bits.iter().all(|of_rank| *of_rank == bits[0]));
}

/// No rank leaves a barrier before all are there.
#[test]
fn a_barrier_waits_for_every_rank() {
    use core::sync::atomic::{AtomicU32, Ordering};

    let arrived = AtomicU32::new(0);
    run(RANKS, |endpoint| {
        let world = endpoint.world();
        for round in 1..=ROUNDS {
            arrived.fetch_add(1, Ordering::SeqCst);
            barrier().with(&Options::shared()).run(endpoint, &world).unwrap();
            assert!(arrived.load(Ordering::SeqCst) >= round * RANKS);
            barrier().with(&Options::shared()).run(endpoint, &world).unwrap();
        }
    });
}

#[test]
fn started_ones_go_together() {
    run(RANKS, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        for _ in 0..ROUNDS {
            let (mut one, mut other) = ([rank; 3], [1u32; 600]);
            let (mut spare, mut more) = ([0; 3], [0; 600]);
            let lent = (&mut one, &mut other, &mut spare, &mut more);
            endpoint
                .scope(|scope| {
                    let shared = Options::shared();
                    let mut flying = vec![
                        allreduce(Sum, lent.0, lent.2).with(&shared).start(scope, &world)?,
                        barrier().with(&shared).start(scope, &world)?,
                        allreduce(Sum, lent.1, lent.3).with(&shared).start(scope, &world)?,
                    ];
                    wait_all(scope, &mut flying)
                })
                .unwrap();
            assert_eq!((one, other), ([RANKS * (RANKS - 1) / 2; 3], [RANKS; 600]));
        }
    });
}

/// Every rank is told of a call that is unlike its own, by the name of a rank that made it.
#[test]
fn unlike_calls_are_found_on_all_ranks_and_nothing_is_stuck() {
    for odd in [0, 5, RANKS - 1] {
        run(RANKS, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let is_odd = rank == odd;
            let error = sum(endpoint, &mut vec![1; if is_odd { 3 } else { 2 }]).unwrap_err();
            let (own, theirs) = if is_odd { (24, 16) } else { (16, 24) };
            let named = error.peer().unwrap().0;
            assert_eq!(named == odd, !is_odd, "{error}");
            // The first rank has told that it has failed, not how long its data are.
            if odd != 0 {
                assert_eq!(error.cause, Cause::UnlikeLength { own, theirs }, "{error}");
            }
            let error = match is_odd {
                true => barrier().with(&Options::shared()).run(endpoint, &world).unwrap_err(),
                false => sum(endpoint, &mut [1]).unwrap_err(),
            };
            let mut calls = [Operation::Allreduce, Operation::Barrier];
            calls.rotate_left(is_odd.into());
            let [own, theirs] = calls;
            let unlike = Cause::UnlikeCall { own, own_root: 0, theirs, their_root: 0, is_exact: true };
            assert_eq!(error.cause, unlike, "{error}");
            assert_eq!(error.peer().unwrap().0 == odd, !is_odd, "{error}");
            for _ in 0..ROUNDS {
                barrier().with(&Options::shared()).run(endpoint, &world).unwrap();
            }
        });
    }
}

/// A deadline names the rank that does not come, not the one that reads its slot.
#[test]
fn a_rank_that_does_not_come_is_named() {
    run(RANKS, |endpoint| {
        let (world, shared) = (endpoint.world(), Options::shared());
        let missing = Rank(7);
        if world.rank() == missing {
            for rank in (0..RANKS).filter(|rank| *rank != missing.0) {
                endpoint.recv(&world, &mut [0u8], Rank(rank), Tag(0)).unwrap();
            }
            return;
        }
        // None gives up before all others are there.
        let mut within = endpoint.within(Duration::from_millis(500));
        let error = barrier().with(&shared).run(&mut within, &world).unwrap_err();
        assert_eq!((error.cause, error.peer()), (Cause::TimedOut, Some(missing)), "{error}");
        endpoint.send(&world, &[0u8], missing, Tag(0)).unwrap();
    });
}

/// A rank that has left is named by all, also if that is the one that reads all slots.
#[test]
fn a_rank_that_has_left_is_named() {
    for left in [Rank(0), Rank(1), Rank(RANKS - 1)] {
        let errors = run(RANKS, |endpoint| {
            let world = endpoint.world();
            barrier().run(endpoint, &world).unwrap();
            if world.rank() == left {
                endpoint.leave(Duration::from_secs(5)).unwrap();
                return None;
            }
            let error = barrier().with(&Options::shared()).run(endpoint, &world).unwrap_err();
            Some((error.cause, error.peer()))
        });
        for (told, rank) in errors.into_iter().zip(0..) {
            let named = Some((Cause::PeerLeft, Some(left)));
            assert_eq!(told, if rank == left.0 { None } else { named }, "rank {rank}");
        }
    }
}

/// A sum that its rank does not survive.
struct Fatal;
impl Reduce<u64> for Fatal {
    const COMMUTES: bool = true;

    fn reduce(_left: u64, _right: u64) -> u64 {
        std::panic::resume_unwind(Box::new(()))
    }
}

/// The others are told that there is no result when the first rank's reduction has panicked, and
/// the control slots are free again.
#[test]
fn a_reduction_that_panics_leaves_no_rank_waiting() {
    run(RANKS, |endpoint| {
        let world = endpoint.world();
        for _ in 0..3 {
            let (mut data, mut scratch) = ([1u64], [0]);
            let went = catch_unwind(AssertUnwindSafe(|| {
                allreduce(Fatal, &mut data, &mut scratch).run(endpoint, &world)
            }));
            match went {
                Err(_) => assert_eq!(world.rank(), Rank(0)),
                Ok(told) => {
                    let error = told.unwrap_err();
                    assert_eq!((error.cause, error.peer()), (Cause::Withdrawn, Some(Rank(0))));
                }
            }
        }
        for _ in 0..ROUNDS {
            barrier().run(endpoint, &world).unwrap();
            bcast(&mut [7u8], Rank(3)).run(endpoint, &world).unwrap();
        }
    });
}
