//! Chapter 6: collective communication, as far as point-to-point meets it. The algorithms have tests of their own
//! (`coll/tests/symbolic`, `tests/tests/collectives`).

use aldis_coll::comm::{Choice, free, split};
use aldis_coll::op::Sum;
use aldis_coll::{Options, allreduce, barrier, iallreduce, ibcast, wait_all};
use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::Outcome;

cases! {
    "6.3", 5: nobody_leaves_a_barrier_before_the_last_has_come;
    "6.1", 4: collectives_and_messages_do_not_meet;
    "6.13", 5: persistent_collectives_are_started_in_any_order;
    "6.1", 6: collectives_of_different_communicators_do_not_meet;
}

fn nobody_leaves_a_barrier_before_the_last_has_come<T: Transport, P: Platform>(
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
            barrier(ep, &world)?;
            for _ in 1..size {
                ep.recv::<u8>(&world, &mut [], Source::Any, Tag(late))?;
            }
        } else {
            barrier(ep, &world)?;
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
        let mut summing = iallreduce(scope, &world, Sum, &mut sum, &mut scratch)?;
        let mut telling = ibcast(scope, &world, &mut word, Rank(2))?;
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
        let options = Options::default().persistent();
        let mut sums = [
            options.iallreduce(scope, &world, Sum, &mut first, one)?,
            options.iallreduce(scope, &world, Sum, &mut second, other)?,
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
    let (world, mut scratch) = (ep.world(), [Choice::NONE; 6]);
    let me = world.rank().0;
    let part = split(ep, &world, Some(me % 2), 0, &mut scratch)?.ok_or("everybody has a colour")?;
    for round in 0..4 {
        let (mut within, mut all) = ([u64::from(me) + round], [u64::from(me)]);
        // The halves run ahead of each other here, and meet there.
        allreduce(ep, &part, Sum, &mut within, &mut [0])?;
        assert_eq!(within, [if me.is_multiple_of(2) { 6 } else { 9 } + 3 * round]);
        if round % 2 == 1 {
            allreduce(ep, &world, Sum, &mut all, &mut [0])?;
            assert_eq!(all, [15]);
        }
    }
    Ok(free(ep, part)?)
}
