//! Dissemination: every rank signals at distance 1, 2, 4, .. until each has a signal of every
//! other.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The dissemination barrier: ceil(log2 p) rounds, any p.
///
/// In round k each rank signals the rank 2^k places after it and waits for the one 2^k places
/// before it. After round k a rank has a signal, directly or not, of the 2^(k+1) ranks that end
/// with itself.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dissemination;

impl Schedule for Dissemination {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        "dissemination"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        log2_ceil(instance.size())
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let distance = 1u32.checked_shl(round)?;
        match index {
            0 => Some(Step::Recv { from: instance.before(distance), into: Span::EMPTY }),
            1 => Some(Step::Send { to: instance.after(distance), from: Span::EMPTY }),
            _ => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Dissemination {
    fn source(&self) -> &'static str {
        "Hensgen, Finkel, Manber 1988; Open MPI ompi_coll_base_barrier_intra_bruck; MPICH barrier_intra_k_dissemination"
    }

    fn work(&self, size: u32, _count: usize) -> Work {
        Work { rounds: log2_ceil(size).into(), ..Work::default() }
    }
}
