//! Collectives by control slots: what only they have. That their results are right is for the
//! oracle.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use aldis_coll::allreduce::RecursiveDoubling;
use aldis_coll::layout::Block;
use aldis_coll::op::{Reduce, Sum};
use aldis_coll::select::{Call as Selected, Choice};
use aldis_coll::{Options, allreduce, barrier, bcast, comm, wait_all};
use aldis_kernel::hal::shared_control::{Note, START_BYTES};
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{NotReady, Rank, Tag};
use aldis_tests::thread_jobs::run;
use proptest::prelude::*;

use super::oracle::inputs;

mod programs;

/// Control slots of a set.
const LINES: usize = 8;
const FULL: Cause = Cause::Full(Resource::ControlSlots);

/// The sender and the receiver may think otherwise of a block's length: that is told, by the name
/// of the other.
#[test]
fn blocks_of_another_length_than_expected_are_found() {
    let errors = run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let (list, other) = (Block::packed([2, 2]), Block::packed([2, 3]));
        let mut causes = Vec::new();
        let mut note = |error: aldis_kernel::Error| causes.push((error.operation, error.cause, error.peer()));
        // Rank 1 has three elements for rank 0, which expects two.
        let (given, input) = if rank == 1 { (Block::packed([3, 2]), [1u16; 5]) } else { (list, [1; 5]) };
        let mut data = [0u16; 4];
        if let Err(error) = aldis_coll::alltoallv(&input, &given, &mut data, &list).run(endpoint, &world) {
            note(error);
        }
        // Rank 1 gives three elements to the root, which expects two; the root has three for rank
        // 1, which expects two.
        let mut data = vec![0u16; [4, 3][rank]];
        if let Err(error) = aldis_coll::gatherv(&mut data, &list, Rank(0)).run(endpoint, &world) {
            note(error);
        }
        let mut data = vec![0u16; [5, 2][rank]];
        if let Err(error) = aldis_coll::scatterv(&mut data, &other, Rank(0)).run(endpoint, &world) {
            note(error);
        }
        // And all are in step.
        let mut data = [rank; 2];
        aldis_coll::allgather(&mut data).run(endpoint, &world).unwrap();
        assert_eq!(data, [0, 1]);
        causes
    });
    let cause = |own, theirs| Cause::UnlikeLength { own, theirs };
    assert_eq!(
        errors[0],
        [
            (Operation::Alltoallv, cause(4, 6), Some(Rank(1))),
            (Operation::Gatherv, cause(4, 6), Some(Rank(1)))
        ]
    );
    assert_eq!(errors[1], [(Operation::Scatterv, cause(4, 6), Some(Rank(0)))]);
}

/// Blocks of unlike length are also found that two ranks pass in chunks, also where one has few
/// bytes for the other.
#[test]
fn long_blocks_of_another_length_than_expected_are_found() {
    let errors = run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        [70_000, 40_000, 7].map(|theirs| {
            // Rank 1 has so many bytes for rank 0, which expects 50,000 of it.
            let lens = [[8, 50_000], [8, 30_000]];
            let given = Block::packed([[8, 30_000], [theirs, 30_000]][rank]);
            let list = Block::packed([lens[0], [30_000, 30_000]][rank]);
            let input = vec![rank as u8; given.iter().map(|block| block.len).sum()];
            let mut data = vec![9; list.iter().map(|block| block.len).sum()];
            let done = aldis_coll::alltoallv(&input, &given, &mut data, &list).run(endpoint, &world);
            assert!(rank == 0 || done.is_err() || data[..30_000].iter().all(|byte| *byte == 0));
            // And all are in step.
            let mut data = vec![rank; 5000];
            data[2500 * (1 - rank)..][..2500].fill(9);
            aldis_coll::allgather(&mut data).run(endpoint, &world).unwrap();
            assert_eq!(data, [[0; 2500], [1; 2500]].concat());
            done.err().map(|error| (error.cause, error.peer()))
        })
    });
    let cause = |theirs| Some((Cause::UnlikeLength { own: 50_000, theirs }, Some(Rank(1))));
    // The one that is right has what it expects.
    assert_eq!(errors, [[cause(70_000), cause(40_000), cause(7)], [None; 3]]);
}

