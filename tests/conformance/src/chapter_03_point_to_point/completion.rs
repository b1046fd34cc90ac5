//! Nonblocking communication and its completion: section 3.7.

use aldis_hal::{Activity, Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Rank, Request, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.7.3", 2: a_test_says_nothing_before_the_message_and_its_status_after;
    "3.7.3", 1: a_request_whose_result_was_taken_is_null;
    "3.7.3", 2: a_request_that_is_let_go_completes_all_the_same;
    "3.7.4", 2: requests_complete_in_any_order_of_waiting;
    "3.7.5", 2: wait_any_names_the_one_that_is_over;
    "3.7.5", 2: wait_some_takes_all_that_are_over_and_leaves_the_others;
    "3.7.5", 2: wait_all_waits_for_the_last;
    "3.7.5", 2: test_any_and_test_some_take_nothing_before_its_time;
    "3.7.5", 2: test_all_takes_all_or_nothing;
    "3.7.5", 2: one_failure_among_many_leaves_the_others_alone;
    "3.7.5", 1: null_requests_are_over_and_belong_to_no_scope;
    "3.7.4", 3: progress_needs_no_help_of_the_user;
}

/// Lets rank 0 go on when rank 1 says so.
fn go<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, world: &Comm) -> Result<(), Error> {
    ep.recv::<u8>(world, &mut [], Rank(1), Tag(999)).map(drop)
}

fn a_test_says_nothing_before_the_message_and_its_status_after<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (due, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            go(ep, &world)?;
            ep.send(&world, &due, Rank(1), Tag(number))?;
            continue;
        }
        let status = ep.scope(|scope| {
            let mut receiving = scope.irecv(&world, &mut buffer, Rank(0), TagMatch::Any)?;
            for _ in 0..5 {
                assert_eq!(scope.test(&mut receiving)?, None, "it has not been sent");
            }
            let sending = scope.isend::<u8>(&world, &[], Rank(0), Tag(999))?;
            scope.wait(sending)?;
            let status = scope.wait_until(Activity::default(), |scope| scope.test(&mut receiving))?;
            assert!(receiving.is_null() && scope.test(&mut receiving)?.is_none());
            Ok(status)
        })?;
        assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(number), len as u64));
        assert_eq!(buffer, due);
    }
    Ok(())
}

fn a_request_whose_result_was_taken_is_null<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8]);
    ep.scope(|scope| {
        let mut receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
        let mut sending = scope.isend(&world, &[5_u8], Rank(0), Tag(1))?;
        assert!(!receiving.is_null() && !sending.is_null());
        assert_eq!(scope.wait_for(&mut sending)?.bytes, 1);
        assert_eq!(scope.wait_for(&mut receiving)?.bytes, 1);
        assert!(receiving.is_null() && sending.is_null());
        assert_eq!(scope.wait_for(&mut receiving).map_err(|error| error.cause), Err(Cause::Stale));
        Ok(())
    })?;
    assert_eq!(buffer, [5]);
    Ok(())
}

/// MPI_Request_free: the handle is gone, and the operation goes on.
fn a_request_that_is_let_go_completes_all_the_same<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (due, mut buffer) = (message(number, len), vec![0; len]);
        ep.scope(|scope| {
            if world.rank() == Rank(0) {
                drop(scope.isend(&world, &due, Rank(1), Tag(1))?);
            } else {
                drop(scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?);
            }
            Ok(())
        })?;
        assert!(world.rank() == Rank(0) || buffer == due, "it is over when its scope is");
    }
    Ok(())
}

fn requests_complete_in_any_order_of_waiting<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let data: Vec<_> = (0..).zip(LENGTHS).map(|(number, len)| message(number, len)).collect();
    let mut buffers: Vec<_> = LENGTHS.iter().map(|len| vec![0; *len]).collect();
    ep.scope(|scope| {
        let mut requests = Vec::new();
        if world.rank() == Rank(0) {
            for (tag, data) in (0..).zip(&data) {
                requests.push(scope.issend(&world, data, Rank(1), Tag(tag))?);
            }
        } else {
            for (tag, buffer) in buffers.iter_mut().enumerate().rev() {
                requests.push(scope.irecv(&world, buffer, Rank(0), Tag(tag as u32))?);
            }
        }
        // The last that was started first, on both sides.
        requests.into_iter().rev().try_for_each(|request| scope.wait(request).map(drop))
    })?;
    assert!(world.rank() == Rank(0) || buffers == data);
    Ok(())
}

