//! Hints: what is refused, what is reported, and what is done sooner (MPI 4.1 section 7.4.4).

use core::iter::Empty;
use core::time::Duration;

use aldis_kernel::hal::{Cause, PeerId};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Hints, Members, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, Shape, pattern, settle, together};

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

#[test]
fn hints_are_set_replaced_and_cleared_by_communicator() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let (world, itself) = (ranks[0].world(), ranks[0].itself());
    ranks[0].comm_mut(&world).set_hints(Hints::NO_ANY_TAG | Hints::EXACT_LENGTH).unwrap();
    assert_eq!(ranks[0].comm(&world).hints(), Ok(Hints::NO_ANY_TAG | Hints::EXACT_LENGTH));
    assert_eq!(ranks[0].comm(&itself).hints(), Ok(Hints::empty()));
    let same = Members::<Empty<PeerId>>::Of(world);
    let other = ranks[0].install(2, 1, &same).unwrap();
    assert_eq!(ranks[0].comm(&other).hints(), Ok(Hints::empty()), "a new one has none");
    ranks[0].comm_mut(&other).set_hints(Hints::all()).unwrap();
    ranks[0].discard(&other).unwrap();
    assert_eq!(ranks[0].comm(&other).hints().unwrap_err().cause, Cause::Stale);
    assert_eq!(ranks[0].comm_mut(&other).set_hints(Hints::empty()).unwrap_err().cause, Cause::Stale);
    let next = ranks[0].install(2, 2, &same).unwrap();
    assert_eq!(ranks[0].comm(&next).hints(), Ok(Hints::empty()), "nor does the slot's next");
}

/// Whatever asks for a message with its source or tag left open.
fn causes(rank: &mut rig::Rank<'_>, from: Source, tag: TagMatch) -> Vec<Option<Cause>> {
    let (world, soon, mut buffer, mut memory) =
        (rank.world(), Duration::from_micros(1), [0_u8; 4], [0_u8; 4]);
    let mut refusals = vec![
        rank.within(soon).recv(&world, &mut buffer, from, tag).err(),
        rank.within(soon).probe(&world, from, tag).err(),
        rank.within(soon).recv_pooled(&world, from, tag).err(),
        rank.iprobe(&world, from, tag).err(),
    ];
    let started = rank.scope(|scope| {
        let mut receiving = scope.irecv(&world, &mut buffer, from, tag)?;
        assert!(scope.cancel(&mut receiving));
        let lent = scope.lend(&mut memory);
        scope.recv_init(&world, lent, 0..4, from, tag).map(drop)
    });
    refusals.push(started.err());
    let is_late = |cause: &Cause| *cause != Cause::TimedOut;
    refusals.into_iter().map(|error| error.map(|error| error.cause).filter(is_late)).collect()
}

#[test]
fn what_was_promised_not_to_be_left_open_is_refused_by_name() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let world = rank.world();
    let (any, named, any_tag, tag) =
        (Source::Any, Source::Rank(Rank(1)), TagMatch::Any, TagMatch::Tag(Tag(1)));
    let (source, tags) = (Some(Cause::NoAnySource), Some(Cause::NoAnyTag));
    for (hints, due) in [
        (Hints::empty(), [None, None, None]),
        (Hints::NO_ANY_SOURCE, [source, None, source]),
        (Hints::NO_ANY_TAG, [None, tags, tags]),
        (Hints::NO_ANY_SOURCE | Hints::NO_ANY_TAG, [source, tags, source]),
        (Hints::EXACT_LENGTH | Hints::ALLOW_OVERTAKING, [None, None, None]),
    ] {
        rank.comm_mut(&world).set_hints(hints).unwrap();
        for ((from, tag), due) in [(any, tag), (named, any_tag), (any, any_tag)].into_iter().zip(due) {
            assert_eq!(causes(rank, from, tag), [due; 5], "{hints:?}, {from:?}, {tag:?}");
        }
        assert_eq!(causes(rank, named, tag), [None; 5], "{hints:?}");
    }
    rank.comm_mut(&world).set_hints(Hints::all()).unwrap();
    let (collective, mut buffer) = (world.collective(), [0_u8; 4]);
    let open = rank.within(Duration::from_micros(1)).recv(&collective, &mut buffer, any, any_tag);
    assert_eq!(open.unwrap_err().cause, Cause::TimedOut, "promises are about the user's messages");
}