/// World and the next two communicators have control slots, the one after them has not and takes
/// messages; a set goes on to the next communicator, and what was left in it is not taken for the
/// next one's.
#[test]
fn sets_are_claimed_and_given_back() {
    run(3, |endpoint| {
        let world = endpoint.world();
        for round in 0..5u32 {
            let made: Vec<_> = (0..3).map(|_| comm::dup(endpoint, &world).unwrap()).collect();
            for (index, on) in made.iter().enumerate() {
                let named = barrier().with(&Options::shared()).run(endpoint, on);
                let told = Selected::barrier(3).explain(&Options::default()).on(endpoint, on);
                if index < 2 {
                    named.unwrap();
                    assert!(
                        told.is_shared() && told.to_string().ends_with("; taken, the cheapest"),
                        "{told}"
                    );
                } else {
                    assert_eq!(named.unwrap_err().cause, FULL);
                    assert!(told.to_string().contains("refused: no free control slots"), "{told}");
                }
                let (mut data, mut scratch) = ([round; 100], [0; 100]);
                allreduce(Sum, &mut data, &mut scratch).run(endpoint, on).unwrap();
                assert_eq!(data, [3 * round; 100]);
            }
            made.into_iter().for_each(|on| comm::free(endpoint, on).unwrap());
        }
    });
}

#[test]
fn it_is_chosen_by_name_for_what_it_can_do() {
    for operation in [Operation::Barrier, Operation::Bcast, Operation::Reduce, Operation::Allreduce] {
        assert!(matches!(Choice::named(operation, "shared"), Ok(Choice::Shared)));
    }
    assert!(Choice::named(Operation::Send, "shared").is_err());
    let told = Selected::barrier(2).explain(&Options::shared()).to_string();
    assert!(told.contains("shared") && told.contains("where all ranks are on one node"), "{told}");
}

/// With as many collectives under way as there are control slots, one more waits for the first,
/// which no rank drives: a typed error, and it goes on later.
#[test]
fn more_collectives_than_control_slots_are_an_error_that_passes() {
    run(2, |endpoint| {
        let (world, is_first) = (endpoint.world(), endpoint.world().rank() == Rank(0));
        if !is_first {
            endpoint.recv(&world, &mut [0u8], Rank(0), Tag(0)).unwrap();
        }
        endpoint
            .scope(|scope| {
                let started = (0..=LINES).map(|_| barrier().with(&Options::shared()).start(scope, &world));
                let mut flying = started.collect::<Result<Vec<_>, _>>()?;
                if is_first {
                    // Not even the first can be over, as the other rank has none.
                    let error = flying[LINES].wait(scope).unwrap_err();
                    assert_eq!((error.operation, error.cause), (Operation::Barrier, FULL));
                    let telling = scope.isend(&world, &[0u8], Rank(1), Tag(0))?;
                    scope.wait(telling)?;
                }
                // Those that have control slots of their own may be waited for in any order.
                (1..LINES).rev().try_for_each(|index| flying[index].wait(scope))?;
                wait_all(scope, &mut flying)
            })
            .unwrap();
    });
}

/// There is one stream of chunks: the second long one waits for the first, and a short one for
/// neither.
#[test]
fn long_ones_follow_each_other_and_short_ones_do_not_wait() {
    run(2, |endpoint| {
        let world = endpoint.world();
        let (mut first, mut second, mut third) = (inputs::<u64>(1, 1, 3000), vec![0; 3000], [7u8]);
        if world.rank() == Rank(0) {
            (first, second, third) = (vec![0; 3000], inputs(2, 0, 3000), [9]);
        }
        let (one, two, three) = (&mut first, &mut second, &mut third);
        endpoint
            .scope(|scope| {
                let shared = Options::shared();
                let mut flying = [
                    bcast(one, Rank(1)).with(&shared).start(scope, &world)?,
                    bcast(two, Rank(0)).with(&shared).start(scope, &world)?,
                    bcast(three, Rank(1)).with(&shared).start(scope, &world)?,
                ];
                flying[2].wait(scope)?;
                if !flying[0].is_complete() {
                    assert_eq!(flying[1].wait(scope).unwrap_err().cause, FULL);
                }
                wait_all(scope, &mut flying)
            })
            .unwrap();
        assert_eq!((first, second, third), (inputs(1, 1, 3000), inputs(2, 0, 3000), [7]));
    });
}

