//! Parts and rounds: sections 4.2.1 and 4.2.2.

use aldis_coll::comm::{dup, free};
use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{bytes_of, check, fill, message, shuffled};

cases! {
    "4.2.1", 2: parts_that_get_ready_in_any_order_are_one_message;
    "4.2.1", 2: both_sides_cut_as_they_like;
    "4.2.1", 2: ranges_and_lists_of_parts_get_ready;
    "4.2.2", 2: a_part_is_there_before_the_others_are_ready;
    "4.2.2", 2: a_part_that_is_not_ready_is_the_senders;
    "4.2.2", 2: a_part_of_the_last_round_has_arrived_until_the_next;
    "4.2.2", 2: a_round_is_over_when_all_its_parts_are;
    "4.2.1", 2: a_sender_that_starts_first_waits_for_its_receiver;
    "4.2.1", 2: requests_are_matched_in_the_order_of_their_making;
    "4.2.1", 2: parts_meet_no_other_message;
    "4.2.1", 3: communicators_tags_and_ranks_tell_requests_apart;
    "4.2.1", 5: parts_go_round_a_ring_beside_other_requests;
    "4.2.1", 1: a_rank_sends_parts_to_itself;
    "4.2.1", 1: parts_for_the_null_rank_are_over_at_once;
    "4.2.1", 2: messages_of_nothing_have_parts;
}

const TAG: Tag = Tag(4);

/// A few rounds of a message in so many parts, which get ready in an order that differs by round.
fn rounds<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    len: usize,
    own: u32,
    theirs: u32,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; len]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(0) {
            let mut sending = scope.psend_init(&world, memory, 0..len, own, Rank(1), TAG)?;
            for round in 0..4 {
                scope.start(&mut sending)?;
                for partition in shuffled(round, own) {
                    fill(scope, memory, bytes_of(partition, own, len), round)?;
                    scope.partitions(&sending).ready(partition)?;
                }
                assert_eq!(scope.wait_for(&mut sending)?.bytes, len as u64);
            }
            return Ok(());
        }
        let mut receiving = scope.precv_init(&world, memory, 0..len, theirs, Rank(0), TAG)?;
        for round in 0..4 {
            scope.start(&mut receiving)?;
            let status = scope.wait_for(&mut receiving)?;
            assert_eq!((status.source, status.tag, status.bytes), (Rank(0), TAG, len as u64));
            check(scope, memory, 0..len, round)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn parts_that_get_ready_in_any_order_are_one_message<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    for (partitions, len) in [(1, 1), (1, 900), (4, 4), (5, 60), (7, 2100), (64, 64), (64, 1280)] {
        rounds(ep, len, partitions, partitions)?;
    }
    Ok(())
}

fn both_sides_cut_as_they_like<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    for (own, theirs) in [(1, 12), (12, 1), (4, 6), (6, 4), (64, 5), (3, 64)] {
        rounds(ep, 960, own, theirs)?;
    }
    Ok(())
}

fn ranges_and_lists_of_parts_get_ready<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 800]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(1) {
            let mut receiving = scope.precv_init(&world, memory, 0..800, 2, Rank(0), TAG)?;
            scope.start(&mut receiving)?;
            scope.wait_for(&mut receiving)?;
            return check(scope, memory, 0..800, 9);
        }
        let mut sending = scope.psend_init(&world, memory, 0..800, 8, Rank(1), TAG)?;
        fill(scope, memory, 0..800, 9)?;
        scope.start(&mut sending)?;
        scope.partitions(&sending).ready_range(2..5)?;
        scope.partitions(&sending).ready_range(3..3)?;
        scope.partitions(&sending).ready_list(&[7, 0, 5])?;
        scope.partitions(&sending).ready_list(&[])?;
        assert!(scope.test(&mut sending)?.is_none(), "two parts are not ready");
        scope.partitions(&sending).ready_list(&[6, 1])?;
        scope.wait_for(&mut sending).map(drop)
    })?;
    Ok(())
}

