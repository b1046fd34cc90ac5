//! The blocks of each group on all ranks of the other. A rank gives its block as input.

use aldis_kernel::hal::Operation;

use super::groups::{FAN, Groups, fanned, half};
use crate::algorithms::bcast::Binomial;
use crate::phases::{locate, messages, sum};
use crate::schedule::variant::{Pattern, Variant};
use crate::schedule::{Instance, Priced, Span, Step, Work, divide, doubling_groups, exchange, log2_ceil};

/// This rank's block.
fn given(instance: &Instance) -> Span {
    instance.block(0).of_input()
}

/// The first rank of each group broadcasts all blocks of the other to its group.
fn bcast(instance: &Instance, groups: &Groups, round: u32, index: u32) -> Option<Step> {
    let all = instance.count().saturating_mul(groups.others as usize);
    groups.near.step(&Binomial, &instance.with_count(all), round, index)
}

/// The work of that.
fn bcast_work(group: u32, count: usize) -> Work {
    Binomial.work(group, count.saturating_mul(group as usize))
}

/// The first rank of each group gets the blocks of the other, and
/// [broadcasts](Binomial) them to its group:
/// ceil(p/7) + ceil(log2 p) rounds for groups of p. Blocks may have unlike lengths; no scratch.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RemoteGatherLocalBcast;

impl RemoteGatherLocalBcast {
    fn lengths(instance: &Instance) -> [u32; 2] {
        let larger = Groups::of(instance).larger;
        if instance.count() == 0 { [0; 2] } else { [larger.div_ceil(FAN), log2_ceil(larger)] }
    }
}

impl Variant for RemoteGatherLocalBcast {
    type Pattern = Self;
    const NAME: &'static str = "inter_remote_gather_local_bcast";
    const SOURCE: &'static str = "MPICH allgatherv_inter_remote_gather_local_bcast";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for RemoteGatherLocalBcast {
    const OPERATION: Operation = Operation::Allgather;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        Self::lengths(instance).iter().sum()
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let groups = Groups::of(instance);
        let (0, round) = locate(round, Self::lengths(instance))? else {
            let before = Self::lengths(instance)[0];
            return bcast(instance, &groups, round.checked_sub(before)?, index);
        };
        let first = round.checked_mul(FAN)?;
        let comes = groups.others.saturating_sub(first).min(FAN);
        let comes = if groups.is_leader() { comes } else { 0 };
        if index < comes {
            let number = first.saturating_add(index);
            let from = groups.other.saturating_add(number);
            return Some(Step::Recv { from, into: instance.block(number) });
        }
        let is_turn = index == comes && groups.number / FAN == round;
        is_turn.then(|| Step::Send { to: groups.other, from: given(instance) })
    }

    fn work(size: u32, count: usize) -> Work {
        let group = half(size);
        sum([fanned(group, count), bcast_work(group, count)])
    }
}

/// Each group gathers its blocks at its first rank along a binomial tree; the two exchange them,
/// and [broadcast](Binomial) them to their groups: 1 + 2 ceil(log2 p) rounds for groups of p.
///
/// Scratch: the blocks of the larger group, if that has more than one rank.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalGatherRemoteBcast;

impl LocalGatherRemoteBcast {
    fn lengths(instance: &Instance) -> [u32; 3] {
        let log2 = log2_ceil(Groups::of(instance).larger);
        if instance.count() == 0 { [0; 3] } else { [log2, 1, log2] }
    }

    /// A round of the gather, in which a rank that leads others has all their blocks in scratch,
    /// behind its own.
    fn gather(instance: &Instance, groups: &Groups, round: u32, index: u32) -> Option<Step> {
        let inner = groups.near.instance(instance)?;
        let merge = doubling_groups::merge(&inner, round)?;
        let passing = merge.passing;
        let start = inner.blocks(passing.first.saturating_sub(inner.rank()), 0).start;
        let len = inner.blocks(0, passing.len).len;
        let other = groups.rank(merge.other);
        let passing = match (merge.leads, passing.len) {
            (false, 1) => given(instance),
            _ => Span { start, ..Span::scratch(len) },
        };
        match (merge.leads, index) {
            (true, 0) => Some(Step::Recv { from: other, into: passing }),
            (false, 0) => Some(Step::Send { to: other, from: passing }),
            (true, 1) if round == 0 => {
                Some(Step::Copy { into: Span::scratch(instance.count()), from: given(instance) })
            }
            _ => None,
        }
    }
}

impl Variant for LocalGatherRemoteBcast {
    type Pattern = Self;
    const NAME: &'static str = "inter_local_gather_remote_bcast";
    const SOURCE: &'static str =
        "MPICH allgather_inter_local_gather_remote_bcast; Open MPI mca_coll_inter_allgather_inter";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for LocalGatherRemoteBcast {
    const OPERATION: Operation = Operation::Allgather;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        Self::lengths(instance).iter().sum()
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let groups = Groups::of(instance);
        match locate(round, Self::lengths(instance))? {
            (0, round) => Self::gather(instance, &groups, round, index),
            (1, _) => {
                let gathered = Span::scratch(instance.blocks(0, groups.here()).len);
                let ours = if groups.here() == 1 { given(instance) } else { gathered };
                groups.swap(index, instance.blocks(0, groups.others), ours)
            }
            (_, round) => bcast(instance, &groups, round, index),
        }
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        match half(size) {
            0 | 1 => usize::MAX,
            group => divide(scratch, group as usize).0,
        }
    }

    fn work(size: u32, count: usize) -> Work {
        let group = half(size);
        let all = count.saturating_mul(group as usize);
        // In round k the first rank gets min(2^k, p - 2^k) blocks, p - 1 in all.
        let behind = group.saturating_sub(1);
        let gathering = Work {
            elements: u64::from(behind).saturating_mul(count as u64),
            copied: u64::from(behind.min(1)).saturating_mul(count as u64),
            ..messages(log2_ceil(group), count, false)
        };
        sum([gathering, messages(1, all, false), bcast_work(group, count)])
    }
}

/// Every rank exchanges blocks with every rank of the other group, four at a time: ceil(p/4) rounds
/// for groups of p, and every block is sent straight where it belongs. Blocks may have unlike
/// lengths; no scratch.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PairwiseExchange;

impl Variant for PairwiseExchange {
    type Pattern = Self;
    const NAME: &'static str = "inter_pairwise_exchange";
    const SOURCE: &'static str = "MPICH alltoall_inter_pairwise_exchange, of one block";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for PairwiseExchange {
    const OPERATION: Operation = Operation::Allgather;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        Groups::of(instance).rounds(instance, exchange::WIDTH_MAX)
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let given = |_| given(instance);
        Groups::of(instance).meet::<{ exchange::WIDTH_MAX }>(instance, round, index, given)
    }

    fn work(size: u32, count: usize) -> Work {
        exchange::work(half(size).saturating_add(1), count, exchange::WIDTH_MAX)
    }
}
