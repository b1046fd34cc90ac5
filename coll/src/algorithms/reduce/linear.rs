//! Linear: every rank sends to the root.

use aldis_kernel::hal::Operation;

use super::collect::messages;
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work};

/// The linear reduction: p - 1 rounds of n elements, any p, any root.
///
/// The root adds one rank a round, its neighbours first: those before it from the right to the
/// left, then those after it from the left to the right. So operands stand in the order of their
/// ranks, and one element of scratch is enough.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Reduce
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
        let root = instance.root();
        let (peer, order) = match root.checked_sub(round).and_then(|left| left.checked_sub(1)) {
            Some(before) => (before, Order::FromFirst),
            None => (round + 1, Order::IntoFirst),
        };
        let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
        match index {
            0 if instance.rank() == peer => Some(Step::Send { to: root, from: data }),
            0 if instance.rank() == root => Some(Step::Recv { from: peer, into: arrived }),
            1 if instance.rank() == root => Some(Step::Reduce { into: data, from: arrived, order }),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_reduce_intra_basic_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let others = u64::from(size.saturating_sub(1));
        messages(others, others, count)
    }
}