/// The sender goes on when the receiver has told it of the part before.
fn a_part_is_there_before_the_others_are_ready<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    const PARTS: u32 = 4;
    let (world, len) = (ep.world(), 4 * 130);
    let mut memory = vec![0_u8; len];
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let other = Rank(1 - world.rank().0);
        let mut request = match world.rank() {
            Rank(0) => scope.psend_init(&world, memory, 0..len, PARTS, other, TAG)?,
            _ => scope.precv_init(&world, memory, 0..len, PARTS, other, TAG)?,
        };
        for round in 0..3 {
            scope.start(&mut request)?;
            let parts: Vec<u32> = shuffled(round, PARTS).collect();
            for (turn, &partition) in parts.iter().enumerate() {
                let bytes = bytes_of(partition, PARTS, len);
                if world.rank() == Rank(0) {
                    fill(scope, memory, bytes, round)?;
                    scope.partitions(&request).ready(partition)?;
                    let told = scope.irecv::<u8>(&world, &mut [], other, TAG)?;
                    scope.wait(told)?;
                    continue;
                }
                while !scope.partitions(&request).has_arrived(partition)? {}
                check(scope, memory, bytes, round)?;
                for later in &parts[turn + 1..] {
                    assert!(!scope.partitions(&request).has_arrived(*later)?, "it is not ready");
                }
                let telling = scope.isend::<u8>(&world, &[], other, TAG)?;
                scope.wait(telling)?;
            }
            scope.wait_for(&mut request)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn a_part_that_is_not_ready_is_the_senders<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 600]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(1) {
            let mut receiving = scope.precv_init(&world, memory, 0..600, 1, Rank(0), TAG)?;
            scope.start(&mut receiving)?;
            scope.wait_for(&mut receiving)?;
            return check(scope, memory, 0..600, 5);
        }
        let mut sending = scope.psend_init(&world, memory, 0..600, 3, Rank(1), TAG)?;
        scope.start(&mut sending)?;
        for partition in [1, 0, 2] {
            for draft in [3, 4, 5] {
                fill(scope, memory, bytes_of(partition, 3, 600), draft)?;
                scope.poll(8);
            }
            scope.partitions(&sending).ready(partition)?;
        }
        scope.wait_for(&mut sending).map(drop)
    })?;
    Ok(())
}

fn a_part_of_the_last_round_has_arrived_until_the_next<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 40]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(0) {
            let mut sending = scope.psend_init(&world, memory, 0..40, 2, Rank(1), TAG)?;
            for _ in 0..2 {
                scope.start(&mut sending)?;
                scope.partitions(&sending).ready_range(0..2)?;
                scope.wait_for(&mut sending)?;
                // The next round begins when the receiver has looked.
                let told = scope.irecv::<u8>(&world, &mut [], Rank(1), TAG)?;
                scope.wait(told)?;
            }
            return Ok(());
        }
        let mut receiving = scope.precv_init(&world, memory, 0..40, 4, Rank(0), TAG)?;
        for _ in 0..2 {
            scope.start(&mut receiving)?;
            scope.wait_for(&mut receiving)?;
            for partition in 0..4 {
                assert!(scope.partitions(&receiving).has_arrived(partition)?);
            }
            let telling = scope.isend::<u8>(&world, &[], Rank(0), TAG)?;
            scope.wait(telling)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn a_round_is_over_when_all_its_parts_are<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let other = Rank(1 - world.rank().0);
        if world.rank() == Rank(1) {
            let mut receiving = scope.precv_init(&world, memory, 0..300, 3, other, TAG)?;
            scope.start(&mut receiving)?;
            while !scope.partitions(&receiving).has_arrived(0)? {}
            assert!(scope.test(&mut receiving)?.is_none(), "two parts are not ready");
            let telling = scope.isend::<u8>(&world, &[], other, TAG)?;
            scope.wait(telling)?;
            while scope.test(&mut receiving)?.is_none() {}
            assert!(receiving.is_null(), "as one that was never started");
            return check(scope, memory, 0..300, 1);
        }
        fill(scope, memory, 0..300, 1)?;
        let mut sending = scope.psend_init(&world, memory, 0..300, 3, other, TAG)?;
        scope.start(&mut sending)?;
        scope.partitions(&sending).ready(0)?;
        let told = scope.irecv::<u8>(&world, &mut [], other, TAG)?;
        scope.wait(told)?;
        assert!(scope.test(&mut sending)?.is_none());
        scope.partitions(&sending).ready_range(1..3)?;
        while scope.test(&mut sending)?.is_none() {}
        Ok(())
    })?;
    Ok(())
}

