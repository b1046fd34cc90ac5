//! Chapter 6: collective communication, as far as point-to-point meets it. The algorithms have
//! tests of their own (`coll/tests/symbolic`, `tests/tests/collectives`).

use core::time::Duration;

use aldis_coll::allreduce::RecursiveDoubling;
use aldis_coll::barrier::Dissemination;
use aldis_coll::bcast::Binomial;
use aldis_coll::comm::{SplitChoice, dup, free, split};
use aldis_coll::layout::TypedBlock;
use aldis_coll::op::Sum;
use aldis_coll::{Options, allreduce, alltoall, alltoallw_typed, barrier, bcast, wait_all};
use aldis_hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::datatype::Basic;
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Rank, Source, Tag, TagMatch};

use super::Outcome;
use super::chapter_05_datatypes::attach;

cases! {
    "6.3", 5: no_rank_leaves_a_barrier_before_the_last_has_come;
    "6.1", 4: collectives_and_messages_do_not_meet;
    "6.13", 5: persistent_collectives_are_started_in_any_order;
    "6.1", 6: collectives_of_different_communicators_do_not_meet;
    "6.8", 4: rows_become_columns_by_datatypes;
    "6.8", 4: blocks_for_ranks_of_another_node_go_together;
    "6.14", 2: unlike_calls_are_told_with_both_sides;
}

fn no_rank_leaves_a_barrier_before_the_last_has_come<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    for late in 0..size {
        if me == late {
            // All others are in the barrier: none of them may say that it has left.
            for _ in 0..10 {
                assert_eq!(ep.iprobe(&world, Source::Any, Tag(late))?, None);
            }
            barrier().run(ep, &world)?;
            for _ in 1..size {
                ep.recv::<u8>(&world, &mut [], Source::Any, Tag(late))?;
            }
        } else {
            barrier().run(ep, &world)?;
            ep.send::<u8>(&world, &[], Rank(late), Tag(late))?;
        }
    }
    Ok(())
}

fn collectives_and_messages_do_not_meet<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let (mut token, mut word) = ([0_u32], [if me == 2 { 99_u32 } else { 0 }]);
    let (mut sum, mut scratch) = ([1_u64], [0]);
    ep.scope(|scope| {
        // It would take any message, and gets the one that was sent.
        let receiving = scope.irecv(&world, &mut token, Source::Any, TagMatch::Any)?;
        let mut summing = allreduce(Sum, &mut sum, &mut scratch).start(scope, &world)?;
        let mut telling = bcast(&mut word, Rank(2)).start(scope, &world)?;
        telling.wait(scope)?;
        summing.wait(scope)?;
        let sending = scope.isend(&world, core::slice::from_ref(&me), next, Tag(1))?;
        scope.wait(sending)?;
        assert_eq!(scope.wait(receiving)?.source, previous);
        Ok(())
    })?;
    assert_eq!((sum, word), ([u64::from(size)], [99]));
    assert_eq!(token, [previous.0]);
    Ok(())
}

fn persistent_collectives_are_started_in_any_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (mut first, mut second, mut scratch) = ([0_u64], [0_u64], [[0]; 2]);
    Ok(ep.scope(|scope| {
        let [one, other] = scratch.each_mut();
        let mut sums = [
            allreduce(Sum, &mut first, one).persistent(scope, &world)?,
            allreduce(Sum, &mut second, other).persistent(scope, &world)?,
        ];
        for start in 0..4 {
            for (sum, factor) in sums.iter_mut().zip([1, 100]) {
                sum.edit(scope, |data: &mut [u64]| data.fill(factor * u64::from(me + start)))?;
            }
            if me % 2 == 0 {
                sums.iter_mut().try_for_each(|sum| sum.start(scope))?;
            } else {
                sums.iter_mut().rev().try_for_each(|sum| sum.start(scope))?;
            }
            wait_all(scope, &mut sums)?;
            let all = u64::from((0..size).map(|rank| rank + start).sum::<u32>());
            for (sum, factor) in sums.iter_mut().zip([1, 100]) {
                assert_eq!(sum.edit(scope, |data: &mut [u64]| data[0])?, factor * all);
            }
        }
        Ok(())
    })?)
}

fn collectives_of_different_communicators_do_not_meet<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 6]);
    let me = world.rank().0;
    let part = split(ep, &world, Some(me % 2), 0, &mut scratch)?.ok_or("everybody has a colour")?;
    for round in 0..4 {
        let (mut within, mut all) = ([u64::from(me) + round], [u64::from(me)]);
        // The halves run ahead of each other here, and meet there.
        allreduce(Sum, &mut within, &mut [0]).run(ep, &part)?;
        assert_eq!(within, [if me.is_multiple_of(2) { 6 } else { 9 } + 3 * round]);
        if round % 2 == 1 {
            allreduce(Sum, &mut all, &mut [0]).run(ep, &world)?;
            assert_eq!(all, [15]);
        }
    }
    Ok(free(ep, part)?)
}

