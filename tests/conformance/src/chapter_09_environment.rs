//! Chapter 9: environmental management. Every wrong call is an error of its own, which names what
//! was wrong, and changes nothing.

use core::cell::Cell;
use core::time::Duration;

use aldis_coll::barrier;
use aldis_coll::comm::{dup, free};
use aldis_hal::{Cause, Operation, Platform, Resource, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Policy, Rank, Source, Tag, TagMatch};

use super::Outcome;

cases! {
    "9.4", 2: a_rank_outside_the_communicator_is_refused;
    "9.4", 2: a_tag_above_the_largest_is_refused;
    "9.4", 2: a_message_too_long_for_its_buffer_says_by_how_much;
    "9.4", 2: an_error_tells_operation_peer_tag_and_bytes;
    "9.3", 2: a_deadline_ends_a_receive_without_a_sender;
    "9.3", 2: a_deadline_ends_a_synchronous_send_without_a_receiver;
    "9.4", 1: requests_beyond_the_table_are_refused_and_fit_later;
    "9.4", 1: an_error_of_a_scope_is_that_of_its_request;
    "9.3", 1: an_error_is_returned_unless_a_policy_says_more;
    "9.3.1", 2: what_is_made_of_a_communicator_has_its_policy;
    "9.3.1", 1: a_callback_hears_of_each_error_once_and_of_nothing_else;
}

fn cause<R>(result: Result<R, Error>) -> Option<Cause> {
    result.err().map(|error| error.cause)
}

fn a_rank_outside_the_communicator_is_refused<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, itself, mut buffer) = (ep.world(), ep.itself(), [0_u8]);
    let outside = |rank, size| Some(Cause::RankOutOfRange { rank, size });
    for rank in [2, 3, 1 << 31] {
        assert_eq!(cause(ep.send(&world, &[0_u8], Rank(rank), Tag(0))), outside(rank, 2));
        assert_eq!(cause(ep.ssend(&world, &[0_u8], Rank(rank), Tag(0))), outside(rank, 2));
        assert_eq!(cause(ep.recv(&world, &mut buffer, Rank(rank), Tag(0))), outside(rank, 2));
        assert_eq!(cause(ep.probe(&world, Rank(rank), Tag(0))), outside(rank, 2));
        let both = ep.sendrecv(&world, &[0_u8], Rank(rank), Tag(0), &mut buffer, Rank(0), Tag(0));
        assert_eq!(cause(both), outside(rank, 2));
    }
    assert_eq!(cause(ep.send(&itself, &[0_u8], Rank(1), Tag(0))), outside(1, 1));
    assert_eq!(ep.diagnostics().requests_in_use(), 0, "nothing was started");
    Ok(())
}

fn a_tag_above_the_largest_is_refused<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8]);
    for tag in [Tag::MAX.0 + 1, u32::MAX - 1] {
        let outside = Some(Cause::TagOutOfRange { tag, max: Tag::MAX.0 });
        assert_eq!(cause(ep.send(&world, &[0_u8], Rank(0), Tag(tag))), outside);
        assert_eq!(cause(ep.recv(&world, &mut buffer, Source::Any, Tag(tag))), outside);
        assert_eq!(cause(ep.iprobe(&world, Source::Any, Tag(tag))), outside);
    }
    assert_eq!((ep.diagnostics().requests_in_use(), ep.diagnostics().queue_depths()), (0, (0, 0)));
    Ok(())
}

fn a_message_too_long_for_its_buffer_says_by_how_much<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for len in [1_usize, 24, 65, 500, 4000] {
        if world.rank() == Rank(0) {
            ep.send(&world, &vec![5_u8; len], Rank(1), Tag(1))?;
            continue;
        }
        let mut buffer = vec![0_u8; len / 2];
        let error = ep.recv(&world, &mut buffer, Rank(0), Tag(1)).expect_err("it is twice as long");
        assert_eq!(error.cause, Cause::Truncated { sent: len as u64, room: len as u64 / 2 });
        assert!(buffer.iter().all(|byte| *byte == 5), "what there is room for has come");
    }
    Ok(())
}

fn an_error_tells_operation_peer_tag_and_bytes<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8; 10]);
    if world.rank() == Rank(0) {
        ep.send(&world, &[1_u8; 12], Rank(1), Tag(4))?;
        return Ok(());
    }
    let error = ep.recv(&world, &mut buffer, Source::Any, TagMatch::Any).expect_err("it is too long");
    assert_eq!((error.operation, error.context), (Operation::Recv, world.context()));
    assert_eq!((error.peer(), error.tag(), error.bytes_done), (Some(Rank(0)), Some(Tag(4)), 10));
    let words = error.to_string();
    assert!(words.starts_with("recv with rank 0, tag 4, communicator 0: truncated"), "{words}");
    assert!(size_of::<Error>() <= 64);
    Ok(())
}

fn a_deadline_ends_a_receive_without_a_sender<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [7_u8; 8]);
    let other = Rank(1 - world.rank().0);
    let limit = Duration::from_micros(500);
    let error = ep.within(limit).recv(&world, &mut buffer, other, Tag(1)).expect_err("no rank sends");
    assert_eq!((error.cause, error.peer(), error.tag()), (Cause::TimedOut, Some(other), Some(Tag(1))));
    assert!(error.elapsed_ns >= limit.as_nanos() as u64);
    assert_eq!(cause(ep.within(limit).probe(&world, Source::Any, Tag(1))), Some(Cause::TimedOut));
    assert_eq!((buffer, ep.diagnostics().queue_depths().0), ([7; 8], 0), "it is not posted any more");
    // What comes later is not lost on it. No rank sends before both have given up.
    barrier().run(ep, &world)?;
    ep.sendrecv(&world, &[1_u8; 8], other, Tag(1), &mut buffer, other, Tag(1))?;
    assert_eq!(buffer, [1; 8]);
    Ok(())
}

