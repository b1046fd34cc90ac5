//! Freed communicators: what was sent in them and not received is recognised, dropped and counted,
//! whichever protocol brought it; its credits go back, and nothing of it meets the next
//! communicator in the same slot. MPI 4.1 section 7.4.

use core::iter::Empty;

use aldis_kernel::hal::{Cause, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Members, Rank, Request, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern};

/// Inline, in a block, and announced by its size.
const LENGTHS: [usize; 3] = [8, 60, 500];

/// A communicator of all ranks of the job, in slot 2.
fn install(rank: &mut rig::Rank<'_>, generation: u32) -> Comm {
    let members = Members::<Empty<PeerId>>::Of(rank.world());
    rank.install(2, generation, &members).unwrap()
}

/// Two ranks, each with its handle of a communicator of both.
fn with_both(body: impl FnOnce(&mut rig::Rank<'_>, Comm, &mut rig::Rank<'_>, Comm)) {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let (ours, theirs) = (install(one, 1), install(other, 1));
    body(one, ours, other, theirs);
}

#[test]
fn what_was_kept_is_dropped_with_its_communicator() {
    for len in LENGTHS {
        with_both(|one, ours, other, theirs| {
            let data = pattern(1, len);
            one.scope(|scope| {
                let sending = scope.isend(&ours, &data, Rank(1), Tag(3))?;
                while scope.poll(64) + other.poll(64) > 0 {}
                assert_eq!(other.diagnostics().queue_depths(), (0, 1));
                other.discard(&theirs)?;
                assert_eq!(
                    (other.diagnostics().queue_depths(), other.counters().stale_contexts),
                    ((0, 0), 1)
                );
                while scope.poll(64) + other.poll(64) > 0 {}
                // It ends as one that was received.
                assert_eq!(scope.wait(sending)?.bytes, len as u64);
                Ok(())
            })
            .unwrap();
        });
    }
}

/// Several times as many as there is room for: their credits go back.
#[test]
fn what_comes_too_late_is_turned_away() {
    for len in LENGTHS {
        with_both(|one, ours, other, theirs| {
            let data = pattern(2, len);
            other.discard(&theirs).unwrap();
            let next = install(other, 2);
            let (mut got, mut wild, mut exact) = ([0_u8; 500], [0_u8; 500], [0_u8; 8]);
            other
                .scope(|there| {
                    let everything = there.irecv(&next, &mut wild, Source::Any, TagMatch::Any)?;
                    let named = there.irecv(&theirs, &mut exact, Rank(0), Tag(3)).unwrap_err();
                    assert_eq!(named.cause, Cause::Stale);
                    one.scope(|scope| {
                        let sends: Result<Vec<Request<'_>>, Error> =
                            (0..20).map(|_| scope.isend(&ours, &data, Rank(1), Tag(3))).collect();
                        for sending in sends? {
                            while scope.poll(64) + there.poll(64) > 0 {}
                            assert_eq!(scope.wait(sending)?.bytes, len as u64);
                        }
                        Ok(())
                    })?;
                    one.discard(&ours)?;
                    let again = install(one, 2);
                    one.send(&again, &[7_u8], Rank(1), Tag(4))?;
                    let status = there.wait(everything)?;
                    assert_eq!((status.tag, status.bytes), (Tag(4), 1), "of the new communicator");
                    let receiving = there.irecv(&next, &mut got, Rank(0), Tag(5))?;
                    one.scope(|scope| {
                        let sending = scope.isend(&again, &data, Rank(1), Tag(5))?;
                        while scope.poll(64) + there.poll(64) > 0 {}
                        scope.wait(sending)
                    })?;
                    assert_eq!(there.wait(receiving)?.bytes, len as u64);
                    Ok(())
                })
                .unwrap();
            assert_eq!((other.counters().stale_contexts, other.diagnostics().queue_depths()), (20, (0, 0)));
        });
    }
}

/// Turning an announcement away takes a request slot. Without one it waits, until the slot of its
/// communicator is used again.
#[test]
fn an_announcement_that_finds_no_request_slot_waits() {
    with_both(|one, ours, other, theirs| {
        let data = pattern(3, 500);
        let (world, mut buffers) = (other.world(), [[0_u8; 1]; REQUESTS + 1]);
        let buffers = &mut buffers;
        other.discard(&theirs).unwrap();
        one.scope(|scope| {
            let sending = scope.isend(&ours, &data, Rank(1), Tag(3))?;
            let full = other.scope(|there| {
                let mut posted =
                    buffers.iter_mut().map(|buffer| there.irecv(&world, buffer, Rank(0), Tag(9)));
                let mut requests = Vec::new();
                let full = loop {
                    match posted.next() {
                        Some(Ok(request)) => requests.push(request),
                        Some(Err(error)) => break error,
                        None => panic!("there is room for all"),
                    }
                };
                drop(posted);
                while scope.poll(64) + there.poll(64) > 0 {}
                for request in &mut requests {
                    there.cancel(request);
                }
                Ok(full)
            });
            assert_eq!(full?.cause, Cause::Full(Resource::Requests));
            assert_eq!((other.diagnostics().queue_depths(), other.counters().stale_contexts), ((0, 1), 0));
            install(other, 2);
            assert_eq!((other.diagnostics().queue_depths(), other.counters().stale_contexts), ((0, 0), 1));
            while scope.poll(64) + other.poll(64) > 0 {}
            scope.wait(sending).map(|_| ())
        })
        .unwrap();
    });
}

#[test]
fn a_message_of_a_rank_that_is_not_in_the_communicator_is_dropped_and_ends_no_peer() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let [one, other, _] = &mut ranks[..] else { panic!("three ranks are needed") };
    // Rank 0 is in a communicator of slot 2 that rank 1 is not in (as far as it knows, with the
    // same generation).
    let ours = install(one, 1);
    let members = Members::These([PeerId(1), PeerId(2)].into_iter());
    let theirs = other.install(2, 1, &members).unwrap();
    one.send(&ours, &[1_u8], Rank(1), Tag(0)).unwrap();
    while other.poll(64) > 0 {}
    assert_eq!((other.counters().stale_contexts, other.counters().malformed), (1, 0));
    assert_eq!(other.iprobe(&theirs, Source::Any, TagMatch::Any).unwrap(), None);
    let world = one.world();
    one.send(&world, &[1_u8], Rank(1), Tag(0)).unwrap();
    let mut got = [0_u8];
    let world = other.world();
    other.recv(&world, &mut got, Rank(0), Tag(0)).unwrap();
}
