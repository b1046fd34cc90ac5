//! The ring: a reduce-scatter and an allgather, each a walk once around, in chunks of n/p.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work, divide};

/// The ring all-reduce: 2 (p - 1) rounds of n/p elements, optimal in bytes.
///
/// The data is cut into p chunks. In round k of the reduce-scatter a rank passes chunk `rank - k` on to the next
/// rank and adds its own part to the chunk that comes from the one before; after p - 1 rounds it holds chunk
/// `rank + 1` complete. The allgather sends the complete chunks once around. Uneven chunks differ by one element;
/// empty ones (fewer elements than ranks) send nothing.
///
/// **Same bits everywhere:** each chunk is combined exactly once, on one path around the ring, what came from the
/// left standing on the left; every other rank receives a copy of that result. The path of chunk c starts at rank
/// c, so operands are in ring order, not in rank order: only for operations that commute.
///
/// Scratch: one chunk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ring;

impl Ring {
    /// Adds the passing chunk's operand.
    fn reduce_scatter(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let outgoing = instance.chunk(instance.before(round));
        let incoming = instance.chunk(instance.before(round + 1));
        let arrived = Span::scratch(incoming.len);
        let left_first = Order::FromFirst;
        present([
            (Step::Recv { from: instance.before(1), into: arrived }, incoming.len),
            (Step::Send { to: instance.after(1), from: outgoing }, outgoing.len),
            (Step::Reduce { into: incoming, from: arrived, order: left_first }, incoming.len),
        ])
        .nth(index as usize)
    }

    /// Passes complete chunks on.
    fn allgather(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let incoming = instance.chunk(instance.before(round));
        // The chunk after it came one round earlier; in round 0 it is the one completed here.
        let outgoing =
            instance.chunk(if round == 0 { instance.after(1) } else { instance.before(round - 1) });
        present([
            (Step::Recv { from: instance.before(1), into: incoming }, incoming.len),
            (Step::Send { to: instance.after(1), from: outgoing }, outgoing.len),
        ])
        .nth(index as usize)
    }
}

/// The steps that have elements.
fn present<const N: usize>(steps: [(Step, usize); N]) -> impl Iterator<Item = Step> {
    steps.into_iter().filter(|(_, len)| *len > 0).map(|(step, _)| step)
}

impl Schedule for Ring {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "ring"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).saturating_mul(2) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let turn = instance.size() - 1;
        if round >= self.rounds(instance) {
            None
        } else if round < turn {
            Self::reduce_scatter(instance, round, index)
        } else {
            Self::allgather(instance, round - turn, index)
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch.saturating_mul(size as usize) }
    }

    fn keeps_rank_order(&self) -> bool {
        false
    }
}

impl Priced for Ring {
    fn source(&self) -> &'static str {
        "Patarasuk, Yuan 2009; Open MPI ompi_coll_base_allreduce_intra_ring; MPICH allreduce_intra_ring; gloo \
         allreduce.cc ring"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let turn = u64::from(size.saturating_sub(1));
        let (base, longer) = divide(count, size as usize);
        let walked = turn.saturating_mul(base as u64 + u64::from(longer > 0));
        Work { rounds: 2 * turn, elements: walked.saturating_mul(2), reduced: walked, ..Work::default() }
    }
}
