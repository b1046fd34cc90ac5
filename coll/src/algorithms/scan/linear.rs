//! Linear: the sum is sent from rank to rank.

use aldis_kernel::hal::Operation;

use crate::algorithms::reduce::messages;
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work};

/// The linear scan: p - 1 rounds of n elements, any p; a rank receives once and sends once.
///
/// The expression of rank r is ((x0 x1) x2) .. xr, as a single processor would work it out.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Scan
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
        match (instance.rank().checked_sub(round)?, index) {
            (0, 0) => Some(Step::Send { to: round + 1, from: data }),
            (1, 0) => Some(Step::Recv { from: round, into: arrived }),
            (1, 1) => Some(Step::Reduce { into: data, from: arrived, order: Order::FromFirst }),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_scan_intra_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        messages(size.saturating_sub(1).into(), size.saturating_sub(1).into(), count)
    }

    fn share(&self, size: u32, count: usize) -> Work {
        messages(size.saturating_sub(1).min(2).into(), size.saturating_sub(1).min(1).into(), count)
    }
}