/// A collective that a scope leaves unfinished is given up when it ends; the communicator can be
/// used again.
#[test]
fn what_was_dropped_holds_nothing_up() {
    run(2, |endpoint| {
        let world = endpoint.world();
        for round in 0..20u32 {
            let mut data = [1u64; 2000];
            let (lent, root) = (&mut data, Rank(round % 2));
            endpoint
                .scope(|scope| {
                    drop(barrier().with(&Options::shared()).start(scope, &world)?);
                    drop(bcast(lent, root).with(&Options::shared()).start(scope, &world)?);
                    Ok(())
                })
                .unwrap();
            // Both have given them up before either goes on.
            barrier()
                .with(&Options::using(&aldis_coll::barrier::Dissemination))
                .run(endpoint, &world)
                .unwrap();
            let (mut data, mut scratch) = ([round; 5000], [0; 5000]);
            allreduce(Sum, &mut data, &mut scratch).run(endpoint, &world).unwrap();
            assert_eq!(data, [2 * round; 5000]);
        }
    });
}

#[test]
fn unlike_calls_are_found_on_both_sides_and_nothing_is_stuck() {
    run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        for (one, other) in [(2, 3), (4, 900), (900, 1000), (5000, 7000)] {
            let count = [one, other][rank];
            let (mut data, mut scratch) = (vec![1u32; count], vec![0; count]);
            let error = allreduce(Sum, &mut data, &mut scratch)
                .with(&Options::shared())
                .run(endpoint, &world)
                .unwrap_err();
            let (own, theirs) = (4 * count as u64, 4 * [other, one][rank] as u64);
            assert_eq!(
                (error.cause, error.peer()),
                (Cause::UnlikeLength { own, theirs }, Some(Rank(1 - rank as u32)))
            );
            let (mut data, mut scratch) = ([1u32; 3000], [0; 3000]);
            allreduce(Sum, &mut data, &mut scratch).with(&Options::shared()).run(endpoint, &world).unwrap();
            assert_eq!(data, [2; 3000]);
        }
        let error = if rank == 0 {
            barrier().with(&Options::shared()).run(endpoint, &world).unwrap_err()
        } else {
            allreduce(Sum, &mut [1u8], &mut [0]).with(&Options::shared()).run(endpoint, &world).unwrap_err()
        };
        let calls = [Operation::Barrier, Operation::Allreduce];
        let (own, theirs, is_exact) = (calls[rank], calls[1 - rank], true);
        assert_eq!(error.cause, Cause::UnlikeCall { own, own_root: 0, theirs, their_root: 0, is_exact });
        barrier().run(endpoint, &world).unwrap();
    });
}

/// A rank that has left is named by those that wait for it, whatever they wait in.
#[test]
fn a_rank_that_has_left_is_named() {
    let errors = run(3, |endpoint| {
        let world = endpoint.world();
        barrier().run(endpoint, &world).unwrap();
        if world.rank() == Rank(1) {
            endpoint.leave(Duration::from_secs(5)).unwrap();
            return None;
        }
        let mut data = vec![0u64; 20_000];
        let mut error = bcast(&mut data, Rank(1)).run(endpoint, &world).unwrap_err();
        if world.rank() == Rank(0) {
            error = barrier().with(&Options::shared()).run(endpoint, &world).unwrap_err();
        }
        Some((error.cause, error.peer()))
    });
    assert_eq!(
        errors,
        [Some((Cause::PeerLeft, Some(Rank(1)))), None, Some((Cause::PeerLeft, Some(Rank(1))))]
    );
}

