//! Dissemination of a higher radix: every rank signals at several distances in a round.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, radix};

/// The dissemination barrier of radix k: ceil(log_k p) stages of up to k - 1 messages, any p; a
/// round each for a radix of up to 5.
///
/// In stage s each rank signals the ranks k^s, 2 k^s, .. (k - 1) k^s places after it and waits for
/// those as far before it. After it a rank has a signal of the k^(s+1) ranks that end with itself.
/// Distances of p and more are left out.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DisseminationRadix<const RADIX: u32>;

impl<const RADIX: u32> Schedule for DisseminationRadix<RADIX> {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        match RADIX {
            4 => "dissemination_radix4",
            8 => "dissemination_radix8",
            _ => "dissemination_radix",
        }
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        radix::rounds(instance.size(), RADIX).count() as u32
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let digits = radix::rounds(instance.size(), RADIX).nth(round as usize)?;
        match index.checked_sub(digits.count) {
            None => Some(Step::Recv { from: instance.before(digits.reach(index)), into: Span::EMPTY }),
            Some(sent) if sent < digits.count => {
                Some(Step::Send { to: instance.after(digits.reach(sent)), from: Span::EMPTY })
            }
            Some(_) => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl<const RADIX: u32> Priced for DisseminationRadix<RADIX> {
    fn source(&self) -> &'static str {
        "Hensgen, Finkel, Manber 1988; MPICH barrier_intra_k_dissemination; Hoefler, Mehlan, Mietke, Rehm 2006, n-way"
    }

    fn work(&self, size: u32, _count: usize) -> Work {
        radix::work(size, RADIX)
    }
}
