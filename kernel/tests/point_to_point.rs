//! Point-to-point semantics over a wire with tiny limits: every protocol, both orders of arrival,
//! non-overtaking, wildcards, truncation, floods, full pools. MPI 4.1 chapter 3.

use aldis_kernel::hal::{Cause, Operation, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, LentRange, Rank, Request, Source, Status, Tag, TagMatch};
use aldis_kit::rig::{self, Job, Shape, pattern, settle, together};

/// Sizes around every limit of the rig: inline 24, block 64, fragment 80.
const SIZES: [usize; 12] = [0, 1, 23, 24, 25, 63, 64, 65, 80, 81, 400, 5000];

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

/// Sends `data` from rank 0 to a buffer of `room` bytes at rank 1.
fn transfer(
    shape: Shape,
    expected: bool,
    data: &[u8],
    room: usize,
) -> (Result<Status, aldis_kernel::Error>, Vec<u8>) {
    let mut job = Job::new(2, shape);
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let mut buffer = vec![0xAA; room];
    let received = together(&mut ranks, |one, other| {
        let (receiving, sending);
        if expected {
            receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(5))?;
            sending = one.isend(&worlds[0], data, Rank(1), Tag(5))?;
        } else {
            sending = one.isend(&worlds[0], data, Rank(1), Tag(5))?;
            settle(one, other);
            receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(5))?;
        }
        settle(one, other);
        assert_eq!(one.wait(sending)?.bytes, data.len() as u64);
        Ok(other.wait(receiving))
    });
    (received.unwrap(), buffer)
}

#[test]
fn every_size_arrives_expected_and_unexpected() {
    for bcopy_bytes_max in [56, 64, 128, 4096] {
        for depth in [1, 2, 7] {
            for (len, expected) in SIZES.into_iter().flat_map(|len| [(len, true), (len, false)]) {
                let data = pattern(len as u32, len);
                let (status, buffer) = transfer(Shape { depth, bcopy_bytes_max }, expected, &data, len);
                let status = status.unwrap();
                assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(5), len as u64));
                assert_eq!(buffer, data, "{len} bytes, expected {expected}");
            }
        }
    }
}

#[test]
fn a_short_buffer_takes_the_start_and_tells_both_lengths() {
    for (len, expected) in
        SIZES.into_iter().filter(|&len| len > 0).flat_map(|len| [(len, true), (len, false)])
    {
        let data = pattern(7, len);
        let room = len / 2;
        let (status, buffer) = transfer(Shape::default(), expected, &data, room);
        let error = status.unwrap_err();
        assert_eq!(error.cause, Cause::Truncated { sent: len as u64, room: room as u64 });
        assert_eq!((error.operation, error.bytes_done), (Operation::Recv, room as u64));
        assert_eq!(buffer, data[..room]);
    }
}

#[test]
fn a_longer_buffer_keeps_its_rest() {
    let (status, buffer) = transfer(Shape::default(), true, &[1, 2], 4);
    assert_eq!((status.unwrap().bytes, buffer), (2, vec![1, 2, 0xAA, 0xAA]));
}

/// Messages of one tag arrive in order, whichever protocol each takes, and however few envelopes
/// there are.
#[test]
fn messages_do_not_overtake() {
    let mut job = Job::new(2, Shape { depth: 2, bcopy_bytes_max: 96 });
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    // 8 requests a rank; 2 blocks, 4 envelopes: eager, deferred and rendezvous mixed.
    let sizes = [40, 50, 60, 500, 1, 45, 0, 300];
    let data: Vec<_> = sizes.iter().enumerate().map(|(index, &len)| pattern(index as u32, len)).collect();
    let mut buffers: Vec<_> = sizes.iter().map(|_| vec![0; 512]).collect();
    together(&mut ranks, |one, other| {
        let mut sends: Vec<_> =
            data.iter().map(|data| one.isend(&worlds[0], data, Rank(1), Tag(1)).unwrap()).collect();
        settle(one, other);
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let receiving = other.irecv(&worlds[1], buffer, Source::Any, TagMatch::Any)?;
            settle(one, other);
            assert_eq!(other.wait(receiving)?.bytes, sizes[index] as u64, "message {index}");
        }
        one.wait_all(&mut sends)
    })
    .unwrap();
    for (buffer, data) in buffers.iter().zip(&data) {
        assert_eq!(&buffer[..data.len()], data);
    }
    assert!(ranks[0].counters().deferrals > 0, "the third eager message found no block");
    assert!(ranks[0].counters().rendezvous > 0);
}

