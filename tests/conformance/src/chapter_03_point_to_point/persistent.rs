//! Persistent communication requests: section 3.9.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.9", 2: each_start_is_one_message;
    "3.9", 2: persistent_requests_meet_those_that_are_not;
    "3.9", 2: a_request_under_way_cannot_be_started;
    "3.9", 3: several_are_started_and_waited_for_together;
    "3.9", 2: a_persistent_send_may_be_synchronous_or_ready;
    "3.9", 2: a_started_receive_is_cancelled_and_started_again;
    "3.9", 1: persistent_requests_to_oneself;
}

fn each_start_is_one_message<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for len in LENGTHS {
        let mut memory = vec![0_u8; len];
        ep.scope(|scope| {
            let memory = scope.lend(&mut memory);
            let mut request = if world.rank() == Rank(0) {
                scope.send_init(&world, memory, 0..len, Rank(1), Tag(1))?
            } else {
                scope.recv_init(&world, memory, 0..len, Rank(0), Tag(1))?
            };
            assert!(request.is_null() && scope.test(&mut request)?.is_none(), "it has not been started");
            for round in 0..5 {
                let due = message(round, len);
                if world.rank() == Rank(0) {
                    scope.edit(memory, 0..len, |bytes| bytes.copy_from_slice(&due))?;
                }
                scope.start(&mut request)?;
                assert_eq!(scope.wait_for(&mut request)?.bytes, len as u64);
                scope.edit(memory, 0..len, |bytes| assert_eq!(bytes, due))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn persistent_requests_meet_those_that_are_not<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), [0_u8; 60]);
    if world.rank() == Rank(0) {
        for round in 0..4 {
            ep.send(&world, &message(round, 60), Rank(1), Tag(round))?;
            let mut buffer = [0; 60];
            ep.recv(&world, &mut buffer, Rank(1), Tag(100))?;
            assert_eq!(buffer, *message(round, 60), "what came is sent back");
        }
        return Ok(());
    }
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut receive = scope.recv_init(&world, memory, 0..60, Source::Any, TagMatch::Any)?;
        let mut send = scope.send_init(&world, memory, 0..60, Rank(0), Tag(100))?;
        for round in 0..4 {
            scope.start(&mut receive)?;
            let status = scope.wait_for(&mut receive)?;
            assert_eq!((status.source, status.tag), (Rank(0), Tag(round)));
            scope.start(&mut send)?;
            scope.wait_for(&mut send)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn a_request_under_way_cannot_be_started<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory, mut word) = (ep.world(), [0_u8; 8], [0_u8]);
    let other = Rank(1 - world.rank().0);
    ep.scope(|scope| {
        let lent = scope.lend(&mut memory);
        let mut receive = scope.recv_init(&world, lent, 0..8, other, Tag(1))?;
        scope.start(&mut receive)?;
        assert_eq!(scope.start(&mut receive).expect_err("it is under way").cause, Cause::Busy);
        assert!(scope.edit(lent, 0..8, |_| ()).is_err(), "its memory is in use");
        // What it waits for is sent once both have looked.
        let mut go = scope.isend(&world, &[0_u8], other, Tag(2))?;
        let mut gone = scope.irecv(&world, &mut word, other, Tag(2))?;
        scope.wait_for(&mut gone)?;
        scope.wait_for(&mut go)?;
        let mut plain = scope.isend(&world, &[3_u8; 8], other, Tag(1))?;
        assert_eq!(scope.start(&mut plain).expect_err("it is not persistent").cause, Cause::Stale);
        scope.wait_for(&mut receive)?;
        scope.wait_for(&mut plain).map(drop)
    })?;
    assert_eq!(memory, [3; 8]);
    Ok(())
}

fn several_are_started_and_waited_for_together<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let (mut out, mut into) = ([0_u8; 300], [0_u8; 300]);
    ep.scope(|scope| {
        let (out, into) = (scope.lend(&mut out), scope.lend(&mut into));
        let mut requests = [
            scope.recv_init(&world, into, 0..100, previous, Tag(0))?,
            scope.recv_init(&world, into, 100..300, previous, Tag(1))?,
            scope.send_init(&world, out, 100..300, next, Tag(1))?,
            scope.send_init(&world, out, 0..100, next, Tag(0))?,
        ];
        for round in 0..4 {
            let due = |rank| message(10 * round + rank, 300);
            scope.edit(out, 0..300, |bytes| bytes.copy_from_slice(&due(me)))?;
            scope.start_all(&mut requests)?;
            scope.wait_all(&mut requests)?;
            scope.edit(into, 0..300, |bytes| assert_eq!(bytes, due(previous.0)))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn a_persistent_send_may_be_synchronous_or_ready<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory, mut nothing) = (ep.world(), [6_u8; 40], [[0_u8; 0]; 4]);
    if world.rank() == Rank(1) {
        for round in 0..4 {
            let mut buffer = [0_u8; 40];
            ep.scope(|scope| {
                let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
                let posted = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
                scope.wait(posted)?;
                scope.wait(receiving)
            })?;
            assert_eq!(buffer, [6; 40], "round {round}");
        }
        return Ok(());
    }
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut sends = [
            scope.ssend_init(&world, memory, 0..40, Rank(1), Tag(1))?,
            scope.rsend_init(&world, memory, 0..40, Rank(1), Tag(1))?,
        ];
        for (round, nothing) in nothing.iter_mut().enumerate() {
            let posted = scope.irecv(&world, nothing, Rank(1), Tag(2))?;
            scope.wait(posted)?;
            scope.start(&mut sends[round % 2])?;
            scope.wait_for(&mut sends[round % 2])?;
        }
        Ok(())
    })?;
    Ok(())
}

fn a_started_receive_is_cancelled_and_started_again<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), [0_u8; 8]);
    if world.rank() == Rank(0) {
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
        ep.send(&world, &[4_u8; 8], Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut receive = scope.recv_init(&world, memory, 0..8, Rank(0), Tag(1))?;
        for _ in 0..3 {
            scope.start(&mut receive)?;
            assert!(scope.cancel(&mut receive), "it has not been sent");
            assert!(scope.wait_for(&mut receive)?.is_cancelled());
        }
        scope.start(&mut receive)?;
        let go = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
        scope.wait(go)?;
        assert_eq!(scope.wait_for(&mut receive)?.bytes, 8);
        Ok(())
    })?;
    assert_eq!(memory, [4; 8]);
    Ok(())
}

fn persistent_requests_to_oneself<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for len in LENGTHS {
        let (mut out, mut into) = (vec![0_u8; len], vec![0_u8; len]);
        ep.scope(|scope| {
            let (out, into) = (scope.lend(&mut out), scope.lend(&mut into));
            let mut requests = [
                scope.recv_init(&world, into, 0..len, Source::Any, Tag(1))?,
                scope.send_init(&world, out, 0..len, Rank(0), Tag(1))?,
            ];
            for round in 0..4 {
                scope.edit(out, 0..len, |bytes| bytes.copy_from_slice(&message(round, len)))?;
                scope.start_all(&mut requests)?;
                scope.wait_all(&mut requests)?;
                scope.edit(into, 0..len, |bytes| assert_eq!(bytes, message(round, len)))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
