//! Throttled: everyone sends to everyone, two at a time.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, exchange};

/// The throttled all-to-all: two exchanges under way at a time, for networks that many messages at once congest.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinearSync;

impl Schedule for LinearSync {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        "linear_sync"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        exchange::rounds(instance, 2)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        exchange::step(instance, 2, round, index)
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for LinearSync {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_alltoall_intra_linear_sync"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        exchange::work(size, count, 2)
    }
}
