//! Segments in flight, and rounds that find no request slot for some of their messages.

use core::num::NonZeroUsize;
use core::time::Duration;

use aldis_coll::bcast::{Linear, Pipeline};
use aldis_coll::catalog::algorithms;
use aldis_coll::op::{BitXor, Sum};
use aldis_coll::schedule::least_scratch;
use aldis_coll::{Options, allgather, allreduce, bcast, reduce};
use aldis_kernel::Rank;
use aldis_kernel::hal::{Cause, Operation};
use aldis_tests::thread_jobs::{Endpoint, run, run_with_requests};

use crate::direct::EveryToEvery;
use crate::oracle::{Affine, Compose, fold, inputs};

fn segments_of(segment: usize, options: Options) -> Options {
    Options { segment: NonZeroUsize::new(segment), ..options }
}

/// Every algorithm of bcast, allreduce and reduce, in segments, with scratch for all lanes, for
/// some, or for one: which it is goes round with the segment and with `round`, so that after four
/// rounds of them each scratch has met each segment.
fn everything(endpoint: &mut Endpoint<'_, '_>, round: usize) {
    let (world, rank, size) = (endpoint.world(), endpoint.world().rank().0, endpoint.world().size());
    let (count, last) = (41, size - 1);
    let scratches = [1, 3, 8, 2 * count];
    for (turn, segment) in [1, 7, 20].into_iter().enumerate() {
        let named = |operation| {
            let served = algorithms(operation).iter().filter(move |algorithm| algorithm.serves(size));
            served.map(move |&algorithm| (algorithm, segments_of(segment, Options::using(algorithm))))
        };
        for (algorithm, options) in named(Operation::Bcast) {
            let mut data = inputs::<u64>(1, rank, count);
            bcast(&mut data, Rank(last)).with(&options).run(endpoint, &world).unwrap();
            assert_eq!(data, inputs::<u64>(1, last, count), "{} {segment}", algorithm.name());
        }
        for (algorithm, options) in named(Operation::Allreduce).chain(named(Operation::Reduce)) {
            let scratch = scratches[(turn + round) % scratches.len()].max(least_scratch(algorithm, size));
            let mut data = inputs::<u64>(2, rank, count);
            let mut scratch = vec![0; scratch];
            if algorithm.operation() == Operation::Allreduce {
                allreduce(BitXor, &mut data, &mut scratch).with(&options).run(endpoint, &world).unwrap();
            } else {
                let reducing = reduce(BitXor, &mut data, &mut scratch, Rank(last));
                reducing.with(&options).run(endpoint, &world).unwrap();
            }
            if algorithm.operation() == Operation::Allreduce || rank == last {
                assert_eq!(data, fold::<u64, _>(BitXor, 2, size, count), "{}", algorithm.name());
            }
        }
        let mut data = inputs::<Affine>(5, rank, count);
        let mut scratch = vec![Affine { a: 0, b: 0 }; 35];
        let own = segments_of(segment, Options::using(&EveryToEvery));
        allreduce(Compose, &mut data, &mut scratch).with(&own).run(endpoint, &world).unwrap();
        assert_eq!(data, fold::<Affine, _>(Compose, 5, size, count));
    }
}

#[test]
fn every_algorithm_in_lanes_however_many_request_slots_there_are() {
    for (turn, size) in [2, 3, 5].into_iter().enumerate() {
        run(size, |endpoint| everything(endpoint, turn));
        // For some lanes, for one that has a whole round, and for less than that.
        run_with_requests::<20, ()>(size, |endpoint| everything(endpoint, turn + 1));
        run_with_requests::<8, ()>(size, |endpoint| everything(endpoint, turn + 2));
        run_with_requests::<4, ()>(size, |endpoint| everything(endpoint, turn + 3));
    }
}

