//! Linear: everyone sends to everyone.

use aldis_kernel::hal::Operation;

use crate::schedule::{IN_FLIGHT_MAX, Instance, Priced, Schedule, Step, Work, exchange};

/// The linear all-to-all: as many exchanges under way at a time as a round has messages for, those with near ranks first.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

/// Exchanges of a round.
const WIDTH: u32 = IN_FLIGHT_MAX as u32 / 2;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        exchange::rounds(instance, WIDTH)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        exchange::step(instance, WIDTH, round, index)
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_alltoall_intra_basic_linear; MPICH alltoall_intra_scattered; gloo alltoall.cc"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        exchange::work(size, count, WIDTH)
    }
}
