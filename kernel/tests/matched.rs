//! Matched probes (MPI 4.1 section 3.8.2).

use core::time::Duration;

use aldis_kernel::hal::{Cause, Operation, PeerId};
use aldis_kernel::{Comm, Error, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern, settle, together};

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

/// Inline, eager, deferred or in a block, and announced.
const SIZES: [usize; 5] = [0, 8, 60, 64, 700];

#[test]
fn a_matched_message_is_out_of_the_queues_and_received_by_its_token() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for len in SIZES {
        let (first, second) = (pattern(1, len), pattern(2, len));
        let (mut early, mut late) = (vec![0u8; len], vec![0u8; len]);
        together(&mut ranks, |one, other| {
            assert!(other.improbe(&worlds[1], Source::Any, Tag(1))?.is_none());
            let mut sending = [
                one.isend(&worlds[0], &first, Rank(1), Tag(1))?,
                one.isend(&worlds[0], &second, Rank(1), Tag(1))?,
            ];
            settle(one, other);
            let message = other.improbe(&worlds[1], Source::Any, Tag(1))?.expect("it has come");
            let status = message.status();
            assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(1), len as u64));
            let receiving = other.irecv(&worlds[1], &mut late, Rank(0), TagMatch::Any)?;
            settle(one, other);
            assert_eq!(other.wait(receiving)?.bytes, len as u64);
            assert!(other.improbe(&worlds[1], Source::Any, TagMatch::Any)?.is_none());
            let receiving = other.imrecv(message, &mut early)?;
            settle(one, other);
            assert_eq!(other.wait(receiving)?, status);
            one.wait_all(&mut sending)
        })
        .unwrap();
        assert!(early == first && late == second, "the receive got the second one");
    }
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0));
    assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
}

#[test]
fn a_synchronous_send_completes_with_the_receive_and_not_with_the_probe() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for discarded in [false, true] {
        let [first, second] = &mut ranks[..] else { unreachable!() };
        first
            .scope(|one| {
                let mut sending = one.issend(&worlds[0], &[7u8; 40], Rank(1), Tag(1))?;
                while one.poll(64) + second.poll(64) > 0 {}
                let message = second.mprobe(&worlds[1], Rank(0), Tag(1))?;
                while one.poll(64) + second.poll(64) > 0 {}
                assert_eq!(one.test(&mut sending)?, None);
                if discarded {
                    second.discard_matched(message)?;
                    while one.poll(64) + second.poll(64) > 0 {}
                } else {
                    let mut short = [0u8; 3];
                    second.scope(|other| {
                        let receiving = other.imrecv(message, &mut short)?;
                        settle(one, other);
                        let cause = other.wait(receiving).unwrap_err().cause;
                        assert_eq!(cause, Cause::Truncated { sent: 40, room: 3 });
                        Ok(())
                    })?;
                    assert_eq!(short, [7; 3]);
                }
                one.wait(sending)
            })
            .unwrap();
        assert_eq!(
            (ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()),
            (0, 0)
        );
    }
}

#[test]
fn messages_to_itself_from_the_null_rank_and_too_late() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let (world, itself) = (rank.world(), rank.itself());
    let mut buffer = [1u8; 30];
    rank.send(&itself, &[5u8; 30], Rank(0), Tag(1)).unwrap();
    let message = rank.mprobe(&itself, Source::Any, TagMatch::Any).unwrap();
    assert_eq!(rank.within(Duration::from_micros(9)).mrecv(message, &mut buffer).unwrap().bytes, 30);
    assert_eq!(buffer, [5; 30]);

    let null = rank.mprobe(&world, Rank::NULL, Tag(1)).unwrap();
    let status = rank.mrecv(null, &mut buffer).unwrap();
    assert_eq!((status.source, status.tag, status.bytes), (Rank::NULL, Tag::NONE, 0));
    let null = rank.improbe(&world, Rank::NULL, Tag(1)).unwrap().expect("it is always there");
    rank.discard_matched(null).unwrap();

    let error = rank.within(Duration::from_micros(9)).mprobe(&world, Rank(1), Tag(1)).unwrap_err();
    assert_eq!(
        (error.cause, error.operation, error.peer()),
        (Cause::TimedOut, Operation::Probe, Some(Rank(1)))
    );
    assert!(rank.improbe(&world, Rank(7), Tag(1)).is_err(), "there is no such rank");
    assert_eq!(rank.diagnostics().requests_in_use(), 0);
}

