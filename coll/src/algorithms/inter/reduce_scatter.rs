//! Reduction of each group's data, scattered among the ranks of the other. What a rank gives, as
//! input, is a block for each of these; scratch holds blocks by the rank that they are for.

use aldis_kernel::hal::Operation;

use super::groups::{FAN, Groups, fanned, half};
use crate::algorithms::blocks::reduce_scatter::of_images;
use crate::algorithms::blocks::reduce_scatter::partial::kept;
use crate::algorithms::blocks::reduce_scatter::rooted::{MergeRole, binomial_role};
use crate::phases::{locate, messages, sum};
use crate::schedule::variant::{Pattern, Variant};
use crate::schedule::{BlockRange, Instance, Order, Span, Step, Work, log2_ceil};

/// Returns the block that this rank gives to the one with a number in the other group.
fn given(instance: &Instance, number: u32) -> Span {
    instance.block(number).of_input()
}

/// Each group reduces to its first rank along a binomial tree, which sends every rank of the other
/// its block: ceil(log2 p) rounds of n elements and ceil(p/7) of blocks for groups of p.
///
/// MPICH and Open MPI pass the result to one rank of the other group, which then scatters it: n
/// elements more.
///
/// Operands keep the order of ranks. Scratch: two blocks for each rank of the larger group, if that
/// has more than one.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalReduceRemoteScatter;

impl LocalReduceRemoteScatter {
    fn lengths(instance: &Instance) -> [u32; 2] {
        let larger = Groups::of(instance).larger;
        if instance.count() == 0 { [0; 2] } else { [log2_ceil(larger), larger.div_ceil(FAN)] }
    }

    /// A round of the reduction, of all blocks.
    fn reduce(instance: &Instance, groups: &Groups, round: u32, index: u32) -> Option<Step> {
        let inner = groups.near.instance(instance)?;
        let role = binomial_role(&inner, round)?;
        let all = BlockRange { first: groups.other, len: groups.others };
        let [reduced, arrived] = [0, groups.others].map(|before| kept(instance, before, all));
        let given = instance.blocks(0, groups.others).of_input();
        let role = MergeRole { other: groups.rank(role.other), ..role };
        role.step(instance, [given, reduced, arrived], index)
    }

    fn scatter(instance: &Instance, groups: &Groups, round: u32, index: u32) -> Option<Step> {
        let comes = groups.number / FAN == round;
        if comes && index == 0 {
            return Some(Step::Recv { from: groups.other, into: instance.block(0) });
        }
        let index = index.checked_sub(u32::from(comes))?;
        let number = round.checked_mul(FAN)?.checked_add(index)?;
        let to = groups.other.saturating_add(number);
        let from = match groups.here() {
            1 => given(instance, number),
            _ => kept(instance, number, BlockRange::of(to)),
        };
        let is_there = groups.is_leader() && index < FAN && number < groups.others;
        is_there.then_some(Step::Send { to, from })
    }
}

impl Variant for LocalReduceRemoteScatter {
    type Pattern = Self;
    const NAME: &'static str = "inter_local_reduce_remote_scatter";
    const SOURCE: &'static str = "after MPICH reduce_scatter_inter_remote_reduce_local_scatter and Open MPI mca_coll_basic_reduce_scatter_inter";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for LocalReduceRemoteScatter {
    const OPERATION: Operation = Operation::ReduceScatterBlock;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        Self::lengths(instance).iter().sum()
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let groups = Groups::of(instance);
        match locate(round, Self::lengths(instance))? {
            (0, round) => Self::reduce(instance, &groups, round, index),
            (_, round) => Self::scatter(instance, &groups, round, index),
        }
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        of_images(half(size), scratch)
    }

    fn work(size: u32, count: usize) -> Work {
        let group = half(size);
        let all = count.saturating_mul(group as usize);
        sum([messages(log2_ceil(group), all, true), fanned(group, count)])
    }
}

/// Every rank sends every rank of the other group its block, and reduces what comes from there, one
/// after the other: p rounds of a block for groups of p. Optimal in bytes, and nothing is sent on.
///
/// The order in which a rank meets the others begins somewhere among them: what comes before it is
/// past the last one is added up apart and put behind the rest in the end, so operands keep the
/// order of ranks.
///
/// Scratch: two blocks, if a group has more than one rank.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PairwiseExchange;

impl PairwiseExchange {
    /// Returns the place of the sum of the last ranks, and the one where operands of a sum arrive.
    fn slots(instance: &Instance) -> [Span; 2] {
        [0, 1].map(|slot| kept(instance, slot, BlockRange::of(instance.rank())))
    }
}

impl Variant for PairwiseExchange {
    type Pattern = Self;
    const NAME: &'static str = "inter_pairwise_exchange";
    const SOURCE: &'static str =
        "MPICH reduce_scatter_intra_pairwise, in the turns of alltoall_inter_pairwise_exchange";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for PairwiseExchange {
    const OPERATION: Operation = Operation::ReduceScatterBlock;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        Groups::of(instance).rounds(instance, 1)
    }

    fn step(instance: &Instance, turn: u32, index: u32) -> Option<Step> {
        let groups = Groups::of(instance);
        let number = groups.met(turn)?;
        let other = groups.other.saturating_add(number);
        let ([last, arrived], data) = (Self::slots(instance), instance.block(0));
        // Those that are met before the first rank is.
        let is_last = turn < groups.number;
        let sum = if is_last { last } else { data };
        let is_first = number == 0 || turn == 0;
        let first_of_last = groups.larger.saturating_sub(groups.number);
        let is_end = !is_last && number.saturating_add(1) == groups.others.min(first_of_last);
        let added = Step::Reduce { into: sum, from: arrived, order: Order::IntoFirst };
        let together = Step::Reduce { into: data, from: last, order: Order::IntoFirst };
        let local =
            [(!is_first).then_some(added), (is_end && first_of_last < groups.others).then_some(together)];
        match index {
            0 => Some(Step::Recv { from: other, into: if is_first { sum } else { arrived } }),
            1 => Some(Step::Send { to: other, from: given(instance, number) }),
            _ => local.into_iter().flatten().nth(index as usize - 2),
        }
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        if half(size) < 2 { usize::MAX } else { scratch / 2 }
    }

    fn work(size: u32, count: usize) -> Work {
        let group = half(size);
        let exchanged = messages(group, count, false);
        // As many as come, less the first of either sum; the two sums of most ranks.
        let added = group.saturating_sub(1).saturating_add(u32::from(group > 2));
        Work { reduced: u64::from(added).saturating_mul(count as u64), ..exchanged }
    }
}
