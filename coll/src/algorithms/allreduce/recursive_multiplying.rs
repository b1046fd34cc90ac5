//! Recursive multiplying: groups of k at distance 1, k, k^2, .. exchange everything they have and
//! all combine it.

use aldis_kernel::hal::Operation;

use crate::phases::{left_fold, locate, sum, whole};
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The recursive-multiplying all-reduce of radix `RADIX`: log_k p rounds of k - 1 messages of n
/// elements each way, for p a power of the radix k, and two more otherwise.
///
/// Then the ranks are cut into k^floor(log_k p) groups of neighbours, as even as can be and of at
/// most k; all of a group hand their data to its last rank and get the result from it at the end.
///
/// **Same bits everywhere:** all of a group combine the same operands from left to right in the
/// order of their ranks. Each operand covers a contiguous range of ranks, so rank order is kept.
///
/// Scratch: k - 1 times a segment; with less than k - 1 elements it cannot be used.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveMultiplying<const RADIX: u32>;

/// The ranks in `actors = radix^stages` groups, of each of which the last acts.
#[derive(Clone, Copy)]
struct Groups {
    radix: u32,
    stages: u32,
    /// Ranks of a group, and the groups that have one more, which are the first.
    base: u32,
    longer: u32,
}

impl Groups {
    fn new(radix: u32, size: u32) -> Self {
        let stages = size.checked_ilog(radix).unwrap_or(0);
        let actors = radix.checked_pow(stages).unwrap_or(1);
        let (base, longer) = (size.checked_div(actors).unwrap_or(0), size.checked_rem(actors).unwrap_or(0));
        Self { radix, stages, base, longer }
    }

    fn folds(&self) -> u32 {
        u32::from(self.base > 1 || self.longer > 0)
    }

    /// The group of a rank, the place in it, and its ranks.
    fn group(&self, rank: u32) -> (u32, u32, u32) {
        let long = self.base.saturating_add(1);
        let beyond = rank.checked_sub(self.longer.saturating_mul(long));
        let (rank, first, len) = match beyond {
            None => (rank, 0, long),
            Some(rank) => (rank, self.longer, self.base),
        };
        let group = rank.checked_div(len).unwrap_or(0).saturating_add(first);
        (group, rank.checked_rem(len).unwrap_or(0), len)
    }

    /// The rank that acts for `group`.
    fn actor(&self, group: u32) -> u32 {
        let ends = group.saturating_add(1);
        ends.saturating_mul(self.base).saturating_add(ends.min(self.longer)).saturating_sub(1)
    }

    fn lengths(&self) -> [u32; 3] {
        [self.folds(), self.stages, self.folds()]
    }
}

/// The scratch of the operand with `slot`.
fn slot(instance: &Instance, slot: u32) -> Span {
    let count = instance.count();
    Span { start: count.saturating_mul(slot as usize), ..Span::scratch(count) }
}

/// The ranks of a group but its last hand their data to the last.
fn fold(groups: Groups, instance: &Instance, index: u32) -> Option<Step> {
    let (rank, (group, place, len)) = (instance.rank(), groups.group(instance.rank()));
    let others = len.checked_sub(1)?;
    if place < others {
        let from = whole(instance).0;
        return (index == 0).then(|| Step::Send { to: groups.actor(group), from });
    }
    match index.checked_sub(others) {
        None => Some(Step::Recv { from: rank - others + index, into: slot(instance, index) }),
        Some(index) => left_fold(instance, others, len, index, |operand| slot(instance, operand)),
    }
}

/// The ranks of a group but its last get the result from the last.
fn unfold(groups: Groups, instance: &Instance, index: u32) -> Option<Step> {
    let (data, _) = whole(instance);
    let (rank, (group, place, len)) = (instance.rank(), groups.group(instance.rank()));
    let others = len.checked_sub(1)?;
    if place < others {
        (index == 0).then(|| Step::Recv { from: groups.actor(group), into: data })
    } else {
        (index < others).then(|| Step::Send { to: rank - others + index, from: data })
    }
}

/// Exchange with all whose number differs in one digit, and combine.
fn exchange(groups: Groups, instance: &Instance, stage: u32, index: u32) -> Option<Step> {
    let (group, place, len) = groups.group(instance.rank());
    if place + 1 < len {
        return None;
    }
    let stride = groups.radix.checked_pow(stage)?;
    let digit = group.checked_div(stride)?.checked_rem(groups.radix)?;
    let others = groups.radix.checked_sub(1)?;
    // The others of the group of k in the order of their digits.
    let peer = |other: u32| {
        let theirs = if other < digit { other } else { other + 1 };
        groups.actor(group - digit * stride + theirs * stride)
    };
    match (index.checked_sub(others), index.checked_sub(2 * others)) {
        (None, _) => Some(Step::Recv { from: peer(index), into: slot(instance, index) }),
        (Some(other), None) => Some(Step::Send { to: peer(other), from: whole(instance).0 }),
        (_, Some(index)) => left_fold(instance, digit, groups.radix, index, |operand| {
            slot(instance, if operand < digit { operand } else { operand - 1 })
        }),
    }
}

impl<const RADIX: u32> Schedule for RecursiveMultiplying<RADIX> {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "recursive_multiplying"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        const { assert!(RADIX >= 2 && RADIX <= 5, "a round has eight messages at most") };
        let lengths = Groups::new(RADIX, instance.size()).lengths();
        if instance.count() == 0 { 0 } else { lengths.iter().sum() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let groups = Groups::new(RADIX, instance.size());
        if instance.count() == 0 {
            return None;
        }
        match locate(round, groups.lengths())? {
            (0, _) => fold(groups, instance, index),
            (1, stage) => exchange(groups, instance, stage, index),
            _ => unfold(groups, instance, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        let operands = RADIX.min(size).saturating_sub(1);
        scratch.checked_div(operands as usize).unwrap_or(usize::MAX)
    }
}

impl<const RADIX: u32> Priced for RecursiveMultiplying<RADIX> {
    fn source(&self) -> &'static str {
        "Ruefenacht, Bull, Booth 2017 (generalisation of recursive doubling); MPICH \
         allreduce_intra_recursive_multiplying"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let groups = Groups::new(RADIX, size);
        // Rounds in which a rank has messages of so many others.
        let of = |rounds: u32, others: u32| {
            let (rounds, all) = (u64::from(rounds), u64::from(rounds).saturating_mul(others.into()));
            let elements = all.saturating_mul(count as u64);
            Work { rounds, fan: all.saturating_sub(rounds), elements, ..Work::default() }
        };
        // The longest groups are one longer than the others, if not all are alike.
        let longest = groups.base.saturating_add(u32::from(groups.longer > 0));
        let fold = of(groups.folds(), longest.saturating_sub(1));
        let exchange = of(groups.stages, RADIX.saturating_sub(1));
        if count == 0 {
            return Work::default();
        }
        let reducing = |work: Work| Work { reduced: work.elements, ..work };
        sum([reducing(fold), reducing(exchange), fold])
    }
}
