//! Communicator management: section 7.4, and names, 7.8.

use aldis_coll::allreduce;
use aldis_coll::comm::{SplitChoice, create, create_group, dup, free, split, split_type};
use aldis_coll::op::Sum;
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{
    Comm, Comparison, Endpoint, Error, Group, GroupPiece, Rank, RankRange, Source, Tag, TagMatch,
};

use super::super::Outcome;

cases! {
    "7.4.1", 3: communicators_compare_by_context_and_group;
    "7.4.2", 4: a_duplicate_has_the_same_ranks_in_a_context_of_its_own;
    "7.4.2", 6: a_split_goes_by_colour_and_key;
    "7.4.2", 4: a_split_without_colour_is_in_none;
    "7.4.2", 6: ranks_that_share_memory_are_split_together;
    "7.4.2", 5: create_makes_one_of_a_group;
    "7.4.2", 6: disjoint_groups_are_created_at_a_time;
    "7.4.2", 5: create_group_needs_its_members_only;
    "7.4.2", 4: communicators_are_made_of_made_ones;
    "7.4.3", 3: a_freed_communicator_is_stale;
    "7.4.3", 3: unreceived_messages_go_with_their_communicator;
    "7.4.3", 4: contexts_are_used_again_and_keep_messages_apart;
    "7.4.2", 3: too_many_communicators_are_an_error_on_all_ranks;
    "7.8", 2: communicators_have_names;
}

/// Checks that exactly these processes are in a communicator, in this order, and exchange messages
/// in it.
fn roll_call<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    comm: &Comm,
    expected: &[u32],
) -> Result<(), Error> {
    let found: Vec<u32> = ep.comm(comm).group()?.processes().map(|process| process.0).collect();
    assert_eq!(found, expected);
    assert_eq!((comm.size() as usize, found[comm.rank().0 as usize]), (expected.len(), ep.process().0));
    let mut sum = [u64::from(ep.process().0)];
    allreduce(Sum, &mut sum, &mut [0]).run(ep, comm)?;
    assert_eq!(sum[0], expected.iter().map(|process| u64::from(*process)).sum::<u64>());
    // Ranks are those of the communicator, in statuses too.
    let (me, size) = (comm.rank().0, comm.size());
    let (next, previous, mut got) = (Rank((me + 1) % size), Rank((me + size - 1) % size), [0]);
    let status = ep.sendrecv(comm, &[ep.process().0], next, Tag(7), &mut got, Source::Any, TagMatch::Any)?;
    assert_eq!((status.source, got), (previous, [expected[previous.0 as usize]]));
    Ok(())
}

fn communicators_compare_by_context_and_group<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, itself) = (ep.world(), ep.itself());
    let copy = dup(ep, &world)?;
    let mut scratch = [SplitChoice::NONE; 3];
    let turned = split(ep, &world, Some(0), -(world.rank().0 as i32), &mut scratch)?.ok_or("one colour")?;
    assert_eq!(ep.comm(&world).compare(&world)?, Comparison::Identical);
    assert_eq!(ep.comm(&world).compare(&copy)?, Comparison::Congruent);
    assert_eq!(ep.comm(&copy).compare(&turned)?, Comparison::Similar);
    assert_eq!(ep.comm(&world).compare(&itself)?, Comparison::Unequal);
    free(ep, copy)?;
    Ok(free(ep, turned)?)
}

fn a_duplicate_has_the_same_ranks_in_a_context_of_its_own<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let copy = dup(ep, &world)?;
    roll_call(ep, &copy, &[0, 1, 2, 3])?;
    let (next, previous, mut got) = (Rank((me + 1) % size), (me + size - 1) % size, [[0]; 2]);
    let sent = [[me], [me + 100]];
    ep.scope(|scope| {
        let [first, second] = &mut got;
        let mut requests = [
            scope.isend(&world, &sent[0], next, Tag(3))?,
            scope.isend(&copy, &sent[1], next, Tag(3))?,
            scope.irecv(&copy, second, Source::Any, TagMatch::Any)?,
            scope.irecv(&world, first, Source::Any, TagMatch::Any)?,
        ];
        scope.wait_all(&mut requests)
    })?;
    assert_eq!(got, [[previous], [previous + 100]]);
    Ok(free(ep, copy)?)
}

