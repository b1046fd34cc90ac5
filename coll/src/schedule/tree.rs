//! Trees over all ranks: which rank receives from which, and when. One place for what barriers,
//! broadcasts and reductions along a tree have in common.
//!
//! Ranks are named by their *place*, counted from the root, which is place 0. Time is counted
//! in *turns* of a broadcast: in each a place sends to at most one child. [`Tree::WIDTH`] turns can
//! make one round, because no rank sends in the round in which it receives; a reduction takes the
//! turns one by one and backwards. Everything is worked out from size and place in O(1).

use core::ops::Range;

use super::{IN_FLIGHT_MAX, Instance, log2_ceil, log2_floor};

/// A tree of any size. `size` is at least 1, `place` below it.
pub(crate) trait Tree {
    /// Turns of a round: as many children at most receive from one place at once.
    const WIDTH: u32;

    /// The turns in which some place sends: all of these. The root, or the place that first sends
    /// in a round, sends in each of its turns.
    fn turns(size: u32) -> Range<u32>;

    /// The turn in which `place` receives, and the place from which it does; `None` for the root.
    fn parent(size: u32, place: u32) -> Option<(u32, u32)>;

    /// The place that `place` sends to in this turn.
    fn child(size: u32, place: u32, turn: u32) -> Option<u32>;

    /// The most children of the root, and the most of any other place, if that place is busier than
    /// the root.
    fn busiest(size: u32) -> (u32, u32);

    /// Rounds of a broadcast.
    fn rounds(size: u32) -> u32 {
        Self::turns(size).end.div_ceil(Self::WIDTH)
    }

    /// Returns the edge of this rank in a round of a broadcast, in the order of the turns.
    fn edge(instance: &Instance, round: u32, index: u32) -> Option<Edge> {
        let edge = Self::edge_at(instance.size(), instance.from_root(), round, index);
        edge.map(|edge| edge.map(|place| instance.at_place(place)))
    }

    /// Returns the edge of a place in a round of a broadcast, in the order of the turns.
    fn edge_at(size: u32, place: u32, round: u32, index: u32) -> Option<Edge> {
        let turns = round.checked_mul(Self::WIDTH)?..round.checked_add(1)?.checked_mul(Self::WIDTH)?;
        match Self::parent(size, place) {
            Some((turn, parent)) if turns.contains(&turn) => (index == 0).then_some(Edge::Parent(parent)),
            _ => turns.filter_map(|turn| Self::child(size, place, turn)).nth(index as usize).map(Edge::Child),
        }
    }
}

/// Another rank, or its place, as seen from this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    /// The other rank is nearer to the root.
    Parent(u32),
    /// The other rank is farther from the root.
    Child(u32),
}

impl Edge {
    fn map(self, rank_of: impl Fn(u32) -> u32) -> Self {
        match self {
            Self::Parent(place) => Self::Parent(rank_of(place)),
            Self::Child(place) => Self::Child(rank_of(place)),
        }
    }
}

/// No tree at all: the root is the parent of every other place.
pub(crate) struct Flat;

impl Tree for Flat {
    const WIDTH: u32 = IN_FLIGHT_MAX as u32;

    fn turns(size: u32) -> Range<u32> {
        0..size.saturating_sub(1)
    }

    fn parent(_size: u32, place: u32) -> Option<(u32, u32)> {
        Some((place.checked_sub(1)?, 0))
    }

    fn child(size: u32, place: u32, turn: u32) -> Option<u32> {
        (place == 0 && turn < size.saturating_sub(1)).then(|| turn + 1)
    }

    fn busiest(size: u32) -> (u32, u32) {
        (size.saturating_sub(1), 0)
    }
}

/// `CHAINS` chains of neighbours that begin at the root, of lengths as even as can be, the longer
/// ones first. The root begins them one after another, so that each lags a turn behind the one
/// before.
pub(crate) struct Chains<const CHAINS: u32>;

/// Quotient and remainder; (0, 0) for a zero divisor, so that no panic is left in the image.
fn ratio(dividend: u32, divisor: u32) -> (u32, u32) {
    (dividend.checked_div(divisor).unwrap_or(0), dividend.checked_rem(divisor).unwrap_or(0))
}

