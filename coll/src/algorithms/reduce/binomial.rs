//! The binomial tree: neighbouring groups of ranks become one, twice as large each time.

use aldis_kernel::hal::Operation;

use crate::schedule::doubling_groups::{self, GroupMerge};
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work, log2_ceil, pairs_up};

/// The binomial-tree reduction: ceil(log2 p) rounds of n elements, any p, any root.
///
/// After round k each group of 2^(k+1) ranks, counted from rank 0, has its reduction on one rank,
/// its *leader*: the root if it is among them, else the first. In that round the leader of one half
/// sends to the leader of the other, which is the leader of both. So the root needs no place of its
/// own in the tree, and operands stay in the order of ranks: what comes from the lower half stands
/// on the left.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Binomial;

impl Schedule for Binomial {
    fn operation(&self) -> Operation {
        Operation::Reduce
    }

    fn name(&self) -> &'static str {
        "binomial"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let GroupMerge { other, leads, .. } = doubling_groups::merge(instance, round)?;
        let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
        let is_lower = doubling_groups::first(instance.rank(), round + 1)
            == doubling_groups::first(instance.rank(), round);
        let order = if is_lower { Order::IntoFirst } else { Order::FromFirst };
        match (leads, index) {
            (false, 0) => Some(Step::Send { to: other, from: data }),
            (true, 0) => Some(Step::Recv { from: other, into: arrived }),
            (true, 1) => Some(Step::Reduce { into: data, from: arrived, order }),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for Binomial {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.4; MPICH reduce_intra_binomial; Open MPI \
         ompi_coll_base_reduce_intra_binomial"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(log2_ceil(size)) };
        let elements = rounds.saturating_mul(count as u64);
        Work { rounds, elements, reduced: elements, ..Work::default() }
    }

    fn reproduces(&self, size: u32) -> bool {
        pairs_up(size)
    }
}