fn wait_any_names_the_one_that_is_over<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, order) = (ep.world(), [2, 0, 3, 1]);
    if world.rank() == Rank(1) {
        for tag in order {
            ep.recv::<u8>(&world, &mut [], Rank(0), Tag(999))?;
            ep.send(&world, &[tag as u8; 40], Rank(0), Tag(tag))?;
        }
        return Ok(());
    }
    let mut buffers = [[0_u8; 40]; 4];
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (tag, buffer) in (0..).zip(&mut buffers) {
            requests.push(scope.irecv(&world, buffer, Rank(1), Tag(tag))?);
        }
        for tag in order {
            let asking = scope.isend::<u8>(&world, &[], Rank(1), Tag(999))?;
            scope.wait(asking)?;
            let (index, status) = scope.wait_any(&mut requests)?.expect("not all are null");
            assert_eq!((index, status.tag, status.bytes), (tag as usize, Tag(tag), 40));
            assert!(requests[index].is_null());
        }
        assert_eq!(scope.wait_any(&mut requests)?, None);
        Ok(())
    })?;
    assert_eq!(buffers, [0, 1, 2, 3].map(|tag| [tag; 40]));
    Ok(())
}

fn wait_some_takes_all_that_are_over_and_leaves_the_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(1) {
        for tag in [1, 3] {
            ep.ssend(&world, &[7_u8; 5], Rank(0), Tag(tag))?;
        }
        ep.send::<u8>(&world, &[], Rank(0), Tag(999))?;
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(999))?;
        for tag in [0, 2] {
            ep.send(&world, &[7_u8; 5], Rank(0), Tag(tag))?;
        }
        return Ok(());
    }
    let (mut buffers, mut nothing) = ([[0_u8; 5]; 4], [0_u8; 0]);
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (tag, buffer) in (0..).zip(&mut buffers) {
            requests.push(scope.irecv(&world, buffer, Rank(1), Tag(tag))?);
        }
        // The sender of this has seen the two before matched; what it sent has come before it.
        let sent = scope.irecv(&world, &mut nothing, Rank(1), Tag(999))?;
        scope.wait(sent)?;
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let count = scope.wait_some(&mut requests, |index, result| {
                seen.push(index);
                assert_eq!(result.map(|status| status.tag), Ok(Tag(index as u32)));
            })?;
            assert!(count > 0);
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 3]);
        let go = scope.isend::<u8>(&world, &[], Rank(1), Tag(999))?;
        scope.wait(go)?;
        scope.wait_all(&mut requests)?;
        assert_eq!(scope.wait_some(&mut requests, |_, _| unreachable!("all are null"))?, 0);
        Ok(())
    })?;
    assert_eq!(buffers, [[7; 5]; 4]);
    Ok(())
}

fn wait_all_waits_for_the_last<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let data: Vec<_> = (0..20).map(|number| message(number, 31 * number as usize)).collect();
    let mut buffers: Vec<_> = data.iter().map(|data| vec![0; data.len()]).collect();
    let other = Rank(1 - world.rank().0);
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for buffer in &mut buffers {
            requests.push(scope.irecv(&world, buffer, other, Tag(1))?);
        }
        for data in &data {
            requests.push(scope.isend(&world, data, other, Tag(1))?);
        }
        scope.wait_all(&mut requests)?;
        assert!(requests.iter().all(Request::is_null));
        Ok(())
    })?;
    assert!(buffers == data);
    Ok(())
}

fn test_any_and_test_some_take_nothing_before_its_time<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(1) {
        for tag in [1, 0] {
            ep.recv::<u8>(&world, &mut [], Rank(0), Tag(999))?;
            ep.send(&world, &[tag as u8], Rank(0), Tag(tag))?;
        }
        return Ok(());
    }
    let mut buffers = [[9_u8]; 2];
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (tag, buffer) in (0..).zip(&mut buffers) {
            requests.push(scope.irecv(&world, buffer, Rank(1), Tag(tag))?);
        }
        assert_eq!(scope.test_any(&mut requests)?, None);
        let asking = scope.isend::<u8>(&world, &[], Rank(1), Tag(999))?;
        scope.wait(asking)?;
        let (index, status) = scope.wait_until(Activity::default(), |scope| scope.test_any(&mut requests))?;
        assert_eq!((index, status.tag), (1, Tag(1)));
        assert_eq!(scope.test_some(&mut requests, |_, _| unreachable!("it has not been sent")), 0);
        let asking = scope.isend::<u8>(&world, &[], Rank(1), Tag(999))?;
        scope.wait(asking)?;
        let mut seen = Vec::new();
        scope.wait_until(Activity::default(), |scope| {
            let count = scope.test_some(&mut requests, |index, _| seen.push(index));
            Ok((count > 0).then_some(()))
        })?;
        assert_eq!(seen, [0]);
        assert_eq!(scope.test_any(&mut requests)?, None, "all are null");
        Ok(())
    })?;
    assert_eq!(buffers, [[0], [1]]);
    Ok(())
}

