//! The ends of operations that do not succeed: deadlines, withdrawn and declined messages,
//! unwinding, dead peers, goodbyes, aborts, and bytes that break the protocol.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use aldis_kernel::hal::cause::Malformed;
use aldis_kernel::hal::{Cause, Epoch, Operation, Resource};
use aldis_kernel::protocols::header::{Header, Kind, clear_to_send};
use aldis_kernel::protocols::{Card, Control};
use aldis_kernel::{Comm, Error, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern, settle, together};
use proptest::prelude::*;

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

/// Polls every rank until nothing moves.
fn settle_all(ranks: &mut [rig::Rank<'_>]) {
    while ranks.iter_mut().map(|rank| rank.poll(64)).sum::<u32>() > 0 {}
}

#[test]
fn a_deadline_names_who_is_missing_and_lets_go_of_the_buffer() {
    let mut job = Job::new(2, Shape::default());
    let noted = job.clock.noted.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let mut buffer = [0u8; 8];
    let error =
        ranks[1].within(Duration::from_millis(1)).recv(&worlds[1], &mut buffer, Rank(0), Tag(3)).unwrap_err();
    assert_eq!((error.cause, error.operation), (Cause::TimedOut, Operation::Recv));
    assert_eq!((error.peer(), error.tag()), (Some(Rank(0)), Some(Tag(3))));
    // The rig's clock moves by a microsecond with each idle poll.
    assert!((1_000_000..=1_001_000).contains(&error.elapsed_ns), "{error}");
    let noted: Vec<_> = noted.take().iter().map(|activity| activity.operation).collect();
    assert_eq!(noted, [Operation::Recv, Operation::None], "what it waited for, and that it waits no more");
    ranks[0].send(&worlds[0], &[1u8; 8], Rank(1), Tag(3)).unwrap();
    settle_all(&mut ranks);
    assert_eq!(buffer, [0; 8], "the message came after the receive had given up");
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 1), "it is kept for another");
    let error = ranks[1].within(Duration::from_millis(1)).probe(&worlds[1], Rank(0), Tag(4)).unwrap_err();
    assert_eq!((error.cause, error.operation), (Cause::TimedOut, Operation::Probe));
}

/// The poll that brings the message is the last before the deadline is seen to have passed.
#[test]
fn what_the_last_poll_brings_is_received() {
    let mut job = Job::new(2, Shape::default());
    let (clock, queues) = (job.clock.clone(), job.queues.clone());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    ranks[0].send(&worlds[0], &[5u8; 8], Rank(1), Tag(3)).unwrap();
    let message = queues[0][1].borrow_mut().pop_front().unwrap();
    *clock.event.borrow_mut() =
        Some((63_000, Box::new(move || queues[0][1].borrow_mut().push_back(message))));
    let mut buffer = [0u8; 8];
    ranks[1].within(Duration::from_micros(63)).recv(&worlds[1], &mut buffer, Rank(0), Tag(3)).unwrap();
    assert_eq!(buffer, [5; 8]);
}

#[test]
fn a_withdrawn_announcement_fails_its_receive_by_name() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let data = pattern(1, 500);
    let error =
        ranks[0].within(Duration::from_millis(1)).send(&worlds[0], &data, Rank(1), Tag(1)).unwrap_err();
    assert_eq!((error.cause, error.bytes_done), (Cause::TimedOut, 0));
    drop(data);
    let mut buffer = [0u8; 500];
    let withdrawn = together(&mut ranks, |one, other| {
        let receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
        settle(one, other);
        Ok(other.wait(receiving))
    });
    assert_eq!(withdrawn.unwrap().unwrap_err().cause, Cause::Withdrawn);
    assert_eq!(buffer, [0; 500]);
    // The slot has freed itself: as many requests can be under way as before.
    let full = together(&mut ranks, |one, _| {
        for _ in 0..REQUESTS {
            let _sending = one.isend(&worlds[0], &[0u8; 100], Rank(1), Tag(2))?;
        }
        let _sending = one.isend(&worlds[0], &[0u8; 100], Rank(1), Tag(2))?;
        Ok(())
    });
    assert_eq!(full.unwrap_err().cause, Cause::Full(Resource::Requests));
}