/// A token takes a slot each: without one the message stays where it is, and the next call finds
/// it.
#[test]
fn no_slot_for_a_token_is_an_error_that_changes_nothing() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let itself = ranks[0].itself();
    let rank = &mut ranks[0];
    let mut tokens = Vec::new();
    for index in 0..REQUESTS as u32 {
        rank.send(&itself, &[index], Rank(0), Tag(1)).unwrap();
        tokens.push(rank.mprobe(&itself, Rank(0), Tag(1)).unwrap());
        if tokens.len() == 4 {
            // Its envelopes are full of matched messages: these are let go of.
            tokens.drain(..3).for_each(|token| rank.discard_matched(token).unwrap());
        }
    }
    tokens.into_iter().for_each(|token| rank.discard_matched(token).unwrap());
    assert_eq!((rank.diagnostics().requests_in_use(), rank.diagnostics().queue_depths()), (0, (0, 0)));
    rank.send(&itself, &[9u8], Rank(0), Tag(1)).unwrap();
    let mut buffers = [[0u8; 1]; REQUESTS];
    rank.scope(|scope| {
        for buffer in &mut buffers {
            let _posted = scope.irecv(&itself, buffer, Rank(0), Tag(2))?;
        }
        let full = scope.improbe(&itself, Rank(0), Tag(1)).unwrap_err().cause;
        assert!(matches!(full, Cause::Full(_)), "{full}");
        Err::<(), _>(Error::new(Operation::None, Cause::Cancelled))
    })
    .unwrap_err();
    assert_eq!(rank.probe(&itself, Rank(0), Tag(1)).unwrap().bytes, 1);
}

/// A message that has arrived outlives its sender; one that has not does not; and a new life of the
/// sender ends both.
#[test]
fn tokens_of_a_lost_sender() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let card = ranks[0].card();
    let mut buffer = [0u8; 60];
    for reborn in [false, true] {
        let [first, second] = &mut ranks[..] else { unreachable!() };
        let mut tokens = None;
        first
            .scope(|one| {
                let _here = one.isend(&worlds[0], &[3u8; 60], Rank(1), Tag(1))?;
                let _there = one.isend(&worlds[0], &[4u8; 700], Rank(1), Tag(2))?;
                while one.poll(64) + second.poll(64) > 0 {}
                let (here, there) = (Tag(1), Tag(2));
                tokens = Some((
                    second.mprobe(&worlds[1], Rank(0), here)?,
                    second.mprobe(&worlds[1], Rank(0), there)?,
                ));
                dead.set(Some(0));
                second.poll(64);
                Err::<(), _>(Error::new(Operation::None, Cause::Cancelled))
            })
            .unwrap_err();
        let (here, there) = tokens.unwrap();
        if reborn {
            second.connect(&card).unwrap();
            assert_eq!(second.mrecv(here, &mut buffer).unwrap_err().cause, Cause::Stale);
        } else {
            assert_eq!(second.mrecv(here, &mut buffer).unwrap().bytes, 60);
            assert_eq!(buffer, [3; 60]);
            assert_eq!(second.mrecv(there, &mut buffer).unwrap_err().cause, Cause::PeerDead);
        }
        assert_eq!(
            (second.diagnostics().requests_in_use(), second.diagnostics().queue_depths()),
            (0, (0, 0))
        );
        if !reborn {
            second.connect(&card).unwrap();
            let other = second.card();
            first.connect(&other).unwrap();
        }
    }
    assert_eq!(ranks[1].diagnostics().credits(PeerId(0)).unwrap().envelopes.held(), 0);
}

/// Full envelopes: a message held back is matched at its sender, which then sends what is behind
/// it.
#[test]
fn a_message_held_back_is_matched_and_does_not_hold_the_others_up() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let [first, second] = &mut ranks[..] else { unreachable!() };
    let (world, wanted, mut buffer) = (worlds[1], pattern(9, 300), vec![0u8; 300]);
    first
        .scope(|one| {
            let mut sending = Vec::new();
            for _ in 0..6 {
                sending.push(one.isend(&worlds[0], &[1u8; 8], Rank(1), Tag(1))?);
            }
            sending.push(one.isend(&worlds[0], &wanted, Rank(1), Tag(2))?);
            sending.push(one.isend(&worlds[0], &[3u8; 8], Rank(1), Tag(3))?);
            while one.poll(64) + second.poll(64) > 0 {}
            let mut found = None;
            for _ in 0..4 {
                found = found.or(second.improbe(&world, Source::Any, Tag(2))?);
                while one.poll(64) + second.poll(8) > 0 {}
            }
            let found = found.expect("its sender holds it back");
            assert_eq!((found.status().source, found.status().bytes), (Rank(0), 300));
            assert!(second.improbe(&world, Source::Any, Tag(2))?.is_none(), "it is matched");
            let mut rest = [[0u8; 8]; 7];
            second.scope(|other| {
                let mut tags = [1, 1, 1, 1, 1, 1, 3].iter();
                let mut receiving = Vec::new();
                for (rest, tag) in rest.iter_mut().zip(&mut tags) {
                    receiving.push(other.irecv(&world, rest, Rank(0), Tag(*tag))?);
                    settle(one, other);
                }
                other.wait_all(&mut receiving)?;
                let receiving = other.imrecv(found, &mut buffer)?;
                settle(one, other);
                other.wait(receiving)?;
                one.wait_all(&mut sending)
            })?;
            assert_eq!((rest[5], rest[6]), ([1; 8], [3; 8]));
            Ok(())
        })
        .unwrap();
    assert_eq!(buffer, wanted);
    assert_eq!(ranks[0].counters().overflows, 1);
}