/// Every rank has rows of a square matrix and gets as many columns of it: blocks lie between each
/// other, and are short or long.
fn rows_become_columns_by_datatypes<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0 as usize, world.size() as usize);
    attach(ep)?;
    for edge in [0, 1, 3, 16] {
        let side = edge * size;
        let types = ep.types()?;
        let part = types.vector(edge as u64, edge as u64, side as i64, Basic::U32)?;
        let column = types.vector(edge as u64, 1, side as i64, Basic::U32)?;
        let next = types.resized(column, 0, size_of::<u32>() as i64)?;
        types.free(column)?;
        let (part, next) = (types.commit(part)?, types.commit(next)?);
        let number = |row: usize, column: usize| (row * side + column) as u32;
        let rows: Vec<u32> = (0..edge * side).map(|at| number(me * edge + at / side, at % side)).collect();
        let columns: Vec<u32> = (0..edge * side).map(|at| number(at % side, me * edge + at / side)).collect();
        let places = (0..size).map(|other| (other * edge * size_of::<u32>()).cast_signed());
        let given: Vec<_> = places.clone().map(|origin| TypedBlock::new(origin, 1, part)).collect();
        let blocks: Vec<_> = places.map(|origin| TypedBlock::new(origin, edge as u64, next)).collect();
        let mut came = vec![0; edge * side];
        alltoallw_typed(&rows, &given, &mut came, &blocks).run(ep, &world)?;
        assert_eq!(came, columns);
        let mut again = vec![0; edge * side];
        ep.scope(|scope| {
            let mut made = alltoallw_typed(&rows, &given, &mut again, &blocks).persistent(scope, &world)?;
            for _ in 0..2 {
                made.edit(scope, |came: &mut [u32]| came.fill(u32::MAX))?;
                made.start(scope)?;
                made.wait(scope)?;
                made.edit(scope, |came: &mut [u32]| assert_eq!(came, columns))?;
            }
            Ok::<_, Error>(())
        })?;
        ep.types()?.free(part)?;
        ep.types()?.free(next)?;
    }
    Ok(())
}

/// Selection takes the all-to-all in two levels where ranks of a node share memory, others do not,
/// and the call says how many a node has; elsewhere it takes another one.
fn blocks_for_ranks_of_another_node_go_together<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 4]);
    let (me, size) = (world.rank().0, world.size());
    // Every other rank is of one node, where there are nodes: as runs of ranks.
    let key = (me % 2 * size + me).cast_signed();
    let runs = split(ep, &world, Some(0), key, &mut scratch)?.ok_or("everybody is in it")?;
    let is_far = ep.control_slots(&runs).is_err_and(|cause| cause == Cause::Unreachable);
    let (rank, options) = (runs.rank().0, Options { node: size / 2, ..Options::default() });
    for count in [1, 30] {
        let block = |from: u32, to: u32| (0..count).map(move |at| from << 16 | to << 8 | at);
        let input: Vec<u32> = (0..size).flat_map(|to| block(rank, to)).collect();
        let expected: Vec<u32> = (0..size).flat_map(|from| block(from, rank)).collect();
        let (mut data, mut scratch) = (vec![0; input.len()], vec![0; 2 * input.len()]);
        ep.scope(|scope| {
            let mut swapping =
                alltoall(&input, &mut data, &mut scratch).with(&options).start(scope, &runs)?;
            assert_eq!(swapping.plan().algorithm.name() == "two_level", is_far);
            swapping.wait(scope)
        })?;
        assert_eq!(data, expected);
    }
    Ok(free(ep, runs)?)
}

/// A call: its operation, its root, and elements.
type MadeCall = (Operation, u32, usize);

/// Makes it, and a barrier, by messages.
fn make<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    comm: &Comm,
    (operation, root, count): MadeCall,
) -> Result<(), Error> {
    let (mut data, mut scratch) = ([1_u64; 3], [0; 3]);
    let (data, scratch) = (&mut data[..count], &mut scratch[..count]);
    let (mut within, barriers) = (ep.within(Duration::from_secs(2)), Options::using(&Dissemination));
    match operation {
        Operation::Bcast => bcast(data, Rank(root)).with(&Options::using(&Binomial)).run(&mut within, comm),
        Operation::Allreduce => {
            allreduce(Sum, data, scratch).with(&Options::using(&RecursiveDoubling)).run(&mut within, comm)
        }
        _ => Ok(()),
    }?;
    barrier().with(&barriers).run(&mut within, comm)
}

/// Both have sent something before they wait, so both are told, unless one fails while its message
/// waits for room: for the other that is withdrawn then, or a deadline ends its wait.
fn unlike_calls_are_told_with_both_sides<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    use Operation::{Allreduce, Barrier, Bcast};
    let world = ep.world();
    let (me, other) = (world.rank().0 as usize, Rank(1 - world.rank().0));
    for calls in [
        // A root is told by its next call.
        [(Bcast, 0, 1), (Bcast, 1, 1)],
        [(Barrier, 0, 0), (Allreduce, 0, 1)],
        [(Bcast, 0, 1), (Allreduce, 0, 1)],
        // One rank is a call ahead.
        [(Barrier, 0, 0), (Bcast, 1, 1)],
        [(Allreduce, 0, 3), (Allreduce, 0, 2)],
    ] {
        let comm = dup(ep, &world)?;
        let error = make(ep, &comm, calls[me]).err();
        let ((own, own_root, here), (theirs, their_root, there)) = (calls[me], calls[1 - me]);
        let [own_root, their_root] = [own_root, their_root].map(|root| root as u8);
        let expected = if own == theirs && own_root == their_root {
            Cause::UnlikeLength { own: 8 * here as u64, theirs: 8 * there as u64 }
        } else {
            Cause::UnlikeCall { own, own_root, theirs, their_root, is_exact: true }
        };
        let is_told = error.is_some_and(|error| (error.cause, error.peer()) == (expected, Some(other)));
        let waited = |error: Error| matches!(error.cause, Cause::TimedOut | Cause::Withdrawn);
        assert!(is_told || error.is_none_or(waited), "{calls:?}: {error:?}");
        ep.discard(&comm)?;
        let mut told = [u8::from(is_told)];
        allreduce(Sum, &mut told, &mut [0]).run(ep, &world)?;
        assert!(told[0] > 0, "{calls:?}: no rank is told");
    }
    Ok(())
}
