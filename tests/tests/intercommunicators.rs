//! Intercommunicators over the real kernel and shared-memory rings, a thread a rank: MPI 4.1
//! section 7.6.
#![allow(missing_docs)]

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{self, Dimension, Grid, SplitChoice, create, create_group, dup, free, split};
use aldis_coll::op::Sum;
use aldis_coll::{allreduce, barrier, bcast};
use aldis_kernel::hal::{Cause, Operation, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{
    Comm, Comparison, GENERATION_MAX, Group, GroupPiece, Members, Rank, Source, Tag, TagMatch,
};
use aldis_sim::{Outcome, Profile, SimConfig, SimEndpoint, Wire, simulate};
use aldis_tests::thread_jobs::{Endpoint, run};

const TAG: Tag = Tag(77);

/// Splits the world at `middle`, and makes an intercommunicator between the two parts, led by their
/// last ranks.
fn halves(endpoint: &mut Endpoint<'_, '_>, middle: u32) -> (Comm, Comm) {
    let (world, mut scratch) = (endpoint.world(), [SplitChoice::NONE; 9]);
    let is_upper = world.rank().0 >= middle;
    let half = split(endpoint, &world, Some(is_upper.into()), 0, &mut scratch).unwrap().unwrap();
    let (leader, other) = (Rank(half.size() - 1), Rank(if is_upper { middle } else { world.size() } - 1));
    let between = inter::create(
        endpoint,
        Leaders { local: &half, leader, peer: &world, remote: other, tag: TAG },
        &mut scratch,
    )
    .unwrap();
    (half, between)
}

fn processes(group: &Group<'_>) -> Vec<u32> {
    group.processes().map(|process| process.0).collect()
}

/// Both groups of an intercommunicator, and a message of each rank to each of the other side.
fn check(endpoint: &mut Endpoint<'_, '_>, inter: &Comm, local: &[u32], remote: &[u32]) {
    assert_eq!(processes(&endpoint.comm(inter).group().unwrap()), local);
    assert_eq!(processes(&endpoint.comm(inter).remote_group().unwrap()), remote);
    assert_eq!((inter.size(), inter.remote_size()), (local.len() as u32, remote.len() as u32));
    let me = endpoint.process().0;
    assert_eq!(local[inter.rank().0 as usize], me);
    assert!(inter.is_inter());
    for (rank, &process) in (0..).zip(remote) {
        assert_eq!(endpoint.process_of(inter, Rank(rank)).unwrap(), PeerId(process));
        endpoint.send(inter, &[me, process], Rank(rank), Tag(inter.rank().0)).unwrap();
    }
    for (rank, &process) in (0..remote.len() as u32).zip(remote).rev() {
        let mut got = [0_u32; 2];
        let status = endpoint.recv(inter, &mut got, Rank(rank), TagMatch::Any).unwrap();
        assert_eq!((got, status.source, status.tag), ([process, me], Rank(rank), Tag(rank)));
    }
    inter::dup(endpoint, inter).and_then(|copy| inter::free(endpoint, copy)).unwrap();
}

#[test]
fn ranks_address_the_remote_group() {
    for (size, middle) in [(2, 1), (3, 1), (3, 2), (7, 3), (8, 1), (9, 4)] {
        run(size, |endpoint| {
            let (half, between) = halves(endpoint, middle);
            let (lower, upper): (Vec<u32>, Vec<u32>) = ((0..middle).collect(), (middle..size).collect());
            let is_upper = endpoint.process().0 >= middle;
            let (local, remote) = if is_upper { (upper, lower) } else { (lower, upper) };
            check(endpoint, &between, &local, &remote);
            // Beyond the remote group, and the null process.
            let size = between.remote_size();
            let error = endpoint.send(&between, &[0_u8], Rank(size), TAG).unwrap_err();
            assert_eq!(error.cause, Cause::RankOutOfRange { rank: size, size });
            endpoint.send(&between, &[0_u8], Rank::NULL, TAG).unwrap();
            // The local group goes on without it, and it without the communicator that it was made
            // of.
            let mut sum = [1_u64];
            allreduce(Sum, &mut sum, &mut [0]).run(endpoint, &half).unwrap();
            assert_eq!(sum, [local.len() as u64]);
            free(endpoint, half).unwrap();
            check(endpoint, &between, &local, &remote);
            inter::free(endpoint, between).unwrap();
            let stale = endpoint.send(&between, &[0_u8], Rank(0), TAG).unwrap_err();
            assert_eq!(stale.cause, Cause::Stale);
            assert_eq!(inter::free(endpoint, between).unwrap_err().cause, Cause::Stale);
        });
    }
}

/// Wildcards, order, probes and modes: MPI 4.1 section 7.6 says that all of point-to-point works.
#[test]
fn every_way_to_send_and_to_receive_works_over_it() {
    run(5, |endpoint| {
        let (half, between) = halves(endpoint, 2);
        let me = between.rank().0;
        if between.remote_size() == 3 {
            // Each of the two sends three numbered messages to each of three, in all modes.
            for to in (0..3).map(Rank) {
                endpoint.ssend(&between, &[me * 10], to, Tag(1)).unwrap();
                endpoint.send(&between, &[me * 10 + 1], to, Tag(2)).unwrap();
                let large = [me * 10 + 2; 300];
                endpoint.send(&between, &large, to, Tag(1)).unwrap();
            }
            let mut word = [0_u32];
            let status = endpoint.recv(&between, &mut word, Rank(2), Tag(3)).unwrap();
            assert_eq!((status.source, word), (Rank(2), [2 + me]));
        } else {
            let mut next = [0_u32; 2];
            for _ in 0..6 {
                let due = endpoint.probe(&between, Source::Any, TagMatch::Any).unwrap();
                let mut got = [0_u32; 300];
                let status = endpoint.recv(&between, &mut got, due.source, due.tag).unwrap();
                assert_eq!(status, due);
                let sender = status.source.0;
                assert_eq!(got[0], sender * 10 + next[sender as usize], "messages of a rank stay in order");
                next[sender as usize] += 1;
            }
            assert_eq!(next, [3, 3]);
            if me == 2 {
                endpoint.send(&between, &[me], Rank(0), Tag(3)).unwrap();
                endpoint.send(&between, &[me + 1], Rank(1), Tag(3)).unwrap();
            }
            assert_eq!(endpoint.iprobe(&between, Source::Any, TagMatch::Any).unwrap(), None);
        }
        inter::free(endpoint, between).unwrap();
        free(endpoint, half).unwrap();
    });
}

#[test]
fn merged_it_is_one_group_in_the_order_asked_for() {
    run(7, |endpoint| {
        let (half, between) = halves(endpoint, 4);
        let is_upper = endpoint.process().0 >= 4;
        let (lower, upper) = ([0, 1, 2, 3], [4, 5, 6]);
        for (lower_high, upper_high) in [(false, true), (true, false), (true, true), (false, false)] {
            let high = if is_upper { upper_high } else { lower_high };
            let merged = inter::merge(endpoint, &between, high).unwrap();
            let due: Vec<u32> = match (lower_high, upper_high) {
                (true, false) => upper.into_iter().chain(lower).collect(),
                _ => lower.into_iter().chain(upper).collect(),
            };
            assert_eq!(processes(&endpoint.comm(&merged).group().unwrap()), due);
            assert!(!merged.is_inter());
            let mut sum = [u64::from(endpoint.process().0)];
            allreduce(Sum, &mut sum, &mut [0]).run(endpoint, &merged).unwrap();
            assert_eq!((sum, merged.remote_size()), ([21], 0));
            free(endpoint, merged).unwrap();
        }
        // One rank says otherwise than its group.
        let error = inter::merge(endpoint, &between, endpoint.process() == PeerId(2)).unwrap_err();
        assert_eq!((error.cause, error.operation), (Cause::Disagreement, Operation::Create));
        check(
            endpoint,
            &between,
            if is_upper { &upper } else { &lower },
            if is_upper { &lower } else { &upper },
        );
        inter::free(endpoint, between).unwrap();
        free(endpoint, half).unwrap();
    });
}

#[test]
fn it_is_duplicated_split_and_made_smaller() {
    run(8, |endpoint| {
        let (half, between) = halves(endpoint, 3);
        let (me, mut scratch) = (endpoint.process().0, [SplitChoice::NONE; 8]);
        let copy = inter::dup(endpoint, &between).unwrap();
        assert_eq!(endpoint.comm(&between).compare(&copy).unwrap(), Comparison::Congruent);
        assert_eq!(endpoint.comm(&between).compare(&between).unwrap(), Comparison::Identical);
        assert_eq!(endpoint.comm(&between).compare(&half).unwrap(), Comparison::Unequal);
        inter::free(endpoint, copy).unwrap();
        // Odd and even ones, the upper ones backwards; rank 7 has a colour that no rank of the
        // other side has, 6 none.
        let colour = |rank: u32| match rank {
            6 => None,
            7 => Some(9),
            _ => Some(rank % 2),
        };
        let part = inter::split(endpoint, &between, colour(me), -(me as i32), &mut scratch).unwrap();
        let (lower, upper): (&[u32], &[u32]) = if me % 2 == 0 { (&[2, 0], &[4]) } else { (&[1], &[5, 3]) };
        match part {
            Some(part) => {
                let (local, remote) = if me < 3 { (lower, upper) } else { (upper, lower) };
                check(endpoint, &part, local, remote);
                assert_eq!(endpoint.comm(&between).compare(&part).unwrap(), Comparison::Unequal);
                inter::free(endpoint, part).unwrap();
            }
            None => assert!(me >= 6),
        }
        // The same groups in another order.
        let turned = inter::split(endpoint, &between, Some(0), -(me as i32), &mut scratch).unwrap().unwrap();
        assert_eq!(endpoint.comm(&between).compare(&turned).unwrap(), Comparison::Similar);
        inter::free(endpoint, turned).unwrap();
        // Some of each side, in orders of their own.
        let (mut memory, lower) = ([GroupPiece::NONE; 4], me < 3);
        let some: &[u32] = if lower { &[2, 1] } else { &[3, 7, 4] };
        let group = Group::of(&some.iter().copied().map(PeerId).collect::<Vec<_>>(), &mut memory).unwrap();
        let part = inter::subset(endpoint, &between, &group, &mut scratch).unwrap();
        assert_eq!(part.is_some(), some.contains(&me));
        if let Some(part) = part {
            let (local, remote): (&[u32], &[u32]) =
                if lower { (&[2, 1], &[3, 7, 4]) } else { (&[3, 7, 4], &[2, 1]) };
            check(endpoint, &part, local, remote);
            inter::free(endpoint, part).unwrap();
        }
        // A side with no process, a process of the other side, and too little scratch, on one rank.
        let none = if lower { group } else { Group::EMPTY };
        assert_eq!(inter::subset(endpoint, &between, &none, &mut scratch).unwrap(), None);
        let mut memory = [GroupPiece::NONE; 4];
        let foreign = Group::of(&[PeerId(if me == 1 { 5 } else { 1 })], &mut memory).unwrap();
        let wrong = if lower { foreign } else { Group::EMPTY };
        let error = inter::subset(endpoint, &between, &wrong, &mut scratch).unwrap_err();
        match me {
            1 => assert_eq!(error.cause, Cause::RankOutOfRange { rank: 5, size: 3 }),
            _ => assert_eq!((error.cause, error.peer()), (Cause::Declined, Some(Rank(1)))),
        }
        let entries = if me == 4 { 7 } else { 8 };
        let error = inter::split(endpoint, &between, Some(0), 0, &mut scratch[..entries]).unwrap_err();
        let what = Resource::Scratch;
        match me {
            4 => assert_eq!(error.cause, Cause::TooSmall { what, need: 8, have: 7 }),
            _ => assert_eq!((error.cause, error.peer()), (Cause::Full(what), Some(Rank(4)))),
        }
        inter::free(endpoint, between).unwrap();
        free(endpoint, half).unwrap();
    });
}

/// An intercommunicator is refused where one group is needed, and the other way round.
#[test]
fn one_group_or_two_is_a_typed_error() {
    run(3, |endpoint| {
        let (half, between) = halves(endpoint, 1);
        let (world, mut scratch) = (endpoint.world(), [SplitChoice::NONE; 3]);
        let group = Group::EMPTY;
        let refused = [
            barrier().run(endpoint, &between).unwrap_err(),
            bcast(&mut [0_u8], Rank(0)).run(endpoint, &between).unwrap_err(),
            allreduce(Sum, &mut [0_u64], &mut [0]).run(endpoint, &between).unwrap_err(),
            dup(endpoint, &between).unwrap_err(),
            split(endpoint, &between, Some(0), 0, &mut scratch).unwrap_err(),
            create(endpoint, &between, &group).unwrap_err(),
            create_group(endpoint, &between, &group, TAG).unwrap_err(),
            comm::split_type(endpoint, &between, 0, |_| true, &mut scratch).unwrap_err(),
            Grid::create(endpoint, &between, &[Dimension { extent: 1, is_periodic: false }]).unwrap_err(),
            free(endpoint, between).unwrap_err(),
            inter::create(
                endpoint,
                Leaders { local: &between, leader: Rank(0), peer: &world, remote: Rank(0), tag: TAG },
                &mut scratch,
            )
            .unwrap_err(),
        ];
        assert!(refused.iter().all(|error| error.cause == Cause::Intercommunicator), "{refused:?}");
        let refused = [
            inter::dup(endpoint, &half).unwrap_err(),
            inter::merge(endpoint, &half, true).unwrap_err(),
            inter::split(endpoint, &half, Some(0), 0, &mut scratch).unwrap_err(),
            inter::subset(endpoint, &half, &group, &mut scratch).unwrap_err(),
            inter::free(endpoint, half).unwrap_err(),
            endpoint.comm(&world).remote_group().unwrap_err(),
            endpoint.companion(&world).unwrap_err(),
        ];
        assert!(refused.iter().all(|error| error.cause == Cause::Intracommunicator), "{refused:?}");
        inter::free(endpoint, between).unwrap();
        free(endpoint, half).unwrap();
    });
}

#[test]
fn groups_that_overlap_are_refused_by_name() {
    run(4, |endpoint| {
        let (world, me, mut scratch) = (endpoint.world(), endpoint.process().0, [SplitChoice::NONE; 6]);
        // {0, 1, 2} and {2, 3}, led by 0 and 3.
        let mut memory = [GroupPiece::NONE; 2];
        let group = |list: &[u32]| list.iter().copied().map(PeerId).collect::<Vec<_>>();
        let overlap = Cause::Overlap { rank: 2 };
        let below = Group::of(&group(&[0, 1, 2]), &mut memory).unwrap();
        let below = create(endpoint, &world, &below).unwrap();
        let mut memory = [GroupPiece::NONE; 2];
        let above = Group::of(&group(&[2, 3]), &mut memory).unwrap();
        let above = create(endpoint, &world, &above).unwrap();
        for (local, leader, other) in [(below, 0, 3), (above, 1, 0)] {
            let Some(local) = local else { continue };
            let made = inter::create(
                endpoint,
                Leaders { local: &local, leader: Rank(leader), peer: &world, remote: Rank(other), tag: TAG },
                &mut scratch,
            );
            assert_eq!(made.unwrap_err().cause, overlap);
        }
        // A leader that is in the same group.
        let itself = endpoint.itself();
        let (local, other) = match below {
            Some(below) => (below, Rank(1)),
            None => (itself, Rank(me)),
        };
        let error = inter::create(
            endpoint,
            Leaders { local: &local, leader: Rank(0), peer: &world, remote: other, tag: TAG },
            &mut scratch,
        )
        .unwrap_err();
        assert_eq!(error.cause, Cause::Overlap { rank: other.0 });
        for local in [below, above].into_iter().flatten() {
            free(endpoint, local).unwrap();
        }
    });
}

#[test]
fn what_keeps_leaders_apart_is_a_typed_error() {
    run(4, |endpoint| {
        let (world, me, mut scratch) = (endpoint.world(), endpoint.process().0, [SplitChoice::NONE; 4]);
        let half = split(endpoint, &world, Some(me / 2), 0, &mut scratch).unwrap().unwrap();
        let other = Rank(if me < 2 { 2 } else { 0 });
        let limit = Duration::from_millis(50);
        let mut make = |endpoint: &mut Endpoint<'_, '_>, leader, peer: &Comm, other, tag| {
            let leaders = Leaders { local: &half, leader, peer, remote: other, tag };
            inter::create(&mut endpoint.within(limit), leaders, &mut scratch).unwrap_err()
        };
        // A leader out of range, of one group and of the other.
        let error = make(endpoint, Rank(2), &world, other, TAG);
        assert_eq!(error.cause, Cause::RankOutOfRange { rank: 2, size: 2 });
        let error = make(endpoint, Rank(0), &world, Rank(4), TAG);
        match me % 2 {
            0 => assert_eq!(error.cause, Cause::RankOutOfRange { rank: 4, size: 4 }),
            _ => assert_eq!((error.cause, error.peer()), (Cause::Declined, Some(Rank(me - 1)))),
        }
        // A communicator that the other leader is not in, a tag that is none.
        let error = make(endpoint, Rank(0), &half, other, TAG);
        let apart =
            if me < 2 { Cause::RankOutOfRange { rank: 2, size: 2 } } else { Cause::Overlap { rank: 2 } };
        match me % 2 {
            0 => assert_eq!(error.cause, apart),
            _ => assert!(matches!(error.cause, Cause::Declined | Cause::Overlap { rank: 2 })),
        }
        let error = make(endpoint, Rank(0), &world, other, Tag(1 << 29));
        match me % 2 {
            0 => assert_eq!(error.cause, Cause::TagOutOfRange { tag: 1 << 29, max: (1 << 29) - 1 }),
            _ => assert_eq!(error.cause, Cause::Declined),
        }
        barrier().run(endpoint, &world).unwrap();
        // Leaders that give different tags wait for each other.
        let error = make(endpoint, Rank(0), &world, other, Tag(me / 2));
        match me % 2 {
            0 => assert_eq!((error.cause, error.peer()), (Cause::TimedOut, Some(other))),
            _ => assert!(matches!(error.cause, Cause::TimedOut | Cause::Declined), "{error}"),
        }
        barrier().run(endpoint, &world).unwrap();
        free(endpoint, half).unwrap();
    });
}

/// Too little memory on any rank of either side fails on all, changes nothing, and says where.
#[test]
fn what_one_rank_cannot_do_fails_on_both_sides() {
    run(5, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let mut scratch = [SplitChoice::NONE; 5];
        let half = split(endpoint, &world, Some(u32::from(me >= 2)), 0, &mut scratch).unwrap().unwrap();
        let other = Rank(if me < 2 { 2 } else { 0 });
        let what = Resource::Scratch;
        // A leader, and another.
        for short in [2, 1, 4] {
            let entries = if me == short { 4 } else { 5 };
            let scratch = &mut scratch[..entries];
            let error = inter::create(
                endpoint,
                Leaders { local: &half, leader: Rank(0), peer: &world, remote: other, tag: TAG },
                scratch,
            )
            .unwrap_err();
            match me == short {
                true => assert_eq!(error.cause, Cause::TooSmall { what, need: 5, have: 4 }),
                false => assert_eq!((error.cause, error.peer()), (Cause::Full(what), Some(Rank(short)))),
            }
        }
        // As many as the table of one rank has room for: each takes two slots.
        for _ in 0..3 {
            let extra = (me == 3).then(|| dup(endpoint, &endpoint.itself()).unwrap());
            let mut made = Vec::new();
            let full = loop {
                match inter::create(
                    endpoint,
                    Leaders { local: &half, leader: Rank(0), peer: &world, remote: other, tag: TAG },
                    &mut scratch,
                ) {
                    Ok(comm) => made.push(comm),
                    Err(error) => break error,
                }
            };
            assert_eq!((full.cause, made.len()), (Cause::Full(Resource::Communicators), 3), "{full}");
            for inter in made {
                inter::free(endpoint, inter).unwrap();
            }
            extra.map_or(Ok(()), |extra| free(endpoint, extra)).unwrap();
            let left = endpoint.context_offer(0).free[0];
            assert_eq!(left, 0b11_1111_1000, "all but world, self and the half are free again");
        }
        free(endpoint, half).unwrap();
    });
}

