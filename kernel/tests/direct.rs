//! Long messages that the transport reads from the sender's memory, writes or puts into the
//! receiver's, or gathers.

use core::time::Duration;

use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Comm, Error, Rank as R, Request, Scope, Tag};
use aldis_kit::rig::{Clock, Job, Powers, Rank, Shape, Wire, pattern, settle, together};
use proptest::prelude::*;

const READING: Powers = Powers { reads: Some(300), regions: 8, ..Powers::NONE };
const WRITING: Powers = Powers { reads: None, writes: Some(300), ..READING };

fn worlds(ranks: &[Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

fn job(powers: Powers) -> Job {
    let mut job = Job::new(2, Shape::default());
    job.powers = powers;
    job
}

/// Sends a message from rank 0 to rank 1 into a buffer of `room` bytes; returns what arrived and
/// how the receive ended.
fn carry(
    job: &mut Job,
    len: usize,
    room: usize,
    unexpected: bool,
) -> (Vec<u8>, Result<u64, Error>, [u64; 4]) {
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (data, mut buffer) = (pattern(7, len), vec![0; room]);
    let result = together(&mut ranks, |one, other| {
        let sending = one.isend(&worlds[0], &data, R(1), Tag(3))?;
        if unexpected {
            settle(one, other);
        }
        let receiving = other.irecv(&worlds[1], &mut buffer, R(0), Tag(3))?;
        settle(one, other);
        one.wait(sending)?;
        Ok(other.wait(receiving).map(|status| status.bytes))
    });
    let (one, other) = (ranks[0].counters(), ranks[1].counters());
    let counted = [other.reads + one.writes, other.unread + one.unread, one.bytes_sent, other.bytes_received];
    (buffer, result.unwrap(), counted)
}

#[test]
fn a_long_message_is_read_or_written_and_explain_says_so() {
    for (powers, polls, by) in [
        (READING, 0, "by reading"),
        (READING, 3, "by reading"),
        (WRITING, 0, "by writing"),
        (WRITING, 3, "by writing"),
    ] {
        let mut job = job(Powers { polls, ..powers });
        let (buffer, result, [moved, unread, sent, received]) = carry(&mut job, 5000, 5000, false);
        assert_eq!((result.unwrap(), moved, unread), (5000, 1, 0));
        assert_eq!((sent, received), (5000, 5000));
        assert_eq!(buffer, pattern(7, 5000));
        let mut ranks = job.ranks();
        let text = ranks[0].explain(R(1), 5000).unwrap().to_string();
        assert!(text.lines().any(|line| line.contains(by) && line.ends_with("taken")), "{text}");
        let text = ranks[0].explain(R(1), 40).unwrap().to_string();
        assert!(
            text.lines().any(|line| line.contains("protocol eager") && line.ends_with("taken")),
            "{text}"
        );
    }
}

#[test]
fn without_reads_and_writes_explain_says_why_fragments_are_taken() {
    let mut job = job(Powers::NONE);
    let text = job.ranks()[0].explain(R(1), 5000).unwrap().to_string();
    assert!(text.contains("by reading: the transport does not read this peer's memory"), "{text}");
    assert!(text.contains("by writing: the transport does not write this peer's memory"), "{text}");
}

proptest! {
    /// Whatever the transport does with memory, and wherever it stops doing so: the bytes arrive,
    /// as many as there is room for, and no region is left registered.
    #[test]
    fn every_power_carries_every_message(
        len in 0usize..3000, room in 0usize..3000, unexpected in any::<bool>(),
        reads in proptest::option::of(1u64..900), gathers in proptest::option::of(60u64..900), places in any::<bool>(),
        polls in 0u32..4, orders_max in proptest::option::of(0u32..4), regions in 0usize..3,
        writes in proptest::option::of(1u64..900),
    ) {
        let mut job = job(Powers { reads, writes, gathers, places, polls, orders_max, regions, maps: false });
        let (buffer, result, [moved, unread, ..]) = carry(&mut job, len, room, unexpected);
        let here = len.min(room);
        prop_assert_eq!(&buffer[..here], &pattern(7, len)[..here]);
        prop_assert!(buffer[here..].iter().all(|&byte| byte == 0));
        match result {
            Ok(bytes) => prop_assert_eq!(bytes as usize, len),
            Err(error) => prop_assert_eq!(error.cause, Cause::Truncated { sent: len as u64, room: room as u64 }),
        }
        let announced = len > 64 && (reads.is_some() || writes.is_some());
        prop_assert!(moved + unread <= u64::from(announced), "{moved} {unread}");
        prop_assert_eq!([job.table.borrow().live(0), job.table.borrow().live(1)], [0, 0]);
    }

    /// The sender lets go of a message after some polls: the receiver has all of it, or gets the
    /// error that it was withdrawn, and memory that was let go of is not taken for the message.
    #[test]
    fn a_sender_that_lets_go_deceives_no_receiver(
        len in 100usize..2000, after in 0u32..30, reads in proptest::option::of(50u64..700),
        gathers in proptest::option::of(60u64..700), places in any::<bool>(), polls in 0u32..4,
        writes in proptest::option::of(50u64..700),
    ) {
        let mut job = job(Powers { reads, writes, gathers, places, polls, regions: 16, ..Powers::NONE });
        let table = job.table.clone();
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (mut data, mut buffer) = (pattern(1, len), vec![0u8; len]);
        let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
        let whole = other.scope(|r| {
            let mut receiving = r.irecv(&worlds[1], &mut buffer, R(0), Tag(1))?;
            let left: Result<(), Error> = one.scope(|s| {
                let _sending = s.isend(&worlds[0], &data, R(1), Tag(1))?;
                (0..after).for_each(|_| _ = s.poll(2) + r.poll(2));
                Err(Error::new(Operation::Send, Cause::Cancelled))
            });
            assert!(left.is_err());
            assert_eq!(table.borrow().live(0), 0);
            data.fill(0xEE);
            (0..200).for_each(|_| _ = one.poll(16) + r.poll(16));
            match r.test(&mut receiving) {
                Ok(Some(status)) => Ok(status.bytes == len as u64),
                // It had not been announced.
                Ok(None) if r.cancel(&mut receiving) => Ok(false),
                Ok(None) => panic!("the receiver hangs"),
                Err(error) => {
                    assert_eq!(error.cause, Cause::Withdrawn);
                    Ok(false)
                }
            }
        });
        if whole.unwrap() {
            prop_assert_eq!(buffer, pattern(1, len));
        }
        prop_assert_eq!(table.borrow().live(1), 0);
    }

    /// The receiver lets go of its buffer after some polls: it is not written any more, and the
    /// sender comes to its end, by another receive if the first had not matched.
    #[test]
    fn a_receiver_that_lets_go_is_left_alone(
        len in 100usize..2000, after in 0u32..30, reads in proptest::option::of(50u64..700),
        gathers in proptest::option::of(60u64..700), places in any::<bool>(), polls in 0u32..4,
        writes in proptest::option::of(50u64..700),
    ) {
        let mut job = job(Powers { reads, writes, gathers, places, polls, regions: 16, ..Powers::NONE });
        let table = job.table.clone();
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (data, mut buffer, mut second) = (pattern(1, len), vec![0u8; len], vec![0u8; len]);
        let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
        one.scope(|s| {
            let mut sending = s.isend(&worlds[0], &data, R(1), Tag(1))?;
            let left: Result<(), Error> = other.scope(|r| {
                let _receiving = r.irecv(&worlds[1], &mut buffer, R(0), Tag(1))?;
                (0..after).for_each(|_| _ = s.poll(2) + r.poll(2));
                Err(Error::new(Operation::Recv, Cause::Cancelled))
            });
            assert!(left.is_err());
            assert_eq!(table.borrow().live(1), 0);
            buffer.fill(0xEE);
            // A message in pieces of a dozen bytes, each some polls long, takes its time to be sent
            // to a receiver that has let go.
            let mut sent = None;
            for _ in 0..3000 {
                other.poll(16);
                sent = s.test(&mut sending)?;
                if sent.is_some() {
                    break;
                }
            }
            if sent.is_none() {
                other.scope(|r| {
                    let receiving = r.irecv(&worlds[1], &mut second, R(0), Tag(1))?;
                    settle(s, r);
                    r.wait(receiving).map(drop)
                })?;
                assert_eq!(second, data);
                settle_one(s);
                assert!(s.test(&mut sending)?.is_some(), "the sender hangs");
            }
            Ok(())
        })
        .unwrap();
        prop_assert!(buffer.iter().all(|&byte| byte == 0xEE), "memory that was let go of was written");
        prop_assert_eq!(table.borrow().live(0), 0);
    }
}

fn settle_one(scope: &mut Scope<'_, '_, '_, Wire, Clock>) {
    (0..10).for_each(|_| _ = scope.poll(16));
}

/// A peer that dies while its memory is read, or reads ours: the request fails, and its memory is
/// free at once.
#[test]
fn a_peers_death_ends_what_is_under_way_with_it() {
    for (powers, polls) in [(READING, 0), (READING, 5), (WRITING, 0), (WRITING, 5)] {
        for dead in 0..2u32 {
            let mut job = job(Powers { polls, ..powers });
            let table = job.table.clone();
            let flag = job.dead.clone();
            let mut ranks = job.ranks();
            let worlds = worlds(&ranks);
            let (data, mut buffer) = (pattern(1, 20_000), vec![0; 20_000]);
            let result = together(&mut ranks, |one, other| {
                let sending = one.isend(&worlds[0], &data, R(1), Tag(1))?;
                let receiving = other.irecv(&worlds[1], &mut buffer, R(0), Tag(1))?;
                for _ in 0..3 {
                    one.poll(4);
                    other.poll(4);
                }
                flag.set(Some(dead));
                let ended = if dead == 1 { one.wait(sending) } else { other.wait(receiving) };
                assert_eq!(table.borrow().live(1 - dead as usize), 0, "taken back before the end was told");
                Err::<(), _>(ended.expect_err("it cannot end well"))
            });
            assert_eq!(result.unwrap_err().cause, Cause::PeerDead);
        }
    }
}

/// Of a buffer that is longer than the message, the transport is lent no more than the message
/// needs.
#[test]
fn no_more_is_lent_than_the_message_needs() {
    for powers in [READING, WRITING] {
        let mut job = job(Powers { polls: 50, ..powers });
        let table = job.table.clone();
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (data, mut buffer) = (pattern(1, 600), vec![0; 5000]);
        together(&mut ranks, |one, other| {
            let sending = one.isend(&worlds[0], &data, R(1), Tag(1))?;
            let receiving = other.irecv(&worlds[1], &mut buffer, R(0), Tag(1))?;
            for _ in 0..6 {
                one.poll(4);
                other.poll(4);
            }
            assert_eq!([0, 1].map(|rank| table.borrow().bytes_of(rank)), [600, 600]);
            settle(one, other);
            one.wait(sending)?;
            other.wait(receiving).map(drop)
        })
        .unwrap();
        assert_eq!(buffer[..600], data);
    }
}

/// More long messages than regions: the others go in fragments, and all arrive in order.
#[test]
fn what_finds_no_region_goes_in_fragments() {
    for powers in [READING, WRITING] {
        with_two_regions(powers);
    }
}

fn with_two_regions(powers: Powers) {
    let mut job = job(Powers { regions: 2, polls: 2, ..powers });
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let data: Vec<_> = (0..6).map(|seed| pattern(seed, 900)).collect();
    let mut buffers = vec![vec![0u8; 900]; 6];
    together(&mut ranks, |one, other| {
        let mut all = Vec::new();
        for message in &data {
            all.push(one.isend(&worlds[0], message, R(1), Tag(1))?);
        }
        settle(one, other);
        let mut receiving: Vec<Request<'_>> = Vec::new();
        for buffer in &mut buffers {
            receiving.push(other.irecv(&worlds[1], buffer, R(0), Tag(1))?);
        }
        settle(one, other);
        other.wait_all(&mut receiving)?;
        one.wait_all(&mut all)
    })
    .unwrap();
    assert_eq!(buffers, data);
    let [one, other] = [0, 1].map(|rank| ranks[rank].counters());
    let (moved, others) = (other.reads + one.writes, one.unread + other.unread);
    assert!(moved >= 2 && others >= 1 && moved < 6, "{moved} read or written, {others} not");
}

/// A deadline in the middle of a read gives the buffer back at once, and the sender comes to its
/// end.
#[test]
fn a_deadline_ends_a_read() {
    let mut job = job(Powers { polls: 100_000, ..READING });
    let table = job.table.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let data = pattern(1, 2000);
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    one.scope(|s| {
        let mut sending = s.isend(&worlds[0], &data, R(1), Tag(1))?;
        s.poll(8);
        let mut buffer = [0u8; 2000];
        let late = other.within(Duration::from_millis(1)).recv(&worlds[1], &mut buffer, R(0), Tag(1));
        assert_eq!(late.unwrap_err().cause, Cause::TimedOut);
        assert_eq!(table.borrow().live(1), 0);
        for _ in 0..50 {
            other.poll(8);
            s.poll(8);
        }
        assert!(s.test(&mut sending)?.is_some(), "the sender hangs");
        Ok(())
    })
    .unwrap();
    assert_eq!(table.borrow().live(0), 0);
}

/// A synchronous send is complete when it has been read or written, and so can be a matched probe's
/// message.
#[test]
fn other_ways_to_send_and_receive_are_direct_as_well() {
    for powers in [READING, WRITING] {
        sent_and_received_in_other_ways(powers);
    }
}

fn sent_and_received_in_other_ways(powers: Powers) {
    let mut job = job(powers);
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (data, mut first, mut second) = (pattern(4, 1500), vec![0; 1500], vec![0; 1500]);
    together(&mut ranks, |one, other| {
        let mut sending = one.issend(&worlds[0], &data, R(1), Tag(1))?;
        settle(one, other);
        assert!(one.test(&mut sending)?.is_none(), "it has not been received");
        let matched = other.improbe(&worlds[1], R(0), Tag(1))?.expect("it has been announced");
        let receiving = other.imrecv(matched, &mut first)?;
        settle(one, other);
        assert!(one.test(&mut sending)?.is_some());
        other.wait(receiving)?;
        let ready = other.irecv(&worlds[1], &mut second, R(0), Tag(2))?;
        let sending = one.irsend(&worlds[0], &data, R(1), Tag(2))?;
        settle(one, other);
        one.wait(sending)?;
        other.wait(ready).map(drop)
    })
    .unwrap();
    assert_eq!((&first, &second), (&data, &data));
    assert_eq!(ranks[1].counters().reads + ranks[0].counters().writes, 2);
}

/// Else it could be exchanged for another endpoint's, and read the memory after it has been given
/// back.
#[test]
fn a_transport_that_has_memory_of_a_message_is_not_given_away() {
    let mut attached = vec![0; 6000];
    let mut job = job(READING);
    let table = job.table.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    assert!(ranks[0].try_transport_mut().is_ok());
    ranks[0].send_buffer().attach(&mut attached).unwrap();
    ranks[0].bsend(&worlds[0], &pattern(7, 5000), R(1), Tag(3)).unwrap();
    assert_eq!(table.borrow().bytes_of(0), 5000);
    let kept = ranks[0].try_transport_mut().map(drop).unwrap_err();
    assert_eq!(kept.cause, Cause::Busy);
    let mut buffer = vec![0; 5000];
    together(&mut ranks, |one, other| {
        let receiving = other.irecv(&worlds[1], &mut buffer, R(0), Tag(3))?;
        settle(one, other);
        other.wait(receiving)
    })
    .unwrap();
    assert_eq!(buffer, pattern(7, 5000));
    assert!(ranks[0].try_transport_mut().is_ok() && ranks[1].try_transport_mut().is_ok());
    assert_eq!((table.borrow().bytes_of(0), ranks[0].send_buffer().detach().unwrap().len()), (0, 6000));
}
