//! Groups against plain lists of processes: every operation of MPI 4.1 section 7.3, on random
//! groups of every form.
#![allow(missing_docs)]

use aldis_kernel::hal::{Cause, PeerId, Resource};
use aldis_kernel::{Comparison, Group, GroupPiece, Rank, RankRange};
use proptest::prelude::*;

/// Lists that come out as each form: strides, a few strides, dense sets with holes, permutations.
fn processes() -> impl Strategy<Value = Vec<u32>> {
    let strided = (0..1000u32, 1..9u32, 0..40u32, any::<bool>()).prop_map(|(first, stride, len, falls)| {
        let rising: Vec<u32> = (0..len).map(|i| first + i * stride).collect();
        if falls { rising.into_iter().rev().collect() } else { rising }
    });
    let holes = (0..50u32, prop::collection::vec(any::<bool>(), 0..150)).prop_map(|(first, bits)| {
        (first..).zip(bits).filter_map(|(process, is_in)| is_in.then_some(process)).collect()
    });
    let runs = prop::collection::vec((1..40u32, 1..12u32), 0..6).prop_map(|runs| {
        let mut next = 0;
        let mut list = Vec::new();
        for (gap, len) in runs {
            list.extend(next + gap..next + gap + len);
            next += gap + len;
        }
        list
    });
    let shuffled = (0..30u32).prop_flat_map(|len| Just((0..len).collect::<Vec<u32>>()).prop_shuffle());
    prop_oneof![strided, holes, runs, shuffled]
}

fn peers(list: &[u32]) -> Vec<PeerId> {
    list.iter().map(|&process| PeerId(process)).collect()
}

fn list(group: &Group<'_>) -> Vec<u32> {
    group.processes().map(|process| process.0).collect()
}

fn memory() -> Vec<GroupPiece> {
    vec![GroupPiece::NONE; 256]
}