/// A root runs ahead of its readers by as many collectives as there are control slots, and no
/// further.
#[test]
fn a_root_is_ahead_by_as_many_as_there_are_control_slots() {
    run(2, |endpoint| {
        let world = endpoint.world();
        let shared = Options::shared();
        if world.rank() == Rank(0) {
            for value in 0..LINES as u32 {
                let mut within = endpoint.within(Duration::from_secs(5));
                bcast(&mut [value], Rank(0)).with(&shared).run(&mut within, &world).unwrap();
            }
            let mut within = endpoint.within(Duration::from_millis(5));
            let error = bcast(&mut [99u32], Rank(0)).with(&shared).run(&mut within, &world).unwrap_err();
            let told = (error.operation, error.cause, error.peer());
            assert_eq!(told, (Operation::Bcast, Cause::TimedOut, Some(Rank(1))));
            endpoint.send(&world, &[0u8], Rank(1), Tag(0)).unwrap();
        } else {
            endpoint.recv(&world, &mut [0u8], Rank(0), Tag(0)).unwrap();
            for value in 0..LINES as u32 {
                let mut data = [0];
                bcast(&mut data, Rank(0)).with(&shared).run(endpoint, &world).unwrap();
                assert_eq!(data, [value]);
            }
        }
    });
}

/// A deadline names the rank that does not come, whatever it does not come to. Two ranks: of three,
/// one that comes late would rightly be named too.
#[test]
fn a_rank_that_does_not_come_is_named() {
    run(2, |endpoint| {
        let (world, shared) = (endpoint.world(), Options::shared());
        let missing = Some(Rank(1));
        if world.rank() == Rank(1) {
            endpoint.recv(&world, &mut [0u8], Rank(0), Tag(0)).unwrap();
            return;
        }
        for count in [1, 100, 20_000] {
            let (mut data, mut scratch) = (vec![0u64; count], vec![0; count]);
            let mut within = endpoint.within(Duration::from_millis(20));
            let went = [
                barrier().with(&shared).run(&mut within, &world),
                bcast(&mut data, Rank(1)).with(&shared).run(&mut within, &world),
                allreduce(Sum, &mut data, &mut scratch).with(&shared).run(&mut within, &world),
            ];
            for error in went.map(Result::unwrap_err) {
                assert_eq!((error.cause, error.peer()), (Cause::TimedOut, missing), "{error}");
            }
        }
        endpoint.send(&world, &[0u8], Rank(1), Tag(0)).unwrap();
    });
}