/// A flood against a receiver that posts nothing: nothing is lost, the receiver's memory is what it
/// was sized for, and the sender gets the error that its requests are full.
#[test]
fn a_flood_stops_at_the_bounds_and_loses_nothing() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let data: Vec<_> = (0..64).map(|index| pattern(index, 60)).collect();
    let mut buffers = vec![vec![0; 60]; 64];
    let sent = together(&mut ranks, |one, other| {
        let mut sends = Vec::new();
        for data in &data {
            match one.isend(&worlds[0], data, Rank(1), Tag(1)) {
                Ok(request) => sends.push(request),
                Err(error) => {
                    assert_eq!(error.cause, Cause::Full(Resource::Requests));
                    break;
                }
            }
            settle(one, other);
        }
        for buffer in &mut buffers[..sends.len()] {
            let receiving = other.irecv(&worlds[1], buffer, Rank(0), Tag(1))?;
            settle(one, other);
            other.wait(receiving)?;
        }
        one.wait_all(&mut sends)?;
        Ok(sends.len())
    })
    .unwrap();
    // Two messages left eagerly into the blocks; the others sit in request slots, two of them
    // announced.
    assert_eq!(sent, 2 + rig::REQUESTS);
    assert_eq!(buffers[..sent], data[..sent]);
    assert_eq!(ranks[1].counters().unexpected_peak, 4);
}

#[test]
fn wildcards_take_the_oldest_and_name_what_they_took() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    ranks[2].send(&worlds[2], &[2u8], Rank(1), Tag(9)).unwrap();
    ranks[1].poll(8);
    ranks[0].send(&worlds[0], &[0u8], Rank(1), Tag(7)).unwrap();
    ranks[1].poll(8);
    let mut buffer = [0u8];
    let probed = ranks[1].probe(&worlds[1], Source::Any, TagMatch::Any).unwrap();
    assert_eq!((probed.source, probed.tag, probed.bytes), (Rank(2), Tag(9), 1));
    let status = ranks[1].recv(&worlds[1], &mut buffer, Source::Any, Tag(7)).unwrap();
    assert_eq!((status.source, buffer), (Rank(0), [0]));
    let status = ranks[1].recv(&worlds[1], &mut buffer, Source::Any, TagMatch::Any).unwrap();
    assert_eq!((status.source, status.tag, buffer), (Rank(2), Tag(9), [2]));
    assert_eq!(ranks[1].iprobe(&worlds[1], Source::Any, TagMatch::Any), Ok(None));
}

#[test]
fn a_rank_talks_to_itself() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let itself = ranks[0].itself();
    for len in SIZES {
        let (data, mut buffer) = (pattern(3, len), vec![0; len]);
        let status =
            ranks[0].sendrecv(&itself, &data, Rank(0), Tag(1), &mut buffer, Rank(0), Tag(1)).unwrap();
        assert_eq!((status.bytes, buffer), (len as u64, data));
    }
}

#[test]
fn typed_slices_of_any_element() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let mut buffer = [0f64; 3];
    let status =
        ranks[0].sendrecv(&world, &[1.5f64, -2.5], Rank(0), Tag(1), &mut buffer, Rank(0), Tag(1)).unwrap();
    assert_eq!((status.elements::<f64>(), buffer), (Ok(2), [1.5, -2.5, 0.0]));
}

#[test]
fn pooled_receives_own_their_block_and_give_it_back() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let send = |ranks: &mut Vec<rig::Rank<'_>>, len: usize| {
        ranks[0].send(&worlds[0], &pattern(len as u32, len), Rank(1), Tag(1)).unwrap();
        ranks[1].poll(8);
    };
    for round in 0..10 {
        // One in a block, adopted without a copy; one inline.
        send(&mut ranks, 50);
        send(&mut ranks, 10);
        let big = ranks[1].recv_pooled(&worlds[1], Rank(0), Tag(1)).unwrap();
        let small = ranks[1].recv_pooled(&worlds[1], Source::Any, TagMatch::Any).unwrap();
        assert_eq!((&*big, &*small), (&*pattern(50, 50), &*pattern(10, 10)), "round {round}");
        send(&mut ranks, 1);
        let refused = ranks[1].recv_pooled(&worlds[1], Rank(0), Tag(1)).unwrap_err();
        assert_eq!(refused.cause, Cause::Full(Resource::PooledBlocks));
        drop(big);
        assert_eq!(&*ranks[1].recv_pooled(&worlds[1], Rank(0), Tag(1)).unwrap(), &*pattern(1, 1));
    }
}