#[test]
fn a_message_of_another_length_than_promised_is_an_error_of_its_receive() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for hints in [Hints::EXACT_LENGTH, Hints::empty()] {
        ranks[1].comm_mut(&worlds[1]).set_hints(hints).unwrap();
        // Inline, in a block, announced; posted before and after.
        for (length, posted) in [8, 60, 500].into_iter().flat_map(|length| [(length, true), (length, false)])
        {
            for room in [length - 1, length, length + 1] {
                let (data, mut buffer) = (pattern(1, length), vec![0; room]);
                let received = together(&mut ranks, |one, other| {
                    let mut receiving = None;
                    let mut buffer = Some(&mut buffer);
                    if posted {
                        receiving =
                            buffer.take().map(|buffer| other.irecv(&worlds[1], buffer, Rank(0), Tag(1)));
                    }
                    let sending = one.isend(&worlds[0], &data, Rank(1), Tag(1))?;
                    settle(one, other);
                    let late = buffer.map(|buffer| other.irecv(&worlds[1], buffer, Rank(0), Tag(1)));
                    settle(one, other);
                    one.wait(sending)?;
                    Ok(receiving.or(late).map(|request| other.wait(request?)))
                });
                let received = received.unwrap().unwrap().map_err(|error| (error.cause, error.bytes_done));
                let (sent, space) = (length as u64, room as u64);
                match received.map(|status| status.bytes) {
                    Err((cause, moved)) if room < length => {
                        assert_eq!((cause, moved), (Cause::Truncated { sent, room: space }, space));
                    }
                    Err((cause, moved)) if room > length && hints == Hints::EXACT_LENGTH => {
                        assert_eq!((cause, moved), (Cause::NotExact { sent, room: space }, sent));
                    }
                    other => {
                        assert_eq!(other, Ok(sent), "{length} bytes into {room}");
                        assert!(room == length || hints.is_empty());
                    }
                }
                let moved = room.min(length);
                assert_eq!(buffer[..moved], data[..moved], "its bytes are received all the same");
            }
        }
    }
}

/// Pooled receives have no buffer that a message could be shorter than.
#[test]
fn a_pooled_receive_has_no_length_to_promise() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    other.comm_mut(&worlds[1]).set_hints(Hints::EXACT_LENGTH).unwrap();
    for length in [3, 40] {
        let data = pattern(2, length);
        one.send(&worlds[0], &data, Rank(1), Tag(1)).unwrap();
        let message = other.recv_pooled(&worlds[1], Rank(0), Tag(1)).unwrap();
        assert_eq!(message[..], data[..]);
        drop(message);
        // While polling for it.
        one.send(&worlds[0], &data, Rank(1), Tag(1)).unwrap();
        while other.poll(64) > 0 {}
        let message = other.recv_pooled(&worlds[1], Rank(0), Tag(1)).unwrap();
        assert_eq!(message[..], data[..]);
    }
}

/// Rank 0 has more messages queued than rank 1 has places for. Credit has just come, and none of
/// them has been sent with it yet, when another is started: the tags in the order in which rank 1
/// has them.
fn order(hints: Hints, is_same: bool) -> Vec<u32> {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let same = |rank: &rig::Rank<'_>| Members::<Empty<PeerId>>::Of(rank.world());
    let (ours, theirs) = (one.install(2, 1, &same(one)).unwrap(), other.install(2, 1, &same(other)).unwrap());
    let (line, theirs_line) = if is_same { (ours, theirs) } else { (worlds[0], worlds[1]) };
    one.comm_mut(&ours).set_hints(hints).unwrap();
    let mut tags = Vec::new();
    one.scope(|scope| {
        for tag in 0..6 {
            let _ = scope.isend(&line, &[7_u8; 4], Rank(1), Tag(tag))?;
        }
        while other.poll(64) > 0 {}
        assert_eq!(other.diagnostics().queue_depths(), (0, 4), "as many as there are places for");
        let mut buffer = [0_u8; 4];
        tags.push(other.recv(&theirs_line, &mut buffer, Rank(0), TagMatch::Any)?.tag.0);
        tags.push(other.recv(&theirs_line, &mut buffer, Rank(0), TagMatch::Any)?.tag.0);
        while other.poll(64) > 0 {}
        // The credit is received, and that is all the budget.
        assert_eq!(scope.poll(1), 1);
        let sending = scope.isend(&ours, &[8_u8; 4], Rank(1), Tag(9))?;
        while scope.poll(64) + other.poll(64) > 0 {}
        let next = if is_same { Ok(None) } else { other.iprobe(&theirs, Rank(0), Tag(9)) };
        if next?.is_some() {
            tags.push(other.recv(&theirs, &mut buffer, Rank(0), Tag(9))?.tag.0);
        }
        while tags.len() < 7 {
            while scope.poll(64) + other.poll(64) > 0 {}
            let found = other.iprobe(&theirs_line, Rank(0), TagMatch::Any)?;
            let comm = if found.is_some() { theirs_line } else { theirs };
            tags.push(other.recv(&comm, &mut buffer, Rank(0), TagMatch::Any)?.tag.0);
        }
        while scope.poll(64) + other.poll(64) > 0 {}
        scope.wait(sending)
    })
    .unwrap();
    tags
}

#[test]
fn a_message_overtakes_those_in_line_only_where_that_is_allowed() {
    assert_eq!(order(Hints::empty(), true), [0, 1, 2, 3, 4, 5, 9]);
    assert_eq!(order(Hints::all() - Hints::ALLOW_OVERTAKING, true), [0, 1, 2, 3, 4, 5, 9]);
    // The two places that were free: one for it, one for the first in the queue.
    assert_eq!(order(Hints::ALLOW_OVERTAKING, true), [0, 1, 2, 3, 9, 4, 5]);
    assert_eq!(
        order(Hints::ALLOW_OVERTAKING, false),
        [0, 1, 9, 2, 3, 4, 5],
        "also those of other communicators"
    );
}