fn has(list: &[u32], process: u32) -> bool {
    list.contains(&process)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_group_is_its_list(one in processes()) {
        let mut room = memory();
        let group = Group::of(&peers(&one), &mut room).unwrap();
        prop_assert_eq!(group.size() as usize, one.len());
        prop_assert_eq!(list(&group), &one[..]);
        for process in 0..1400 {
            let rank = one.iter().position(|&member| member == process).map(|rank| Rank(rank as u32));
            prop_assert_eq!(group.rank_of(PeerId(process)), rank);
        }
        prop_assert_eq!(group.process(Rank(group.size())), None);
        prop_assert_eq!(group.process(Rank(u32::MAX)), None);
    }

    #[test]
    fn a_group_takes_the_pieces_that_it_says_and_no_fewer(one in processes()) {
        let mut room = memory();
        let need = Group::of(&peers(&one), &mut room).unwrap().pieces();
        let mut exact = vec![GroupPiece::NONE; need];
        prop_assert_eq!(list(&Group::of(&peers(&one), &mut exact).unwrap()), &one[..]);
        if let Some(have) = need.checked_sub(1) {
            let refused = Group::of(&peers(&one), &mut exact[..have]).err();
            let (need, have, what) = (need as u32, have as u32, Resource::GroupPieces);
            prop_assert_eq!(refused, Some(Cause::TooSmall { what, need, have }));
        }
        let (lowest, highest) = (one.iter().min().copied(), one.iter().max().copied());
        if one.is_sorted() && let (Some(lowest), Some(highest)) = (lowest, highest) {
            prop_assert!(need as u32 <= (highest - lowest) / 32 + 2, "no more than a bitmap");
        }
    }

    #[test]
    fn sets_are_combined_as_the_standard_says(one in processes(), other in processes()) {
        let (mut left, mut right) = (memory(), memory());
        let a = Group::of(&peers(&one), &mut left).unwrap();
        let b = Group::of(&peers(&other), &mut right).unwrap();
        let only = |list: &[u32], other: &[u32]| -> Vec<u32> {
            list.iter().copied().filter(|&process| !has(other, process)).collect()
        };
        let union = [&one[..], &only(&other, &one)].concat();
        prop_assert_eq!(list(&a.union(&b, &mut memory()).unwrap()), union);
        prop_assert_eq!(list(&a.difference(&b, &mut memory()).unwrap()), only(&one, &other));
        let both: Vec<u32> = one.iter().copied().filter(|&process| has(&other, process)).collect();
        prop_assert_eq!(list(&a.intersection(&b, &mut memory()).unwrap()), both);
    }

    #[test]
    fn groups_compare_by_members_and_order(one in processes(), seed in any::<u64>(), other in processes()) {
        let mut mixed = one.clone();
        mixed.sort_by_key(|&process| u64::from(process).wrapping_mul(seed | 1));
        let (mut left, mut right, mut room) = (memory(), memory(), memory());
        let a = Group::of(&peers(&one), &mut left).unwrap();
        let b = Group::of(&peers(&mixed), &mut right).unwrap();
        let c = Group::of(&peers(&other), &mut room).unwrap();
        let same_order = if one == mixed { Comparison::Identical } else { Comparison::Similar };
        prop_assert_eq!(a.compare(&b), same_order);
        let sorted = |list: &[u32]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        let expected = match (one == other, sorted(&one) == sorted(&other)) {
            (true, _) => Comparison::Identical,
            (_, true) => Comparison::Similar,
            _ => Comparison::Unequal,
        };
        prop_assert_eq!(a.compare(&c), expected);
    }

    #[test]
    fn ranks_are_picked_and_left_out(one in processes(), picks in prop::collection::vec(0..60u32, 0..12)) {
        let mut room = memory();
        let group = Group::of(&peers(&one), &mut room).unwrap();
        let ranks: Vec<Rank> = picks.iter().map(|&rank| Rank(rank)).collect();
        let size = group.size();
        let outside = picks.iter().find(|&&rank| rank >= size);
        let twice = picks.iter().enumerate().find(|&(at, rank)| picks[..at].contains(rank));
        let (mut included, mut excluded) = (memory(), memory());
        let (included, excluded) = (group.incl(&ranks, &mut included), group.excl(&ranks, &mut excluded));
        if let (Some(&rank), _) | (None, Some((_, &rank))) = (outside, twice) {
            let wrong = |cause| matches!(cause, Cause::RankOutOfRange { .. } | Cause::DuplicateRank { .. });
            prop_assert!(included.is_err_and(wrong) && excluded.is_err_and(wrong), "rank {}", rank);
            return Ok(());
        }
        let picked: Vec<u32> = picks.iter().map(|&rank| one[rank as usize]).collect();
        prop_assert_eq!(list(&included.unwrap()), &picked[..]);
        let left: Vec<u32> = one.iter().copied().filter(|process| !picked.contains(process)).collect();
        prop_assert_eq!(list(&excluded.unwrap()), left);
    }

    #[test]
    fn ranges_are_their_ranks(
        one in processes(),
        ranges in prop::collection::vec((0..40u32, 0..40u32, -5..6i32), 0..4),
    ) {
        let mut room = memory();
        let group = Group::of(&peers(&one), &mut room).unwrap();
        let written: Vec<RankRange> = ranges
            .iter()
            .map(|&(first, last, stride)| RankRange { first: Rank(first), last: Rank(last), stride })
            .collect();
        let (mut ranks, mut wrong) = (Vec::new(), false);
        for &(first, last, stride) in &ranges {
            let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
            wrong |= first.max(last) >= one.len() as i64 || stride == 0 || (last - first) * stride < 0;
            let mut rank = first;
            while !wrong && (if stride > 0 { rank <= last } else { rank >= last }) {
                wrong |= ranks.contains(&Rank(rank as u32));
                ranks.push(Rank(rank as u32));
                rank += stride;
            }
        }
        let (mut included, mut excluded) = (memory(), memory());
        let included = group.range_incl(&written, &mut included);
        let excluded = group.range_excl(&written, &mut excluded);
        if wrong {
            prop_assert!(included.is_err() && excluded.is_err());
            return Ok(());
        }
        prop_assert_eq!(list(&included.unwrap()), list(&group.incl(&ranks, &mut memory()).unwrap()));
        prop_assert_eq!(list(&excluded.unwrap()), list(&group.excl(&ranks, &mut memory()).unwrap()));
    }

    #[test]
    fn ranks_are_translated(one in processes(), other in processes()) {
        let (mut left, mut right) = (memory(), memory());
        let a = Group::of(&peers(&one), &mut left).unwrap();
        let b = Group::of(&peers(&other), &mut right).unwrap();
        let ranks: Vec<Rank> = (0..a.size()).rev().map(Rank).collect();
        let mut found = vec![None; ranks.len()];
        a.translate_ranks(&ranks, &b, &mut found).unwrap();
        for (rank, found) in ranks.iter().zip(found) {
            let process = one[rank.0 as usize];
            let position = other.iter().position(|&member| member == process);
            prop_assert_eq!(found, position.map(|rank| Rank(rank as u32)));
        }
    }
}

