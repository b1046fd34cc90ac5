//! The steps that an error leads to, by its communicator's policy (MPI 4.1 chapter 9), and aborts
//! (section 9.7).

use core::cell::RefCell;
use core::iter::Empty;
use core::time::Duration;

use aldis_kernel::hal::{Cause, Operation, PeerId};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, LentRange, Members, Policy, Rank, Sleeper, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern};

std::thread_local! {
    /// The arguments with which the callback of this test was called.
    static SEEN: RefCell<Vec<(u32, Cause)>> = const { RefCell::new(Vec::new()) };
}

fn note(comm: &Comm, error: &Error) {
    SEEN.with(|seen| seen.borrow_mut().push((comm.context(), error.cause)));
}

fn seen() -> Vec<(u32, Cause)> {
    SEEN.take()
}

/// The communicator of ranks 0 and 1 in slot 2.
fn pair(rank: &mut rig::Rank<'_>) -> Comm {
    rank.install(2, 1, &Members::These([PeerId(0), PeerId(1)].into_iter())).unwrap()
}

fn settle_all(ranks: &mut [rig::Rank<'_>]) {
    while ranks.iter_mut().map(|rank| rank.poll(64)).sum::<u32>() > 0 {}
}

#[test]
fn a_callback_sees_every_failure_once_and_the_call_returns_it_all_the_same() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let (world, theirs) = (one.world(), other.world());
    other.comm_mut(&theirs).set_error_policy(Policy::Callback(note)).unwrap();
    let mut small = [0_u8; 4];
    let mut due = Vec::new();
    let mut failed = |error: Error| {
        due.push((theirs.context(), error.cause));
        assert_eq!(seen(), due[due.len() - 1..], "{error}");
    };
    failed(other.send(&theirs, &[1_u8], Rank(2), Tag(0)).unwrap_err());
    failed(other.recv(&theirs, &mut small, Rank(7), Tag(0)).unwrap_err());
    failed(other.ssend(&theirs, &[1_u8], Rank(0), Tag(u32::MAX)).unwrap_err());
    failed(other.probe(&theirs, Rank(5), TagMatch::Any).unwrap_err());
    failed(other.iprobe(&theirs, Rank(5), TagMatch::Any).unwrap_err());
    failed(other.recv_pooled(&theirs, Rank(5), TagMatch::Any).err().unwrap());
    let soon = Duration::from_millis(1);
    failed(other.within(soon).recv(&theirs, &mut small, Source::Any, Tag(0)).unwrap_err());
    failed(other.within(soon).probe(&theirs, Rank(0), Tag(0)).unwrap_err());
    // Truncated: kept, posted and blocking.
    for length in [8, 60, 500] {
        let data = pattern(1, length);
        let sent = one.scope(|scope| {
            let sending = scope.isend(&world, &data, Rank(1), Tag(1))?;
            while scope.poll(64) + other.poll(64) > 0 {}
            let error = other.scope(|there| {
                let receiving = there.irecv(&theirs, &mut small, Rank(0), Tag(1))?;
                while scope.poll(64) + there.poll(64) > 0 {}
                there.wait(receiving)
            });
            failed(error.unwrap_err());
            scope.wait(sending)
        });
        assert_eq!(sent.unwrap().bytes, length as u64);
    }
    let mut memory = [0_u8; 8];
    let busy = other.scope(|there| {
        let lent = there.lend(&mut memory);
        let mut request = there.recv_init(&theirs, lent, 0..8, Rank(0), Tag(3))?;
        there.start(&mut request)?;
        let busy = there.start(&mut request).unwrap_err();
        assert!(there.cancel(&mut request));
        Ok(busy)
    });
    failed(busy.unwrap());
    let past_the_end = other.scope(|there| {
        let lent = there.lend(&mut memory);
        there.isend_part(&theirs, lent, 4..9, Rank(0), Tag(3)).map(drop)
    });
    failed(past_the_end.unwrap_err());
}

#[test]
fn a_future_that_fails_is_seen_too() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[1];
    let world = rank.world();
    rank.comm_mut(&world).set_error_policy(Policy::Callback(note)).unwrap();
    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let futures = rank.futures(&mut sleepers).unwrap();
    let (soon, mut buffer) = (Duration::from_micros(5), [0_u8; 4]);
    let out = Cause::RankOutOfRange { rank: 5, size: 2 };
    for (error, due) in [
        (futures.block_on(futures.recv(&world, &mut buffer, Rank(5), Tag(1))), out),
        (futures.block_on(futures.probe(&world, Rank(5), Tag(1))), out),
        (futures.block_on(futures.send(&world, &[1_u8], Rank(5), Tag(1))), out),
    ] {
        assert_eq!(error.unwrap_err().cause, due);
    }
    let late = futures.block_on(futures.recv(&world, &mut buffer, Rank(0), Tag(1)).within(soon));
    assert_eq!(late.unwrap_err().cause, Cause::TimedOut);
    let causes: Vec<Cause> = seen().into_iter().map(|(_, cause)| cause).collect();
    assert_eq!(causes, [out, out, out, Cause::TimedOut]);
}