impl<const CHAINS: u32> Chains<CHAINS> {
    /// The length of the shorter chains, and how many are one longer.
    fn lengths(size: u32) -> (u32, u32) {
        ratio(size.saturating_sub(1), CHAINS)
    }

    /// The chain that a place other than the root's stands in, and the places before it there.
    fn link(size: u32, behind_root: u32) -> (u32, u32) {
        let (base, longer) = Self::lengths(size);
        match behind_root.checked_sub(longer * (base + 1)) {
            None => ratio(behind_root, base + 1),
            Some(beyond) => {
                let (chain, before) = ratio(beyond, base);
                (longer + chain, before)
            }
        }
    }
}

impl<const CHAINS: u32> Tree for Chains<CHAINS> {
    const WIDTH: u32 = 1;

    fn turns(size: u32) -> Range<u32> {
        let (base, longer) = Self::lengths(size);
        0..if base == 0 { longer } else { (CHAINS - 1).saturating_add(base) }
    }

    fn parent(size: u32, place: u32) -> Option<(u32, u32)> {
        let (chain, before) = Self::link(size, place.checked_sub(1)?);
        Some((chain.saturating_add(before), if before == 0 { 0 } else { place - 1 }))
    }

    fn child(size: u32, place: u32, turn: u32) -> Option<u32> {
        let (base, longer) = Self::lengths(size);
        let Some(behind_root) = place.checked_sub(1) else {
            let chains = if base == 0 { longer } else { CHAINS };
            return (turn < chains).then(|| 1 + turn * base + turn.min(longer));
        };
        let (chain, before) = Self::link(size, behind_root);
        let length = base + u32::from(chain < longer);
        (before + 1 < length && turn.checked_sub(1) == Some(chain + before)).then(|| place + 1)
    }

    fn busiest(size: u32) -> (u32, u32) {
        let behind_root = size.saturating_sub(1);
        (behind_root.min(CHAINS), u32::from(behind_root > CHAINS))
    }
}

/// The binary tree: the children of place i are the places 2 i + 1 and 2 i + 2.
pub(crate) struct Binary;

impl Binary {
    /// Parents, their parents and so on, up to the root.
    const fn level(place: u32) -> u32 {
        log2_floor(place + 1)
    }
}

impl Tree for Binary {
    const WIDTH: u32 = 2;

    fn turns(size: u32) -> Range<u32> {
        let deepest = Self::level(size.saturating_sub(1));
        let before = (1u32 << deepest) - 1;
        0..if deepest == 0 { 0 } else { 2 * (deepest - 1) + (size - before).min(2) }
    }

    fn parent(_size: u32, place: u32) -> Option<(u32, u32)> {
        let behind_root = place.checked_sub(1)?;
        Some((2 * (Self::level(place) - 1) + behind_root % 2, behind_root / 2))
    }

    fn child(size: u32, place: u32, turn: u32) -> Option<u32> {
        let child = place.checked_mul(2)?.checked_add(1 + turn % 2)?;
        (turn / 2 == Self::level(place) && child < size).then_some(child)
    }

    fn busiest(size: u32) -> (u32, u32) {
        (size.saturating_sub(1).min(2), size.saturating_sub(3).min(2))
    }
}

/// The k-nomial tree of radix k = 2^`BITS`: a place's parent is the place without its last digit to
/// base k that is not 0. The farthest children, which have the largest subtrees, receive first.
pub(crate) struct Knomial<const BITS: u32>;

impl<const BITS: u32> Knomial<BITS> {
    /// Digits of the last place.
    const fn digits(size: u32) -> u32 {
        log2_ceil(size).div_ceil(BITS)
    }
}

impl<const BITS: u32> Tree for Knomial<BITS> {
    const WIDTH: u32 = (1 << BITS) - 1;

    fn turns(size: u32) -> Range<u32> {
        let digits = Self::digits(size);
        // What is left of the first round when the highest digit does not take all its values.
        let highest = digits.checked_sub(1).map_or(0, |shift| (size - 1) >> (BITS * shift));
        let end = digits * Self::WIDTH;
        end.min(Self::WIDTH - highest)..end
    }

