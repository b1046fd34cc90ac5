//! Blocking send and receive: section 3.2, and 3.10 for sends and receives at a time.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.2.1", 2: a_message_of_every_length_arrives_as_it_was_sent;
    "3.2.4", 2: a_message_may_be_shorter_than_its_buffer;
    "3.2.5", 3: a_status_tells_source_tag_and_length;
    "3.2.5", 2: a_count_is_of_whole_elements;
    "3.2.4", 1: a_rank_sends_to_itself;
    "3.2.3", 1: self_is_a_communicator_of_one;
    "3.2.2", 2: a_message_of_nothing_has_an_envelope;
    "3.2.3", 2: the_largest_tag_is_a_tag;
    "3.10", 2: two_ranks_exchange_messages_of_every_length;
    "3.10", 5: tokens_go_round_a_ring;
    "3.10", 3: what_is_sent_may_be_another_type_than_what_is_received;
    "3.10", 1: a_rank_exchanges_with_itself;
    "3.5", 4: every_rank_talks_to_every_other;
}

fn a_message_of_every_length_arrives_as_it_was_sent<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let due = message(number, len);
        if world.rank() == Rank(0) {
            ep.send(&world, &due, Rank(1), Tag(number))?;
        } else {
            let mut buffer = vec![0; len];
            ep.recv(&world, &mut buffer, Rank(0), Tag(number))?;
            assert_eq!(buffer, due);
        }
    }
    Ok(())
}

fn a_message_may_be_shorter_than_its_buffer<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        if world.rank() == Rank(0) {
            ep.send(&world, &message(number, len), Rank(1), Tag(1))?;
        } else {
            let mut buffer = vec![0xA5; len + 7];
            let status = ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert_eq!(status.bytes, len as u64);
            assert_eq!(buffer[..len], message(number, len));
            assert_eq!(buffer[len..], [0xA5; 7], "what is behind the message is not touched");
        }
    }
    Ok(())
}

fn a_status_tells_source_tag_and_length<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8; 500]);
    let me = world.rank();
    if me != Rank(0) {
        let sent = ep.send(&world, &message(me.0, 100 * me.0 as usize), Rank(0), Tag(70 + me.0))?;
        assert_eq!(sent.bytes, 100 * u64::from(me.0));
        return Ok(());
    }
    for rank in [2, 1] {
        let status = ep.recv(&world, &mut buffer, Rank(rank), TagMatch::Any)?;
        let told = (status.source, status.tag, status.bytes);
        assert_eq!(told, (Rank(rank), Tag(70 + rank), 100 * u64::from(rank)));
    }
    Ok(())
}

fn a_count_is_of_whole_elements<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8; 16]);
    if world.rank() == Rank(0) {
        ep.send(&world, &[1_u8; 12], Rank(1), Tag(1))?;
        return Ok(());
    }
    let status = ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
    assert_eq!((status.elements::<u8>(), status.elements::<u32>()), (Ok(12), Ok(3)));
    assert_eq!(status.elements::<u64>(), Err(Cause::PartialElement { bytes: 12, element: 8 }));
    Ok(())
}

fn a_rank_sends_to_itself<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (data, mut buffer) = (message(number, len), vec![0; len]);
        let status = ep.scope(|scope| {
            let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(number))?;
            let sending = scope.isend(&world, &data, Rank(0), Tag(number))?;
            scope.wait(sending)?;
            scope.wait(receiving)
        })?;
        assert_eq!((status.source, status.bytes), (Rank(0), len as u64));
        assert_eq!(buffer, data);
    }
    Ok(())
}

fn self_is_a_communicator_of_one<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, itself) = (ep.world(), ep.itself());
    assert_eq!((itself.size(), itself.rank()), (1, Rank(0)));
    let (mut one, mut other) = ([0_u8], [0_u8]);
    ep.scope(|scope| {
        let receiving = [
            scope.irecv(&itself, &mut one, Source::Any, TagMatch::Any)?,
            scope.irecv(&world, &mut other, Source::Any, TagMatch::Any)?,
        ];
        let mut sending =
            [scope.isend(&world, &[1_u8], Rank(0), Tag(1))?, scope.isend(&itself, &[2_u8], Rank(0), Tag(1))?];
        scope.wait_all(&mut sending)?;
        for receive in receiving {
            assert_eq!(scope.wait(receive)?.bytes, 1);
        }
        Ok(())
    })?;
    assert_eq!((one, other), ([2], [1]), "each has messages of its own");
    Ok(())
}