fn a_split_goes_by_colour_and_key<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 6]);
    let me = world.rank().0;
    // By thirds, falling; and all together, by equal keys in the order of their ranks.
    let third = split(ep, &world, Some(me % 3), -(me as i32), &mut scratch)?.ok_or("it has a colour")?;
    roll_call(ep, &third, &[me % 3 + 3, me % 3])?;
    let all = split(ep, &world, Some(9), 5, &mut scratch)?.ok_or("it has a colour")?;
    roll_call(ep, &all, &[0, 1, 2, 3, 4, 5])?;
    let odd_first =
        split(ep, &all, Some(1), i32::from(me % 2 == 0), &mut scratch)?.ok_or("it has a colour")?;
    roll_call(ep, &odd_first, &[1, 3, 5, 0, 2, 4])?;
    for comm in [third, all, odd_first] {
        free(ep, comm)?;
    }
    Ok(())
}

fn a_split_without_colour_is_in_none<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 4]);
    let me = world.rank().0;
    let part = split(ep, &world, (me != 2).then_some(0), 0, &mut scratch)?;
    assert_eq!(part.is_none(), me == 2, "MPI_UNDEFINED");
    if let Some(part) = part {
        roll_call(ep, &part, &[0, 1, 3])?;
        free(ep, part)?;
    }
    Ok(())
}

fn ranks_that_share_memory_are_split_together<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 6]);
    let me = world.rank().0;
    let node =
        split_type(ep, &world, 0, |other| other.0 / 2 == me / 2, &mut scratch)?.ok_or("it has a node")?;
    roll_call(ep, &node, &[me / 2 * 2, me / 2 * 2 + 1])?;
    Ok(free(ep, node)?)
}

fn create_makes_one_of_a_group<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), [GroupPiece::NONE; 8]);
    let group = ep.comm(&world).group()?.incl(&[4, 0, 1].map(Rank), &mut memory)?;
    let made = create(ep, &world, &group)?;
    assert_eq!(made.is_some(), [0, 1, 4].contains(&world.rank().0));
    if let Some(made) = made {
        roll_call(ep, &made, &[4, 0, 1])?;
        free(ep, made)?;
    }
    assert!(create(ep, &world, &Group::EMPTY)?.is_none());
    Ok(())
}

fn disjoint_groups_are_created_at_a_time<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), [GroupPiece::NONE; 8]);
    let is_odd = world.rank().0 % 2;
    let range = RankRange { first: Rank(4 + is_odd), last: Rank(is_odd), stride: -2 };
    let group = ep.comm(&world).group()?.range_incl(&[range], &mut memory)?;
    let made = create(ep, &world, &group)?.ok_or("everybody is in a group")?;
    roll_call(ep, &made, &[4 + is_odd, 2 + is_odd, is_odd])?;
    Ok(free(ep, made)?)
}

fn create_group_needs_its_members_only<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), [GroupPiece::NONE; 8]);
    if [1, 2, 4].contains(&world.rank().0) {
        let group = ep.comm(&world).group()?.incl(&[4, 2, 1].map(Rank), &mut memory)?;
        let made = create_group(ep, &world, &group, Tag(5))?;
        roll_call(ep, &made, &[4, 2, 1])?;
        free(ep, made)?;
    }
    Ok(())
}