/// Before generations begin again each rank receives what those of the other side have sent.
#[test]
fn generations_begin_again() {
    run(5, |endpoint| {
        let (world, me, mut scratch) = (endpoint.world(), endpoint.process(), [SplitChoice::NONE; 5]);
        let half = split(endpoint, &world, Some(u32::from(me.0 >= 2)), 0, &mut scratch).unwrap().unwrap();
        let other = Rank(if me.0 < 2 { 2 } else { 0 });
        if me == PeerId(4) {
            let alone = Members::These([me].into_iter());
            let used = endpoint.install(4, GENERATION_MAX - 2, &alone).unwrap();
            endpoint.discard(&used).unwrap();
        }
        for due in [GENERATION_MAX - 1, GENERATION_MAX, 1, 2] {
            let inter = inter::create(
                endpoint,
                Leaders { local: &half, leader: Rank(0), peer: &world, remote: other, tag: TAG },
                &mut scratch,
            )
            .unwrap();
            assert_eq!(inter.context(), due << 16 | 4);
            for rank in (0..inter.remote_size()).map(Rank) {
                endpoint.send(&inter, &[due], rank, Tag(1)).unwrap();
            }
            inter::free(endpoint, inter).unwrap();
        }
        free(endpoint, half).unwrap();
    });
}