#[test]
fn a_full_pool_is_no_failure() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    ranks[0].comm_mut(&world).set_error_policy(Policy::Callback(note)).unwrap();
    let mut buffers = [[0_u8; 4]; REQUESTS + 1];
    let full = ranks[0].scope(|scope| {
        let mut requests = Vec::new();
        for buffer in &mut buffers {
            requests.push(scope.irecv(&world, buffer, Rank(1), Tag(0)).inspect_err(|_| {
                assert!(seen().is_empty());
            })?);
        }
        Ok(())
    });
    assert!(matches!(full.unwrap_err().cause, Cause::Full(_)));
}

#[test]
fn each_communicator_has_its_own_policy_and_self_has_the_rest() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let (world, itself, pair) = (rank.world(), rank.itself(), pair(rank));
    assert!(matches!(rank.comm(&pair).error_policy(), Ok(Policy::Return)));
    rank.comm_mut(&pair).set_error_policy(Policy::Callback(note)).unwrap();
    rank.send(&world, &[1_u8], Rank(9), Tag(0)).unwrap_err();
    assert_eq!(seen(), []);
    let out = Cause::RankOutOfRange { rank: 9, size: 2 };
    rank.send(&pair, &[1_u8], Rank(9), Tag(0)).unwrap_err();
    // On the plane of collectives too.
    rank.send(&pair.collective(), &[1_u8], Rank(9), Tag(0)).unwrap_err();
    assert_eq!(seen(), [(pair.context(), out); 2]);
    // Of a communicator that was freed, and of none.
    rank.comm_mut(&itself).set_error_policy(Policy::Callback(note)).unwrap();
    rank.discard(&pair).unwrap();
    rank.send(&pair, &[1_u8], Rank(1), Tag(0)).unwrap_err();
    let mut memory = [0_u8; 8];
    let overlapping = rank.scope(|scope| {
        let lent = scope.lend(&mut memory);
        scope.combine(LentRange::new(lent, 0..4), LentRange::new(lent, 2..6), |_, _| {})
    });
    assert_eq!(overlapping.unwrap_err().operation, Operation::None);
    assert_eq!(seen(), [(itself.context(), Cause::Stale), (itself.context(), Cause::Busy)]);
    assert_eq!(rank.comm_mut(&pair).set_error_policy(Policy::Return).unwrap_err().cause, Cause::Stale);
    assert_eq!(rank.comm(&pair).error_policy().unwrap_err().cause, Cause::Stale);
    // The slot's next communicator has none.
    let again = rank.install(2, 2, &Members::<Empty<PeerId>>::Of(world)).unwrap();
    rank.send(&again, &[1_u8], Rank(9), Tag(0)).unwrap_err();
    assert_eq!(seen(), []);
}

/// Checks what becomes of a communicator of ranks 0 and 1 that rank 0 aborts: of these two, and of
/// rank 2.
fn check_aborted(ranks: &mut [rig::Rank<'_>], pairs: [Comm; 2], code: i32) {
    let (mut buffer, worlds) = ([0_u8; 4], ranks.iter().map(|rank| rank.world()).collect::<Vec<_>>());
    settle_all(ranks);
    for rank in 0..2 {
        assert_eq!(ranks[rank].aborted(), Some((PeerId(0), code)), "rank {rank}");
        for comm in [pairs[rank], worlds[rank]] {
            let error = ranks[rank].recv(&comm, &mut buffer, Source::Any, Tag(1)).unwrap_err();
            assert_eq!(error.cause, Cause::Aborted { code }, "rank {rank}");
            let error = ranks[rank].send(&comm, &buffer, Rank(0), Tag(1)).unwrap_err();
            assert_eq!(error.cause, Cause::Aborted { code }, "rank {rank}");
        }
    }
    assert_eq!(ranks[2].aborted(), None);
    for peer in [Rank(0), Rank(1)] {
        let error = ranks[2].recv(&worlds[2], &mut buffer, peer, Tag(1)).unwrap_err();
        assert_eq!((error.cause, error.peer()), (Cause::PeerAborted { code }, Some(peer)));
        let error = ranks[2].send(&worlds[2], &buffer, peer, Tag(1)).unwrap_err();
        assert_eq!((error.cause, error.peer()), (Cause::PeerAborted { code }, Some(peer)));
    }
    let error = ranks[2].recv(&worlds[2], &mut buffer, Source::Any, Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::PeerAborted { code }, "no peer is left that could send");
    ranks[2].send(&worlds[2], &[7_u8; 4], Rank(2), Tag(1)).unwrap();
    ranks[2].recv(&worlds[2], &mut buffer, Rank(2), Tag(1)).unwrap();
    assert_eq!(buffer, [7; 4]);
}

#[test]
fn an_abort_of_a_communicator_ends_its_processes_and_no_other() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let pairs = [0, 1].map(|rank| pair(&mut ranks[rank]));
    let stale = ranks[1].install(1, 9, &Members::<Empty<PeerId>>::Of(pairs[1]));
    assert_eq!(stale.unwrap_err(), Cause::Busy);
    ranks[0].comm_mut(&pairs[0]).abort(-4).unwrap();
    check_aborted(&mut ranks, pairs, -4);
}