    fn parent(size: u32, place: u32) -> Option<(u32, u32)> {
        let lowest = if place == 0 { return None } else { place.trailing_zeros() / BITS };
        let digit = (place >> (BITS * lowest)) & Self::WIDTH;
        let round = Self::digits(size).checked_sub(lowest + 1)?;
        Some((round * Self::WIDTH + (Self::WIDTH - digit), place - (digit << (BITS * lowest))))
    }

    fn child(size: u32, place: u32, turn: u32) -> Option<u32> {
        let (round, digit) = (turn / Self::WIDTH, Self::WIDTH - turn % Self::WIDTH);
        let lowest = Self::digits(size).checked_sub(round + 1)?;
        let is_parent = place == 0 || place.trailing_zeros() >= BITS * (lowest + 1);
        let child = u64::from(place) + (u64::from(digit) << (BITS * lowest));
        (is_parent && child < size.into()).then_some(child as u32)
    }

    fn busiest(size: u32) -> (u32, u32) {
        (Self::turns(size).len() as u32, 0)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Every place receives once, from one that has received in an earlier round; and what the
    /// closed forms say is so.
    fn check<T: Tree>(size: u32) {
        let mut edges: Vec<(u32, u32, u32)> = Vec::new();
        let turns = T::turns(size);
        for turn in 0..turns.end + 9 {
            let sent = (0..size).filter_map(|place| Some((turn, place, T::child(size, place, turn)?)));
            let before = edges.len();
            edges.extend(sent);
            assert_eq!(turns.contains(&turn), edges.len() > before, "size {size} turn {turn}");
        }
        assert_eq!(edges.len() as u32, size - 1);
        for &(turn, parent, place) in &edges {
            assert_eq!(T::parent(size, place), Some((turn, parent)), "size {size} place {place}");
            let parents_turn = T::parent(size, parent).map(|(turn, _)| turn);
            assert!(parents_turn.is_none_or(|earlier| earlier / T::WIDTH < turn / T::WIDTH));
        }
        assert_eq!(T::parent(size, 0), None);
        let mut children = vec![0; size as usize];
        edges.iter().for_each(|(_, parent, _)| children[*parent as usize] += 1);
        let (of_root, of_others) = (children[0], children.iter().skip(1).max().copied().unwrap_or(0));
        let (root, other) = T::busiest(size);
        assert_eq!((of_root, of_root.max(1 + of_others)), (root, root.max(1 + other)), "size {size}");
        for round in 0..T::rounds(size) {
            let in_round = |turn: &u32| turn / T::WIDTH == round;
            let mut parents: Vec<u32> =
                edges.iter().filter(|(turn, ..)| in_round(turn)).map(|(_, parent, _)| *parent).collect();
            parents.sort_unstable();
            let most = parents.chunk_by(|one, next| one == next).map(<[u32]>::len).max();
            assert_eq!(most, Some(turns.clone().filter(in_round).count()), "size {size} round {round}");
        }
    }

    #[test]
    fn everybody_hears_once_from_one_who_has_heard() {
        for size in (1..=70).chain([255, 256, 257]) {
            check::<Flat>(size);
            check::<Chains<1>>(size);
            check::<Chains<4>>(size);
            check::<Binary>(size);
            check::<Knomial<1>>(size);
            check::<Knomial<2>>(size);
            check::<Knomial<3>>(size);
        }
    }

    /// The largest size there is, where nothing may overflow.
    fn check_last<T: Tree>() {
        let size = u32::MAX;
        for place in [1, 2, 3, 1 << 30, 1 << 31, size - 2, size - 1] {
            let (turn, parent) = T::parent(size, place).unwrap();
            assert!(T::turns(size).contains(&turn), "{turn} {place}");
            assert_eq!(T::child(size, parent, turn), Some(place));
        }
    }

    #[test]
    fn the_largest_size_has_its_trees() {
        check_last::<Flat>();
        check_last::<Chains<1>>();
        check_last::<Chains<4>>();
        check_last::<Binary>();
        check_last::<Knomial<1>>();
        check_last::<Knomial<2>>();
        check_last::<Knomial<3>>();
    }
}