#[test]
fn each_wrong_argument_has_its_own_error() {
    let (mut room, mut more) = (memory(), memory());
    let group = Group::of(&peers(&[4, 5, 6, 9]), &mut room).unwrap();
    let twice = Group::of(&peers(&[4, 9, 4]), &mut more).err();
    assert_eq!(twice, Some(Cause::DuplicateRank { rank: 4 }));
    let far = Group::of(&[PeerId(u32::MAX)], &mut more).err();
    assert!(matches!(far, Some(Cause::RankOutOfRange { rank: u32::MAX, .. })));
    let incl = |ranks: &[u32]| {
        let ranks: Vec<Rank> = ranks.iter().map(|&rank| Rank(rank)).collect();
        group.incl(&ranks, &mut memory()).map(|group| group.size())
    };
    assert_eq!(incl(&[0, 4]), Err(Cause::RankOutOfRange { rank: 4, size: 4 }));
    assert_eq!(incl(&[3, 2, 3]), Err(Cause::DuplicateRank { rank: 3 }));
    assert_eq!(incl(&[2, 2]), Err(Cause::DuplicateRank { rank: 2 }));
    let range = |first, last, stride| {
        let range = RankRange { first: Rank(first), last: Rank(last), stride };
        group.range_incl(&[range], &mut memory()).map(|group| group.size())
    };
    assert_eq!(range(0, 3, 2), Ok(2));
    assert_eq!(range(0, 3, 0), Err(Cause::BadStride { stride: 0 }));
    assert_eq!(range(0, 3, -1), Err(Cause::BadStride { stride: -1 }));
    assert_eq!(range(0, 1, -2), Err(Cause::BadStride { stride: -2 }));
    assert_eq!(range(1, 4, 1), Err(Cause::RankOutOfRange { rank: 4, size: 4 }));
    let short = group.translate_ranks(&[Rank(0)], &Group::EMPTY, &mut []);
    assert_eq!(short, Err(Cause::LengthMismatch { left: 1, right: 0 }));
}

/// The cost of the forms: a job's usual groups take no memory, every other one by its density.
#[test]
fn the_form_is_chosen_by_density() {
    let pieces = |list: Vec<u32>| Group::of(&peers(&list), &mut memory()).unwrap().pieces();
    assert_eq!(pieces((0..1000).collect()), 0, "dense");
    assert_eq!(pieces((0..1000).map(|i| 7000 - 7 * i).collect()), 0, "strided");
    assert_eq!(pieces((0..100).chain(500..900).collect()), 2, "two ranges");
    assert_eq!(pieces((0..320).filter(|i| i % 3 != 0 && i % 7 != 0).collect()), 10, "a bitmap");
    assert_eq!(size_of::<GroupPiece>(), 12);
}
