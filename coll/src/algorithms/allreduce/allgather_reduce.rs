//! All data to every rank, and every rank reduces them all: few rounds, and the operands in the
//! order of their ranks.

use aldis_kernel::hal::Operation;

use crate::phases::{left_fold, nth, ring_before};
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The all-reduce by allgather and local reduction: ceil(log2 p) rounds, (p - 1) n elements sent
/// and as many reduced.
///
/// The allgather is Bruck's: a rank has the data of those from itself on in that order; in round k
/// it sends the first 2^k of them, or as many as are missing, to the rank 2^k before it.
///
/// **Same bits everywhere**, and for every number of ranks: all combine the same operands from left
/// to right in the order of their ranks.
///
/// Scratch: p - 1 times a segment; with less than p - 1 elements it cannot be used.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AllgatherReduce;

/// The scratch of `ranks` ranks, the first of them `after` ranks after this one.
fn slots(instance: &Instance, after: u32, ranks: u32) -> Span {
    let elements = |ranks: u32| instance.count().saturating_mul(ranks as usize);
    Span { start: elements(after.saturating_sub(1)), ..Span::scratch(elements(ranks)) }
}

/// Returns the number of ranks whose data go that distance.
fn ranks(size: u32, distance: u32) -> u32 {
    distance.min(size.saturating_sub(distance))
}

/// Exchanges this rank's data with those that it has in scratch.
fn exchange(instance: &Instance, round: u32, index: u32) -> Option<Step> {
    let distance = 1u32.checked_shl(round)?;
    let ranks = ranks(instance.size(), distance);
    let (from, to) = (instance.after(distance), instance.before(distance));
    let steps = [
        Step::Recv { from, into: slots(instance, distance, 1) },
        Step::Recv { from, into: slots(instance, distance.saturating_add(1), ranks.saturating_sub(1)) },
        Step::Send { to, from: Span::data(0, instance.count()) },
        Step::Send { to, from: slots(instance, 1, ranks.saturating_sub(1)) },
    ];
    nth(steps, index)
}

/// All operands, after the last exchange.
fn combine(instance: &Instance, index: u32) -> Option<Step> {
    let (rank, size) = (instance.rank(), instance.size());
    left_fold(instance, rank, size, index, |operand| slots(instance, ring_before(operand, rank, size), 1))
}

impl Schedule for AllgatherReduce {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "allgather_reduce"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 || instance.size() < 2 { 0 } else { log2_ceil(instance.size()) + 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if instance.count() == 0 {
            None
        } else if round < log2_ceil(instance.size()) {
            exchange(instance, round, index)
        } else {
            combine(instance, index)
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        scratch.checked_div(size.saturating_sub(1) as usize).unwrap_or(usize::MAX)
    }
}

impl Priced for AllgatherReduce {
    fn source(&self) -> &'static str {
        "Bruck 1997; Open MPI ompi_coll_base_allreduce_intra_allgather_reduce"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let elements = u64::from(size.saturating_sub(1)).saturating_mul(count as u64);
        let rounds = log2_ceil(size);
        let is_of_two = |&round: &u32| ranks(size, 1u32.wrapping_shl(round)) > 1;
        let fan = (0..rounds).filter(is_of_two).count() as u64;
        Work { rounds: rounds.into(), fan, elements, reduced: elements, copied: 0 }
    }
}
