//! Neighbour exchange: pairs of ranks swap pairs of blocks with the pair on either side in turn.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The neighbour-exchange allgather: p/2 rounds, each rank speaks with its two neighbours only; for
/// even p.
///
/// Ranks pair up and swap blocks. Then each pair of blocks wanders: in every round a rank swaps the
/// pair of blocks that came last with one neighbour, in the next with the other.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NeighborExchange;

/// The pair of blocks that a rank gets in a round; its own in round 0.
fn pair(instance: &Instance, round: u32) -> Span {
    let (own, even) = (instance.rank() & !1, instance.rank() & 1 == 0);
    let steps = round.div_ceil(2).saturating_mul(2) % instance.size();
    // In odd rounds even ranks receive from below, odd ones from above; in even rounds the other
    // way round.
    let below = even == (round & 1 == 1);
    let first = if below { own + (instance.size() - steps) } else { own + steps };
    instance.blocks(first, 2)
}

impl Schedule for NeighborExchange {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "neighbor_exchange"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { instance.size() / 2 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let even = instance.rank() & 1 == 0;
        let up = even == (round & 1 == 0);
        let other = if up { instance.after(1) } else { instance.before(1) };
        let (into, from) = match round {
            0 => (instance.block(other), instance.block(instance.rank())),
            _ => (pair(instance, round), pair(instance, round - 1)),
        };
        match index {
            0 => Some(Step::Recv { from: other, into }),
            1 => Some(Step::Send { to: other, from }),
            _ => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }

    fn serves(&self, size: u32) -> bool {
        size.is_multiple_of(2)
    }
}

impl Priced for NeighborExchange {
    fn source(&self) -> &'static str {
        "Chen, Zhang, Yuan 2005; Open MPI ompi_coll_base_allgather_intra_neighborexchange"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(size / 2) };
        let blocks = if count == 0 { 0 } else { u64::from(size.saturating_sub(1)) };
        Work { rounds, elements: blocks.saturating_mul(count as u64), ..Work::default() }
    }
}