#[test]
fn bad_arguments_are_named() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let error = ranks[0].send(&world, &[0u8], Rank(2), Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::RankOutOfRange { rank: 2, size: 2 });
    let error = ranks[0].send(&world, &[0u8], Rank(1), Tag(0x8000_0000)).unwrap_err();
    assert_eq!(error.cause, Cause::TagOutOfRange { tag: 0x8000_0000, max: Tag::MAX.0 });
    let error = ranks[0].recv(&world, &mut [0u8], Rank(9), Tag(1)).unwrap_err();
    assert_eq!((error.cause, error.peer()), (Cause::RankOutOfRange { rank: 9, size: 2 }, Some(Rank(9))));
    let error = ranks[0].recv(&world, &mut [0u8], Source::Any, Tag(u32::MAX)).unwrap_err();
    assert!(matches!(error.cause, Cause::TagOutOfRange { .. }));
}

#[test]
fn waits_cancels_and_null_requests() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut first, mut second, mut third) = ([0u8; 8], [0u8; 8], [0u8; 8]);
    together(&mut ranks, |one, other| {
        let mut requests = [
            other.irecv(&worlds[1], &mut first, Rank(0), Tag(1))?,
            other.irecv(&worlds[1], &mut second, Rank(0), Tag(2))?,
            other.irecv(&worlds[1], &mut third, Rank(0), Tag(3))?,
        ];
        assert_eq!(other.test(&mut requests[0]), Ok(None));
        let sending = one.isend(&worlds[0], &[7u8; 8], Rank(1), Tag(2))?;
        one.wait(sending)?;
        let (index, status) = other.wait_any(&mut requests)?.unwrap();
        assert_eq!((index, status.tag), (1, Tag(2)));
        assert!(requests[1].is_null());
        assert!(other.cancel(&mut requests[2]) && !other.cancel(&mut requests[2]), "it is over");
        let (index, status) = other.wait_any(&mut requests)?.unwrap();
        assert!(index == 2 && status.is_cancelled() && requests[2].is_null());
        let sending = one.isend(&worlds[0], &[9u8; 8], Rank(1), Tag(1))?;
        one.wait(sending)?;
        other.wait_all(&mut requests)?;
        assert_eq!(other.wait_any(&mut requests)?, None);
        assert_eq!(other.wait(Request::null()).unwrap_err().cause, Cause::Stale);
        Ok(())
    })
    .unwrap();
    assert_eq!((first, second, third), ([9; 8], [7; 8], [0; 8]));
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0));
}

#[test]
fn lent_memory_is_sent_received_and_combined_in_parts() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let mut memory = [1u8, 2, 3, 4, 0, 0, 0, 0];
    ranks[0]
        .scope(|s| {
            let lent = s.lend(&mut memory);
            let sending = s.isend_part(&world, lent, 0..4, Rank(0), Tag(1))?;
            let receiving = s.irecv_part(&world, lent, 4..8, Rank(0), Tag(1))?;
            let busy =
                s.combine(LentRange::new(lent, 4..6), LentRange::new(lent, 0..2), |_, _| ()).unwrap_err();
            assert_eq!(busy.cause, Cause::Busy, "it is being received into");
            s.wait_all(&mut [sending, receiving])?;
            let overlap =
                s.combine(LentRange::new(lent, 4..6), LentRange::new(lent, 5..7), |_, _| ()).unwrap_err();
            assert_eq!(overlap.cause, Cause::Busy);
            let outside =
                s.combine(LentRange::new(lent, 4..9), LentRange::new(lent, 0..2), |_, _| ()).unwrap_err();
            assert_eq!(outside.cause, Cause::TooBig { len: 9, max: 8 });
            s.combine(LentRange::new(lent, 4..8), LentRange::new(lent, 0..4), |into, from| {
                into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
            })
        })
        .unwrap();
    assert_eq!(memory, [1, 2, 3, 4, 2, 4, 6, 8]);
}

