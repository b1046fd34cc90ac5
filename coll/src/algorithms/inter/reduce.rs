//! Reduction of one group's data at a rank of the other. Of the ranks the last is the root.

use aldis_kernel::hal::Operation;

use crate::algorithms::reduce::Binomial;
use crate::phases::{messages, sum, whole};
use crate::schedule::subset::RankSubset;
use crate::schedule::variant::{Pattern, Variant};
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The group [reduces](Binomial) to its first rank, which sends the result to the root: 1 +
/// ceil(log2 p) rounds of n elements for a group of p.
///
/// Operands keep the order of ranks. Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalReduceRemoteSend;

impl Variant for LocalReduceRemoteSend {
    type Pattern = Self;
    const NAME: &'static str = "inter_local_reduce_remote_send";
    const SOURCE: &'static str =
        "MPICH reduce_inter_local_reduce_remote_send; Open MPI mca_coll_inter_reduce_inter";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for LocalReduceRemoteSend {
    const OPERATION: Operation = Operation::Reduce;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { 1 + log2_ceil(instance.size() - 1) }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (root, count) = (instance.root(), instance.count());
        if round < log2_ceil(root) {
            return RankSubset::of_range(&(0..root), 0).step(&Binomial, instance, round, index);
        }
        let data = Span::data(0, count);
        match index {
            0 if instance.rank() == root => Some(Step::Recv { from: 0, into: data }),
            0 if instance.rank() == 0 => Some(Step::Send { to: root, from: data }),
            _ => None,
        }
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        Binomial.capacity(size.saturating_sub(1), scratch)
    }

    fn work(size: u32, count: usize) -> Work {
        sum([Binomial.work(size.saturating_sub(1), count), messages(1, count, false)])
    }
}

/// Every rank of the group sends to the root, which reduces in their order: p rounds of n elements
/// for a group of p.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Variant for Linear {
    type Pattern = Self;
    const NAME: &'static str = "inter_linear";
    const SOURCE: &'static str = "Open MPI mca_coll_basic_reduce_lin_inter";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

impl Pattern for Linear {
    const OPERATION: Operation = Operation::Reduce;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { instance.size() - 1 }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (root, (data, arrived)) = (instance.root(), whole(instance));
        let into = if round == 0 { data } else { arrived };
        match index {
            0 if instance.rank() == round => Some(Step::Send { to: root, from: data }),
            0 if instance.rank() == root => Some(Step::Recv { from: round, into }),
            1 if instance.rank() == root && round > 0 => {
                Some(Step::Reduce { into: data, from: arrived, order: Order::IntoFirst })
            }
            _ => None,
        }
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        if size < 3 { usize::MAX } else { scratch }
    }

    fn work(size: u32, count: usize) -> Work {
        sum([messages(1, count, false), messages(size.saturating_sub(2), count, true)])
    }
}
