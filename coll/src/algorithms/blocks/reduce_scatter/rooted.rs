//! Through rank 0: a reduction there, then a scatter: what `linear` and `nonoverlapping` have in
//! common.

use aldis_kernel::hal::Operation;

use super::partial::{add_given, given, image, result};
use crate::phases::{messages, order, sum};
use crate::schedule::along::Way;
use crate::schedule::{BlockRange, Instance, Span, Step, Work, fan, log2_ceil, pairs_up};

/// A reduction to rank 0, of neighbours, so that operands keep the order of ranks: one rank after
/// the other, or, if `BINOMIAL`, of groups that double. Then rank 0 sends each its block.
///
/// Scratch: all blocks twice.
pub(crate) struct Rooted<const BINOMIAL: bool>;

/// The part of a rank in a round of a reduction to the first one.
pub(crate) struct Meeting {
    pub(crate) other: u32,
    pub(crate) receives: bool,
    /// True if this rank has received before.
    pub(crate) has_more: bool,
}

impl Meeting {
    /// The step with `index`, where all that a rank has is sent on. The first that comes is reduced
    /// with what is given, in scratch; what comes later arrives behind it.
    pub(crate) fn step(
        &self,
        instance: &Instance,
        [given, reduced, arrived]: [Span; 3],
        index: u32,
    ) -> Option<Step> {
        let Self { other, receives, has_more } = *self;
        match (receives, has_more, index) {
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

/// A round of the binomial tree, in which groups of 2^round neighbours meet in pairs.
pub(crate) fn neighbours(instance: &Instance, round: u32) -> Option<Meeting> {
    let (rank, size) = (instance.rank(), instance.size());
    let bit = 1u32.checked_shl(round)?;
    if rank & (bit - 1) != 0 {
        return None;
    }
    let (other, receives) = (rank ^ bit, rank & bit == 0);
    (other < size).then_some(Meeting { other, receives, has_more: round > 0 && rank + 1 < size })
}

impl<const BINOMIAL: bool> Rooted<BINOMIAL> {
    fn reductions(size: u32) -> u32 {
        if BINOMIAL { log2_ceil(size) } else { size.saturating_sub(1) }
    }

    fn meeting(instance: &Instance, round: u32) -> Option<Meeting> {
        match instance.rank() {
            _ if BINOMIAL => neighbours(instance, round),
            0 => Some(Meeting { other: round + 1, receives: true, has_more: round > 0 }),
            rank if rank == round + 1 => Some(Meeting { other: 0, receives: false, has_more: false }),
            _ => None,
        }
    }

    fn reduce(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let all = BlockRange::all(instance.size());
        let (reduced, arrived) = (image(instance, 0, all), image(instance, 1, all));
        Self::meeting(instance, round)?.step(instance, [given(instance, all), reduced, arrived], index)
    }

    fn scatter(instance: &Instance, turn: u32, index: u32) -> Option<Step> {
        let (rank, size) = (instance.rank(), instance.size());
        if rank > 0 {
            let mine = index == 0 && fan::turn(rank) == turn;
            return mine.then(|| Step::Recv { from: 0, into: instance.block(rank) });
        }
        if let Some(to) = fan::place(size, turn, index) {
            return Some(Step::Send { to, from: image(instance, 0, BlockRange::of(to)) });
        }
        let own = BlockRange::of(0);
        let own = if size < 2 { given(instance, own) } else { image(instance, 0, own) };
        let is_next = index == 0 || fan::place(size, turn, index - 1).is_some();
        (turn == 0 && is_next).then(|| result(instance, own))
    }
}

impl<const BINOMIAL: bool> Way for Rooted<BINOMIAL> {
    const OPERATION: Operation = Operation::ReduceScatterBlock;

    fn rounds(instance: &Instance) -> u32 {
        let scatters = fan::turns(instance.size()).max(1);
        if instance.count() == 0 { 0 } else { Self::reductions(instance.size()).saturating_add(scatters) }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        match round.checked_sub(Self::reductions(instance.size())) {
            None => Self::reduce(instance, round, index),
            Some(turn) => Self::scatter(instance, turn, index),
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
