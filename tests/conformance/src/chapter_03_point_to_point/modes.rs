//! Communication modes: section 3.4, and 3.6 for buffers.

use aldis_hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Tag};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.4", 2: a_synchronous_send_is_complete_when_it_is_matched_and_not_before;
    "3.4", 2: a_blocking_synchronous_send_returns_after_its_match;
    "3.8.1", 2: a_probe_is_no_match_of_a_synchronous_send;
    "3.4", 2: a_ready_send_meets_the_receive_that_waits;
    "3.4", 2: a_ready_send_without_a_receive_is_an_error_and_arrives;
    "3.4", 2: a_buffered_send_needs_no_receive;
    "3.6", 2: two_ranks_that_both_send_buffered_first_come_to_an_end;
    "3.6", 1: a_buffered_send_beyond_the_buffer_is_an_error;
    "3.6", 2: memory_for_buffered_sends_is_used_again_and_given_back;
    "3.5", 2: messages_of_all_modes_keep_their_order;
}

/// Three exchanges of empty messages: what had been sent before by either has arrived by then, if
/// it may.
fn talk<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, world: &Comm) -> Result<(), Error> {
    let other = Rank(1 - world.rank().0);
    for _ in 0..3 {
        ep.sendrecv::<u8, u8>(world, &[], other, Tag(1000), &mut [], other, Tag(1000))?;
    }
    Ok(())
}

fn a_synchronous_send_is_complete_when_it_is_matched_and_not_before<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (data, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(1) {
            talk(ep, &world)?;
            ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert_eq!(buffer, data);
            continue;
        }
        let mut empty = [[0_u8; 0]; 3];
        ep.scope(|scope| {
            let mut sending = scope.issend(&world, &data, Rank(1), Tag(1))?;
            for empty in &mut empty {
                assert_eq!(
                    scope.test(&mut sending)?,
                    None,
                    "it is received after the last of these exchanges"
                );
                let there = scope.isend::<u8>(&world, &[], Rank(1), Tag(1000))?;
                let back = scope.irecv(&world, empty, Rank(1), Tag(1000))?;
                scope.wait(there)?;
                scope.wait(back)?;
            }
            assert_eq!(scope.wait(sending)?.bytes, len as u64);
            Ok(())
        })?;
    }
    Ok(())
}

fn a_blocking_synchronous_send_returns_after_its_match<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        if world.rank() == Rank(0) {
            ep.ssend(&world, &message(number, len), Rank(1), Tag(1))?;
            ep.send::<u8>(&world, &[], Rank(1), Tag(2))?;
            continue;
        }
        ep.probe(&world, Rank(0), Tag(1))?;
        for _ in 0..10 {
            assert_eq!(ep.iprobe(&world, Rank(0), Tag(2))?, None, "it is sent after the first is matched");
        }
        let mut buffer = vec![0; len];
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, message(number, len));
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(2))?;
    }
    Ok(())
}

fn a_probe_is_no_match_of_a_synchronous_send<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0; 30]);
    if world.rank() == Rank(1) {
        assert_eq!(ep.probe(&world, Rank(0), Tag(1))?.bytes, 30);
        ep.sendrecv::<u8, u8>(&world, &[], Rank(0), Tag(2), &mut [], Rank(0), Tag(3))?;
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, *message(1, 30));
        return Ok(());
    }
    let (data, mut empty) = (message(1, 30), [0_u8; 0]);
    ep.scope(|scope| {
        let mut sending = scope.issend(&world, &data, Rank(1), Tag(1))?;
        let probed = scope.irecv(&world, &mut empty, Rank(1), Tag(2))?;
        scope.wait(probed)?;
        assert_eq!(scope.test(&mut sending)?, None, "it was probed and not received");
        let go = scope.isend::<u8>(&world, &[], Rank(1), Tag(3))?;
        scope.wait(go)?;
        scope.wait(sending).map(drop)
    })?;
    Ok(())
}

fn a_ready_send_meets_the_receive_that_waits<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (data, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
            assert_eq!(ep.rsend(&world, &data, Rank(1), Tag(1))?.bytes, len as u64);
            continue;
        }
        ep.scope(|scope| {
            let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
            let posted = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
            scope.wait(posted)?;
            scope.wait(receiving)
        })?;
        assert_eq!(buffer, data);
    }
    Ok(())
}

fn a_ready_send_without_a_receive_is_an_error_and_arrives<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (data, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            let error = ep.rsend(&world, &data, Rank(1), Tag(1)).expect_err("no receive was posted");
            assert_eq!(
                (error.cause, error.peer(), error.tag()),
                (Cause::NotReady, Some(Rank(1)), Some(Tag(1)))
            );
            continue;
        }
        ep.probe(&world, Rank(0), Tag(1))?;
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, data);
    }
    Ok(())
}

