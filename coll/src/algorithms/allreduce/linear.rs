//! A reduction to rank 0 and a broadcast from it, in which that rank talks to every other.

use aldis_kernel::hal::Operation;

use super::nonoverlapping::one_after_the_other;
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

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        reduce::Linear.rounds(instance).saturating_add(bcast::Linear.rounds(instance))
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        one_after_the_other(&reduce::Linear, &bcast::Linear, instance, (round, index))
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
