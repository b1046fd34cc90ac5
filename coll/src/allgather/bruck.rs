//! Bruck: everyone passes on all it has, to twice as far each time.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_ceil};

/// Bruck's allgather: ceil(log2 p) rounds, any p.
///
/// After round k a rank has the blocks of the 2^(k+1) ranks from itself on. They stand in their places from the start, so
/// that nothing is turned at the end as in the original: what goes past the last block goes in two messages.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bruck;

impl Schedule for Bruck {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "bruck"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let distance = 1u32.checked_shl(round)?;
        let blocks = distance.min(instance.size() - distance);
        match index {
            0 => {
                let from = instance.after(distance);
                Some(Step::Recv { from, into: instance.blocks(from, blocks) })
            }
            1 => Some(Step::Send {
                to: instance.before(distance),
                from: instance.blocks(instance.rank(), blocks),
            }),
            _ => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Bruck {
    fn source(&self) -> &'static str {
        "Bruck, Ho, Kipnis, Upfal, Weathersby 1997; Open MPI ompi_coll_base_allgather_intra_bruck; MPICH allgather_intra_brucks"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(log2_ceil(size)) };
        let blocks = if count == 0 { 0 } else { u64::from(size.saturating_sub(1)) };
        Work { rounds, elements: blocks.saturating_mul(count as u64), ..Work::default() }
    }
}
