//! Linear: the sum is sent from rank to rank.

use aldis_kernel::hal::Operation;

use crate::algorithms::reduce::messages;
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work};

/// The linear exclusive scan: p - 1 rounds of n elements, any p; a rank receives once and sends
/// once.
///
/// The elements that a rank receives are its result; it adds its own to them for the next rank. The
/// expression of rank r is ((x0 x1) x2) .. x(r - 1), as a single processor would work it out.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Exscan
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
        let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
        let (rank, is_last) = (instance.rank(), instance.rank() == instance.size() - 1);
        match (rank.checked_sub(round)?, index) {
            (0, 0) => Some(Step::Send { to: round + 1, from: data }),
            (0, 1) if rank > 0 => Some(Step::Copy { into: data, from: arrived }),
            (1, 0) => Some(Step::Recv { from: round, into: if is_last { data } else { arrived } }),
            (1, 1) if !is_last => Some(Step::Reduce { into: data, from: arrived, order: Order::FromFirst }),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_exscan_intra_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let (others, between) = (size.saturating_sub(1), size.saturating_sub(2));
        let sums = messages(others.into(), between.into(), count);
        Work { copied: sums.reduced, ..sums }
    }

    fn share(&self, size: u32, count: usize) -> Work {
        let (others, between) = (size.saturating_sub(1).min(2), size.saturating_sub(2).min(1));
        let sums = messages(others.into(), between.into(), count);
        Work { copied: sums.reduced, ..sums }
    }
}
