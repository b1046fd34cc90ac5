//! Semantics of point-to-point communication: section 3.5, order and progress; and that
//! communicators keep messages apart, section 3.2.3.

use aldis_coll::comm::{dup, free};
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.5", 2: messages_do_not_overtake_whatever_their_length;
    "3.5", 2: receives_that_wait_are_met_in_the_order_of_their_posting;
    "3.5", 2: messages_of_two_tags_are_each_in_order;
    "3.5", 2: a_receive_of_any_tag_sees_the_order_of_sending;
    "3.5", 2: a_long_message_comes_before_the_short_one_behind_it;
    "3.5", 1: messages_to_oneself_keep_their_order;
    "3.5", 2: the_second_message_may_be_received_first_by_its_tag;
    "3.5", 3: a_pair_that_matches_completes_whatever_else_waits;
    "3.5", 2: a_message_that_is_cut_short_is_one_message;
    "3.2.3", 2: communicators_have_messages_of_their_own;
    "3.2.3", 2: each_communicator_keeps_an_order_of_its_own;
    "3.5", 3: a_message_may_arrive_before_one_that_caused_it;
}

/// The number of messages.
const MANY: u32 = 30;

/// A length for message `number`: all of them, mixed.
fn length(number: u32) -> usize {
    LENGTHS[(number as usize * 7 + 3) % LENGTHS.len()]
}

/// Sends all messages at a time, with the tag of each.
fn send_all<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    comm: &Comm,
    to: Rank,
    tag: impl Fn(u32) -> Tag,
) -> Result<(), Error> {
    let data: Vec<_> = (0..MANY).map(|number| message(number, length(number))).collect();
    ep.scope(|scope| {
        let mut sends = Vec::new();
        for (number, data) in (0..).zip(&data) {
            sends.push(scope.isend(comm, data, to, tag(number))?);
        }
        scope.wait_all(&mut sends)
    })
}

/// A message that is due.
struct DueNumber(u32);

impl DueNumber {
    /// Receives a message that must be this one.
    fn receive<T: Transport, P: Platform>(
        self,
        ep: &mut Endpoint<'_, T, P>,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Tag, Error> {
        let Self(number) = self;
        let mut buffer = vec![0; length(number) + 1];
        let status = ep.recv(comm, &mut buffer, from, tag)?;
        buffer.truncate(status.bytes as usize);
        assert_eq!(buffer, message(number, length(number)), "message {number} was due");
        Ok(status.tag)
    }
}

fn messages_do_not_overtake_whatever_their_length<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        return Ok(send_all(ep, &world, Rank(1), |_| Tag(1))?);
    }
    for number in 0..MANY {
        DueNumber(number).receive(ep, &world, Rank(0), Tag(1))?;
    }
    Ok(())
}

fn receives_that_wait_are_met_in_the_order_of_their_posting<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
        return Ok(send_all(ep, &world, Rank(1), |_| Tag(1))?);
    }
    let mut buffers = vec![vec![0; 3000]; MANY as usize];
    let lengths = ep.scope(|scope| {
        let mut receives = Vec::new();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            // Some of them would take any message: that makes no difference here.
            receives.push(match number % 3 {
                0 => scope.irecv(&world, buffer, Source::Any, Tag(1))?,
                1 => scope.irecv(&world, buffer, Rank(0), TagMatch::Any)?,
                _ => scope.irecv(&world, buffer, Rank(0), Tag(1))?,
            });
        }
        let posted = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
        scope.wait(posted)?;
        receives
            .into_iter()
            .map(|receive| Ok(scope.wait(receive)?.bytes as usize))
            .collect::<Result<Vec<_>, _>>()
    })?;
    for ((number, buffer), len) in (0..).zip(&buffers).zip(lengths) {
        assert_eq!(buffer[..len], message(number, length(number)), "receive {number}");
    }
    Ok(())
}

fn messages_of_two_tags_are_each_in_order<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let is_odd = |number: &u32| number % 2 == 1;
    if world.rank() == Rank(0) {
        return Ok(send_all(ep, &world, Rank(1), |number| Tag(number % 2))?);
    }
    for number in (0..MANY).filter(is_odd) {
        DueNumber(number).receive(ep, &world, Rank(0), Tag(1))?;
    }
    for number in (0..MANY).filter(|number| !is_odd(number)) {
        DueNumber(number).receive(ep, &world, Rank(0), Tag(0))?;
    }
    Ok(())
}

fn a_receive_of_any_tag_sees_the_order_of_sending<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let tag = |number: u32| Tag(number * 13 % 7);
    if world.rank() == Rank(0) {
        return Ok(send_all(ep, &world, Rank(1), tag)?);
    }
    for number in 0..MANY {
        assert_eq!(DueNumber(number).receive(ep, &world, Rank(0), TagMatch::Any)?, tag(number));
    }
    Ok(())
}

fn a_long_message_comes_before_the_short_one_behind_it<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, long, short) = (ep.world(), message(1, 20_000), message(2, 3));
    if world.rank() == Rank(0) {
        ep.scope(|scope| {
            let mut sends =
                [scope.isend(&world, &long, Rank(1), Tag(1))?, scope.isend(&world, &short, Rank(1), Tag(1))?];
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    let (mut first, mut second) = (vec![0; 20_000], vec![0; 3]);
    assert_eq!(ep.recv(&world, &mut first, Rank(0), Tag(1))?.bytes, 20_000);
    assert_eq!(ep.recv(&world, &mut second, Rank(0), Tag(1))?.bytes, 3);
    assert!(first == long && second == short);
    Ok(())
}

fn messages_to_oneself_keep_their_order<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let data: Vec<_> = (0..MANY).map(|number| message(number, length(number))).collect();
    let mut buffers: Vec<_> = data.iter().map(|data| vec![0; data.len()]).collect();
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for data in &data {
            requests.push(scope.isend(&world, data, Rank(0), Tag(1))?);
        }
        for buffer in &mut buffers {
            requests.push(scope.irecv(&world, buffer, Source::Any, Tag(1))?);
        }
        scope.wait_all(&mut requests)
    })?;
    assert!(buffers == data);
    Ok(())
}

