//! A reduction to rank 0 and a broadcast from it, in which that rank exchanges with every other.

use aldis_kernel::hal::Operation;

use super::nonoverlapping::InSequence;
use crate::algorithms::{bcast, reduce};
use crate::phases::sum;
use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// The linear all-reduce: [`reduce::Linear`] and then [`bcast::Linear`], (p - 1) n elements each
/// way at rank 0.
///
/// **Same bits everywhere:** one rank has the result and the others get a copy; rank order is kept.
///
/// Scratch: as many elements as a segment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

const PHASES: InSequence<reduce::Linear, bcast::Linear> = InSequence(reduce::Linear, bcast::Linear);

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        PHASES.rounds(instance)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        PHASES.step(instance, round, index)
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        reduce::Linear.capacity(size, scratch)
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allreduce_intra_basic_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        sum([reduce::Linear.work(size, count), bcast::Linear.work(size, count)])
    }
}
