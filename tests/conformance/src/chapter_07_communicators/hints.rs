//! Communicator info: section 7.4.4, what a program promises of a communicator.

use aldis_coll::comm::{dup, free};
use aldis_coll::{barrier, op::Sum};
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Hints, Rank, Source, Tag, TagMatch};

use super::super::Outcome;

cases! {
    "7.4.4", 2: a_promise_of_no_wildcards_refuses_them_and_nothing_else;
    "7.4.4", 2: a_promise_of_exact_lengths_reports_a_shorter_message;
    "7.4.4", 2: where_overtaking_is_allowed_everything_arrives_once;
    "7.4.4", 3: promises_are_of_one_communicator_and_not_of_its_duplicates;
    "7.4.4", 4: promises_do_not_bind_collectives;
}

fn a_promise_of_no_wildcards_refuses_them_and_nothing_else<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut got) = (ep.world(), [0_u32]);
    let (me, other) = (world.rank().0, Rank(1 - world.rank().0));
    ep.comm_mut(&world).set_hints(Hints::NO_ANY_SOURCE | Hints::NO_ANY_TAG)?;
    let refused = ep.recv(&world, &mut got, Source::Any, Tag(1)).expect_err("any source");
    assert_eq!(refused.cause, Cause::NoAnySource);
    let refused = ep.iprobe(&world, other, TagMatch::Any).expect_err("any tag");
    assert_eq!(refused.cause, Cause::NoAnyTag);
    ep.scope(|scope| {
        let refused = scope.irecv(&world, &mut got, other, TagMatch::Any).expect_err("any tag");
        assert_eq!(refused.cause, Cause::NoAnyTag);
        Ok(())
    })?;
    ep.sendrecv(&world, &[me + 5], other, Tag(1), &mut got, other, Tag(1))?;
    assert_eq!(got, [other.0 + 5]);
    ep.comm_mut(&world).set_hints(Hints::empty())?;
    ep.sendrecv(&world, &[me + 7], other, Tag(1), &mut got, Source::Any, TagMatch::Any)?;
    assert_eq!(got, [other.0 + 7], "a promise can be taken back");
    Ok(())
}

fn a_promise_of_exact_lengths_reports_a_shorter_message<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    ep.comm_mut(&world).set_hints(Hints::EXACT_LENGTH)?;
    for len in [1_usize, 8, 60, 500, 3000] {
        if world.rank() == Rank(0) {
            for _ in 0..2 {
                ep.send(&world, &vec![4_u8; len], Rank(1), Tag(1))?;
            }
            continue;
        }
        let mut buffer = vec![0_u8; len + 1];
        let error = ep.recv(&world, &mut buffer, Rank(0), Tag(1)).expect_err("it is longer than the message");
        assert_eq!(error.cause, Cause::NotExact { sent: len as u64, room: len as u64 + 1 });
        assert!(buffer[..len].iter().all(|byte| *byte == 4) && buffer[len] == 0, "it was received");
        assert_eq!(ep.recv(&world, &mut buffer[..len], Rank(0), Tag(1))?.bytes, len as u64);
    }
    Ok(())
}

fn where_overtaking_is_allowed_everything_arrives_once<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    ep.comm_mut(&world).set_hints(Hints::ALLOW_OVERTAKING)?;
    let length = |number: u32| [1, 100, 2, 7, 900][number as usize % 5];
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..40).map(|number| vec![number; length(number)]).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for data in &data {
                sends.push(scope.isend(&world, data, Rank(1), Tag(data[0] % 3))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    let (mut seen, mut buffer) = ([false; 40], [0_u32; 900]);
    for _ in 0..40 {
        let status = ep.recv(&world, &mut buffer, Rank(0), TagMatch::Any)?;
        let number = buffer[0];
        assert_eq!((status.tag, status.bytes), (Tag(number % 3), 4 * length(number) as u64));
        assert!(buffer[..length(number)].iter().all(|word| *word == number));
        assert!(!core::mem::replace(&mut seen[number as usize], true), "message {number} came twice");
    }
    Ok(())
}

fn promises_are_of_one_communicator_and_not_of_its_duplicates<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let promised = Hints::NO_ANY_SOURCE | Hints::EXACT_LENGTH;
    ep.comm_mut(&world).set_hints(promised)?;
    let copy = dup(ep, &world)?;
    assert_eq!((ep.comm(&world).hints(), ep.comm(&copy).hints()), (Ok(promised), Ok(Hints::empty())));
    let (me, size) = (world.rank().0, world.size());
    let mut got = [0_u32; 3];
    let next = Rank((me + 1) % size);
    let status = ep.sendrecv(&copy, &[me], next, Tag(1), &mut got, Source::Any, Tag(1))?;
    assert_eq!((status.bytes, got[0]), (4, (me + size - 1) % size));
    free(ep, copy)?;
    assert_eq!(ep.comm(&copy).hints().expect_err("it is freed").cause, Cause::Stale);
    Ok(())
}

fn promises_do_not_bind_collectives<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    ep.comm_mut(&world).set_hints(Hints::all())?;
    for round in 0..5 {
        let mut sum = [u64::from(world.rank().0) + round; 7];
        aldis_coll::allreduce(Sum, &mut sum, &mut [0; 7]).run(ep, &world)?;
        assert_eq!(sum, [6 + 4 * round; 7]);
    }
    Ok(barrier().run(ep, &world)?)
}
