//! Double ring: a signal passes round all ranks twice.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The double-ring barrier: 2 (p - 1) rounds of one message, any p. No rank has more than two
/// messages in each direction, and those with its neighbours only.
///
/// The signal starts at rank 0. When the last rank has it, all have entered; on the second lap all
/// others learn that. Open MPI lets both laps end where they began: its last two messages carry no
/// news to any rank, and are left out here.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DoubleRing;

impl Schedule for DoubleRing {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        "double_ring"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        (instance.size() - 1).saturating_mul(2)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) || index > 0 {
            return None;
        }
        let sender = round % instance.size();
        if instance.rank() == sender {
            Some(Step::Send { to: instance.after(1), from: Span::EMPTY })
        } else if instance.before(1) == sender {
            Some(Step::Recv { from: sender, into: Span::EMPTY })
        } else {
            None
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for DoubleRing {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_barrier_intra_doublering"
    }

    fn work(&self, size: u32, _count: usize) -> Work {
        Work { rounds: 2 * u64::from(size.saturating_sub(1)), ..Work::default() }
    }
}
