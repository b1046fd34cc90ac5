//! The binomial tree: a rank that has blocks of several sends on half of them.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, doubling_groups, log2_ceil};

/// The binomial-tree scatter: ceil(log2 p) rounds, any p, any root; the root sends all blocks but
/// its own.
///
/// The [gather](crate::gather::Binomial) backwards: the leader of a group of ranks has their
/// blocks, and sends those of the half that it is not in to the leader of that.
///
/// Scratch: the blocks of the largest group without the root, less than p.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Binomial;

impl Schedule for Binomial {
    fn operation(&self) -> Operation {
        Operation::Scatter
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
        let merge = doubling_groups::merge(instance, self.rounds(instance) - 1 - round)?;
        let passing = doubling_groups::held(instance, merge.passing);
        let own = instance.block(instance.rank());
        match (merge.leads, index) {
            (true, 0) => Some(Step::Send { to: merge.other, from: passing }),
            (false, 0) => Some(Step::Recv { from: merge.other, into: passing }),
            (false, 1) if merge.passing.len > 1 => {
                Some(Step::Copy { into: own, from: Span::scratch(own.len) })
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
        "Thakur, Rabenseifner, Gropp 2005; Open MPI ompi_coll_base_scatter_intra_binomial; MPICH scatter_intra_binomial"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        doubling_groups::work(size, count, u64::from(log2_ceil(size)).saturating_sub(1))
    }
}