/// No part may come before the receiver has started the round: until then the memory is its own.
fn a_sender_that_starts_first_waits_for_its_receiver<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 90]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(0) {
            fill(scope, memory, 0..90, 2)?;
            let mut sending = scope.psend_init(&world, memory, 0..90, 3, Rank(1), TAG)?;
            scope.start(&mut sending)?;
            scope.partitions(&sending).ready_range(0..3)?;
            let telling = scope.isend::<u8>(&world, &[], Rank(1), TAG)?;
            scope.wait(telling)?;
            return scope.wait_for(&mut sending).map(drop);
        }
        let mut receiving = scope.precv_init(&world, memory, 0..90, 3, Rank(0), TAG)?;
        let told = scope.irecv::<u8>(&world, &mut [], Rank(0), TAG)?;
        scope.wait(told)?;
        for _ in 0..20 {
            scope.poll(8);
        }
        scope.edit(memory, 0..90, |bytes| assert!(bytes.iter().all(|byte| *byte == 0)))?;
        scope.start(&mut receiving)?;
        scope.wait_for(&mut receiving)?;
        check(scope, memory, 0..90, 2)
    })?;
    Ok(())
}

/// Made in one order, started in the other.
fn requests_are_matched_in_the_order_of_their_making<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 300]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let (is_sender, other) = (world.rank() == Rank(0), Rank(1 - world.rank().0));
        let mut requests = Vec::new();
        for third in 0..3 {
            let bytes = bytes_of(third, 3, 300);
            requests.push(if is_sender {
                fill(scope, memory, bytes.clone(), third as usize)?;
                scope.psend_init(&world, memory, bytes, 2, other, TAG)?
            } else {
                scope.precv_init(&world, memory, bytes, 5, other, TAG)?
            });
        }
        for third in [2, 0, 1] {
            scope.start(&mut requests[third])?;
            if is_sender {
                scope.partitions(&requests[third]).ready_range(0..2)?;
            }
        }
        scope.wait_all(&mut requests)?;
        (0..3).try_for_each(|third| check(scope, memory, bytes_of(third, 3, 300), third as usize))
    })?;
    Ok(())
}

fn parts_meet_no_other_message<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory, mut plain) = (ep.world(), vec![0_u8; 120], [0_u8; 8]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(0) {
            fill(scope, memory, 0..120, 6)?;
            let mut sending = scope.psend_init(&world, memory, 0..120, 4, Rank(1), TAG)?;
            scope.start(&mut sending)?;
            scope.partitions(&sending).ready_range(0..4)?;
            let message = scope.isend(&world, &[8_u8; 8], Rank(1), TAG)?;
            scope.wait(message)?;
            return scope.wait_for(&mut sending).map(drop);
        }
        let any = scope.irecv(&world, &mut plain, Source::Any, TagMatch::Any)?;
        assert_eq!(scope.wait(any)?.bytes, 8, "the parts were announced before");
        assert!(scope.iprobe(&world, Source::Any, TagMatch::Any)?.is_none(), "parts are not probed");
        let mut receiving = scope.precv_init(&world, memory, 0..120, 3, Rank(0), TAG)?;
        scope.start(&mut receiving)?;
        scope.wait_for(&mut receiving)?;
        check(scope, memory, 0..120, 6)
    })?;
    assert!(world.rank() == Rank(0) || plain == [8; 8]);
    Ok(())
}

