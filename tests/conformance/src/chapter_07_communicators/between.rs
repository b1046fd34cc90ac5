//! Inter-communication: section 7.6.

use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{self, SplitChoice};
use aldis_coll::op::Sum;
use aldis_coll::{allreduce, barrier};
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;

cases! {
    "7.6.1", 5: an_intercommunicator_has_a_local_and_a_remote_group;
    "7.6.1", 5: its_ranks_are_those_of_the_other_group;
    "7.6.1", 5: it_has_messages_of_its_own;
    "7.6.2", 5: merged_groups_are_in_the_order_that_they_ask_for;
    "7.6.2", 4: a_duplicate_of_an_intercommunicator_is_another;
    "7.4.2", 6: both_groups_of_an_intercommunicator_are_split;
    "7.6", 4: a_collective_needs_one_group;
    "7.6.2", 3: two_groups_of_an_intercommunicator_share_no_process;
}

pub(super) type MadeBetween = Result<(Comm, Comm), Box<dyn core::error::Error>>;

/// The first two ranks, the others, and an intercommunicator between them: this rank's group and
/// that.
pub(super) fn halves<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> MadeBetween {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 10]);
    let is_upper = world.rank().0 >= 2;
    let half = comm::split(ep, &world, Some(is_upper.into()), 0, &mut scratch)?.ok_or("two colours")?;
    let other = Rank(if is_upper { 0 } else { 2 });
    let between = inter::create(
        ep,
        Leaders { local: &half, leader: Rank(0), peer: &world, remote: other, tag: Tag(1) },
        &mut scratch,
    )?;
    Ok((half, between))
}

pub(super) fn free<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    half: Comm,
    between: Comm,
) -> Outcome {
    inter::free(ep, between)?;
    Ok(comm::free(ep, half)?)
}

fn an_intercommunicator_has_a_local_and_a_remote_group<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (half, between) = halves(ep)?;
    assert!(between.is_inter() && !half.is_inter());
    let is_upper = ep.world().rank().0 >= 2;
    assert_eq!((between.size(), between.remote_size()), if is_upper { (3, 2) } else { (2, 3) });
    let processes =
        |group: aldis_kernel::Group<'_>| group.processes().map(|process| process.0).collect::<Vec<_>>();
    let (local, remote) =
        (processes(ep.comm(&between).group()?), processes(ep.comm(&between).remote_group()?));
    let (lower, upper) = (vec![0, 1], vec![2, 3, 4]);
    assert_eq!((local, remote), if is_upper { (upper, lower) } else { (lower, upper) });
    free(ep, half, between)
}

fn its_ranks_are_those_of_the_other_group<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (half, between) = halves(ep)?;
    let (me, remote) = (ep.world().rank().0, between.remote_size());
    let mut got = vec![[0_u32; 30]; remote as usize];
    let data = [me; 30];
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (from, got) in (0..).zip(&mut got) {
            requests.push(scope.irecv(&between, got, Rank(from), Tag(1))?);
        }
        for to in 0..remote {
            requests.push(scope.isend(&between, &data, Rank(to), Tag(1))?);
        }
        scope.wait_all(&mut requests)
    })?;
    let first = if me >= 2 { 0 } else { 2 };
    assert!((first..).zip(&got).all(|(process, got)| *got == [process; 30]));
    let outside = ep.send(&between, &[0_u8], Rank(remote), Tag(1)).expect_err("there are so many only");
    assert_eq!(outside.cause, Cause::RankOutOfRange { rank: remote, size: remote });
    free(ep, half, between)
}

fn it_has_messages_of_its_own<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let made = halves(ep)?;
    let (world, between) = (ep.world(), made.1);
    let me = world.rank().0;
    // Rank 4 is rank 2 of its group. Both of its messages have the tag, and a wildcard is met by
    // that of its own.
    if me == 4 {
        ep.send(&world, &[1_u32], Rank(1), Tag(9))?;
        ep.send(&between, &[2_u32], Rank(1), Tag(9))?;
    } else if me == 1 {
        let mut got = [0_u32];
        assert_eq!(ep.probe(&between, Source::Any, TagMatch::Any)?.source, Rank(2));
        let status = ep.recv(&between, &mut got, Source::Any, TagMatch::Any)?;
        assert_eq!((status.source, got), (Rank(2), [2]));
        let status = ep.recv(&world, &mut got, Source::Any, Tag(9))?;
        assert_eq!((status.source, got), (Rank(4), [1]));
    }
    free(ep, made.0, made.1)
}