/// Example 3.6 of the standard, and the same with a synchronous send.
fn the_second_message_may_be_received_first_by_its_tag<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for len in LENGTHS {
        let (first, second) = (message(1, len), message(2, len));
        if world.rank() == Rank(0) {
            ep.scope(|scope| {
                let mut sends = [
                    scope.isend(&world, &first, Rank(1), Tag(1))?,
                    scope.issend(&world, &second, Rank(1), Tag(2))?,
                ];
                scope.wait_all(&mut sends)
            })?;
            continue;
        }
        let (mut one, mut two) = (vec![0; len], vec![0; len]);
        ep.recv(&world, &mut two, Rank(0), Tag(2))?;
        ep.recv(&world, &mut one, Rank(0), Tag(1))?;
        assert!(one == first && two == second);
    }
    Ok(())
}

fn a_pair_that_matches_completes_whatever_else_waits<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let me = world.rank().0;
    let (mut late, mut buffer) = (vec![[0_u8; 8]; 8], [0_u8; 8]);
    if me == 0 {
        // Eight receives that no sender serves until the last message, from another rank, is here.
        ep.scope(|scope| {
            let mut receives = Vec::new();
            for (tag, buffer) in (10..).zip(&mut late) {
                receives.push(scope.irecv(&world, buffer, Rank(1), Tag(tag))?);
            }
            let wanted = scope.irecv(&world, &mut buffer, Rank(2), Tag(1))?;
            scope.wait(wanted)?;
            let go = scope.isend::<u8>(&world, &[], Rank(1), Tag(2))?;
            scope.wait(go)?;
            scope.wait_all(&mut receives)
        })?;
        assert_eq!((buffer, &late[7]), ([2; 8], &[1; 8]));
    } else if me == 2 {
        ep.send(&world, &[2_u8; 8], Rank(0), Tag(1))?;
    } else {
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(2))?;
        for tag in (10..18).rev() {
            ep.send(&world, &[1_u8; 8], Rank(0), Tag(tag))?;
        }
    }
    Ok(())
}

fn a_message_that_is_cut_short_is_one_message<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for len in LENGTHS.into_iter().filter(|len| *len > 0) {
        let (first, second) = (message(1, len), message(2, len));
        if world.rank() == Rank(0) {
            ep.send(&world, &first, Rank(1), Tag(1))?;
            ep.send(&world, &second, Rank(1), Tag(1))?;
            continue;
        }
        let mut buffer = vec![0; len];
        let error = ep.recv(&world, &mut buffer[..len - 1], Rank(0), Tag(1)).expect_err("it is too long");
        assert_eq!(error.cause, Cause::Truncated { sent: len as u64, room: len as u64 - 1 });
        assert_eq!(buffer[..len - 1], first[..len - 1], "what there was room for is there");
        assert_eq!(buffer[len - 1], 0, "and nothing else");
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, second);
    }
    Ok(())
}

fn communicators_have_messages_of_their_own<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let copy = dup(ep, &world)?;
    if world.rank() == Rank(0) {
        let data = [message(0, length(0)), message(1, length(1))];
        ep.scope(|scope| {
            let mut sends = [
                scope.isend(&world, &data[0], Rank(1), Tag(1))?,
                scope.isend(&copy, &data[1], Rank(1), Tag(1))?,
            ];
            scope.wait_all(&mut sends)
        })?;
    } else {
        DueNumber(1).receive(ep, &copy, Source::Any, TagMatch::Any)?;
        DueNumber(0).receive(ep, &world, Source::Any, TagMatch::Any)?;
    }
    Ok(free(ep, copy)?)
}

fn each_communicator_keeps_an_order_of_its_own<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let copy = dup(ep, &world)?;
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..MANY).map(|number| message(number, length(number))).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (number, data) in data.iter().enumerate() {
                let comm = if number % 2 == 0 { &world } else { &copy };
                sends.push(scope.isend(comm, data, Rank(1), Tag(1))?);
            }
            scope.wait_all(&mut sends)
        })?;
    } else {
        for number in (1..MANY).step_by(2) {
            DueNumber(number).receive(ep, &copy, Rank(0), Tag(1))?;
        }
        for number in (0..MANY).step_by(2) {
            DueNumber(number).receive(ep, &world, Rank(0), Tag(1))?;
        }
    }
    Ok(free(ep, copy)?)
}

/// Order holds between two ranks and no more: what rank 0 sends and what rank 1 sends on are told
/// apart by their source, whichever comes first.
fn a_message_may_arrive_before_one_that_caused_it<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, long) = (ep.world(), message(5, 5000));
    match world.rank().0 {
        0 => ep.scope(|scope| {
            let mut sends = [
                scope.isend(&world, &long, Rank(2), Tag(1))?,
                scope.isend(&world, &[7_u8], Rank(1), Tag(1))?,
            ];
            scope.wait_all(&mut sends)
        })?,
        1 => {
            let mut word = [0_u8];
            ep.recv(&world, &mut word, Rank(0), Tag(1))?;
            ep.send(&world, &word, Rank(2), Tag(1))?;
        }
        _ => {
            let (mut word, mut buffer) = ([0_u8], vec![0; 5000]);
            ep.recv(&world, &mut word, Rank(1), Tag(1))?;
            ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert!(word == [7] && buffer == long);
        }
    }
    Ok(())
}