#[test]
fn a_receive_that_gives_up_in_mid_message_does_not_hang_the_sender() {
    let mut job = Job::new(2, Shape { depth: 1, bcopy_bytes_max: 64 });
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let data = pattern(1, 500);
    let mut buffer = vec![0u8; 500];
    let sent = ranks.split_first_mut().map(|(first, rest)| {
        first.scope(|one| {
            let sending = one.isend(&worlds[0], &data, Rank(1), Tag(1))?;
            let given_up = rest[0].scope(|other| {
                let _receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
                for _ in 0..6 {
                    other.poll(2);
                    one.poll(2);
                }
                Err::<(), _>(Error::new(Operation::None, Cause::Cancelled))
            });
            assert_eq!(given_up.unwrap_err().cause, Cause::Cancelled);
            let moved = buffer.iter().filter(|&&byte| byte != 0).count();
            assert!(moved > 0 && moved < 490, "it gave up in mid-message: {moved}");
            while one.poll(8) + rest[0].poll(8) > 0 {}
            assert_eq!(
                buffer.iter().filter(|&&byte| byte != 0).count(),
                moved,
                "nothing is written any more"
            );
            one.wait(sending)
        })
    });
    assert_eq!(sent.unwrap().unwrap().bytes, 500);
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0));
}

#[test]
fn a_panic_in_a_scope_lets_go_of_the_memory() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let mut buffer = [0u8; 8];
    let caught = catch_unwind(AssertUnwindSafe(|| {
        ranks[1].scope(|s| -> Result<(), Error> {
            let _receiving = s.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
            panic!("in the user's code");
        })
    }));
    assert!(caught.is_err());
    ranks[0].send(&worlds[0], &[1u8; 8], Rank(1), Tag(1)).unwrap();
    settle_all(&mut ranks);
    assert_eq!((buffer, ranks[1].diagnostics().queue_depths()), ([0; 8], (0, 1)));
}

#[test]
fn a_scope_that_ends_waits_for_what_its_body_did_not() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let mut buffer = [0u8; 300];
    ranks[0]
        .scope(|s| {
            let _receiving = s.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
            let _sending = s.isend(&world, &[5u8; 300], Rank(0), Tag(1))?;
            Ok(())
        })
        .unwrap();
    assert_eq!(buffer, [5; 300]);
}

/// A scope with one request that fails at once, and another that never ends, ends all the same, by
/// its deadline.
#[test]
fn a_scope_ends_by_its_deadline_also_after_a_failure() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    ranks[0].send(&worlds[0], &[7u8; 8], Rank(1), Tag(1)).unwrap();
    let (mut short, mut never) = ([0u8; 4], [0u8; 4]);
    let ended = ranks[1].within(Duration::from_millis(1)).scope(|scope| {
        let _ = scope.irecv(&worlds[1], &mut short, Rank(0), Tag(1))?;
        let _ = scope.irecv(&worlds[1], &mut never, Rank(0), Tag(2))?;
        Ok(())
    });
    assert_eq!(ended.unwrap_err().cause, Cause::Truncated { sent: 8, room: 4 });
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0), "the other has let go");
}

