//! Two ranks: they swap a block.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, exchange};

/// The all-to-all of two: one round, for two ranks only.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TwoProcesses;

impl Schedule for TwoProcesses {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        "two_processes"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        exchange::rounds(instance, 1)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        exchange::step(instance, 1, round, index)
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }

    fn serves(&self, size: u32) -> bool {
        size == 2
    }
}

impl Priced for TwoProcesses {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_alltoall_intra_two_procs"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        exchange::work(size, count, 1)
    }
}