/// While the program makes up its mind the offer stands; a receive that could have it, or time,
/// ends that.
#[test]
fn an_offer_on_hold_goes_to_a_receive_and_does_not_stand_for_ever() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let [first, second] = &mut ranks[..] else { unreachable!() };
    let world = worlds[1];
    let (mut early, mut buffer, mut rest, mut last) = ([0u8; 8], [0u8; 8], [[0u8; 8]; 6], [0u8; 8]);
    first
        .scope(|one| {
            let mut sending = Vec::new();
            for _ in 0..6 {
                sending.push(one.isend(&worlds[0], &[1u8; 8], Rank(1), Tag(1))?);
            }
            sending.push(one.isend(&worlds[0], &[2u8; 8], Rank(1), Tag(2))?);
            sending.push(one.isend(&worlds[0], &[3u8; 8], Rank(1), Tag(3))?);
            while one.poll(64) + second.poll(64) > 0 {}
            assert!(second.improbe(&world, Source::Any, Tag(2))?.is_none());
            while one.poll(64) + second.poll(64) > 0 {}
            second.scope(|other| {
                let receiving = other.irecv(&world, &mut buffer, Rank(0), TagMatch::Tag(Tag(2)))?;
                settle(one, other);
                other.wait(receiving)?;
                // Tag 1 is what everything else is behind; tag 3 was asked for before the probe of
                // tag 1.
                let early = other.irecv(&world, &mut early, Rank(0), Tag(4))?;
                assert!(other.improbe(&world, Rank(0), Tag(3))?.is_none());
                settle(one, other);
                let late = one.isend(&worlds[0], &[4u8; 8], Rank(1), Tag(4))?;
                for _ in 0..300 {
                    one.poll(64);
                    other.poll(64);
                }
                assert_eq!(other.wait(early)?.bytes, 8, "the sender answers again");
                one.wait(late)?;
                let mut receiving = Vec::new();
                for rest in &mut rest {
                    receiving.push(other.irecv(&world, rest, Rank(0), Tag(1))?);
                    settle(one, other);
                }
                other.wait_all(&mut receiving)?;
                let message = other.mprobe(&world, Rank(0), Tag(3))?;
                let receiving = other.imrecv(message, &mut last)?;
                assert_eq!(other.wait(receiving)?.tag, Tag(3));
                one.wait_all(&mut sending)
            })
        })
        .unwrap();
    assert_eq!((early, buffer, rest, last), ([4; 8], [2; 8], [[1; 8]; 6], [3; 8]));
}

/// A clear-to-send settles an offer as well as a settle message does: a receive that was posted in
/// between is asked about then.
#[test]
fn a_receive_posted_before_an_offer_is_settled_is_asked_about_after_it() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut matched, mut posted, mut rest) = ([0u8; 8], [0u8; 8], [[0u8; 8]; 6]);
    together(&mut ranks, |one, other| {
        let mut sending = Vec::new();
        for (data, tag) in [(&[1u8; 8], 1); 6].into_iter().chain([(&[2; 8], 2), (&[3; 8], 3)]) {
            sending.push(one.isend(&worlds[0], data, Rank(1), Tag(tag))?);
        }
        settle(one, other);
        assert!(other.improbe(&worlds[1], Rank(0), Tag(2))?.is_none());
        settle(one, other);
        let message = other.improbe(&worlds[1], Rank(0), Tag(2))?.expect("it is held back");
        // Nothing has been said to the sender yet.
        let receiving =
            [other.imrecv(message, &mut matched)?, other.irecv(&worlds[1], &mut posted, Rank(0), Tag(3))?];
        settle(one, other);
        for mut receiving in receiving {
            assert!(other.test(&mut receiving)?.is_some());
        }
        for rest in &mut rest {
            let receiving = other.irecv(&worlds[1], rest, Rank(0), Tag(1))?;
            settle(one, other);
            other.wait(receiving)?;
        }
        one.wait_all(&mut sending)
    })
    .unwrap();
    assert_eq!((matched, posted, rest), ([2; 8], [3; 8], [[1; 8]; 6]));
}
