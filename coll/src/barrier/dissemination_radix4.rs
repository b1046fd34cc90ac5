//! Dissemination of radix 4: everyone signals at three distances in a round.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The dissemination barrier of radix 4: ceil(log4 p) rounds of up to three messages, any p.
///
/// In round k each rank signals the ranks 4^k, 2 4^k and 3 4^k places after it and awaits those as far before it. After
/// round k a rank has heard of the 4^(k+1) ranks that end with itself. Distances of p and more are left out.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DisseminationRadix4;

/// The rounds.
const fn log4_ceil(size: u32) -> u32 {
    log2_ceil(size).div_ceil(2)
}

/// Ranks that each signals in this round.
const fn peers(size: u32, round: u32) -> u32 {
    match size.saturating_sub(1).checked_shr(2 * round) {
        Some(peers) if peers < 3 => peers,
        Some(_) => 3,
        None => 0,
    }
}

impl Schedule for DisseminationRadix4 {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        "dissemination_radix4"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        log4_ceil(instance.size())
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let peers = peers(instance.size(), round);
        let distance = |number: u32| (number + 1) << (2 * round);
        match index.checked_sub(peers) {
            None => Some(Step::Recv { from: instance.before(distance(index)), into: Span::EMPTY }),
            Some(sent) if sent < peers => {
                Some(Step::Send { to: instance.after(distance(sent)), from: Span::EMPTY })
            }
            Some(_) => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for DisseminationRadix4 {
    fn source(&self) -> &'static str {
        "Hensgen, Finkel, Manber 1988; MPICH barrier_intra_k_dissemination, k = 4; Hoefler, Mehlan, Mietke, Rehm 2006, n-way"
    }

    fn work(&self, size: u32, _count: usize) -> Work {
        let rounds = log4_ceil(size);
        let Some(last) = rounds.checked_sub(1) else { return Work::default() };
        let fan = 2 * last + peers(size, last).saturating_sub(1);
        Work { rounds: rounds.into(), fan: fan.into(), ..Work::default() }
    }
}