#[test]
fn a_dead_peer_fails_what_depends_on_it_and_nothing_else() {
    let mut job = Job::new(3, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut from_dead, mut from_any, mut from_living) = ([0u8; 4], [0u8; 4], [0u8; 4]);
    together(&mut ranks[1..], |one, other| {
        let naming = one.irecv(&worlds[1], &mut from_dead, Rank(0), Tag(1))?;
        let announced = one.isend(&worlds[1], &[0u8; 300], Rank(0), Tag(1))?;
        let any = one.irecv(&worlds[1], &mut from_any, Source::Any, Tag(2))?;
        let living = one.irecv(&worlds[1], &mut from_living, Rank(2), Tag(3))?;
        dead.set(Some(0));
        for request in [naming, announced] {
            let error = one.wait(request).unwrap_err();
            assert_eq!((error.cause, error.peer()), (Cause::PeerDead, Some(Rank(0))));
        }
        let sends = [
            other.isend(&worlds[2], &[2u8; 4], Rank(1), Tag(2))?,
            other.isend(&worlds[2], &[3u8; 4], Rank(1), Tag(3))?,
        ];
        one.wait_all(&mut [any, living])?;
        other.wait_all(&mut sends.into_iter().collect::<Vec<_>>())
    })
    .unwrap();
    assert_eq!((from_any, from_living), ([2; 4], [3; 4]));
    let error = ranks[1].send(&worlds[1], &[0u8], Rank(0), Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::PeerDead);
    let error = ranks[1].recv(&worlds[1], &mut [0u8], Rank(0), Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::PeerDead);
}

#[test]
fn a_lost_peer_is_talked_to_again_in_its_next_life() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let card = ranks[1].card();
    ranks[1].send(&worlds[1], &[1u8; 4], Rank(0), Tag(5)).unwrap();
    settle_all(&mut ranks);
    dead.set(Some(1));
    settle_all(&mut ranks);
    assert_eq!(ranks[0].send(&worlds[0], &[2u8; 4], Rank(1), Tag(5)).unwrap_err().cause, Cause::PeerDead);
    let reborn = Card::new(card.peer(), Epoch(card.epoch().0 + 1), card.room);
    ranks[0].connect(&reborn).unwrap();
    assert_eq!(ranks[0].diagnostics().queue_depths(), (0, 0), "what the old life had sent is gone with it");
    assert_eq!(ranks[0].counters().stale_epochs, 1);
    ranks[0].send(&worlds[0], &[3u8; 4], Rank(1), Tag(5)).unwrap();
    settle_all(&mut ranks);
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 1));
}

#[test]
fn what_a_dead_peer_announced_fails_once_and_holds_up_no_other() {
    let mut job = Job::new(3, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let announced =
        ranks[0].within(Duration::from_micros(100)).send(&worlds[0], &[1u8; 300], Rank(1), Tag(1));
    assert_eq!(announced.unwrap_err().cause, Cause::TimedOut);
    settle_all(&mut ranks);
    ranks[2].send(&worlds[2], &[2u8], Rank(1), Tag(1)).unwrap();
    settle_all(&mut ranks);
    dead.set(Some(0));
    ranks[1].poll(8);
    let mut buffer = [0u8];
    let error = ranks[1].recv(&worlds[1], &mut buffer, Source::Any, Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::PeerDead);
    ranks[1].recv(&worlds[1], &mut buffer, Source::Any, Tag(1)).unwrap();
    assert_eq!(buffer, [2]);
}

#[test]
fn after_a_goodbye_messages_are_still_received_and_waits_end() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    ranks[0].send(&worlds[0], &[4u8], Rank(1), Tag(1)).unwrap();
    ranks[0].leave(Duration::from_millis(1)).unwrap();
    settle_all(&mut ranks);
    let mut buffer = [0u8];
    ranks[1].recv(&worlds[1], &mut buffer, Rank(0), Tag(1)).unwrap();
    assert_eq!(buffer, [4]);
    assert_eq!(ranks[1].recv(&worlds[1], &mut buffer, Rank(0), Tag(1)).unwrap_err().cause, Cause::PeerLeft);
    assert_eq!(
        ranks[1].recv(&worlds[1], &mut buffer, Source::Any, TagMatch::Any).unwrap_err().cause,
        Cause::PeerLeft
    );
    let text = ranks[1].explain(Rank(0), 5000).unwrap().to_string();
    assert!(text.contains("protocol rendezvous by fragments: about"), "the ways to it are told: {text}");
}