fn a_message_of_nothing_has_an_envelope<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [9_u8; 4]);
    if world.rank() == Rank(0) {
        for tag in [5, 6] {
            ep.send::<u8>(&world, &[], Rank(1), Tag(tag))?;
        }
        ep.send(&world, &[1_u8], Rank(1), Tag(5))?;
        return Ok(());
    }
    let status = ep.recv::<u8>(&world, &mut [], Rank(0), Tag(6))?;
    assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(6), 0));
    let lengths =
        [0; 2].map(|_: u64| ep.recv(&world, &mut buffer, Rank(0), Tag(5)).map(|status| status.bytes));
    assert_eq!(lengths, [Ok(0), Ok(1)], "it is a message among others");
    assert_eq!(buffer, [1, 9, 9, 9]);
    Ok(())
}

fn the_largest_tag_is_a_tag<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8]);
    assert!(Tag::MAX >= Tag(32767), "MPI_TAG_UB is at least that");
    if world.rank() == Rank(0) {
        ep.send(&world, &[1_u8], Rank(1), Tag::MAX)?;
        ep.send(&world, &[2_u8], Rank(1), Tag(0))?;
        return Ok(());
    }
    ep.recv(&world, &mut buffer, Rank(0), Tag(0))?;
    assert_eq!(buffer, [2]);
    let status = ep.recv(&world, &mut buffer, Rank(0), TagMatch::Any)?;
    assert_eq!((status.tag, buffer), (Tag::MAX, [1]));
    Ok(())
}

fn two_ranks_exchange_messages_of_every_length<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    // Both send first, whatever the length: a plain send and receive need not come to an end here.
    for (number, len) in (0..).zip(LENGTHS) {
        let mut buffer = vec![0; len];
        let data = message(2 * number + me.0, len);
        let status = ep.sendrecv(&world, &data, other, Tag(me.0), &mut buffer, other, Tag(other.0))?;
        assert_eq!((status.source, status.tag, status.bytes), (other, Tag(other.0), len as u64));
        assert_eq!(buffer, message(2 * number + other.0, len));
    }
    Ok(())
}

fn tokens_go_round_a_ring<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut token = [me; 40];
    for round in 1..=size {
        let mut from = [0; 40];
        ep.sendrecv(&world, &token, next, Tag(round), &mut from, previous, Tag(round))?;
        token = from;
        assert_eq!(token, [(me + size - round) % size; 40]);
    }
    assert_eq!(token, [me; 40], "it is back");
    Ok(())
}

fn what_is_sent_may_be_another_type_than_what_is_received<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    // Even ranks send numbers of eight bytes and receive bytes, and so on round.
    if me == 1 {
        let mut numbers = [0_u64; 3];
        let status =
            ep.sendrecv(&world, &[7_u8; 5], next, Tag(1), &mut numbers, Source::Any, TagMatch::Any)?;
        assert_eq!((status.source, numbers, status.elements::<u64>()), (previous, [8; 3], Ok(3)));
    } else {
        let mut bytes = [0_u8; 24];
        let status = ep.sendrecv(&world, &[8_u64; 3], next, Tag(2), &mut bytes, previous, TagMatch::Any)?;
        assert_eq!(status.bytes, if previous == Rank(1) { 5 } else { 24 });
    }
    Ok(())
}

fn a_rank_exchanges_with_itself<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (data, mut buffer) = (message(number, len), vec![0; len]);
        ep.sendrecv(&world, &data, Rank(0), Tag(1), &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, data);
    }
    Ok(())
}

fn every_rank_talks_to_every_other<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    for (number, len) in (0..).zip(LENGTHS) {
        let data = message(100 * number + me, len);
        let mut buffers = vec![vec![0; len]; size as usize];
        ep.scope(|scope| {
            let mut requests = Vec::new();
            for (from, buffer) in (0..).zip(&mut buffers) {
                requests.push(scope.irecv(&world, buffer, Rank(from), Tag(number))?);
            }
            for to in 0..size {
                requests.push(scope.isend(&world, &data, Rank(to), Tag(number))?);
            }
            scope.wait_all(&mut requests)
        })?;
        assert!((0..).zip(&buffers).all(|(from, buffer)| *buffer == message(100 * number + from, len)));
    }
    Ok(())
}
