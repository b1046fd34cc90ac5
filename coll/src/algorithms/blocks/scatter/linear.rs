//! The fan: the root sends to every rank, one after the other.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// The linear scatter: the root sends a block to each other rank, each when the one before has been
/// sent.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Scatter
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { instance.size() - 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (place, next) = (instance.from_root(), instance.at_place(round + 1));
        match index {
            0 if place == 0 => Some(Step::Send { to: next, from: instance.block(next) }),
            0 if place == round + 1 => {
                Some(Step::Recv { from: instance.root(), into: instance.block(instance.rank()) })
            }
            _ => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_scatter_intra_basic_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(size.saturating_sub(1)) };
        Work { rounds, elements: rounds.saturating_mul(count as u64), ..Work::default() }
    }
}
