//! Group management: section 7.3.

use aldis_hal::{Cause, PeerId, Platform, Transport};
use aldis_kernel::{Comparison, Endpoint, Group, GroupPiece, Rank, RankRange};

use super::super::Outcome;

cases! {
    "7.3.1", 4: a_communicator_has_a_group_with_its_ranks;
    "7.3.1", 4: ranks_are_translated_between_groups;
    "7.3.1", 4: groups_compare_by_members_and_order;
    "7.3.2", 6: union_intersection_and_difference_keep_the_first_groups_order;
    "7.3.2", 6: incl_and_excl_pick_ranks;
    "7.3.2", 6: ranges_of_ranks_rise_and_fall;
    "7.3.2", 4: what_is_no_list_of_ranks_is_refused;
}

fn list(group: &Group<'_>) -> Vec<u32> {
    group.processes().map(|process| process.0).collect()
}

fn ranks<const N: usize>(numbers: [u32; N]) -> [Rank; N] {
    numbers.map(Rank)
}

fn a_communicator_has_a_group_with_its_ranks<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, itself) = (ep.world(), ep.itself());
    let group = ep.comm(&world).group()?;
    assert_eq!((group.size(), list(&group)), (4, vec![0, 1, 2, 3]));
    assert_eq!(group.rank_of(ep.process()), Some(world.rank()));
    assert_eq!(list(&ep.comm(&itself).group()?), [ep.process().0]);
    assert_eq!((Group::EMPTY.size(), Group::EMPTY.rank_of(ep.process())), (0, None));
    Ok(())
}

fn ranks_are_translated_between_groups<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let all = ep.comm(&world).group()?;
    let mut memory = [GroupPiece::NONE; 8];
    let some = all.incl(&ranks([3, 1]), &mut memory)?;
    let mut found = [None; 4];
    all.translate_ranks(&ranks([0, 1, 2, 3]), &some, &mut found)?;
    assert_eq!(found, [None, Some(Rank(1)), None, Some(Rank(0))]);
    some.translate_ranks(&ranks([1, 0]), &all, &mut found[..2])?;
    assert_eq!(found[..2], [Some(Rank(1)), Some(Rank(3))]);
    let outside = some.translate_ranks(&ranks([2]), &all, &mut found[..1]);
    assert_eq!(outside, Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
    Ok(())
}

fn groups_compare_by_members_and_order<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let all = ep.comm(&world).group()?;
    let mut memory = [[GroupPiece::NONE; 8]; 3];
    let [a, b, c] = &mut memory;
    let (same, turned, fewer) = (
        all.incl(&ranks([0, 1, 2, 3]), a)?,
        all.incl(&ranks([3, 1, 0, 2]), b)?,
        all.incl(&ranks([0, 1, 2]), c)?,
    );
    assert_eq!(all.compare(&same), Comparison::Identical);
    assert_eq!((all.compare(&turned), turned.compare(&same)), (Comparison::Similar, Comparison::Similar));
    assert_eq!(
        (all.compare(&fewer), fewer.compare(&Group::EMPTY)),
        (Comparison::Unequal, Comparison::Unequal)
    );
    Ok(())
}

fn union_intersection_and_difference_keep_the_first_groups_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let all = ep.comm(&world).group()?;
    let mut memory = [[GroupPiece::NONE; 8]; 6];
    let [a, b, c, d, e, f] = &mut memory;
    let (one, other) = (all.incl(&ranks([5, 0, 2]), a)?, all.incl(&ranks([2, 3, 5]), b)?);
    assert_eq!(list(&one.union(&other, c)?), [5, 0, 2, 3]);
    assert_eq!(list(&one.intersection(&other, d)?), [5, 2]);
    assert_eq!(list(&other.intersection(&one, e)?), [2, 5]);
    assert_eq!(list(&one.difference(&other, f)?), [0]);
    let mut memory = [GroupPiece::NONE; 8];
    assert_eq!(one.difference(&all, &mut memory)?.compare(&Group::EMPTY), Comparison::Identical);
    Ok(())
}

fn incl_and_excl_pick_ranks<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let all = ep.comm(&world).group()?;
    let mut memory = [[GroupPiece::NONE; 8]; 3];
    let [a, b, c] = &mut memory;
    let some = all.incl(&ranks([4, 1, 5]), a)?;
    assert_eq!(list(&some), [4, 1, 5]);
    assert_eq!(list(&some.incl(&ranks([2, 0]), b)?), [5, 4], "ranks of the group that is picked from");
    assert_eq!(list(&all.excl(&ranks([4, 1]), c)?), [0, 2, 3, 5]);
    Ok(())
}

fn ranges_of_ranks_rise_and_fall<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let all = ep.comm(&world).group()?;
    let range = |first, last, stride| RankRange { first: Rank(first), last: Rank(last), stride };
    let mut memory = [[GroupPiece::NONE; 8]; 3];
    let [a, b, c] = &mut memory;
    assert_eq!(list(&all.range_incl(&[range(5, 1, -2), range(0, 2, 2)], a)?), [5, 3, 1, 0, 2]);
    assert_eq!(list(&all.range_incl(&[range(1, 4, 2)], b)?), [1, 3], "the last is a bound");
    assert_eq!(list(&all.range_excl(&[range(1, 5, 3)], c)?), [0, 2, 3, 5]);
    Ok(())
}

fn what_is_no_list_of_ranks_is_refused<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let all = ep.comm(&world).group()?;
    let range = |first, last, stride| [RankRange { first: Rank(first), last: Rank(last), stride }];
    let memory = &mut [GroupPiece::NONE; 8];
    let outside = Cause::RankOutOfRange { rank: 4, size: 4 };
    assert_eq!(all.incl(&ranks([4]), memory).err(), Some(outside));
    assert_eq!(all.excl(&ranks([1, 4]), memory).err(), Some(outside));
    assert_eq!(all.incl(&ranks([2, 0, 2]), memory).err(), Some(Cause::DuplicateRank { rank: 2 }));
    assert_eq!(all.range_incl(&range(0, 3, 0), memory).err(), Some(Cause::BadStride { stride: 0 }));
    assert_eq!(all.range_incl(&range(3, 0, 1), memory).err(), Some(Cause::BadStride { stride: 1 }));
    assert_eq!(Group::of(&[PeerId(1); 2], memory).err(), Some(Cause::DuplicateRank { rank: 1 }));
    Ok(())
}
