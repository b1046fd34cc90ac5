//! The fan with synchronization: every rank sends to the root when the root asks for it.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, fan};

/// The linear gather in which no rank sends before the root is ready for it: the root asks
/// [`IN_FLIGHT_MAX`](crate::schedule::IN_FLIGHT_MAX) ranks at a time by an empty message. So long
/// blocks never wait unexpected, however late the root is. A rank whose block is empty takes no
/// part.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinearSync;

impl Schedule for LinearSync {
    fn operation(&self) -> Operation {
        Operation::Gather
    }

    fn name(&self) -> &'static str {
        "linear_sync"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { fan::rounds(instance.size()).saturating_mul(2) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (place, fan_round, block) = (instance.from_root(), round / 2, |rank| instance.block(rank));
        let is_go_ahead = round.is_multiple_of(2);
        // It is about a block.
        let go_ahead = |rank| Span::scratch(0).of_block(rank);
        if place == 0 {
            let rank = instance.at_place(fan::place(instance.size(), fan_round, index)?);
            return Some(match is_go_ahead {
                true => Step::Send { to: rank, from: go_ahead(rank) },
                false => Step::Recv { from: rank, into: block(rank) },
            });
        }
        let mine = index == 0 && fan::round_of(place) == fan_round;
        mine.then(|| match is_go_ahead {
            true => Step::Recv { from: instance.root(), into: go_ahead(instance.rank()) },
            false => Step::Send { to: instance.root(), from: block(instance.rank()) },
        })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for LinearSync {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_gather_intra_linear_sync"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let each = fan::work(size, count);
        Work { rounds: each.rounds.saturating_mul(2), fan: each.fan.saturating_mul(2), ..each }
    }
}
