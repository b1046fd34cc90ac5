//! Buffers for buffered sends: section 3.6, and 3.10 for exchanges that use one.

use aldis_coll::comm::{dup, free};
use aldis_hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.6", 1: a_communicator_has_memory_of_its_own;
    "3.6", 1: memory_is_attached_once_and_given_back;
    "3.6", 2: communicators_do_not_take_each_others_memory;
    "3.6", 2: a_flush_ends_when_everything_has_been_received;
    "3.6", 2: a_communicators_flush_waits_for_its_own_alone;
    "3.6", 2: memory_is_flushed_in_the_end;
    "3.6", 1: what_was_never_attached_is_flushed;
    "3.10", 2: what_is_sent_is_replaced_by_what_comes;
    "3.10", 5: tokens_go_round_a_ring_in_one_buffer;
    "3.10", 2: what_replaces_may_be_shorter;
    "3.10", 1: an_exchange_with_the_null_rank_replaces_nothing;
    "3.10", 1: an_exchange_without_memory_is_an_error_and_sends_nothing;
}

/// Memory for as long as the endpoint lives, whatever that is.
fn memory(bytes: usize) -> &'static mut [u8] {
    vec![0; bytes].leak()
}

fn refused<R>(result: Result<R, Error>) -> Cause {
    result.map(drop).expect_err("it is not allowed").cause
}

const FULL: Cause = Cause::Full(Resource::SendBuffer);

fn a_communicator_has_memory_of_its_own<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, itself, mut buffer) = (ep.world(), ep.itself(), [0; 200]);
    ep.send_buffer().of(&itself).attach(memory(100))?;
    let data = message(1, 200);
    assert_eq!(refused(ep.bsend(&world, &data[..100], Rank(0), Tag(1))), FULL, "the world has none");
    ep.send_buffer().attach(memory(200))?;
    assert_eq!(refused(ep.bsend(&itself, &data[..101], Rank(0), Tag(1))), FULL, "it has 100 bytes");
    ep.bsend(&itself, &data[..100], Rank(0), Tag(1))?;
    ep.bsend(&world, &data, Rank(0), Tag(1))?;
    for (comm, len) in [(world, 200), (itself, 100)] {
        assert_eq!(ep.recv(&comm, &mut buffer, Rank(0), Tag(1))?.bytes, len as u64);
        assert_eq!(buffer[..len], data[..len]);
    }
    assert_eq!(ep.send_buffer().of(&itself).detach()?.len(), 100);
    // Without one of its own it uses the endpoint's.
    ep.bsend(&itself, &data, Rank(0), Tag(1))?;
    ep.recv(&itself, &mut buffer, Rank(0), Tag(1))?;
    assert_eq!(ep.send_buffer().detach()?.len(), 200);
    Ok(())
}

fn memory_is_attached_once_and_given_back<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for bytes in [10, 20] {
        ep.send_buffer().of(&world).attach(memory(bytes))?;
        assert_eq!(refused(ep.send_buffer().of(&world).attach(&mut [])), Cause::Busy);
        assert_eq!(ep.send_buffer().of(&world).detach()?.len(), bytes);
        assert_eq!(ep.send_buffer().of(&world).detach()?.len(), 0, "nothing is attached any more");
    }
    let copy = dup(ep, &world)?;
    free(ep, copy)?;
    assert_eq!(refused(ep.send_buffer().of(&copy).attach(&mut [])), Cause::Stale);
    assert_eq!(refused(ep.send_buffer().of(&copy).detach()), Cause::Stale);
    assert_eq!(refused(ep.send_buffer().of(&copy).flush()), Cause::Stale);
    assert_eq!(refused(ep.send_buffer().of(&copy).is_flushed()), Cause::Stale);
    Ok(())
}

