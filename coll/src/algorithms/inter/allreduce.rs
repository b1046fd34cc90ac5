//! Reduction of each group's data on all ranks of the other.

use aldis_kernel::hal::Operation;

use super::groups::{Groups, half};
use crate::algorithms::{bcast, reduce};
use crate::phases::{locate, messages, sum, whole};
use crate::schedule::variant::{Pattern, Variant};
use crate::schedule::{Instance, Priced, Step, Work, log2_ceil};

/// Each group [reduces](reduce::Binomial) to its first rank; the two exchange their results, and
/// [broadcast](bcast::Binomial) them to their groups: 1 + 2 ceil(log2 p) rounds of n elements, p
/// being the ranks of the larger group.
///
/// **Same bits everywhere:** a group's reduction is worked out on one rank, in the order of ranks.
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ReduceExchangeBcast;

impl Variant for ReduceExchangeBcast {
    type Pattern = Self;
    const NAME: &'static str = "inter_reduce_exchange_bcast";
    const SOURCE: &'static str =
        "MPICH allreduce_inter_reduce_exchange_bcast; Open MPI mca_coll_inter_allreduce_inter";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

/// Rounds of the reduction, of the exchange and of the broadcast.
fn lengths(instance: &Instance) -> [u32; 3] {
    let log2 = log2_ceil(Groups::of(instance).larger);
    if instance.count() == 0 { [0; 3] } else { [log2, 1, log2] }
}

impl Pattern for ReduceExchangeBcast {
    const OPERATION: Operation = Operation::Allreduce;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        lengths(instance).iter().sum()
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (groups, (data, arrived)) = (Groups::of(instance), whole(instance));
        match locate(round, lengths(instance))? {
            (0, round) => groups.near.step(&reduce::Binomial, instance, round, index),
            (1, _) if index == 2 && groups.is_leader() => Some(Step::Copy { into: data, from: arrived }),
            (1, _) => groups.swap(index, arrived, data),
            (_, round) => groups.near.step(&bcast::Binomial, instance, round, index),
        }
    }

    fn capacity(_size: u32, scratch: usize) -> usize {
        scratch
    }

    fn work(size: u32, count: usize) -> Work {
        let exchange = Work { copied: count as u64, ..messages(1, count, false) };
        let group = half(size);
        sum([reduce::Binomial.work(group, count), exchange, bcast::Binomial.work(group, count)])
    }
}
