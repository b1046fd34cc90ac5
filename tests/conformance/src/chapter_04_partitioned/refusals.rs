//! Calls that partitioned communication refuses: sections 4.2.1 and 4.2.2.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, LentMut, Rank, Request, Scope, Tag};

use super::super::Outcome;
use super::{bytes_of, check, fill};

cases! {
    "4.2.1", 1: what_cannot_be_cut_is_refused;
    "4.2.1", 2: a_round_under_way_is_not_started_again;
    "4.2.1", 2: a_part_gets_ready_once_a_round;
    "4.2.1", 2: ready_memory_is_not_written_and_memory_to_come_not_read;
    "4.2.2", 2: a_round_is_not_cancelled;
    "4.2.1", 2: lengths_that_differ_are_an_error_on_both_sides;
    "4.2.1", 2: who_goes_on_alone_is_told_so;
}

const TAG: Tag = Tag(4);

fn refused<R>(result: Result<R, Error>) -> Cause {
    result.map(drop).expect_err("it is not allowed").cause
}

fn what_cannot_be_cut_is_refused<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 12]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        for (partitions, bytes) in [(0, 12), (5, 12), (13, 12), (65, 0), (u32::MAX, 12)] {
            let cut = Cause::Partitions { partitions, bytes };
            let bytes = 0..bytes as usize;
            assert_eq!(
                refused(scope.psend_init(&world, memory, bytes.clone(), partitions, Rank(0), TAG)),
                cut
            );
            assert_eq!(refused(scope.precv_init(&world, memory, bytes, partitions, Rank(0), TAG)), cut);
        }
        let outside = Cause::TooBig { len: 13, max: 12 };
        assert_eq!(refused(scope.psend_init(&world, memory, 1..13, 3, Rank(0), TAG)), outside);
        let outside = Cause::RankOutOfRange { rank: 1, size: 1 };
        assert_eq!(refused(scope.precv_init(&world, memory, 0..12, 3, Rank(1), TAG)), outside);
        let outside = refused(scope.precv_init(&world, memory, 0..12, 3, Rank(0), Tag::MAX));
        assert!(matches!(outside, Cause::TagOutOfRange { .. }), "{outside}");
        Ok(())
    })?;
    Ok(())
}

/// A request of this rank, the sender's or the receiver's, with three parts of 100 bytes, in a
/// round that has begun.
fn begun<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    world: &Comm,
    memory: LentMut<'scope>,
) -> Result<Request<'scope>, Error> {
    let mut request = match world.rank() {
        Rank(0) => scope.psend_init(world, memory, 0..300, 3, Rank(1), TAG)?,
        _ => scope.precv_init(world, memory, 0..300, 3, Rank(0), TAG)?,
    };
    scope.start(&mut request)?;
    Ok(request)
}

fn a_round_under_way_is_not_started_again<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut request = begun(scope, &world, memory)?;
        assert_eq!(refused(scope.start(&mut request)), Cause::Busy);
        if world.rank() == Rank(0) {
            scope.partitions(&request).ready_range(0..3)?;
            assert_eq!(refused(scope.start(&mut request)), Cause::Busy, "its result was not taken");
        }
        scope.wait_for(&mut request)?;
        scope.start(&mut request)?;
        if world.rank() == Rank(0) {
            scope.partitions(&request).ready_range(0..3)?;
        }
        scope.wait_for(&mut request).map(drop)
    })?;
    Ok(())
}

fn a_part_gets_ready_once_a_round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut request = begun(scope, &world, memory)?;
        if world.rank() == Rank(1) {
            assert_eq!(refused(scope.partitions(&request).ready(0)), Cause::Stale, "it receives");
            let outside = Cause::PartitionOutOfRange { partition: 3, partitions: 3 };
            assert_eq!(refused(scope.partitions(&request).has_arrived(3)), outside);
            return scope.wait_for(&mut request).map(drop);
        }
        fill(scope, memory, 0..300, 1)?;
        scope.partitions(&request).ready(1)?;
        let again = Cause::PartitionReady { partition: 1 };
        assert_eq!(refused(scope.partitions(&request).ready(1)), again);
        assert_eq!(refused(scope.partitions(&request).ready_range(0..3)), again, "all or none");
        assert_eq!(refused(scope.partitions(&request).ready_list(&[0, 1, 2])), again, "one after the other");
        assert_eq!(refused(scope.partitions(&request).ready(0)), Cause::PartitionReady { partition: 0 });
        let outside = Cause::PartitionOutOfRange { partition: 3, partitions: 3 };
        assert_eq!(refused(scope.partitions(&request).ready_range(2..4)), outside);
        assert_eq!(refused(scope.partitions(&request).has_arrived(0)), Cause::Stale, "it sends");
        scope.partitions(&request).ready(2)?;
        scope.wait_for(&mut request)?;
        assert_eq!(refused(scope.partitions(&request).ready(0)), Cause::Inactive, "the round is over");
        Ok(())
    })?;
    Ok(())
}