fn a_deadline_ends_a_synchronous_send_without_a_receiver<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        let error = ep.within(Duration::from_micros(500)).ssend(&world, &[1_u8; 8], Rank(1), Tag(1));
        assert_eq!(cause(error), Some(Cause::TimedOut));
        ep.send(&world, &[2_u8; 8], Rank(1), Tag(2))?;
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(3))?;
        return Ok(());
    }
    let mut buffer = [0_u8; 8];
    ep.recv(&world, &mut buffer, Rank(0), Tag(2))?;
    assert_eq!(buffer, [2; 8], "the endpoint is as good as before");
    // The announcement that was withdrawn: whether it is still here, its sender decides.
    let withdrawn = ep.within(Duration::from_millis(1)).recv(&world, &mut buffer, Rank(0), Tag(1));
    assert!(matches!(cause(withdrawn), Some(Cause::Withdrawn | Cause::TimedOut)));
    ep.send::<u8>(&world, &[], Rank(0), Tag(3))?;
    Ok(())
}

fn requests_beyond_the_table_are_refused_and_fit_later<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut buffers = vec![[0_u8]; 2000];
    ep.scope(|scope| {
        let (mut requests, mut buffers) = (Vec::new(), (0..).zip(&mut buffers));
        let full = loop {
            let (tag, buffer) = buffers.next().expect("no table has so many");
            match scope.irecv(&world, buffer, Rank(0), Tag(tag)) {
                Ok(request) => requests.push(request),
                Err(error) => break error.cause,
            }
        };
        assert_eq!(full, Cause::Full(Resource::Requests));
        assert!(requests.len() > 5 && scope.cancel(&mut requests[5]));
        let (tag, buffer) = buffers.next().expect("no table has so many");
        requests[5] = scope.irecv(&world, buffer, Rank(0), Tag(tag))?;
        requests.iter_mut().for_each(|request| assert!(scope.cancel(request)));
        Ok(())
    })?;
    Ok(())
}

fn an_error_of_a_scope_is_that_of_its_request<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut short) = (ep.world(), [0_u8; 4]);
    let result = ep.scope(|scope| {
        drop(scope.irecv(&world, &mut short, Rank(0), Tag(1))?);
        drop(scope.isend(&world, &[1_u8; 5], Rank(0), Tag(1))?);
        Ok(())
    });
    assert_eq!(cause(result), Some(Cause::Truncated { sent: 5, room: 4 }), "the scope has waited for it");
    assert_eq!((short, ep.diagnostics().requests_in_use()), ([1; 4], 0));
    Ok(())
}

fn an_error_is_returned_unless_a_policy_says_more<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    for comm in [ep.world(), ep.itself()] {
        assert!(matches!(ep.comm(&comm).error_policy()?, Policy::Return), "nothing is fatal by itself");
        assert!(cause(ep.send(&comm, &[0_u8], Rank(9), Tag(1))).is_some());
        ep.sendrecv(&comm, &[1_u8], Rank(0), Tag(1), &mut [0_u8], Rank(0), Tag(1))?;
    }
    assert_eq!(ep.aborted(), None);
    Ok(())
}

thread_local! {
    /// Errors that this thread's rank was told of: of one rank, since the cases that count have
    /// one.
    static HEARD: Cell<u32> = const { Cell::new(0) };
}

fn hear(_: &Comm, _: &Error) {
    HEARD.set(HEARD.get() + 1);
}

fn a_callback_hears_of_each_error_once_and_of_nothing_else<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, itself, mut buffer) = (ep.world(), ep.itself(), [0_u8; 4]);
    HEARD.set(0);
    ep.comm_mut(&world).set_error_policy(Policy::Callback(hear))?;
    ep.sendrecv(&world, &[1_u8], Rank(0), Tag(1), &mut buffer, Rank(0), Tag(1))?;
    assert_eq!(HEARD.get(), 0, "all is well");
    assert!(cause(ep.send(&world, &[0_u8], Rank(9), Tag(1))).is_some());
    assert_eq!(HEARD.get(), 1);
    let long = ep.sendrecv(&world, &[1_u8; 5], Rank(0), Tag(1), &mut buffer, Rank(0), Tag(1));
    assert_eq!(cause(long), Some(Cause::Truncated { sent: 5, room: 4 }));
    assert_eq!(HEARD.get(), 2);
    assert!(cause(ep.send(&itself, &[0_u8], Rank(9), Tag(1))).is_some());
    assert_eq!(HEARD.get(), 2, "that was another communicator");
    ep.comm_mut(&world).set_error_policy(Policy::Return)?;
    assert!(cause(ep.send(&world, &[0_u8], Rank(9), Tag(1))).is_some());
    assert_eq!(HEARD.get(), 2);
    Ok(())
}

fn what_is_made_of_a_communicator_has_its_policy<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let before = dup(ep, &world)?;
    ep.comm_mut(&world).set_error_policy(Policy::Abort { code: 70 })?;
    let after = dup(ep, &world)?;
    ep.comm_mut(&world).set_error_policy(Policy::Return)?;
    assert!(matches!(ep.comm(&before).error_policy()?, Policy::Return));
    assert!(matches!(ep.comm(&after).error_policy()?, Policy::Abort { code: 70 }));
    free(ep, before)?;
    Ok(free(ep, after)?)
}