/// Several in flight, all of them in lanes, long enough for a rendezvous.
#[test]
fn lanes_of_several_calls_do_not_meet() {
    run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let count = 30_000;
        let mut data: Vec<_> = (0..3).map(|seed| inputs::<u64>(seed, rank, count)).collect();
        let mut scratch = vec![vec![0; 10_000]; 3];
        let buffers = data.iter_mut().zip(&mut scratch);
        let options = segments_of(1_111, Options::default());
        endpoint
            .scope(|scope| {
                let mut flying = Vec::new();
                for (data, scratch) in buffers {
                    flying.push(allreduce(BitXor, data, scratch).with(&options).start(scope, &world)?);
                }
                let lanes = flying.iter().map(|flying| flying.plan().lanes());
                assert!(lanes.into_iter().all(|lanes| lanes == 4));
                // Each rank begins with another.
                flying.rotate_left(rank as usize % 3);
                while let Some(mut one) = flying.pop() {
                    while !one.test(scope)? {
                        for other in &mut flying {
                            other.test(scope)?;
                        }
                    }
                }
                Ok(())
            })
            .unwrap();
        for (seed, data) in (0..).zip(&data) {
            assert_eq!(*data, fold::<u64, _>(BitXor, seed, 4, count));
        }
    });
}

/// Blocks are cut as well, each into as many segments.
#[test]
fn blocks_pass_in_lanes() {
    run(5, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        for segment in [1, 3, 10] {
            let named = algorithms(Operation::Allgather).iter().filter(|algorithm| algorithm.serves(5));
            for &algorithm in named {
                let mut data = vec![0; 5 * 17];
                data[17 * rank..][..17].copy_from_slice(&inputs::<u64>(3, rank as u32, 17));
                let options = segments_of(segment, Options::using(algorithm));
                allgather(&mut data).with(&options).run(endpoint, &world).unwrap();
                let all: Vec<u64> = (0..5).flat_map(|rank| inputs(3, rank, 17)).collect();
                assert_eq!(data, all, "{}", algorithm.name());
            }
        }
    });
}

/// The root has eight messages in a round and four slots: what is posted lands, and makes room for
/// the rest.
#[test]
fn a_round_with_more_messages_than_there_are_slots_goes_on() {
    run_with_requests::<4, ()>(9, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let linear = Options::using(&Linear);
        for count in [1, 5_000] {
            let mut data = inputs::<u64>(7, rank, count);
            bcast(&mut data, Rank(3)).with(&linear).run(endpoint, &world).unwrap();
            assert_eq!(data, inputs::<u64>(7, 3, count));
            let (mut data, mut scratch) = (inputs::<u64>(8, rank, count), vec![0; 8 * count]);
            let options = Options::using(&aldis_coll::reduce::Linear);
            reduce(Sum, &mut data, &mut scratch, Rank(2)).with(&options).run(endpoint, &world).unwrap();
            if rank == 2 {
                assert_eq!(data, fold::<u64, _>(Sum, 8, 9, count));
            }
        }
    });
}

/// A rank that waits for a segment names the one whose message of the oldest one is missing.
#[test]
fn a_deadline_names_who_is_missing_in_the_oldest_segment() {
    run(3, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        if rank == 1 {
            return;
        }
        let options = segments_of(2, Options::using(&Pipeline));
        let mut within = endpoint.within(Duration::from_millis(30));
        let done = bcast(&mut [rank; 9], Rank(0)).with(&options).run(&mut within, &world);
        if rank == 2 {
            let error = done.unwrap_err();
            assert_eq!((error.cause, error.peer()), (Cause::TimedOut, Some(Rank(1))));
        }
    });
}

#[test]
fn a_pipeline_is_cut_by_itself_where_it_pays() {
    run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let mut data = inputs::<u64>(9, rank, 100_000);
        let lent = &mut data;
        endpoint
            .scope(|scope| {
                let mut one = bcast(lent, Rank(0)).with(&Options::using(&Pipeline)).start(scope, &world)?;
                assert!(one.plan().segments(100_000) > 4 && one.plan().lanes() == 4, "{:?}", one.plan());
                one.wait(scope)
            })
            .unwrap();
        assert_eq!(data, inputs::<u64>(9, 0, 100_000));
    });
}
