//! Direct: every rank sends to every other.

use aldis_kernel::hal::Operation;

use crate::schedule::exchange::{self, WIDTH_MAX};
use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// The direct allgather: each rank sends its block to each other, as many at a time as fit into a
/// round.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Direct;

impl Schedule for Direct {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "direct"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).div_ceil(WIDTH_MAX) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let given = |_| instance.block(instance.rank());
        exchange::message::<WIDTH_MAX>(instance, round, index, given).ok()
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Direct {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allgather_intra_direct_messaging; gloo allgatherv.cc"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        exchange::work(size, count, WIDTH_MAX)
    }
}