fn communicators_are_made_of_made_ones<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 4]);
    let me = world.rank().0;
    let turned = split(ep, &world, Some(0), -(me as i32), &mut scratch)?.ok_or("one colour")?;
    let copy = dup(ep, &turned)?;
    free(ep, turned)?;
    let half = split(ep, &copy, Some(copy.rank().0 / 2), 0, &mut scratch)?.ok_or("two colours")?;
    roll_call(ep, &half, if me >= 2 { &[3, 2] } else { &[1, 0] })?;
    free(ep, copy)?;
    roll_call(ep, &half, if me >= 2 { &[3, 2] } else { &[1, 0] })?;
    Ok(free(ep, half)?)
}

fn a_freed_communicator_is_stale<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, itself) = (ep.world(), ep.itself());
    let copy = dup(ep, &world)?;
    free(ep, copy)?;
    let stale = |error: Option<Error>| assert_eq!(error.map(|error| error.cause), Some(Cause::Stale));
    stale(ep.send(&copy, &[0_u8], Rank(0), Tag(0)).err());
    stale(ep.recv(&copy, &mut [0_u8], Source::Any, TagMatch::Any).err());
    stale(ep.iprobe(&copy, Source::Any, TagMatch::Any).err());
    stale(ep.comm(&copy).group().err());
    stale(dup(ep, &copy).err());
    stale(free(ep, copy).err());
    for comm in [world, itself] {
        assert_eq!(free(ep, comm).expect_err("they are for good").cause, Cause::Predefined);
    }
    Ok(())
}

fn unreceived_messages_go_with_their_communicator<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    for _ in 0..3 {
        let copy = dup(ep, &world)?;
        ep.send(&copy, &[me; 4], Rank((me + 1) % size), Tag(1))?;
        free(ep, copy)?;
    }
    // What is still on its way comes before this.
    let mut got = [0];
    ep.sendrecv(
        &world,
        &[me],
        Rank((me + 1) % size),
        Tag(2),
        &mut got,
        Rank((me + size - 1) % size),
        Tag(2),
    )?;
    assert_eq!((got, ep.diagnostics().queue_depths()), ([(me + size - 1) % size], (0, 0)));
    Ok(())
}

fn contexts_are_used_again_and_keep_messages_apart<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut contexts = Vec::new();
    for round in 0..12 {
        let (one, other) = (dup(ep, &world)?, dup(ep, &world)?);
        for comm in [one, other] {
            assert!(!contexts.contains(&comm.context()), "the context of a freed one is another");
            contexts.push(comm.context());
        }
        let mut got = [[0]; 2];
        let sent = [[2 * round], [2 * round + 1]];
        ep.scope(|scope| {
            let [first, second] = &mut got;
            let mut requests = [
                scope.irecv(&other, second, previous, Tag(1))?,
                scope.irecv(&one, first, previous, Tag(1))?,
                scope.isend(&one, &sent[0], next, Tag(1))?,
                scope.isend(&other, &sent[1], next, Tag(1))?,
            ];
            scope.wait_all(&mut requests)
        })?;
        assert_eq!(got, sent);
        free(ep, other)?;
        free(ep, one)?;
    }
    Ok(())
}

fn too_many_communicators_are_an_error_on_all_ranks<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut made) = (ep.world(), Vec::new());
    let full = loop {
        match dup(ep, &world) {
            Ok(comm) => made.push(comm),
            Err(error) => break error.cause,
        }
    };
    assert_eq!(full, Cause::Full(aldis_hal::Resource::Communicators));
    for comm in made {
        roll_call(ep, &comm, &[0, 1, 2])?;
        free(ep, comm)?;
    }
    let again = dup(ep, &world)?;
    Ok(free(ep, again)?)
}

fn communicators_have_names<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let copy = dup(ep, &world)?;
    assert_eq!(ep.comm(&copy).name()?, "", "a duplicate has none");
    ep.comm_mut(&copy).set_name("ocean")?;
    ep.comm_mut(&world).set_name("everything")?;
    assert_eq!((ep.comm(&copy).name()?, ep.comm(&world).name()?), ("ocean", "everything"));
    free(ep, copy)?;
    assert_eq!(ep.comm(&copy).name().expect_err("it is freed").cause, Cause::Stale);
    Ok(())
}