/// Messages that fill the memory of one leave that of the other alone; no rank receives before all
/// have been sent.
fn communicators_do_not_take_each_others_memory<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (one, other) = (dup(ep, &world)?, dup(ep, &world)?);
    let comms = [world, one, other];
    if world.rank() == Rank(0) {
        ep.send_buffer().attach(memory(3000))?;
        ep.send_buffer().of(&one).attach(memory(3000))?;
        ep.send_buffer().of(&other).attach(memory(3000))?;
        for (number, comm) in (0..).zip(&comms) {
            ep.bsend(comm, &message(number, 3000), Rank(1), Tag(1))?;
        }
        ep.send::<u8>(&world, &[], Rank(1), Tag(2))?;
        assert_eq!(ep.send_buffer().of(&other).detach()?.len(), 3000);
        assert_eq!(ep.send_buffer().of(&one).detach()?.len(), 3000);
        assert_eq!(ep.send_buffer().detach()?.len(), 3000);
    } else {
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(2))?;
        for (number, comm) in (0..3).zip(&comms).rev() {
            let mut buffer = vec![0; 3000];
            ep.recv(comm, &mut buffer, Rank(0), Tag(1))?;
            assert_eq!(buffer, message(number, 3000));
        }
    }
    free(ep, other)?;
    Ok(free(ep, one)?)
}

/// The memory has room for one message, and all of it is there again after a flush.
fn flushed<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    comm: &Comm,
    flush: impl Fn(&mut Endpoint<'_, T, P>) -> Result<(), Error>,
) -> Outcome {
    for (number, len) in (0..).zip(LENGTHS) {
        if comm.rank() == Rank(0) {
            ep.bsend(comm, &message(number, len), Rank(1), Tag(1))?;
            flush(ep)?;
            ep.bsend(comm, &message(number, 3000), Rank(1), Tag(2))?;
            flush(ep)?;
            continue;
        }
        for (tag, len) in [(1, len), (2, 3000)] {
            let mut buffer = vec![0; len];
            ep.recv(comm, &mut buffer, Rank(0), Tag(tag))?;
            assert_eq!(buffer, message(number, len));
        }
    }
    Ok(())
}

fn a_flush_ends_when_everything_has_been_received<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    ep.send_buffer().attach(memory(3000))?;
    flushed(ep, &world, |ep| ep.send_buffer().flush())?;
    assert_eq!(ep.send_buffer().detach()?.len(), 3000);
    ep.send_buffer().of(&world).attach(memory(3000))?;
    flushed(ep, &world, |ep| ep.send_buffer().of(&world).flush())?;
    assert_eq!(ep.send_buffer().of(&world).detach()?.len(), 3000);
    Ok(())
}

/// A message in the endpoint's memory is not received before the flush has ended.
fn a_communicators_flush_waits_for_its_own_alone<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let copy = dup(ep, &world)?;
    let data = message(7, 3000);
    if world.rank() == Rank(0) {
        ep.send_buffer().attach(memory(3000))?;
        ep.send_buffer().of(&copy).attach(memory(3000))?;
        ep.bsend(&world, &data, Rank(1), Tag(1))?;
        ep.bsend(&copy, &data, Rank(1), Tag(1))?;
        ep.send_buffer().of(&copy).flush()?;
        ep.send::<u8>(&world, &[], Rank(1), Tag(2))?;
        ep.send_buffer().flush()?;
        ep.send_buffer().of(&copy).detach()?;
        ep.send_buffer().detach()?;
    } else {
        let mut buffer = vec![0; 3000];
        ep.recv(&copy, &mut buffer, Rank(0), Tag(1))?;
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(2))?;
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, data);
    }
    Ok(free(ep, copy)?)
}

fn memory_is_flushed_in_the_end<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(1) {
        for (number, len) in (0..).zip([3000, 10, 400, 2000]) {
            let mut buffer = vec![0; len];
            ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert_eq!(buffer, message(number, len));
        }
        return Ok(());
    }
    ep.send_buffer().attach(memory(3010))?;
    ep.bsend(&world, &message(0, 3000), Rank(1), Tag(1))?;
    ep.bsend(&world, &message(1, 10), Rank(1), Tag(1))?;
    while !ep.send_buffer().is_flushed()? {}
    ep.send_buffer().of(&world).attach(memory(2400))?;
    ep.bsend(&world, &message(2, 400), Rank(1), Tag(1))?;
    ep.bsend(&world, &message(3, 2000), Rank(1), Tag(1))?;
    while !ep.send_buffer().of(&world).is_flushed()? {}
    assert_eq!((ep.send_buffer().of(&world).detach()?.len(), ep.send_buffer().detach()?.len()), (2400, 3010));
    Ok(())
}

