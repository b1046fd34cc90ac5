//! Calls by an algorithm that the program names: every one of them gives what selection's executor
//! gives, in any segments, and what is wrong is told.

use core::time::Duration;

use aldis_coll::catalog::algorithms;
use aldis_coll::op::Sum;
use aldis_coll::schedule::{Algorithm, least_scratch};
use aldis_coll::{ContiguousCall, Options, allreduce, barrier, bcast, exscan, reduce, scan};
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::{Error, Rank};
use aldis_tests::thread_jobs::{run, run_with_requests};

const OPERATIONS: [Operation; 6] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::Scan,
    Operation::Exscan,
];

/// The last rank is the root.
fn call<'m>(
    operation: Operation,
    size: u32,
    data: &'m mut [u64],
    spare: &'m mut [u64],
) -> ContiguousCall<'m> {
    let root = Rank(size - 1);
    match operation {
        Operation::Barrier => barrier(),
        Operation::Bcast => bcast(data, root),
        Operation::Reduce => reduce(Sum, data, spare, root),
        Operation::Allreduce => allreduce(Sum, data, spare),
        Operation::Scan => scan(Sum, data, spare),
        _ => exscan(Sum, data, spare),
    }
}

/// The first data of a rank: no two ranks or places have the same.
fn first(rank: u32, count: usize) -> Vec<u64> {
    (0..count as u64).map(|at| u64::from(rank + 1) * 1_000_003 + at * at).collect()
}

#[test]
fn every_algorithm_gives_what_it_gives_with_options() {
    for size in 1..=9 {
        run(size, |ep| {
            let (world, rank) = (ep.world(), ep.world().rank().0);
            for operation in OPERATIONS {
                for &algorithm in algorithms(operation).iter().filter(|known| known.serves(size)) {
                    for (count, scratch) in [(0, 1), (1, 1), (7, 2), (64, 64), (500, 33)] {
                        let scratch = least_scratch(algorithm, size).max(scratch);
                        let (mut expected, mut found) = (first(rank, count), first(rank, count));
                        let mut spare = vec![0; scratch];
                        call(operation, size, &mut expected, &mut spare)
                            .with(&Options::using(algorithm))
                            .run(ep, &world)
                            .unwrap();
                        call(operation, size, &mut found, &mut spare).by(algorithm).run(ep, &world).unwrap();
                        // Of a reduction to one rank the others keep no promise.
                        if operation != Operation::Reduce || rank == size - 1 {
                            assert_eq!(found, expected, "{operation} by {} of {count}", algorithm.name());
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn what_is_wrong_is_told_before_anything_is_sent() {
    let linear: Algorithm = &aldis_coll::bcast::Linear;
    run(2, |ep| {
        let world = ep.world();
        let (mut data, mut none) = ([1_u64; 4], []);
        let wrong = allreduce(Sum, &mut data, &mut [0; 4]).by(linear).run(ep, &world);
        assert_eq!(wrong.map_err(|error| error.cause), Err(Cause::Unsupported));
        let doubling = &aldis_coll::allreduce::RecursiveDoubling;
        let wrong = allreduce(Sum, &mut data, &mut none).by(doubling).run(ep, &world);
        let cause = Cause::TooSmall { what: Resource::Scratch, need: 8, have: 0 };
        assert_eq!(wrong.map_err(|error| error.cause), Err(cause));
        let wrong = bcast(&mut data, Rank(2)).by(linear).run(ep, &world);
        assert_eq!(wrong.map_err(|error| error.cause), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
        // Nothing is in the way of the next call.
        barrier().by(&aldis_coll::barrier::Dissemination).run(ep, &world).unwrap();
    });
}

#[test]
fn unlike_counts_are_named_on_the_rank_that_receives() {
    run(2, |ep| {
        let world = ep.world();
        let mut data = vec![1_u64; if world.rank() == Rank(0) { 3 } else { 4 }];
        let mut within = ep.within(Duration::from_secs(1));
        let went = bcast(&mut data, Rank(0)).by(&aldis_coll::bcast::Binomial).run(&mut within, &world);
        if world.rank() == Rank(1) {
            let error: Error = went.unwrap_err();
            assert_eq!(error.cause, Cause::UnlikeLength { own: 32, theirs: 24 });
            assert_eq!((error.operation, error.peer()), (Operation::Bcast, Some(Rank(0))));
        } else {
            assert_eq!(went, Ok(()));
        }
    });
}

#[test]
fn a_rank_that_does_not_call_is_named_by_the_deadline() {
    run(2, |ep| {
        let world = ep.world();
        if world.rank() == Rank(0) {
            let mut within = ep.within(Duration::from_millis(50));
            let went = barrier().by(&aldis_coll::barrier::Dissemination).run(&mut within, &world);
            let error = went.unwrap_err();
            assert_eq!((error.cause, error.operation), (Cause::TimedOut, Operation::Barrier));
            assert_eq!(error.peer(), Some(Rank(1)));
        }
    });
}

#[test]
fn a_round_of_more_messages_than_request_slots_is_refused() {
    let linear: Algorithm = &aldis_coll::bcast::Linear;
    run_with_requests::<4, ()>(9, |ep| {
        let world = ep.world();
        // Too long to be sent before it is asked for.
        let mut data = vec![u64::from(world.rank().0); 8192];
        let mut within = ep.within(Duration::from_millis(200));
        let went = bcast(&mut data, Rank(0)).by(linear).run(&mut within, &world);
        match went.map_err(|error| error.cause) {
            Err(Cause::Full(Resource::Requests)) => assert_eq!(world.rank(), Rank(0)),
            // The root has sent to some of them before.
            Ok(()) => assert!(data.iter().all(|&word| word == 0)),
            Err(cause) => assert!(matches!(cause, Cause::TimedOut | Cause::Withdrawn), "{cause}"),
        }
        assert!(world.rank() != Rank(0) || went.is_err());
    });
}
