//! Receives from any source and with any tag: section 3.2.4, and 3.5 for their order.

use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.2.4", 5: a_receive_from_any_source_tells_whose_message_it_got;
    "3.5", 5: each_senders_messages_stay_in_order_among_those_of_others;
    "3.5", 4: receives_of_everything_get_everything_once;
    "3.5", 2: the_first_receive_that_fits_gets_the_first_message;
    "3.5", 2: a_receive_of_one_tag_lets_all_others_pass;
    "3.2.4", 3: a_receive_from_one_rank_lets_all_others_pass;
    "3.5", 3: receives_with_and_without_wildcards_share_messages_by_the_rules;
    "3.2.4", 2: a_wildcard_finds_what_has_arrived_and_what_has_not;
    "3.2.4", 3: what_was_sent_to_oneself_is_received_after_all_others_have_left;
}

fn a_receive_from_any_source_tells_whose_message_it_got<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    if me > 0 {
        ep.send(&world, &message(me, 10 * me as usize), Rank(0), Tag(9))?;
        return Ok(());
    }
    let (mut heard, mut buffer) = (vec![false; size as usize], [0; 100]);
    for _ in 1..size {
        let status = ep.recv(&world, &mut buffer, Source::Any, Tag(9))?;
        let (from, len) = (status.source.0, status.bytes as usize);
        assert_eq!((len, &buffer[..len]), (10 * from as usize, &message(from, len)[..]));
        assert!(!core::mem::replace(&mut heard[from as usize], true), "rank {from} has sent once");
    }
    Ok(())
}

fn each_senders_messages_stay_in_order_among_those_of_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let length = |number: u32| LENGTHS[(number as usize + 4) * 5 % LENGTHS.len()];
    if me > 0 {
        let data: Vec<_> = (0..12).map(|number| message(100 * me + number, length(number))).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (number, data) in (0..).zip(&data) {
                sends.push(scope.isend(&world, data, Rank(0), Tag(number % 3))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    let (mut next, mut buffer) = (vec![0; size as usize], vec![0; 3000]);
    for _ in 0..12 * (size - 1) {
        let status = ep.recv(&world, &mut buffer, Source::Any, TagMatch::Any)?;
        let (from, len) = (status.source.0, status.bytes as usize);
        let number = &mut next[from as usize];
        assert_eq!(status.tag, Tag(*number % 3));
        assert_eq!(buffer[..len], message(100 * from + *number, length(*number)), "{number} of rank {from}");
        *number += 1;
    }
    Ok(())
}

fn receives_of_everything_get_everything_once<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let mut buffers = vec![[0_u32; 2]; 6 * (size as usize - 1)];
    let data: Vec<[u32; 2]> = (0..6).map(|number| [me, number]).collect();
    // Every rank sends to every other, and takes whatever comes.
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for buffer in &mut buffers {
            requests.push(scope.irecv(&world, buffer, Source::Any, TagMatch::Any)?);
        }
        for data in &data {
            for to in (0..size).filter(|to| *to != me) {
                requests.push(scope.isend(&world, data, Rank(to), Tag(data[1]))?);
            }
        }
        scope.wait_all(&mut requests)
    })?;
    for from in (0..size).filter(|from| *from != me) {
        let numbers: Vec<u32> = buffers.iter().filter(|got| got[0] == from).map(|got| got[1]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5], "those of rank {from}, in the order of posting");
    }
    Ok(())
}

fn the_first_receive_that_fits_gets_the_first_message<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(99))?;
        for (number, tag) in [7, 5, 5, 6].into_iter().enumerate() {
            ep.send(&world, &[number as u8 + 1], Rank(1), Tag(tag))?;
        }
        return Ok(());
    }
    let mut got = [[0_u8]; 4];
    ep.scope(|scope| {
        let [a, b, c, d] = &mut got;
        let mut receives = [
            scope.irecv(&world, a, Source::Any, Tag(5))?,
            scope.irecv(&world, b, Rank(0), TagMatch::Any)?,
            scope.irecv(&world, c, Rank(0), Tag(5))?,
            scope.irecv(&world, d, Source::Any, TagMatch::Any)?,
        ];
        let posted = scope.isend::<u8>(&world, &[], Rank(0), Tag(99))?;
        scope.wait(posted)?;
        scope.wait_all(&mut receives)
    })?;
    assert_eq!(got, [[2], [1], [3], [4]]);
    Ok(())
}

