//! Two ranks: they swap their blocks.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// The allgather of two: one round, for two ranks only.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TwoProcesses;

impl Schedule for TwoProcesses {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "two_processes"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        u32::from(instance.count() > 0)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        super::ring::pass_on(instance, round, index)
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
        "Open MPI ompi_coll_base_allgather_intra_two_procs"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = u64::from(size > 1 && count > 0);
        Work { rounds, elements: rounds.saturating_mul(count as u64), ..Work::default() }
    }
}