#[test]
fn a_policy_aborts_the_communicator_or_the_job() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let pairs = [0, 1].map(|rank| pair(&mut ranks[rank]));
    ranks[0].comm_mut(&pairs[0]).set_error_policy(Policy::Abort { code: 70 }).unwrap();
    let world = ranks[0].world();
    ranks[0].send(&world, &[1_u8], Rank(9), Tag(0)).unwrap_err();
    assert_eq!(ranks[0].aborted(), None, "an error of another communicator");
    let error = ranks[0].send(&pairs[0], &[1_u8], Rank(9), Tag(0)).unwrap_err();
    assert_eq!(error.cause, Cause::RankOutOfRange { rank: 9, size: 2 }, "why it was aborted");
    check_aborted(&mut ranks, pairs, 70);

    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let pairs = [0, 1].map(|rank| pair(&mut ranks[rank]));
    ranks[1].comm_mut(&pairs[1]).set_error_policy(Policy::Fatal { code: 71 }).unwrap();
    ranks[1].send(&pairs[1], &[1_u8], Rank(9), Tag(0)).unwrap_err();
    settle_all(&mut ranks);
    for rank in &ranks {
        assert_eq!(rank.aborted(), Some((PeerId(1), 71)));
    }
}

#[test]
fn an_abort_is_told_again_while_the_wire_is_full() {
    let mut job = Job::new(2, Shape { depth: 1, ..Shape::default() });
    let (clock, queues) = (job.clock.clone(), job.queues.clone());
    let mut ranks = job.ranks();
    let (world, theirs) = (ranks[0].world(), ranks[1].world());
    ranks[0].send(&world, &[1_u8], Rank(1), Tag(0)).unwrap();
    let wire = queues[0][1].clone();
    *clock.event.borrow_mut() = Some((9_000, Box::new(move || wire.borrow_mut().clear())));
    ranks[0].abort(5);
    settle_all(&mut ranks);
    let error = ranks[1].send(&theirs, &[1_u8], Rank(0), Tag(0)).unwrap_err();
    assert_eq!(error.cause, Cause::Aborted { code: 5 });
}

/// Pending requests end at once, wherever they are.
#[test]
fn what_is_under_way_fails_with_the_abort() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let pairs = [0, 1].map(|rank| pair(&mut ranks[rank]));
    let world = ranks[2].world();
    let [one, other, third] = &mut ranks[..] else { panic!("three ranks are needed") };
    let (mut named, mut any) = ([0_u8; 4], [0_u8; 4]);
    third
        .scope(|scope| {
            let named = scope.irecv(&world, &mut named, Rank(1), Tag(1))?;
            let any = scope.irecv(&world, &mut any, Source::Any, Tag(1))?;
            one.comm_mut(&pairs[0]).abort(3)?;
            while scope.poll(64) + other.poll(64) > 0 {}
            for (request, peer) in [(named, Some(Rank(1))), (any, Some(Rank(1)))] {
                let error = scope.wait(request).unwrap_err();
                assert_eq!((error.cause, error.peer()), (Cause::PeerAborted { code: 3 }, peer));
            }
            Ok(())
        })
        .unwrap();
    let data = [1_u8; 500];
    let sent = one.scope(|scope| scope.isend(&pairs[0], &data, Rank(1), Tag(1)).map(drop));
    assert_eq!(sent.unwrap_err().cause, Cause::Aborted { code: 3 });
}
