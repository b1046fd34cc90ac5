//! Pairwise: each round everyone sends to one rank and hears from one.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, exchange};

/// The pairwise all-to-all: p - 1 rounds; in round k a rank sends to the one k + 1 after it and receives from the one k + 1
/// before it.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pairwise;

impl Schedule for Pairwise {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        "pairwise"
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
}

impl Priced for Pairwise {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.2; Open MPI ompi_coll_base_alltoall_intra_pairwise; MPICH alltoall_intra_pairwise"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        exchange::work(size, count, 1)
    }
}