#[test]
fn a_rank_that_all_others_have_left_still_talks_to_itself() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[1].world();
    let (data, mut buffer) = (pattern(4, 500), [0_u8; 500]);
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let status = other.scope(|scope| {
        let receiving = scope.irecv(&world, &mut buffer, Rank(1), Tag(2))?;
        one.leave(Duration::from_millis(1)).unwrap();
        scope.poll(64);
        let sending = scope.isend(&world, &data, Rank(1), Tag(2))?;
        let status = scope.wait(receiving);
        scope.wait(sending)?;
        status
    });
    assert_eq!(status.map(|status| (status.source, status.bytes)), Ok((Rank(1), 500)));
    assert_eq!(&buffer[..], &data[..]);
}

#[test]
fn what_others_do_does_not_matter_on_a_communicator_of_one() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let (world, itself) = (ranks[1].world(), ranks[1].itself());
    let (data, mut one, mut other) = (pattern(4, 500), [0_u8; 500], [0_u8; 500]);
    let [leaver, stayer] = &mut ranks[..] else { panic!("two ranks are needed") };
    let lost = stayer.scope(|scope| {
        let posted = scope.irecv(&itself, &mut one, Source::Any, Tag(2))?;
        let in_vain = scope.irecv(&world, &mut other, Rank(0), Tag(2))?;
        leaver.leave(Duration::from_millis(1)).unwrap();
        scope.poll(64);
        let sending = scope.isend(&itself, &data, Rank(0), Tag(2))?;
        assert_eq!(scope.wait(posted)?.bytes, 500);
        scope.wait(sending)?;
        Ok(scope.wait(in_vain).unwrap_err())
    });
    assert_eq!(lost.map(|error| (error.cause, error.bytes_done)), Ok((Cause::PeerLeft, 0)));
    assert_eq!(&one[..], &data[..]);
    assert_eq!(stayer.iprobe(&itself, Source::Any, TagMatch::Any), Ok(None));
    let deserted = stayer.iprobe(&world, Source::Any, TagMatch::Any).unwrap_err();
    assert_eq!(deserted.cause, Cause::PeerLeft);
}

#[test]
fn an_abort_ends_everything_with_its_code() {
    let mut job = Job::new(3, Shape::default());
    let queues = job.queues.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let mut buffer = [0u8; 4];
    let pending = together(&mut ranks[1..], |one, other| {
        let receiving = one.irecv(&worlds[1], &mut buffer, Source::Any, Tag(1))?;
        let message = Control::Abort { process: 1, code: 42 }.encode(&mut [0; 16]).unwrap().to_vec();
        let header = Header { tag: 0, context: 0, length: message.len() as u64, ..honest(Kind::Control) };
        queues[0][1].borrow_mut().push_back([&header.emit()[..], &message].concat());
        settle(one, other);
        one.wait(receiving)
    });
    assert_eq!(pending.unwrap_err().cause, Cause::Aborted { code: 42 });
    ranks[0].abort(42);
    settle_all(&mut ranks);
    for rank in 0..3 {
        let error = ranks[rank].recv(&worlds[rank], &mut buffer, Source::Any, Tag(1)).unwrap_err();
        assert_eq!(error.cause, Cause::Aborted { code: 42 }, "rank {rank}");
    }
}

/// A header from rank 0 to rank 1 as an honest peer would send it.
fn honest(kind: Kind) -> Header {
    Header {
        kind,
        limits: Default::default(),
        epoch: Epoch(100),
        context: 1 << 16,
        source: 0,
        tag: 1,
        sequence: 0,
        length: 0,
    }
}