fn communicators_tags_and_ranks_tell_requests_apart<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let copy = dup(ep, &world)?;
    // What each of ranks 0 and 1 sends to rank 2, in the order of sending.
    let sent = [(world, Tag(1)), (world, Tag(2)), (copy, Tag(1)), (copy, Tag(2))];
    let mut memory = vec![0_u8; 8 * 50];
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut requests = Vec::new();
        if world.rank() != Rank(2) {
            for (number, (comm, tag)) in sent.iter().enumerate() {
                let bytes = bytes_of(number as u32, 8, 400);
                let round = 4 * world.rank().0 as usize + number;
                fill(scope, memory, bytes.clone(), round)?;
                let mut sending = scope.psend_init(comm, memory, bytes, 5, Rank(2), *tag)?;
                scope.start(&mut sending)?;
                scope.partitions(&sending).ready_range(0..5)?;
                requests.push(sending);
            }
            return scope.wait_all(&mut requests);
        }
        let all =
            [1_u32, 0].into_iter().flat_map(|from| sent.iter().enumerate().rev().map(move |one| (from, one)));
        let mut rounds = Vec::new();
        for (place, (from, (number, (comm, tag)))) in (0..).zip(all) {
            let bytes = bytes_of(place, 8, 400);
            rounds.push((bytes.clone(), number, from));
            requests.push(scope.precv_init(comm, memory, bytes, 2, Rank(from), *tag)?);
        }
        scope.start_all(&mut requests)?;
        scope.wait_all(&mut requests)?;
        // A message is told by where it lay at its sender.
        for (bytes, number, from) in rounds {
            let due = message(4 * from as usize + number, 400);
            let due = &due[bytes_of(number as u32, 8, 400)];
            scope.edit(memory, bytes, |got| assert_eq!(got, due, "message {number} of rank {from}"))?;
        }
        Ok(())
    })?;
    Ok(free(ep, copy)?)
}

fn parts_go_round_a_ring_beside_other_requests<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    const LEN: usize = 480;
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let (mut out, mut into) = (vec![0_u8; LEN + 4], vec![0_u8; LEN + 4]);
    ep.scope(|scope| {
        let (out, into) = (scope.lend(&mut out), scope.lend(&mut into));
        let mut requests = [
            scope.precv_init(&world, into, 0..LEN, 4, previous, TAG)?,
            scope.recv_init(&world, into, LEN..LEN + 4, previous, TAG)?,
            scope.psend_init(&world, out, 0..LEN, 6, next, TAG)?,
            scope.send_init(&world, out, LEN..LEN + 4, next, TAG)?,
        ];
        for round in 0..5 {
            let own = 5 * me as usize + round;
            scope.edit(out, LEN..LEN + 4, |number| number.copy_from_slice(&(own as u32).to_ne_bytes()))?;
            scope.start_all(&mut requests)?;
            for partition in shuffled(round, 6) {
                fill(scope, out, bytes_of(partition, 6, LEN), own)?;
                scope.partitions(&requests[2]).ready(partition)?;
            }
            scope.wait_all(&mut requests)?;
            let due = 5 * previous.0 as usize + round;
            check(scope, into, 0..LEN, due)?;
            scope.edit(into, LEN..LEN + 4, |number| assert_eq!(number, (due as u32).to_ne_bytes()))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn a_rank_sends_parts_to_itself<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let mut memory = vec![0_u8; 1200];
    for comm in [ep.world(), ep.itself()] {
        ep.scope(|scope| {
            let memory = scope.lend(&mut memory);
            let mut receiving = scope.precv_init(&comm, memory, 600..1200, 4, Rank(0), TAG)?;
            let mut sending = scope.psend_init(&comm, memory, 0..600, 3, Rank(0), TAG)?;
            for round in 0..3 {
                scope.start(&mut sending)?;
                scope.start(&mut receiving)?;
                fill(scope, memory, 0..600, round)?;
                for partition in shuffled(round, 3) {
                    scope.partitions(&sending).ready(partition)?;
                }
                scope.wait_for(&mut receiving)?;
                scope.wait_for(&mut sending)?;
                let due = message(round, 600);
                scope.edit(memory, 600..1200, |got| assert_eq!(got, due))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn parts_for_the_null_rank_are_over_at_once<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![5_u8; 24]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut sending = scope.psend_init(&world, memory, 0..12, 3, Rank::NULL, TAG)?;
        let mut receiving = scope.precv_init(&world, memory, 12..24, 3, Rank::NULL, TAG)?;
        for _ in 0..2 {
            scope.start(&mut sending)?;
            scope.start(&mut receiving)?;
            scope.partitions(&sending).ready_list(&[2, 0, 1])?;
            assert!(scope.partitions(&receiving).has_arrived(1)?);
            scope.wait_for(&mut sending)?;
            let status = scope.wait_for(&mut receiving)?;
            assert_eq!((status.source, status.tag, status.bytes), (Rank::NULL, Tag::NONE, 0));
        }
        Ok(())
    })?;
    assert_eq!(memory, [5; 24]);
    Ok(())
}

fn messages_of_nothing_have_parts<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    rounds(ep, 0, 5, 3)
}
