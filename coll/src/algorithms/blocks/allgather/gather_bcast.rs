//! A gather and a broadcast along a tree.

use aldis_kernel::hal::Operation;

use crate::algorithms::bcast;
use crate::algorithms::blocks::gather;
use crate::phases::sum;
use crate::schedule::{Instance, Priced, Schedule, Step, Work, fan};

/// The allgather of two operations: rank 0 gathers all blocks, eight at a time, and a binomial tree
/// spreads them out: ceil(log2 p) rounds of all of them. What Open MPI takes by default where
/// blocks have unlike lengths.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GatherBcast;

/// All blocks as the data of a broadcast.
fn all(instance: &Instance) -> Instance {
    instance.with_count(instance.blocks(0, instance.size()).len)
}

impl Schedule for GatherBcast {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "default"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        gather::Linear.rounds(instance).saturating_add(bcast::Binomial.rounds(&all(instance)))
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        match round.checked_sub(gather::Linear.rounds(instance)) {
            None => gather::Linear.step(instance, round, index),
            Some(round) => bcast::Binomial.step(&all(instance), round, index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for GatherBcast {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allgatherv_intra_basic_default"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let all = count.saturating_mul(size as usize);
        sum([fan::work(size, count), bcast::Binomial.work(size, all)])
    }
}