fn merged_groups_are_in_the_order_that_they_ask_for<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let is_upper = ep.world().rank().0 >= 2;
    for (high, expected) in [(is_upper, [0, 1, 2, 3, 4]), (!is_upper, [2, 3, 4, 0, 1])] {
        let merged = inter::merge(ep, &made.1, high)?;
        let found: Vec<u32> = ep.comm(&merged).group()?.processes().map(|process| process.0).collect();
        assert_eq!(found, expected);
        let mut sum = [u64::from(ep.process().0)];
        allreduce(Sum, &mut sum, &mut [0]).run(ep, &merged)?;
        assert_eq!(sum, [10]);
        comm::free(ep, merged)?;
    }
    free(ep, made.0, made.1)
}

fn a_duplicate_of_an_intercommunicator_is_another<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let (between, mut got) = (made.1, [[0_u32]; 2]);
    let copy = inter::dup(ep, &between)?;
    let (me, other) = (ep.world().rank().0, between.rank());
    let sent = [[me], [me + 100]];
    ep.scope(|scope| {
        let [first, second] = &mut got;
        let mut requests = [
            scope.irecv(&copy, second, Source::Any, TagMatch::Any)?,
            scope.irecv(&between, first, Source::Any, TagMatch::Any)?,
            scope.isend(&between, &sent[0], other, Tag(1))?,
            scope.isend(&copy, &sent[1], other, Tag(1))?,
        ];
        scope.wait_all(&mut requests)
    })?;
    let there = (me + 2) % 4;
    assert_eq!(got, [[there], [there + 100]]);
    inter::free(ep, copy)?;
    free(ep, made.0, made.1)
}

fn both_groups_of_an_intercommunicator_are_split<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (made, mut scratch) = (halves(ep)?, [SplitChoice::NONE; 10]);
    let me = ep.world().rank().0;
    // Even with even, odd with odd: 0 with 2 and 4, 1 with 3 and 5.
    let part =
        inter::split(ep, &made.1, Some(me % 2), 0, &mut scratch)?.ok_or("both sides have the colour")?;
    assert_eq!((part.size(), part.remote_size()), if me >= 2 { (2, 1) } else { (1, 2) });
    let remote: Vec<u32> = ep.comm(&part).remote_group()?.processes().map(|process| process.0).collect();
    assert_eq!(remote, if me >= 2 { vec![me % 2] } else { vec![2 + me, 4 + me] });
    inter::free(ep, part)?;
    // A colour that one side alone has given is none.
    let alone = inter::split(ep, &made.1, Some(u32::from(me >= 2)), 0, &mut scratch)?;
    assert!(alone.is_none());
    free(ep, made.0, made.1)
}

fn a_collective_needs_one_group<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let made = halves(ep)?;
    assert_eq!(barrier().run(ep, &made.1).expect_err("it has two").cause, Cause::Intercommunicator);
    assert_eq!(comm::dup(ep, &made.1).expect_err("it has two").cause, Cause::Intercommunicator);
    assert_eq!(inter::dup(ep, &made.0).expect_err("it has one").cause, Cause::Intracommunicator);
    free(ep, made.0, made.1)
}

fn two_groups_of_an_intercommunicator_share_no_process<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 10]);
    // All of the world on either side: rank 0 leads one, and tells that rank 1 leads the other.
    let error = inter::create(
        ep,
        Leaders { local: &world, leader: Rank(0), peer: &world, remote: Rank(0), tag: Tag(1) },
        &mut scratch,
    )
    .err();
    assert!(matches!(error.map(|error| error.cause), Some(Cause::Overlap { .. })), "{error:?}");
    Ok(())
}
