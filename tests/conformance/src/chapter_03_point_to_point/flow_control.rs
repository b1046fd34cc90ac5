//! More than there is room for: sections 3.5 (progress, and that resources are bounded) and 3.6.
//! Senders flood a rank that posts nothing. Nothing is lost, no other rank is kept from exchanging
//! messages, and memory stays as it was, which `conformance::rank` checks of every case.

use aldis_coll::barrier;
use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Error, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::message;

cases! {
    "3.5", 3: a_flooded_rank_goes_on_talking_to_others;
    "3.5", 10: eight_flood_one_that_goes_on_talking_to_another;
    "3.5", 9: eight_flood_one_that_receives_from_any_source;
    "3.5", 5: a_storm_of_long_messages_is_received;
    "3.5", 2: two_ranks_flood_each_other;
    "3.5", 4: all_ranks_flood_all;
    "3.5", 2: the_last_of_a_flood_is_received_first;
    "3.5", 9: the_last_of_eight_floods_are_received_first_from_any_source;
    "3.5", 2: a_flood_that_is_not_received_in_order_is_received_backwards;
    "3.5", 3: a_flood_is_probed_for_its_last;
    "3.5", 2: a_sender_that_floods_can_still_receive;
}

const FLOOD: Tag = Tag(1);
const LAST: Tag = Tag(2);
const TALK: Tag = Tag(3);
/// Messages of a flood: with the request slots that there are, as many as can be outstanding, or
/// nearly.
const MANY: u32 = 50;

/// A length for a message of a flood: most are short, some are announced.
const fn length(number: u32) -> usize {
    [8, 0, 40, 8, 200, 24, 3, 900][number as usize % 8]
}

/// Starts `count` sends to `to` and one more, of nothing with the last tag, all at a time, and
/// waits for them.
fn flood<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    to: Rank,
    count: u32,
    length: impl Fn(u32) -> usize,
) -> Result<(), Error> {
    let world = ep.world();
    let me = world.rank().0;
    let data: Vec<_> = (0..count).map(|number| message(1000 * me + number, length(number))).collect();
    ep.scope(|scope| {
        let mut sends = Vec::new();
        for data in &data {
            sends.push(scope.isend(&world, data, to, FLOOD)?);
        }
        sends.push(scope.isend::<u8>(&world, &[], to, LAST)?);
        scope.wait_all(&mut sends)
    })
}

/// Floods of `count` messages from each of `senders`.
struct IncomingFloods<'a> {
    senders: &'a [u32],
    count: u32,
}

/// Receives floods, from any source or rank by rank.
fn drain<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    floods: &IncomingFloods<'_>,
    from_any: bool,
    length: impl Fn(u32) -> usize,
) -> Result<(), Error> {
    let world = ep.world();
    let &IncomingFloods { senders, count } = floods;
    let (mut next, mut buffer) = ([0; 16], vec![0; 3000]);
    for turn in 0..senders.len() as u32 * count {
        let rank = Rank(senders[(turn / count) as usize]);
        let from = if from_any { Source::Any } else { rank.into() };
        let status = ep.recv(&world, &mut buffer, from, FLOOD)?;
        let (source, len) = (status.source.0, status.bytes as usize);
        assert!(senders.contains(&source));
        let number = &mut next[source as usize];
        let due = message(1000 * source + *number, length(*number));
        assert_eq!(buffer[..len], due, "message {number} of rank {source}");
        *number += 1;
    }
    assert!(senders.iter().all(|sender| next[*sender as usize] == count));
    Ok(())
}

/// Takes the last message of each flood.
fn take_last<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, senders: &[u32]) -> Result<(), Error> {
    let world = ep.world();
    for sender in senders {
        ep.recv::<u8>(&world, &mut [], Rank(*sender), LAST)?;
    }
    Ok(())
}

/// Exchanges messages of growing length with another rank.
fn talk<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, other: Rank) -> Result<(), Error> {
    let world = ep.world();
    for round in 0..12 {
        let (data, mut buffer) = (message(round, 30 * round as usize), vec![0; 30 * round as usize]);
        ep.sendrecv(&world, &data, other, TALK, &mut buffer, other, TALK)?;
        assert_eq!(buffer, data);
    }
    Ok(())
}

fn a_flooded_rank_goes_on_talking_to_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    match ep.world().rank().0 {
        0 => {
            talk(ep, Rank(2))?;
            drain(ep, &IncomingFloods { senders: &[1], count: MANY }, false, length)?;
            take_last(ep, &[1])?;
        }
        1 => flood(ep, Rank(0), MANY, length)?,
        _ => talk(ep, Rank(0))?,
    }
    Ok(())
}

fn eight_flood_one_that_goes_on_talking_to_another<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let senders = [1, 2, 3, 4, 5, 6, 7, 8];
    match ep.world().rank().0 {
        0 => {
            talk(ep, Rank(9))?;
            drain(ep, &IncomingFloods { senders: &senders, count: 12 }, false, length)?;
            take_last(ep, &senders)?;
        }
        9 => talk(ep, Rank(0))?,
        _ => flood(ep, Rank(0), 12, length)?,
    }
    Ok(())
}

fn eight_flood_one_that_receives_from_any_source<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let senders = [1, 2, 3, 4, 5, 6, 7, 8];
    if ep.world().rank() == Rank(0) {
        drain(ep, &IncomingFloods { senders: &senders, count: 12 }, true, length)?;
        return Ok(take_last(ep, &senders)?);
    }
    Ok(flood(ep, Rank(0), 12, length)?)
}

