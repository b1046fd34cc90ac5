//! The binomial tree: groups of neighbours become one, and their blocks one message.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, doubling_groups, log2_ceil};

/// The binomial-tree gather: ceil(log2 p) rounds, any p, any root; the root receives all blocks but
/// its own.
///
/// Groups of 1, 2, 4, .. neighbouring ranks have their blocks with one rank, their leader; in each
/// round the leader of one sends them to that of the other, the root if it is among them, else the
/// first. Their blocks stand together in the order of ranks, so that nothing is sorted at the end.
///
/// Scratch: the blocks of the largest group without the root, less than p.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Binomial;

impl Schedule for Binomial {
    fn operation(&self) -> Operation {
        Operation::Gather
    }

    fn name(&self) -> &'static str {
        "binomial"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let merge = doubling_groups::merge(instance, round)?;
        let passing = doubling_groups::held(instance, merge.passing);
        let own = instance.block(instance.rank());
        match (merge.leads, index) {
            (true, 0) => Some(Step::Recv { from: merge.other, into: passing }),
            (false, 0) => Some(Step::Send { to: merge.other, from: passing }),
            (true, 1) if round == 0 && instance.rank() != instance.root() => {
                Some(Step::Copy { into: Span::scratch(own.len), from: own })
            }
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        scratch.checked_div(doubling_groups::held_max(size)).unwrap_or(usize::MAX)
    }
}

impl Priced for Binomial {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005; Open MPI ompi_coll_base_gather_intra_binomial; MPICH gather_intra_binomial"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        doubling_groups::work(size, count, u64::from(size > 2))
    }
}