fn what_was_never_attached_is_flushed<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    ep.send_buffer().flush()?;
    ep.send_buffer().of(&world).flush()?;
    assert!(ep.send_buffer().is_flushed()? && ep.send_buffer().of(&world).is_flushed()?);
    Ok(())
}

fn what_is_sent_is_replaced_by_what_comes<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, other) = (world.rank().0, 1 - world.rank().0);
    ep.send_buffer().attach(memory(3000))?;
    for (number, len) in (0..).zip(LENGTHS) {
        let mut buffer = message(2 * number + me, len);
        let (out, into) = (Tag(100 + me), Tag(100 + other));
        let status = ep.sendrecv_replace(&world, &mut buffer, Rank(other), out, Rank(other), into)?;
        assert_eq!((status.source, status.tag, status.bytes), (Rank(other), into, len as u64));
        assert_eq!(buffer, message(2 * number + other, len));
        // The next one needs all of the memory.
        ep.send_buffer().flush()?;
    }
    ep.send_buffer().detach()?;
    Ok(())
}

fn tokens_go_round_a_ring_in_one_buffer<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    ep.send_buffer().attach(memory(2 * 800))?;
    let mut token = [me; 200];
    for step in 1..=2 * size {
        ep.sendrecv_replace(&world, &mut token, next, Tag(step), previous, Tag(step))?;
        assert_eq!(token, [(me + 2 * size - step) % size; 200]);
        if step % 2 == 0 {
            ep.send_buffer().flush()?;
        }
    }
    ep.send_buffer().detach()?;
    Ok(())
}

fn what_replaces_may_be_shorter<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, other) = (world.rank().0, Rank(1 - world.rank().0));
    ep.send_buffer().attach(memory(60))?;
    let mut buffer = vec![me as u8 + 1; if me == 0 { 60 } else { 20 }];
    let went = ep.sendrecv_replace(&world, &mut buffer, other, Tag(1), Source::Any, TagMatch::Any);
    if me == 0 {
        assert_eq!(went?.bytes, 20);
        assert_eq!((&buffer[..20], &buffer[20..]), (&[2; 20][..], &[1; 40][..]), "the rest stays");
    } else {
        let error = went.expect_err("it is longer");
        assert_eq!(error.cause, Cause::Truncated { sent: 60, room: 20 });
        assert_eq!(error.operation, aldis_hal::Operation::SendRecv);
    }
    ep.send_buffer().detach()?;
    Ok(())
}

fn an_exchange_with_the_null_rank_replaces_nothing<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [9_u8; 30]);
    let status = ep.sendrecv_replace(&world, &mut buffer, Rank::NULL, Tag(1), Rank::NULL, Tag(1))?;
    assert_eq!((status.source, status.tag, status.bytes, buffer), (Rank::NULL, Tag::NONE, 0, [9; 30]));
    ep.send_buffer().attach(memory(30))?;
    // Sent to itself, received from the null process: the message is there, and the buffer as it
    // was.
    ep.sendrecv_replace(&world, &mut buffer, Rank(0), Tag(1), Rank::NULL, Tag(1))?;
    assert_eq!(buffer, [9; 30]);
    let mut got = [0_u8; 30];
    ep.sendrecv_replace(&world, &mut got, Rank::NULL, Tag(1), Rank(0), Tag(1))?;
    assert_eq!(got, [9; 30]);
    ep.send_buffer().detach()?;
    Ok(())
}

fn an_exchange_without_memory_is_an_error_and_sends_nothing<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [9_u8; 30]);
    for room in [0, 29] {
        ep.send_buffer().attach(memory(room))?;
        let error = ep.sendrecv_replace(&world, &mut buffer, Rank(0), Tag(1), Rank(0), Tag(1));
        let error = error.expect_err("there is no room for a copy");
        assert_eq!((error.cause, error.operation), (FULL, aldis_hal::Operation::SendRecv));
        assert!(ep.iprobe(&world, Source::Any, TagMatch::Any)?.is_none());
        assert_eq!(ep.send_buffer().detach()?.len(), room);
    }
    assert_eq!(buffer, [9; 30]);
    ep.sendrecv(&world, &[1_u8], Rank(0), Tag(1), &mut buffer[..1], Rank(0), Tag(1))?;
    Ok(())
}