/// A receive from any source waits for the remote group: it fails when all of that are gone, though
/// the local one is there.
#[test]
fn a_wildcard_depends_on_the_remote_group() {
    run(4, |endpoint| {
        let (_, between) = halves(endpoint, 2);
        let mut got = [0_u32];
        if endpoint.process().0 >= 2 {
            endpoint.recv(&between, &mut got, Source::Any, TagMatch::Any).unwrap();
            endpoint.leave(Duration::from_secs(5)).unwrap();
        } else {
            endpoint.send(&between, &[7_u32], between.rank(), TAG).unwrap();
            let error = endpoint.recv(&between, &mut got, Source::Any, TagMatch::Any).unwrap_err();
            assert_eq!((error.cause, error.context), (Cause::PeerLeft, between.context()));
        }
    });
}

/// A rank dies while all make a communicator, of one group or of two: a rank that is told of it
/// tells those that would wait for it.
#[test]
fn after_a_death_all_ranks_fail_and_none_hangs() {
    static FAILED: AtomicU32 = AtomicU32::new(0);
    let program = |endpoint: &mut SimEndpoint<'_>, call: u64, limit: Duration| -> Outcome {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let (other, mine) = if me < 3 { (Rank(3), 0..3) } else { (Rank(0), 3..7) };
        let half = endpoint.install(2, 1, &Members::These(mine.map(PeerId)))?;
        let (mut scratch, within) = ([SplitChoice::NONE; 7], &mut endpoint.within(limit));
        let made = match call {
            0 => dup(within, &world).map(|_| ()),
            1 => split(within, &world, Some(me % 2), 0, &mut scratch).map(|_| ()),
            _ => inter::create(
                within,
                Leaders { local: &half, leader: Rank(0), peer: &world, remote: other, tag: TAG },
                &mut scratch,
            )
            .map(|_| ()),
        };
        let Err(error) = made else { return Ok(()) };
        FAILED.fetch_add(1, Ordering::Relaxed);
        // This rank stays for longer than any other would wait.
        let itself = endpoint.itself();
        let _ = endpoint.within(2 * limit).recv(&itself, &mut [0_u8], Rank(0), Tag(0));
        let is_named = error.peer().is_some() && error.cause != Cause::TimedOut;
        if is_named { Err(error.into()) } else { Err(error.to_string().into()) }
    };
    for seed in 0..48 {
        // Deaths are told on the wire of messages; on that of frames a handshake waits half a
        // second for the dead.
        let (wire, limit) = if seed % 8 < 7 { (Wire::Messages, 200) } else { (Wire::Frames, 800) };
        let config = SimConfig { faults: Profile::Crash, wire, ..SimConfig::new(seed, 7) };
        let limit = Duration::from_millis(limit);
        let report = simulate(&config, move |endpoint| program(endpoint, seed % 3, limit)).unwrap();
        assert_eq!(report.failure, None, "{report}");
    }
    assert!(FAILED.load(Ordering::Relaxed) > 60, "{FAILED:?} calls have failed");
}
