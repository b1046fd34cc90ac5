//! Linear: every neighbour is sent to and received from, a few at a time.

use aldis_kernel::hal::Operation;

use super::order::{NeighborAction, NeighborEntry};
use crate::schedule::{IN_FLIGHT_MAX, Instance, Priced, Schedule, Span, Step, Work};

/// The linear exchange with neighbours, along the entries of a
/// [`NeighborList`](crate::neighbor::NeighborList): as many messages a round as there may be.
///
/// Each rank has its own, which takes nothing from the instance but the count; among the algorithms
/// to choose from it stands without entries.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear<'m> {
    pub(crate) operation: Operation,
    pub(crate) entries: &'m [NeighborEntry],
}

impl Schedule for Linear<'_> {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        let rounds = self.entries.len().div_ceil(IN_FLIGHT_MAX);
        if instance.count() == 0 { 0 } else { u32::try_from(rounds).unwrap_or(u32::MAX) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let count = instance.count();
        let at = (round as usize).checked_mul(IN_FLIGHT_MAX)?.checked_add(index as usize)?;
        let &NeighborEntry { action, rank, block, given, .. } = self.entries.get(at)?;
        let block_of = |block: u32| Span::data((block as usize).saturating_mul(count), count);
        // A gather sends every destination the same.
        let given_to = |place: u32| match self.operation {
            Operation::NeighborAllgather => block_of(0).of_input(),
            _ => block_of(place).of_input(),
        };
        if index as usize >= IN_FLIGHT_MAX {
            return None;
        }
        Some(match action {
            NeighborAction::Receive => Step::Recv { from: rank, into: block_of(block) },
            NeighborAction::Send => Step::Send { to: rank, from: given_to(block) },
            NeighborAction::Copy => Step::Copy { into: block_of(block), from: given_to(given) },
        })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Linear<'_> {
    fn source(&self) -> &'static str {
        "MPI 4.1 section 8.6; Open MPI coll/basic neighbor; MPICH neighbor_allcomm_linear"
    }

    /// This rank's.
    fn work(&self, _size: u32, count: usize) -> Work {
        let of = |wanted: NeighborAction| {
            self.entries.iter().filter(|entry| entry.action == wanted).count() as u64
        };
        let (received, sent, copied) =
            (of(NeighborAction::Receive), of(NeighborAction::Send), of(NeighborAction::Copy));
        let elements = |blocks: u64| blocks.saturating_mul(count as u64);
        if count == 0 {
            return Work::default();
        }
        let rounds = (received + sent).div_ceil(IN_FLIGHT_MAX as u64);
        let most = received.max(sent);
        Work {
            rounds,
            fan: most.saturating_sub(rounds),
            elements: elements(most),
            copied: elements(copied),
            ..Work::default()
        }
    }
}
