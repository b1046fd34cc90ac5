//! Cancel: section 3.8.4.

use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.8.4", 2: a_receive_without_a_message_is_cancelled;
    "3.8.4", 2: a_receive_that_has_met_its_message_is_not_cancelled;
    "3.8.4", 2: a_cancelled_receive_leaves_its_message_to_the_next;
    "3.8.4", 1: a_cancelled_receive_among_others_changes_no_order;
    "3.8.4", 2: statuses_tell_what_was_cancelled_and_what_was_not;
    "3.8.4", 2: a_send_is_cancelled_whole_or_not_at_all;
    "3.8.4", 1: what_is_over_or_null_is_not_cancelled;
}

fn a_receive_without_a_message_is_cancelled<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, other) = (ep.world(), Rank(1 - ep.world().rank().0));
    let mut buffers = [[7_u8; 8]; 3];
    ep.scope(|scope| {
        let [one, any, all] = &mut buffers;
        let mut requests = [
            scope.irecv(&world, one, other, Tag(1))?,
            scope.irecv(&world, any, Source::Any, Tag(1))?,
            scope.irecv(&world, all, Source::Any, TagMatch::Any)?,
        ];
        for request in &mut requests {
            assert!(scope.cancel(request) && !request.is_null());
            assert!(!scope.cancel(request), "it is over");
            assert!(scope.test(request)?.expect("it is over").is_cancelled() && request.is_null());
        }
        Ok(())
    })?;
    assert_eq!(buffers, [[7; 8]; 3], "they are the user's again, as they were");
    Ok(())
}

fn a_receive_that_has_met_its_message_is_not_cancelled<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (due, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            ep.send(&world, &due, Rank(1), Tag(1))?;
            continue;
        }
        ep.probe(&world, Rank(0), Tag(1))?;
        // It is here: posting the receive matches it.
        ep.scope(|scope| {
            let mut receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert!(!scope.cancel(&mut receiving) && !receiving.is_null());
            assert_eq!(scope.wait(receiving)?.bytes, len as u64);
            Ok(())
        })?;
        assert_eq!(buffer, due);
    }
    Ok(())
}

fn a_cancelled_receive_leaves_its_message_to_the_next<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let due = message(number, len);
        if world.rank() == Rank(0) {
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
            ep.send(&world, &due, Rank(1), Tag(1))?;
            continue;
        }
        let (mut first, mut second) = (vec![0; len], vec![0; len]);
        ep.scope(|scope| {
            let mut cancelled = scope.irecv(&world, &mut first, Source::Any, Tag(1))?;
            let receiving = scope.irecv(&world, &mut second, Rank(0), TagMatch::Any)?;
            assert!(scope.cancel(&mut cancelled));
            let go = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
            scope.wait(go)?;
            scope.wait(receiving)
        })?;
        assert_eq!(first, vec![0; len]);
        assert_eq!(second, due);
    }
    Ok(())
}

fn a_cancelled_receive_among_others_changes_no_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut got = [[0_u32]; 8];
    ep.scope(|scope| {
        let mut receives = Vec::new();
        for (index, got) in got.iter_mut().enumerate() {
            let tag = if index % 2 == 0 { TagMatch::Any } else { Tag(1).into() };
            receives.push(scope.irecv(&world, got, Rank(0), tag)?);
        }
        for index in [0, 3, 7] {
            assert!(scope.cancel(&mut receives[index]));
        }
        for number in &[[1], [2], [3], [4], [5]] {
            let sending = scope.isend(&world, number, Rank(0), Tag(1))?;
            drop(sending);
        }
        scope.wait_all(&mut receives)
    })?;
    assert_eq!(got, [[0], [1], [2], [0], [3], [4], [5], [0]]);
    Ok(())
}

/// Of a wait for all, any and some.
fn statuses_tell_what_was_cancelled_and_what_was_not<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut got) = (ep.world(), [[0_u8; 30]; 4]);
    if world.rank() == Rank(0) {
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
        for number in [1_u8, 3] {
            ep.send(&world, &[number; 30], Rank(1), Tag(number.into()))?;
        }
        return Ok(());
    }
    ep.scope(|scope| {
        let mut receives = Vec::new();
        for (tag, got) in (0..).zip(&mut got) {
            receives.push(scope.irecv(&world, got, Rank(0), Tag(tag))?);
        }
        assert!(scope.cancel(&mut receives[0]) && scope.cancel(&mut receives[2]));
        let telling = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
        scope.wait(telling)?;
        let mut cancelled = Vec::new();
        while let Some((index, status)) = scope.wait_any(&mut receives)? {
            assert!(status.is_cancelled() || (status.tag.0 as usize, status.bytes) == (index, 30));
            cancelled.push((index, status.is_cancelled()));
        }
        cancelled.sort_unstable();
        assert_eq!(cancelled, [(0, true), (1, false), (2, true), (3, false)]);
        Ok(())
    })?;
    assert_eq!(got, [[0; 30], [1; 30], [0; 30], [3; 30]]);
    Ok(())
}

/// Whatever a cancel comes to, the receiver sees all of the message or nothing, and the next one
/// behind it.
fn a_send_is_cancelled_whole_or_not_at_all<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let first = message(number, len);
        if world.rank() == Rank(0) {
            ep.scope(|scope| {
                let mut sending = scope.isend(&world, &first, Rank(1), Tag(1))?;
                let is_cancelled = scope.cancel(&mut sending);
                let telling =
                    scope.isend(&world, if is_cancelled { &[1_u8] } else { &[0_u8] }, Rank(1), Tag(2))?;
                assert_eq!(scope.wait(sending)?.is_cancelled(), is_cancelled);
                scope.wait(telling)
            })?;
            continue;
        }
        let mut is_cancelled = [9_u8];
        ep.recv(&world, &mut is_cancelled, Rank(0), Tag(2))?;
        let mut buffer = vec![0; len];
        if is_cancelled == [0] {
            assert_eq!(ep.recv(&world, &mut buffer, Rank(0), TagMatch::Any)?.tag, Tag(1));
            assert_eq!(buffer, first);
        }
    }
    Ok(())
}

fn what_is_over_or_null_is_not_cancelled<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8; 1]);
    ep.scope(|scope| {
        let mut receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
        let mut sending = scope.isend(&world, &[4_u8], Rank(0), Tag(1))?;
        scope.wait_for(&mut sending)?;
        while !scope.test_all(core::slice::from_ref(&receiving)) {}
        assert!(!scope.cancel(&mut receiving), "its message has come");
        assert!(!scope.wait_for(&mut receiving)?.is_cancelled());
        assert!(!scope.cancel(&mut sending) && !scope.cancel(&mut receiving), "they are null");
        Ok(())
    })?;
    assert_eq!(buffer, [4]);
    Ok(())
}
