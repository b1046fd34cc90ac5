//! The ring: blocks go around.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// The ring allgather: p - 1 rounds of a block, each to the next rank; optimal in bytes.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ring;

/// What is passed on in a round: the block that came in the one before.
pub(super) fn pass_on(instance: &Instance, round: u32, index: u32) -> Option<Step> {
    match index {
        0 => Some(Step::Recv { from: instance.before(1), into: instance.block(instance.before(round + 1)) }),
        1 => Some(Step::Send { to: instance.after(1), from: instance.block(instance.before(round)) }),
        _ => None,
    }
}

impl Schedule for Ring {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "ring"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { instance.size() - 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        pass_on(instance, round, index)
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Ring {
    fn source(&self) -> &'static str {
        "Chan, Heimlich, Purkayastha, van de Geijn 2007; Open MPI ompi_coll_base_allgather_intra_ring; MPICH allgather_intra_ring; gloo allgather_ring.h"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(size.saturating_sub(1)) };
        Work { rounds, elements: rounds.saturating_mul(count as u64), ..Work::default() }
    }
}