fn a_storm_of_long_messages_is_received<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (senders, long) = ([1, 2, 3, 4], |number| 1000 + 300 * number as usize % 2000);
    if ep.world().rank() == Rank(0) {
        drain(ep, &IncomingFloods { senders: &senders, count: 8 }, true, long)?;
        return Ok(take_last(ep, &senders)?);
    }
    Ok(flood(ep, Rank(0), 8, long)?)
}

/// Both start all their sends before either posts a receive; a thread of their own is not needed
/// for that to come to an end, for nonblocking sends are no obligation to wait.
fn two_ranks_flood_each_other<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, other) = (world.rank().0, 1 - world.rank().0);
    let data: Vec<_> = (0..MANY).map(|number| message(1000 * me + number, length(number))).collect();
    let mut buffers: Vec<_> = (0..MANY).map(|number| vec![0; length(number)]).collect();
    ep.scope(|scope| {
        let mut sends = Vec::new();
        for data in &data {
            sends.push(scope.isend(&world, data, Rank(other), FLOOD)?);
        }
        for buffer in &mut buffers {
            let receiving = scope.irecv(&world, buffer, Rank(other), FLOOD)?;
            scope.wait(receiving)?;
        }
        scope.wait_all(&mut sends)
    })?;
    assert!((0..).zip(&buffers).all(|(number, got)| *got == message(1000 * other + number, length(number))));
    Ok(())
}

fn all_ranks_flood_all<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let data: Vec<_> = (0..12).map(|number| message(1000 * me + number, length(number))).collect();
    let mut buffers = vec![vec![0; 900]; 12 * size as usize];
    let statuses = ep.scope(|scope| {
        let (mut sends, mut statuses) = (Vec::new(), Vec::new());
        for data in &data {
            for to in 0..size {
                sends.push(scope.isend(&world, data, Rank(to), FLOOD)?);
            }
        }
        for buffer in &mut buffers {
            let receiving = scope.irecv(&world, buffer, Source::Any, TagMatch::Any)?;
            statuses.push(scope.wait(receiving)?);
        }
        scope.wait_all(&mut sends)?;
        Ok(statuses)
    })?;
    let mut next = vec![0; size as usize];
    for (status, buffer) in statuses.iter().zip(&buffers) {
        let (from, len) = (status.source.0, status.bytes as usize);
        let number = &mut next[from as usize];
        assert_eq!(buffer[..len], message(1000 * from + *number, length(*number)));
        *number += 1;
    }
    // A rank that left before could not be waited for any more.
    Ok(barrier().run(ep, &world)?)
}

fn the_last_of_a_flood_is_received_first<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    if ep.world().rank() == Rank(1) {
        return Ok(flood(ep, Rank(0), MANY, length)?);
    }
    take_last(ep, &[1])?;
    Ok(drain(ep, &IncomingFloods { senders: &[1], count: MANY }, false, length)?)
}

fn the_last_of_eight_floods_are_received_first_from_any_source<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, senders) = (ep.world(), [1, 2, 3, 4, 5, 6, 7, 8]);
    if world.rank() != Rank(0) {
        return Ok(flood(ep, Rank(0), 12, length)?);
    }
    let mut heard = [false; 9];
    for _ in senders {
        let status = ep.recv::<u8>(&world, &mut [], Source::Any, LAST)?;
        assert!(!core::mem::replace(&mut heard[status.source.0 as usize], true), "one of each");
    }
    Ok(drain(ep, &IncomingFloods { senders: &senders, count: 12 }, true, length)?)
}

fn a_flood_that_is_not_received_in_order_is_received_backwards<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(1) {
        let data: Vec<_> = (0..MANY).map(|number| message(number, length(number))).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (tag, data) in (0..).zip(&data) {
                sends.push(scope.isend(&world, data, Rank(0), Tag(tag))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    for number in (0..MANY).rev() {
        let mut buffer = vec![0; length(number)];
        ep.recv(&world, &mut buffer, Rank(1), Tag(number))?;
        assert_eq!(buffer, message(number, length(number)));
    }
    Ok(())
}

fn a_flood_is_probed_for_its_last<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    if world.rank() != Rank(0) {
        return Ok(flood(ep, Rank(0), 20, length)?);
    }
    assert_eq!(ep.probe(&world, Rank(2), LAST)?.bytes, 0);
    assert_eq!(ep.probe(&world, Rank(1), LAST)?.source, Rank(1));
    assert_eq!(ep.probe(&world, Rank(1), TagMatch::Any)?.bytes, length(0) as u64, "the first of all");
    take_last(ep, &[2, 1])?;
    Ok(drain(ep, &IncomingFloods { senders: &[1, 2], count: 20 }, true, length)?)
}

fn a_sender_that_floods_can_still_receive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        for number in 0..8 {
            ep.send(&world, &message(number, 200 * number as usize), Rank(1), TALK)?;
        }
        return Ok(drain(ep, &IncomingFloods { senders: &[1], count: MANY }, false, length)?);
    }
    let data: Vec<_> = (0..MANY).map(|number| message(1000 + number, length(number))).collect();
    let mut buffers: Vec<_> = (0..8).map(|number| vec![0; 200 * number]).collect();
    ep.scope(|scope| {
        let mut sends = Vec::new();
        for data in &data {
            sends.push(scope.isend(&world, data, Rank(0), FLOOD)?);
        }
        for buffer in &mut buffers {
            let receiving = scope.irecv(&world, buffer, Rank(0), TALK)?;
            scope.wait(receiving)?;
        }
        scope.wait_all(&mut sends)
    })?;
    assert!((0..).zip(&buffers).all(|(number, got)| *got == message(number, 200 * number as usize)));
    Ok(())
}
