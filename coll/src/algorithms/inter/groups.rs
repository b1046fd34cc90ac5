//! The two groups that the ranks of a schedule are, as one of them sees it.

use core::ops::Range;

use crate::phases::messages;
use crate::schedule::subset::RankSubset;
use crate::schedule::{IN_FLIGHT_MAX, Instance, Span, Step, Work};

/// Messages that the first rank of a group has with ranks of the other in a round, all one way,
/// beside one the other way.
pub(super) const FAN: u32 = IN_FLIGHT_MAX as u32 - 1;

/// The work of such messages with all of the other group, of `group` ranks: `count` elements each.
pub(super) fn fanned(group: u32, count: usize) -> Work {
    let rounds = messages(group.div_ceil(FAN), count, false);
    if count == 0 {
        return rounds;
    }
    let (fan, elements) = (u64::from(group).saturating_sub(rounds.rounds), u64::from(group));
    Work { fan, elements: elements.saturating_mul(count as u64), ..rounds }
}

/// Of one rank.
pub(super) struct Groups {
    /// The first rank of its own group.
    first: u32,
    /// The ranks of its own group; the first is the root.
    pub(super) near: RankSubset,
    /// The number of ranks in the other group, and the first of them.
    pub(super) others: u32,
    pub(super) other: u32,
    /// Its number in its group.
    pub(super) number: u32,
    /// Ranks of the larger group.
    pub(super) larger: u32,
}

impl Groups {
    pub(super) fn of(instance: &Instance) -> Self {
        let [own, Range { start, end }] = instance.groups();
        let (here, others) = (own.end.saturating_sub(own.start), end.saturating_sub(start));
        let number = instance.rank().saturating_sub(own.start);
        let near = RankSubset::of_range(&own, own.start);
        Self { first: own.start, near, others, other: start, number, larger: here.max(others) }
    }

    /// Returns the number of ranks in its own group.
    pub(super) const fn here(&self) -> u32 {
        self.near.size()
    }

    /// The rank of its own group with a number there.
    pub(super) const fn rank(&self, number: u32) -> u32 {
        self.first.saturating_add(number)
    }

    pub(super) const fn is_leader(&self) -> bool {
        self.number == 0
    }

    /// The leaders' exchange of what they have.
    pub(super) fn swap(&self, index: u32, into: Span, from: Span) -> Option<Step> {
        match index {
            0 if self.is_leader() => Some(Step::Recv { from: self.other, into }),
            1 if self.is_leader() => Some(Step::Send { to: self.other, from }),
            _ => None,
        }
    }

    /// Returns the number of rounds of that many exchanges each, until every rank has exchanged
    /// with every rank of the other group.
    pub(super) fn rounds(&self, instance: &Instance, width: u32) -> u32 {
        if instance.count() == 0 { 0 } else { self.larger.div_ceil(width) }
    }

    /// The number of the rank of the other group that is met in a turn, if any is. Two meet in the
    /// turn that is the sum of their numbers, as in MPICH's pairwise exchange: as many turns as the
    /// larger group has ranks.
    pub(super) fn met(&self, turn: u32) -> Option<u32> {
        let behind = self.larger.saturating_sub(self.number);
        let number = turn.checked_add(behind)?.checked_rem(self.larger)?;
        (number < self.others).then_some(number)
    }

    /// The message with `index` of a round of `WIDTH` exchanges with ranks of the other group, one
    /// a [turn](Self::met).
    pub(super) fn meet<const WIDTH: u32>(
        &self,
        instance: &Instance,
        round: u32,
        index: u32,
        given: impl Fn(u32) -> Span,
    ) -> Option<Step> {
        let first = round.checked_mul(WIDTH)?;
        let turns = first..first.saturating_add(WIDTH).min(self.larger);
        let mut met = turns.filter_map(|turn| self.met(turn));
        let place = |number: u32| self.other.saturating_add(number);
        if let Some(number) = met.clone().nth(index as usize) {
            return Some(Step::Recv { from: place(number), into: instance.block(number) });
        }
        let index = index.checked_sub(met.clone().count() as u32)?;
        met.nth(index as usize).map(|number| Step::Send { to: place(number), from: given(number) })
    }
}

/// The ranks of each group, where there are `size` in two groups of one size.
pub(super) const fn half(size: u32) -> u32 {
    size.div_ceil(2)
}
