//! Bruck: every rank sends on all it has, to as many times as far each time as the radix is.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, radix};

/// Bruck's allgather of radix k, 2 in the original: ceil(log_k p) stages of up to k - 1 messages,
/// any p; a round each for a radix of up to 5.
///
/// After stage s a rank has the blocks of the k^(s+1) ranks from itself on. They stand in their
/// places from the start, so that nothing is turned at the end as in the original: what reaches
/// past the last block is sent in two messages.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bruck<const RADIX: u32>;

impl<const RADIX: u32> Schedule for Bruck<RADIX> {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        match RADIX {
            2 => "bruck",
            4 => "bruck_radix4",
            8 => "bruck_radix8",
            _ => "bruck_radix",
        }
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { radix::rounds(instance.size(), RADIX).count() as u32 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if instance.count() == 0 {
            return None;
        }
        let digits = radix::rounds(instance.size(), RADIX).nth(round as usize)?;
        let blocks = |reach: u32| digits.distance.min(instance.size().saturating_sub(reach));
        match index.checked_sub(digits.count) {
            None => {
                let reach = digits.reach(index);
                let from = instance.after(reach);
                Some(Step::Recv { from, into: instance.blocks(from, blocks(reach)) })
            }
            Some(sent) if sent < digits.count => {
                let reach = digits.reach(sent);
                let from = instance.blocks(instance.rank(), blocks(reach));
                Some(Step::Send { to: instance.before(reach), from })
            }
            Some(_) => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl<const RADIX: u32> Priced for Bruck<RADIX> {
    fn source(&self) -> &'static str {
        "Bruck, Ho, Kipnis, Upfal, Weathersby 1997; Open MPI ompi_coll_base_allgather_intra_bruck, intra_k_bruck; MPICH allgather_intra_brucks, k_brucks"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let blocks = u64::from(size.saturating_sub(1));
        Work { elements: blocks.saturating_mul(count as u64), ..radix::work(size, RADIX) }
    }
}
