//! Two processes: they signal each other.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The barrier of two: one round, for two ranks only.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TwoProcesses;

impl Schedule for TwoProcesses {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        "two_processes"
    }

    fn rounds(&self, _instance: &Instance) -> u32 {
        1
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let other = instance.after(1);
        match (round, index) {
            (0, 0) => Some(Step::Recv { from: other, into: Span::EMPTY }),
            (0, 1) => Some(Step::Send { to: other, from: Span::EMPTY }),
            _ => None,
        }
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
        "Open MPI ompi_coll_base_barrier_intra_two_procs"
    }

    fn work(&self, _size: u32, _count: usize) -> Work {
        Work { rounds: 1, ..Work::default() }
    }
}