fn a_receive_of_one_tag_lets_all_others_pass<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u32]);
    if world.rank() == Rank(0) {
        let data: Vec<[u32; 1]> = (0..20).map(|tag| [tag]).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for data in &data {
                sends.push(scope.isend(&world, data, Rank(1), Tag(data[0]))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    for tag in (0..20).rev() {
        let status = ep.recv(&world, &mut buffer, Source::Any, Tag(tag))?;
        assert_eq!((status.tag, buffer), (Tag(tag), [tag]));
    }
    Ok(())
}

fn a_receive_from_one_rank_lets_all_others_pass<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u32]);
    let me = world.rank().0;
    if me > 0 {
        for number in 0..6 {
            ep.send(&world, &[100 * me + number], Rank(0), Tag(number))?;
        }
        return Ok(());
    }
    for from in [2, 1] {
        for number in 0..6 {
            let status = ep.recv(&world, &mut buffer, Rank(from), TagMatch::Any)?;
            assert_eq!((status.source, buffer), (Rank(from), [100 * from + number]));
        }
    }
    Ok(())
}

fn receives_with_and_without_wildcards_share_messages_by_the_rules<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let me = world.rank().0;
    if me > 0 {
        ep.recv::<u8>(&world, &mut [], Rank(0), Tag(99))?;
        for number in 0..2 {
            ep.send(&world, &[10 * me + number], Rank(0), Tag(1))?;
        }
        return Ok(());
    }
    // Rank 1's first message must go to the receive for it that was posted before the wildcards;
    // rank 2's may not.
    let mut got = [[0_u32]; 4];
    ep.scope(|scope| {
        let [own, any, other, last] = &mut got;
        let mut receives = [
            scope.irecv(&world, own, Rank(1), Tag(1))?,
            scope.irecv(&world, any, Source::Any, Tag(1))?,
            scope.irecv(&world, other, Source::Any, TagMatch::Any)?,
            scope.irecv(&world, last, Source::Any, Tag(1))?,
        ];
        for to in [1, 2] {
            let go = scope.isend::<u8>(&world, &[], Rank(to), Tag(99))?;
            scope.wait(go)?;
        }
        scope.wait_all(&mut receives)
    })?;
    assert_eq!(got[0], [10]);
    let rest: Vec<u32> = got[1..].iter().map(|got| got[0]).collect();
    let legal: [&[u32]; 3] = [&[11, 20, 21], &[20, 11, 21], &[20, 21, 11]];
    assert!(legal.contains(&&rest[..]), "{rest:?}");
    Ok(())
}

fn a_wildcard_finds_what_has_arrived_and_what_has_not<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let due = message(number, len);
        if world.rank() == Rank(0) {
            ep.send(&world, &due, Rank(1), Tag(number))?;
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(99))?;
            ep.send(&world, &due, Rank(1), Tag(number))?;
            continue;
        }
        ep.probe(&world, Source::Any, TagMatch::Any)?;
        let (mut first, mut second) = (vec![0; len], vec![0; len]);
        ep.recv(&world, &mut first, Source::Any, TagMatch::Any)?;
        ep.scope(|scope| {
            let receiving = scope.irecv(&world, &mut second, Source::Any, TagMatch::Any)?;
            let go = scope.isend::<u8>(&world, &[], Rank(0), Tag(99))?;
            scope.wait(go)?;
            assert_eq!(scope.wait(receiving)?.tag, Tag(number));
            Ok(())
        })?;
        assert!(first == due && second == due);
    }
    Ok(())
}

/// Seed 99 of "all ranks flood all" over messages found this: a wildcard failed because all other
/// ranks had left, while a message to oneself was still under way.
fn what_was_sent_to_oneself_is_received_after_all_others_have_left<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() != Rank(0) {
        ep.send::<u8>(&world, &[], Rank(0), Tag(1))?;
        return Ok(());
    }
    for _ in 1..world.size() {
        ep.recv::<u8>(&world, &mut [], Source::Any, Tag(1))?;
    }
    let data: Vec<_> = (0..30).map(|number| message(number, 37 * number as usize % 300)).collect();
    let mut buffers: Vec<_> = data.iter().map(|data| vec![0; data.len()]).collect();
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for data in &data {
            requests.push(scope.isend(&world, data, Rank(0), Tag(2))?);
        }
        for buffer in &mut buffers {
            requests.push(scope.irecv(&world, buffer, Source::Any, TagMatch::Any)?);
        }
        scope.wait_all(&mut requests)
    })?;
    assert!(buffers == data);
    Ok(())
}
