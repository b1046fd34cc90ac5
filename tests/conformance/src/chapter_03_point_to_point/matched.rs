//! Matching probe and matched receives: sections 3.8.2 and 3.8.3.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.8.2", 2: a_matched_message_is_received_by_its_token_and_by_nothing_else;
    "3.8.2", 2: matched_probes_take_messages_in_their_order;
    "3.8.2", 3: a_matched_probe_of_any_source_tells_whose_message_it_got;
    "3.8.2", 2: improbe_finds_a_message_in_the_end;
    "3.8.3", 2: matched_messages_are_received_in_any_order;
    "3.8.3", 2: a_matched_message_too_long_for_its_buffer_is_cut;
    "3.8.2", 1: a_matched_probe_of_the_null_rank_completes_immediately;
    "3.8.3", 2: matched_receives_are_requests_like_others;
    "3.8.2", 2: a_matched_message_is_probed_and_cancelled_no_more;
    "3.8.2", 2: a_matched_message_that_is_discarded_is_over_for_its_sender;
    "3.8.2", 2: a_synchronous_send_is_over_when_its_message_is_received;
}

fn a_matched_message_is_received_by_its_token_and_by_nothing_else<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (first, second) = (message(number, len), message(number + 100, len));
        if world.rank() == Rank(0) {
            ep.scope(|scope| {
                let mut sends = [
                    scope.isend(&world, &first, Rank(1), Tag(1))?,
                    scope.isend(&world, &second, Rank(1), Tag(1))?,
                ];
                scope.wait_all(&mut sends)
            })?;
            continue;
        }
        let matched = ep.mprobe(&world, Rank(0), Tag(1))?;
        let status = matched.status();
        assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(1), len as u64));
        // The next receive gets the next message: the first has left the queues.
        let (mut one, mut two) = (vec![0; len], vec![0; len]);
        ep.recv(&world, &mut two, Source::Any, TagMatch::Any)?;
        assert_eq!(ep.mrecv(matched, &mut one)?.bytes, len as u64);
        assert!(one == first && two == second);
    }
    Ok(())
}

fn matched_probes_take_messages_in_their_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let length = |number: u32| LENGTHS[number as usize * 4 % LENGTHS.len()];
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..12).map(|number| message(number, length(number))).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (number, data) in (0..).zip(&data) {
                sends.push(scope.isend(&world, data, Rank(1), Tag(number % 2))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    for number in 0..12 {
        let matched = ep.mprobe(&world, Source::Any, TagMatch::Any)?;
        assert_eq!(matched.status().tag, Tag(number % 2));
        let mut buffer = vec![0; length(number)];
        ep.mrecv(matched, &mut buffer)?;
        assert_eq!(buffer, message(number, length(number)), "message {number}");
    }
    Ok(())
}

fn a_matched_probe_of_any_source_tells_whose_message_it_got<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let me = world.rank().0;
    if me > 0 {
        for number in 0..6 {
            ep.send(&world, &message(10 * me + number, (40 * me + number) as usize), Rank(0), Tag(number))?;
        }
        return Ok(());
    }
    let mut next = [0; 3];
    for _ in 0..12 {
        let matched = ep.mprobe(&world, Source::Any, TagMatch::Any)?;
        let (from, number) = (matched.status().source.0, matched.status().tag.0);
        assert_eq!(number, next[from as usize], "in the order of sending");
        let mut buffer = vec![0; matched.status().bytes as usize];
        ep.mrecv(matched, &mut buffer)?;
        assert_eq!(buffer, message(10 * from + number, (40 * from + number) as usize));
        next[from as usize] += 1;
    }
    Ok(())
}

fn improbe_finds_a_message_in_the_end<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        if world.rank() == Rank(0) {
            ep.send(&world, &message(number, len), Rank(1), Tag(number))?;
            continue;
        }
        let matched = loop {
            if let Some(matched) = ep.improbe(&world, Rank(0), Tag(number))? {
                break matched;
            }
        };
        let mut buffer = vec![0; len];
        ep.mrecv(matched, &mut buffer)?;
        assert_eq!(buffer, message(number, len));
    }
    Ok(())
}