/// A rank that publishes anything at all in its control slot, and writes no chunk: those that read
/// it come to its own result, or to an error that names it, and messages go on.
fn says(note: Note, payload: &[u8]) {
    run(2, |endpoint| {
        let (world, shared) = (endpoint.world(), Options::shared());
        let (rank, other) = (world.rank().0, Rank(1 - world.rank().0));
        for count in [1usize, 2000] {
            if rank == 1 {
                let mut over = [0u8];
                let told = endpoint.scope(|scope| {
                    let number = scope.begin_by_control_slots(&world).unwrap();
                    let mut slots = scope.control_slots(&world).unwrap();
                    // No longer than the note says, or a start of what is elsewhere.
                    let slot_bytes = u64::from(slots.shape().slot_bytes);
                    let room = if note.bytes > slot_bytes { START_BYTES } else { note.bytes as usize };
                    if payload.len() > room {
                        let told = slots.publish(number, note, payload);
                        assert!(matches!(told, Err(NotReady::For(Cause::TooBig { .. }, None))), "{told:?}");
                    }
                    let told = slots.publish(number, note, &payload[..payload.len().min(room)]);
                    assert_eq!(told, Ok(()));
                    // It is in the collective until the other has ended it.
                    let over = scope.irecv(&world, &mut over, other, Tag(0))?;
                    scope.wait(over).map(drop)
                });
                told.unwrap();
                continue;
            }
            let (mut data, mut scratch) = (vec![0u64; count], vec![0; count]);
            let is_its_own = note.operation == Operation::Allreduce as u8 && note.bytes == 8 * count as u64;
            // Chunks never come; what is published does, however busy the machine.
            let limit = Duration::from_millis(if is_its_own { 10 } else { 20_000 });
            let mut within = endpoint.within(limit);
            let went = allreduce(Sum, &mut data, &mut scratch).with(&shared).run(&mut within, &world);
            match went {
                Ok(()) => assert!(is_its_own && count == 1),
                Err(error) => {
                    assert_eq!(error.peer(), Some(other), "{error}");
                    assert_eq!(error.cause == Cause::TimedOut, is_its_own, "{error}");
                }
            }
            endpoint.send(&world, &[0u8], other, Tag(0)).unwrap();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_a_rank_says_is_its_own_result_or_a_typed_error(
        operation in prop_oneof![Just(Operation::Allreduce as u8), any::<u8>()],
        bytes in prop_oneof![Just(8u64), Just(16_000), 0..1u64 << 48],
        payload in prop::collection::vec(any::<u8>(), 8..=48),
    ) {
        says(Note { operation, root: 0, bytes }, &payload);
    }
}

/// A rank that runs ahead waits for no rank that has left, be it for a control slot or for a chunk.
#[test]
fn a_root_that_is_ahead_hears_that_a_rank_has_left() {
    for count in [1, 20_000] {
        let errors = run(3, |endpoint| {
            let world = endpoint.world();
            barrier().run(endpoint, &world).unwrap();
            let mut data = vec![0u64; count];
            match world.rank() {
                Rank(0) => {}
                Rank(1) => {
                    endpoint.leave(Duration::from_secs(5)).unwrap();
                    return None;
                }
                _ => {
                    // As far behind as the one that has left; it is there.
                    endpoint.recv(&world, &mut [0u8], Rank(0), Tag(0)).unwrap();
                    return None;
                }
            }
            let mut within = endpoint.within(Duration::from_secs(20));
            let error = (0..=LINES).find_map(|_| {
                bcast(&mut data, Rank(0)).with(&Options::shared()).run(&mut within, &world).err()
            });
            endpoint.send(&world, &[0u8], Rank(2), Tag(0)).unwrap();
            error.map(|error| (error.cause, error.peer()))
        });
        assert_eq!(errors[0], Some((Cause::PeerLeft, Some(Rank(1)))), "{count} words");
    }
}

/// Blocking calls by control slots while nonblocking ones by messages are under way.
#[test]
fn both_kinds_go_together() {
    run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let (mut sum, mut scratch, mut shared, mut given) = ([rank; 500], [0; 500], [rank; 600], [rank; 9]);
        let mut spare = [0; 600];
        let (sum_lent, scratch_lent, shared_lent, given_lent) =
            (&mut sum, &mut scratch, &mut shared, &mut given);
        let spare_lent = &mut spare;
        endpoint
            .scope(|scope| {
                let options = Options::using(&RecursiveDoubling);
                let mut flying = vec![
                    allreduce(Sum, sum_lent, scratch_lent).with(&options).start(scope, &world)?,
                    allreduce(Sum, shared_lent, spare_lent).with(&Options::shared()).start(scope, &world)?,
                    bcast(given_lent, Rank(2)).start(scope, &world)?,
                    barrier().start(scope, &world)?,
                ];
                wait_all(scope, &mut flying)
            })
            .unwrap();
        assert_eq!((sum, shared, given), ([6; 500], [6; 600], [2; 9]));
        let (mut data, mut scratch) = ([rank; 3], [0; 3]);
        endpoint
            .scope(|scope| allreduce(Sum, &mut data, &mut scratch).start(scope, &world)?.wait(scope))
            .unwrap();
    });
}

/// A sum that no rank survives.
struct Fatal;
impl Reduce<u64> for Fatal {
    const COMMUTES: bool = true;

    fn reduce(_left: u64, _right: u64) -> u64 {
        std::panic::resume_unwind(Box::new(()))
    }
}

/// The control slots of a collective whose reduction panicked are free again: many more go round
/// them.
#[test]
fn a_reduction_that_panics_gives_its_line_back() {
    run(3, |endpoint| {
        let world = endpoint.world();
        for _ in 0..3 {
            let (mut data, mut scratch) = ([1u64], [0]);
            let went = || allreduce(Fatal, &mut data, &mut scratch).run(endpoint, &world);
            assert!(catch_unwind(AssertUnwindSafe(went)).is_err());
        }
        for _ in 0..3 * LINES {
            barrier().run(endpoint, &world).unwrap();
        }
    });
}
