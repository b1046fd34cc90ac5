//! The in-order binary tree: lower ranks stand in the left subtree, higher ones in the right.

use core::ops::Range;

use aldis_kernel::hal::Operation;

use super::collect::messages;
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work, log2_floor};

/// The reduction along the in-order binary tree: 2 floor(log2 p) rounds of n elements, one less for
/// a power of two, any p, any root. It keeps the order of ranks, and every rank but the root
/// receives at most twice and sends once.
///
/// Ranks count from 1. The odd ones are leaves; one that ends in t zero bits has 2^t - 1 ranks on
/// either side below it, as far as there are so many. In the two rounds of t, first its left
/// subtree and the rank itself become one set of neighbours, then these and its right subtree. Of
/// two sets that become one, the holder of the sum is the root if it is among them, else the rank
/// in the middle: so no root needs a message more, as it would if the tree's own head had to send
/// it the result.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct InOrderBinary;

/// Two sets of neighbours that become one: the rank that holds the sum of the lower one, that of
/// the higher one, and which of the two receives.
struct Union {
    lower: u32,
    higher: u32,
    lower_receives: bool,
}

/// The union of this round that the rank is in. Ranks count from 1 here.
fn union(instance: &Instance, round: u32) -> Option<Union> {
    let (bits, is_second) = (round / 2 + 1, round % 2 == 1);
    let (number, size) = (u64::from(instance.rank()) + 1, u64::from(instance.size()));
    // The first number of no set of this round, and the middle of those after it.
    let base = number & u64::MAX.checked_shl(bits + 1)?;
    let middle = base + (1 << bits);
    let end = size.min(middle + (1 << bits) - 1) + 1;
    if number == base || middle > size || (is_second && middle == size) {
        return None;
    }
    let root = u64::from(instance.root()) + 1;
    let holder = |set: &Range<u64>, own: u64| if set.contains(&root) { root } else { own };
    let (lower, higher, own, others) = if is_second {
        let right = log2_floor((end - 1 - middle) as u32);
        (base + 1..middle + 1, middle + 1..end, middle, middle + (1 << right))
    } else {
        (base + 1..middle, middle..middle + 1, base + (1 << (bits - 1)), middle)
    };
    let lower_receives = lower.contains(&root) || (is_second && !higher.contains(&root));
    let rank = |number: u64| (number - 1) as u32;
    let (lower, higher) = (rank(holder(&lower, own)), rank(holder(&higher, others)));
    Some(Union { lower, higher, lower_receives })
}

const fn rounds(size: u32) -> u32 {
    (2 * log2_floor(size)).saturating_sub(size.is_power_of_two() as u32)
}

impl Schedule for InOrderBinary {
    fn operation(&self) -> Operation {
        Operation::Reduce
    }

    fn name(&self) -> &'static str {
        "in_order_binary"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { rounds(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let Union { lower, higher, lower_receives } = union(instance, round)?;
        let rank = instance.rank();
        let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
        let (other, order) = match rank {
            _ if rank == lower => (higher, Order::IntoFirst),
            _ if rank == higher => (lower, Order::FromFirst),
            _ => return None,
        };
        match (lower_receives == (rank == lower), index) {
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

impl Priced for InOrderBinary {
    fn source(&self) -> &'static str {
        "Sanders, Speck, Traeff 2009, Two-tree algorithms, section 3 (in-order numbering); Open MPI \
         ompi_coll_base_reduce_intra_in_order_binary"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        messages(rounds(size).into(), rounds(size).into(), count)
    }
}