/// Returns what rank 1 makes of `message` from rank 0: the cause by which rank 0 is lost, if it is.
fn verdict(message: &[u8]) -> Option<Cause> {
    let mut job = Job::new(2, Shape::default());
    let queues = job.queues.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    queues[0][1].borrow_mut().push_back(message.to_vec());
    ranks[1].poll(8);
    ranks[1].send(&worlds[1], &[0u8], Rank(0), Tag(1)).err().map(|error| error.cause)
}

#[test]
fn whoever_breaks_the_protocol_is_cut_off_by_name() {
    assert_eq!(verdict(&honest(Kind::Eager).emit()), None, "an honest empty message");
    let broken = |header: Header| verdict(&header.emit());
    let malformed = |what| Some(Cause::Malformed(what));
    assert_eq!(verdict(&[1, 2, 3]), malformed(Malformed::Short { got: 3, need: 32 }));
    let header = Header { sequence: 5, ..honest(Kind::Eager) };
    assert_eq!(broken(header), malformed(Malformed::Sequence { got: 5, need: 0 }));
    let header = Header { source: 1, ..honest(Kind::Eager) };
    assert_eq!(broken(header), malformed(Malformed::Envelope), "it calls itself rank 1");
    let header = Header { tag: u32::MAX, ..honest(Kind::Eager) };
    assert_eq!(broken(header), malformed(Malformed::Envelope));
    let header = Header { epoch: Epoch(99), ..honest(Kind::Eager) };
    assert_eq!(broken(header), None, "of an earlier life: discarded");
    let big = [&Header { length: 65, ..honest(Kind::Eager) }.emit()[..], &[0; 65]].concat();
    assert_eq!(verdict(&big), malformed(Malformed::Length), "larger than a block");
    let handle = aldis_kernel::hal::Handle { slot: 3, generation: 1 };
    let unmatched = Header { tag: 0, ..honest(Kind::ClearToSend) };
    let unmatched = [&unmatched.emit()[..], &clear_to_send(handle, handle, 0)].concat();
    assert_eq!(verdict(&unmatched), malformed(Malformed::Control));
}

#[test]
fn a_peer_that_was_cut_off_is_not_listened_to() {
    let mut job = Job::new(2, Shape::default());
    let queues = job.queues.clone();
    let mut ranks = job.ranks();
    queues[0][1].borrow_mut().extend([vec![1, 2, 3], honest(Kind::Eager).emit().to_vec()]);
    ranks[1].poll(8);
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0));
    assert_eq!((ranks[1].counters().malformed, ranks[1].counters().stale_epochs), (1, 1));
}

proptest! {
    /// Whatever rank 0 sends: no panic, no hang, and rank 1 still talks to rank 2.
    #[test]
    fn hostile_bytes_disturb_no_other_peer(
        messages in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..120)), 1..20),
    ) {
        let mut job = Job::new(3, Shape::default());
        let queues = job.queues.clone();
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        for (kind, mut bytes) in messages {
            // Half of them with a sound start, to get beyond the first check.
            if kind & 1 == 0 && bytes.len() >= 32 {
                let length = bytes.len() as u64 - 32;
                let sound = Header { length, ..honest(Kind::Eager) }.emit();
                bytes[1..24].copy_from_slice(&sound[1..24]);
                bytes[24..32].copy_from_slice(&sound[24..32]);
                bytes[0] = kind >> 1 & 7;
            }
            queues[0][1].borrow_mut().push_back(bytes);
        }
        let mut buffer = [0u8; 300];
        together(&mut ranks[1..], |one, other| {
            let receiving = one.irecv(&worlds[1], &mut buffer, Rank(2), Tag(1))?;
            let sending = other.isend(&worlds[2], &[7u8; 300], Rank(1), Tag(1))?;
            settle(one, other);
            other.wait(sending)?;
            one.wait(receiving)
        }).unwrap();
        prop_assert_eq!(buffer, [7; 300]);
    }
}