fn ready_memory_is_not_written_and_memory_to_come_not_read<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut request = begun(scope, &world, memory)?;
        if world.rank() == Rank(0) {
            fill(scope, memory, 0..300, 1)?;
            scope.partitions(&request).ready(1)?;
            // The round goes on as long as a part is not ready.
            assert_eq!(refused(scope.edit(memory, bytes_of(1, 3, 300), |_| {})), Cause::Busy);
            assert_eq!(refused(scope.edit(memory, 0..300, |_| {})), Cause::Busy);
            check(scope, memory, bytes_of(2, 3, 300), 1)?;
            scope.partitions(&request).ready_list(&[0, 2])?;
            return scope.wait_for(&mut request).map(drop);
        }
        for partition in 0..3 {
            let arrived = scope.partitions(&request).has_arrived(partition)?;
            let read = scope.edit(memory, bytes_of(partition, 3, 300), |_| {});
            assert_eq!(read.map_err(|error| error.cause), if arrived { Ok(()) } else { Err(Cause::Busy) });
        }
        scope.wait_for(&mut request)?;
        check(scope, memory, 0..300, 1)
    })?;
    Ok(())
}

fn a_round_is_not_cancelled<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut request = begun(scope, &world, memory)?;
        assert!(!scope.cancel(&mut request) && !request.is_null());
        if world.rank() == Rank(0) {
            fill(scope, memory, 0..300, 8)?;
            scope.partitions(&request).ready_range(0..3)?;
        }
        scope.wait_for(&mut request)?;
        check(scope, memory, 0..300, 8)
    })?;
    Ok(())
}

fn lengths_that_differ_are_an_error_on_both_sides<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![7_u8; 300]);
    let (own, other) = if world.rank() == Rank(0) { (240, 300) } else { (300, 240) };
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut request = match world.rank() {
            Rank(0) => scope.psend_init(&world, memory, 0..own as usize, 3, Rank(1), TAG)?,
            _ => scope.precv_init(&world, memory, 0..own as usize, 3, Rank(0), TAG)?,
        };
        let mismatch = Cause::LengthMismatch { left: own, right: other };
        // Known when it is started, or while it waits.
        let started = scope.start(&mut request);
        assert_eq!(refused(started.and_then(|()| scope.wait_for(&mut request))), mismatch);
        assert_eq!(refused(scope.start(&mut request)), mismatch, "nor does it work later");
        Ok(())
    })?;
    assert_eq!(memory, [7; 300]);
    Ok(())
}

/// Rank 0 ends after two rounds, rank 1 begins a third.
fn who_goes_on_alone_is_told_so<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut request = begun(scope, &world, memory)?;
        if world.rank() == Rank(0) {
            scope.partitions(&request).ready_range(0..3)?;
            scope.wait_for(&mut request)?;
            scope.start(&mut request)?;
            scope.partitions(&request).ready_range(0..3)?;
            return scope.wait_for(&mut request).map(drop);
        }
        scope.wait_for(&mut request)?;
        scope.start(&mut request)?;
        scope.wait_for(&mut request)?;
        let started = scope.start(&mut request);
        assert_eq!(refused(started.and_then(|()| scope.wait_for(&mut request))), Cause::Withdrawn);
        Ok(())
    })?;
    // It is the request that is gone, not the rank.
    let other = Rank(1 - world.rank().0);
    ep.sendrecv::<u8, u8>(&world, &[], other, TAG, &mut [], other, TAG)?;
    Ok(())
}
