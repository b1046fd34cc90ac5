//! A gather and a broadcast, both linear.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, fan};

/// The linear allgather: rank 0 gathers all blocks, and sends all of them to each other rank.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { fan::rounds(instance.size()).saturating_mul(2) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (rank, size, half) = (instance.rank(), instance.size(), fan::rounds(instance.size()));
        let (round, is_bcast) = if round < half { (round, false) } else { (round - half, true) };
        let (own, all) = (|rank| instance.block(rank), instance.blocks(0, size));
        if rank == 0 {
            let other = fan::place(size, round, index)?;
            return Some(match is_bcast {
                true => Step::Send { to: other, from: all },
                false => Step::Recv { from: other, into: own(other) },
            });
        }
        let mine = index == 0 && fan::round_of(rank) == round;
        mine.then(|| match is_bcast {
            true => Step::Recv { from: 0, into: all },
            false => Step::Send { to: 0, from: own(rank) },
        })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allgather_intra_basic_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let (to, back) = (fan::work(size, count), fan::work(size, count.saturating_mul(size as usize)));
        Work {
            rounds: to.rounds.saturating_mul(2),
            fan: to.fan.saturating_mul(2),
            elements: to.elements.saturating_add(back.elements),
            ..Work::default()
        }
    }
}
