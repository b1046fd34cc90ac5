//! Pairwise: every rank gets its block from each of the others, one after the other.

use aldis_kernel::hal::Operation;

use super::partial::{add_given, given, kept, result};
use crate::phases::{messages, sum};
use crate::schedule::{BlockRange, Instance, Order, Priced, Schedule, Step, Work};

/// The pairwise reduce-scatter: p - 1 rounds of a block; in round k a rank sends to the one k + 1
/// after it what that rank needs, and gets its own block from the one k + 1 before it. Optimal in
/// bytes, and nothing is sent on.
///
/// What comes from lower ranks comes in falling order, and so does what then comes from higher
/// ones; they are added up apart and put together at the end, so operands keep the order of ranks.
///
/// Scratch: three blocks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pairwise;

/// Blocks of scratch.
fn slots(size: u32) -> usize {
    if size < 2 { 0 } else { size.min(3) as usize }
}

/// The local steps of a round, after what is `distance` before has come.
fn add(instance: &Instance, distance: u32) -> [Option<Step>; 3] {
    let (rank, size) = (instance.rank(), instance.size());
    let [lower, higher, arrived] = [0, 1, 2].map(|slot| kept(instance, slot, BlockRange::of(rank)));
    let own = given(instance, BlockRange::of(rank));
    let (from, is_lower) = (instance.before(distance), distance <= rank);
    let before = |into| Step::Reduce { into, from: arrived, order: Order::FromFirst };
    let added = match (is_lower, distance) {
        (true, 1) => Some(add_given(instance, from, lower, own)),
        (true, _) => Some(before(lower)),
        (false, _) if distance == rank + 1 => None,
        (false, _) => Some(before(higher)),
    };
    if distance + 1 < size {
        return [added, None, None];
    }
    let (together, all) = match rank {
        0 => (Some(Step::Reduce { into: higher, from: own, order: Order::FromFirst }), higher),
        _ if rank + 1 == size => (None, lower),
        _ => (Some(Step::Reduce { into: lower, from: higher, order: Order::IntoFirst }), lower),
    };
    [added, together, Some(result(instance, all))]
}

impl Schedule for Pairwise {
    fn operation(&self) -> Operation {
        Operation::ReduceScatterBlock
    }

    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).max(1) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (rank, distance) = (instance.rank(), round + 1);
        if instance.size() < 2 {
            return (index == 0).then(|| result(instance, given(instance, BlockRange::of(rank))));
        }
        let (from, to) = (instance.before(distance), instance.after(distance));
        let slot = match distance {
            1 if rank > 0 => 0,
            _ if distance == rank + 1 => 1,
            _ => 2,
        };
        match index {
            0 => Some(Step::Recv { from, into: kept(instance, slot, BlockRange::of(rank)) }),
            1 => Some(Step::Send { to, from: given(instance, BlockRange::of(to)) }),
            _ => add(instance, distance).into_iter().flatten().nth(index as usize - 2),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        scratch.checked_div(slots(size)).unwrap_or(usize::MAX)
    }
}

impl Priced for Pairwise {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.3; MPICH reduce_scatter_intra_pairwise"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let more = if size > 2 { count as u64 } else { 0 };
        let put_together = Work { reduced: more, copied: count as u64, ..Work::default() };
        sum([messages(size.saturating_sub(1), count, true), put_together])
    }
}