fn test_all_takes_all_or_nothing<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(1) {
        ep.send(&world, &[1_u8], Rank(0), Tag(0))?;
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(999))?;
        ep.send(&world, &[2_u8], Rank(0), Tag(1))?;
        return Ok(());
    }
    let mut buffers = [[0_u8]; 2];
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (tag, buffer) in (0..).zip(&mut buffers) {
            requests.push(scope.irecv(&world, buffer, Rank(1), Tag(tag))?);
        }
        for _ in 0..5 {
            assert!(!scope.test_all(&requests), "the second has not been sent");
        }
        let go = scope.isend::<u8>(&world, &[], Rank(1), Tag(999))?;
        scope.wait(go)?;
        scope.wait_until(Activity::default(), |scope| Ok(scope.test_all(&requests).then_some(())))?;
        assert!(requests.iter().all(|request| !request.is_null()));
        scope.wait_all(&mut requests)
    })?;
    assert_eq!(buffers, [[1], [2]]);
    Ok(())
}

fn one_failure_among_many_leaves_the_others_alone<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(1) {
        for tag in 0..3 {
            ep.send(&world, &[tag as u8; 30], Rank(0), Tag(tag))?;
        }
        return Ok(());
    }
    let (mut one, mut short, mut other) = ([9_u8; 30], [9_u8; 29], [9_u8; 30]);
    let cause = ep.scope(|scope| {
        let mut requests = [
            scope.irecv(&world, &mut one, Rank(1), Tag(0))?,
            scope.irecv(&world, &mut short, Rank(1), Tag(1))?,
            scope.irecv(&world, &mut other, Rank(1), Tag(2))?,
        ];
        let error = scope.wait_all(&mut requests).expect_err("one is too short");
        assert!(requests.iter().all(Request::is_null), "all were waited for");
        assert_eq!(error.tag(), Some(Tag(1)));
        Ok(error.cause)
    })?;
    assert_eq!(cause, Cause::Truncated { sent: 30, room: 29 });
    assert_eq!((one, short, other), ([0; 30], [1; 29], [2; 30]));
    Ok(())
}

fn null_requests_are_over_and_belong_to_no_scope<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    ep.scope(|scope| {
        let mut none = [Request::null(), Request::null()];
        assert_eq!(scope.test(&mut none[0])?, None);
        assert_eq!((scope.wait_any(&mut none)?, scope.test_any(&mut none)?), (None, None));
        assert_eq!(scope.wait_some(&mut none, |_, _| unreachable!("there is none"))?, 0);
        assert_eq!(scope.test_some(&mut none, |_, _| unreachable!("there is none")), 0);
        assert!(scope.test_all(&none));
        scope.wait_all(&mut none)?;
        assert!(!scope.cancel(&mut none[1]));
        Ok(())
    })?;
    Ok(())
}

/// Rank 0 waits in a blocking call for rank 2 alone; what passes between it and rank 1 moves all
/// the same.
fn progress_needs_no_help_of_the_user<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, long) = (ep.world(), message(1, 6000));
    match world.rank().0 {
        0 => {
            let (mut word, mut buffer) = ([0_u8], vec![0; 6000]);
            ep.scope(|scope| {
                let sending = scope.isend(&world, &long, Rank(1), Tag(1))?;
                let back = scope.irecv(&world, &mut buffer, Rank(1), Tag(1))?;
                let last = scope.irecv(&world, &mut word, Rank(2), Tag(1))?;
                scope.wait(last)?;
                scope.wait(sending)?;
                scope.wait(back)
            })?;
            assert!(word == [3] && buffer == long);
        }
        1 => {
            let mut buffer = vec![0_u8; 6000];
            ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            ep.ssend(&world, &buffer, Rank(0), Tag(1))?;
            ep.send::<u8>(&world, &[], Rank(2), Tag(1))?;
        }
        _ => {
            // Only after both of the others' messages are through.
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(1))?;
            ep.send(&world, &[3_u8], Rank(0), Tag(1))?;
        }
    }
    Ok(())
}