#[test]
fn explain_names_transport_protocol_and_rejections() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let text = ranks[0].explain(Rank(1), 5000).unwrap().to_string();
    assert!(text.contains("transport wire: taken"), "{text}");
    assert!(text.contains("protocol inline eager: at most 24 bytes fit"), "{text}");
    assert!(text.contains("protocol eager: at most 64 bytes fit"), "{text}");
    assert!(text.contains("protocol rendezvous by fragments: about") && text.contains("taken"), "{text}");
    assert!(ranks[0].explain(Rank(5), 1).is_err());
}

/// A small message to a peer that a large one is on its way to comes long before the large one's
/// end.
#[test]
fn small_messages_pass_between_the_fragments_of_a_large_one() {
    let mut job = Job::new(2, Shape { depth: 2, bcopy_bytes_max: 64 });
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let large = pattern(1, 5000);
    let (mut buffer, mut small) = (vec![0u8; 5000], [0u8; 4]);
    let polls = together(&mut ranks, |one, other| {
        let receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
        let mut after = other.irecv(&worlds[1], &mut small, Rank(0), Tag(2))?;
        let sending = one.isend(&worlds[0], &large, Rank(1), Tag(1))?;
        other.poll(2);
        one.poll(2);
        let sending_small = one.isend(&worlds[0], &[7u8; 4], Rank(1), Tag(2))?;
        let mut polls = 0;
        while other.test(&mut after)?.is_none() {
            one.poll(2);
            polls += 1;
        }
        settle(one, other);
        one.wait_all(&mut [sending, sending_small])?;
        other.wait(receiving)?;
        Ok(polls)
    });
    // The large message takes 312 fragments.
    assert!(polls.unwrap() < 20);
    assert_eq!((buffer, small), (large, [7; 4]));
}

/// A rank that only sends, never polls and never waits finds the credits that have come back: its
/// messages stay eager, and each call returns at once.
#[test]
fn a_rank_that_only_sends_finds_its_credits() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for round in 0..50 {
        let (data, mut buffer) = (pattern(round, 60), [0u8; 60]);
        ranks[0].send(&worlds[0], &data, Rank(1), Tag(1)).unwrap();
        ranks[1].recv(&worlds[1], &mut buffer, Rank(0), Tag(1)).unwrap();
        assert_eq!(buffer[..], data);
        ranks[1].poll(8);
    }
    assert_eq!((ranks[0].counters().deferrals, ranks[0].counters().messages_sent), (0, 50));
}

/// The credits of one, what the other holds and what it has freed without a word are all the room
/// there is.
#[test]
fn the_accounts_of_two_ranks_agree() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let (worlds, mut buffer) = (worlds(&ranks), [0; 60]);
    let blocks = |ranks: &[rig::Rank<'_>]| {
        [(0, 1), (1, 0)].map(|(one, other)| ranks[one].diagnostics().credits(PeerId(other)).unwrap().blocks)
    };
    for _ in 0..2 {
        ranks[0].send(&worlds[0], &pattern(3, 60), Rank(1), Tag(1)).unwrap();
    }
    ranks[1].poll(8);
    let [out, into] = blocks(&ranks);
    assert_eq!((out.sent, out.available(), into.received, into.held(), into.unannounced()), (2, 0, 2, 2, 0));
    ranks[1].recv(&worlds[1], &mut buffer, Rank(0), Tag(1)).unwrap();
    let [out, into] = blocks(&ranks);
    assert_eq!(out.available() + into.held() + into.unannounced(), into.room_here, "{out} / {into}");
    ranks[1].recv(&worlds[1], &mut buffer, Rank(0), Tag(1)).unwrap();
    ranks[1].poll(8);
    ranks[0].poll(8);
    let [out, into] = blocks(&ranks);
    assert_eq!((out.available(), out.room_there, into.held(), into.unannounced()), (2, 2, 0, 0));
    assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
    assert_eq!(ranks[0].diagnostics().credits(PeerId(2)), None, "it has not been introduced");
}
