//! Through rank 0: a reduction there, then a scatter: what `linear` and `nonoverlapping` have in
//! common.

use aldis_kernel::hal::Operation;

use super::partial::{add_given, given, image, result};
use crate::phases::{messages, order, sum};
use crate::schedule::variant::Pattern;
use crate::schedule::{BlockRange, Instance, Span, Step, Work, fan, log2_ceil, pairs_up};

/// A reduction to rank 0, of neighbours, so that operands keep the order of ranks: one rank after
/// the other, or, if `BINOMIAL`, of groups that double. Then rank 0 sends each its block.
///
/// Scratch: all blocks twice.
pub(crate) struct Rooted<const BINOMIAL: bool>;

/// The part of a rank in a round of a reduction to the first one.
pub(crate) struct MergeRole {
    pub(crate) other: u32,
    pub(crate) receives: bool,
    /// True if this rank has received before, so that a partial result is in scratch.
    pub(crate) has_partial: bool,
}

impl MergeRole {
    /// The step with `index`, where all that a rank has is sent on. The first that comes is reduced
    /// with what is given, in scratch; what comes later arrives behind it.
    pub(crate) fn step(
        &self,
        instance: &Instance,
        [given, reduced, arrived]: [Span; 3],
        index: u32,
    ) -> Option<Step> {
        let Self { other, receives, has_partial } = *self;
        match (receives, has_partial, index) {
            (false, true, 0) => Some(Step::Send { to: other, from: reduced }),
            (false, false, 0) => Some(Step::Send { to: other, from: given }),
            (true, true, 0) => Some(Step::Recv { from: other, into: arrived }),
            (true, false, 0) => Some(Step::Recv { from: other, into: reduced }),
            (true, true, 1) => {
                Some(Step::Reduce { into: reduced, from: arrived, order: order(instance.rank(), other) })
            }
            (true, false, 1) => Some(add_given(instance, other, reduced, given)),
            _ => None,
        }
    }
}

/// Returns the part of this rank in a round of the binomial tree, in which groups of 2^round
/// neighbours merge in pairs.
pub(crate) fn binomial_role(instance: &Instance, round: u32) -> Option<MergeRole> {
    let (rank, size) = (instance.rank(), instance.size());
    let bit = 1u32.checked_shl(round)?;
    if rank & (bit - 1) != 0 {
        return None;
    }
    let (other, receives) = (rank ^ bit, rank & bit == 0);
    (other < size).then_some(MergeRole { other, receives, has_partial: round > 0 && rank + 1 < size })
}

impl<const BINOMIAL: bool> Rooted<BINOMIAL> {
    fn reductions(size: u32) -> u32 {
        if BINOMIAL { log2_ceil(size) } else { size.saturating_sub(1) }
    }

    fn role(instance: &Instance, round: u32) -> Option<MergeRole> {
        match instance.rank() {
            _ if BINOMIAL => binomial_role(instance, round),
            0 => Some(MergeRole { other: round + 1, receives: true, has_partial: round > 0 }),
            rank if rank == round + 1 => Some(MergeRole { other: 0, receives: false, has_partial: false }),
            _ => None,
        }
    }

    fn reduce(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let all = BlockRange::all(instance.size());
        let (reduced, arrived) = (image(instance, 0, all), image(instance, 1, all));
        Self::role(instance, round)?.step(instance, [given(instance, all), reduced, arrived], index)
    }

    fn scatter(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (rank, size) = (instance.rank(), instance.size());
        if rank > 0 {
            let mine = index == 0 && fan::round_of(rank) == round;
            return mine.then(|| Step::Recv { from: 0, into: instance.block(rank) });
        }
        if let Some(to) = fan::place(size, round, index) {
            return Some(Step::Send { to, from: image(instance, 0, BlockRange::of(to)) });
        }
        let own = BlockRange::of(0);
        let own = if size < 2 { given(instance, own) } else { image(instance, 0, own) };
        let is_next = index == 0 || fan::place(size, round, index - 1).is_some();
        (round == 0 && is_next).then(|| result(instance, own))
    }
}

impl<const BINOMIAL: bool> Pattern for Rooted<BINOMIAL> {
    const OPERATION: Operation = Operation::ReduceScatterBlock;

    fn rounds(instance: &Instance) -> u32 {
        let scatters = fan::rounds(instance.size()).max(1);
        if instance.count() == 0 { 0 } else { Self::reductions(instance.size()).saturating_add(scatters) }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        match round.checked_sub(Self::reductions(instance.size())) {
            None => Self::reduce(instance, round, index),
            Some(round) => Self::scatter(instance, round, index),
        }
    }

    fn reproduces(size: u32) -> bool {
        BINOMIAL && pairs_up(size)
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        super::of_images(size, scratch)
    }

    fn work(size: u32, count: usize) -> Work {
        let all = (size as usize).saturating_mul(count);
        let copied = Work { copied: count as u64, ..Work::default() };
        sum([messages(Self::reductions(size), all, true), fan::work(size, count), copied])
    }
}