/// Memory for buffered sends: lent for as long as the endpoint lives, whatever that is.
fn attach<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, bytes: usize) -> Result<(), Error> {
    ep.send_buffer().attach(vec![0; bytes].leak())
}

fn a_buffered_send_needs_no_receive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, bytes) = (ep.world(), LENGTHS.iter().sum());
    if world.rank() == Rank(0) {
        attach(ep, bytes)?;
        for (number, len) in (0..).zip(LENGTHS) {
            ep.bsend(&world, &message(number, len), Rank(1), Tag(number))?;
        }
        ep.send::<u8>(&world, &[], Rank(1), Tag(99))?;
        assert_eq!(ep.send_buffer().detach()?.len(), bytes);
        return Ok(());
    }
    ep.recv::<u8>(&world, &mut [], Rank(0), Tag(99))?;
    for (number, len) in LENGTHS.into_iter().enumerate().rev() {
        let mut buffer = vec![0; len];
        ep.recv(&world, &mut buffer, Rank(0), Tag(number as u32))?;
        assert_eq!(buffer, message(number as u32, len));
    }
    Ok(())
}

fn two_ranks_that_both_send_buffered_first_come_to_an_end<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, other) = (world.rank().0, 1 - world.rank().0);
    attach(ep, 3000)?;
    for (number, len) in (0..).zip(LENGTHS) {
        let mut buffer = vec![0; len];
        // The buffer holds one message: wait until the last has left it.
        ep.send_buffer().detach()?;
        attach(ep, 3000)?;
        ep.bsend(&world, &message(2 * number + me, len), Rank(other), Tag(1))?;
        ep.recv(&world, &mut buffer, Rank(other), Tag(1))?;
        assert_eq!(buffer, message(2 * number + other, len));
    }
    ep.send_buffer().detach()?;
    Ok(())
}

fn a_buffered_send_beyond_the_buffer_is_an_error<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0; 300]);
    let full = Cause::Full(Resource::SendBuffer);
    let refused = |sent: Result<_, Error>| sent.expect_err("there is no room").cause;
    assert_eq!(refused(ep.bsend(&world, &[1_u8; 8], Rank(0), Tag(1))), full, "nothing is attached");
    attach(ep, 299)?;
    assert_eq!(refused(ep.bsend(&world, &message(1, 300), Rank(0), Tag(1))), full);
    assert_eq!(refused(ep.send_buffer().attach(&mut []).map(|()| unreachable!())), Cause::Busy);
    ep.bsend(&world, &message(2, 299), Rank(0), Tag(1))?;
    let status = ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
    assert_eq!((status.bytes, &buffer[..299]), (299, &message(2, 299)[..]), "and nothing else was sent");
    assert_eq!(ep.send_buffer().detach()?.len(), 299);
    Ok(())
}

fn memory_for_buffered_sends_is_used_again_and_given_back<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        attach(ep, 1000)?;
    }
    // Room for three at a time.
    for number in 0..12 {
        if world.rank() == Rank(0) {
            ep.bsend(&world, &message(number, 300), Rank(1), Tag(1))?;
            if number % 3 == 2 {
                ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
            }
            continue;
        }
        let mut buffer = [0; 300];
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, *message(number, 300));
        if number % 3 == 2 {
            ep.send::<u8>(&world, &[], Rank(0), Tag(2))?;
        }
    }
    if world.rank() == Rank(0) {
        assert_eq!(ep.send_buffer().detach()?.len(), 1000);
        assert_eq!(ep.send_buffer().detach()?.len(), 0, "nothing is attached any more");
    }
    Ok(())
}

fn messages_of_all_modes_keep_their_order<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let length = |number: u32| LENGTHS[number as usize * 5 % LENGTHS.len()];
    let data: Vec<_> = (0..18).map(|number| message(number, length(number))).collect();
    if world.rank() == Rank(1) {
        for (number, due) in (0..).zip(&data) {
            let mut buffer = vec![0; length(number)];
            ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert_eq!(buffer, *due, "message {number}");
        }
        return Ok(());
    }
    attach(ep, data.iter().map(Vec::len).sum())?;
    for (number, data) in data.iter().enumerate() {
        match number % 3 {
            0 => ep.send(&world, data, Rank(1), Tag(1))?,
            1 => ep.ssend(&world, data, Rank(1), Tag(1))?,
            _ => ep.bsend(&world, data, Rank(1), Tag(1))?,
        };
    }
    ep.send_buffer().detach()?;
    Ok(())
}