fn matched_messages_are_received_in_any_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let length = |number: u32| [3, 700, 30, 0, 64][number as usize];
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..5).map(|number| message(number, length(number))).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for data in &data {
                sends.push(scope.isend(&world, data, Rank(1), Tag(1))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    let mut matched = Vec::new();
    for _ in 0..5 {
        matched.push(ep.mprobe(&world, Rank(0), Tag(1))?);
    }
    for number in (0..5).rev() {
        let mut buffer = vec![0; length(number)];
        ep.mrecv(matched.remove(number as usize), &mut buffer)?;
        assert_eq!(buffer, message(number, length(number)));
    }
    Ok(())
}

fn a_matched_message_too_long_for_its_buffer_is_cut<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for len in [8_usize, 60, 900] {
        if world.rank() == Rank(0) {
            ep.send(&world, &vec![6_u8; len], Rank(1), Tag(1))?;
            continue;
        }
        let matched = ep.mprobe(&world, Rank(0), Tag(1))?;
        let mut buffer = vec![0_u8; len - 1];
        let error = ep.mrecv(matched, &mut buffer).expect_err("it is longer");
        assert_eq!(error.cause, Cause::Truncated { sent: len as u64, room: len as u64 - 1 });
        assert!(buffer.iter().all(|byte| *byte == 6));
    }
    Ok(())
}

fn a_matched_probe_of_the_null_rank_completes_immediately<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [7_u8; 4]);
    let matched = ep.mprobe(&world, Rank::NULL, TagMatch::Any)?;
    let status = ep.mrecv(matched, &mut buffer)?;
    assert_eq!((status.source, status.tag, status.bytes, buffer), (Rank::NULL, Tag::NONE, 0, [7; 4]));
    Ok(())
}

fn matched_receives_are_requests_like_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let data: Vec<_> = (0..).zip(LENGTHS).map(|(number, len)| message(number, len)).collect();
    if world.rank() == Rank(0) {
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for data in &data {
                sends.push(scope.isend(&world, data, Rank(1), Tag(1))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    let mut buffers: Vec<_> = LENGTHS.iter().map(|len| vec![0; *len]).collect();
    ep.scope(|scope| {
        let mut requests = Vec::new();
        // Every other one is matched first; the messages behind it are for plain receives.
        for (index, buffer) in buffers.iter_mut().enumerate() {
            requests.push(if index % 2 == 0 {
                let matched = scope.mprobe(&world, Source::Any, TagMatch::Any)?;
                assert_eq!(matched.status().bytes, LENGTHS[index] as u64);
                scope.imrecv(matched, buffer)?
            } else {
                scope.irecv(&world, buffer, Rank(0), Tag(1))?
            });
        }
        scope.wait_all(&mut requests)
    })?;
    assert_eq!(buffers, data);
    Ok(())
}

fn a_matched_message_is_probed_and_cancelled_no_more<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (due, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            ep.send(&world, &due, Rank(1), Tag(1))?;
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
            continue;
        }
        ep.scope(|scope| {
            let matched = scope.mprobe(&world, Rank(0), Tag(1))?;
            assert!(scope.iprobe(&world, Source::Any, TagMatch::Any)?.is_none());
            assert!(scope.improbe(&world, Rank(0), Tag(1))?.is_none());
            let mut receiving = scope.imrecv(matched, &mut buffer)?;
            assert!(!scope.cancel(&mut receiving), "it has its message");
            assert!(!scope.wait(receiving)?.is_cancelled());
            let telling = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
            scope.wait(telling)
        })?;
        assert_eq!(buffer, due);
    }
    Ok(())
}

fn a_matched_message_that_is_discarded_is_over_for_its_sender<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        if world.rank() == Rank(0) {
            // A send that is over only when a receive has taken its message may be told that no
            // receive wants it.
            let sent = ep.ssend(&world, &message(number, len), Rank(1), Tag(1));
            assert!(matches!(sent.map_err(|error| error.cause), Ok(_) | Err(Cause::Declined)));
            ep.send(&world, &message(number, len), Rank(1), Tag(1))?;
            continue;
        }
        let matched = ep.mprobe(&world, Rank(0), Tag(1))?;
        ep.discard_matched(matched)?;
        let mut buffer = vec![0; len];
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, message(number, len), "the next one");
    }
    Ok(())
}

fn a_synchronous_send_is_over_when_its_message_is_received<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (due, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            assert_eq!(ep.ssend(&world, &due, Rank(1), Tag(1))?.bytes, len as u64);
            continue;
        }
        let matched = ep.mprobe(&world, Rank(0), Tag(1))?;
        ep.mrecv(matched, &mut buffer)?;
        assert_eq!(buffer, due);
    }
    Ok(())
}
