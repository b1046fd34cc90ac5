//! Linear: every rank sends to the root, a few at a time.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, fan};

/// The linear gather: the root receives a block of each other rank,
/// [`IN_FLIGHT_MAX`](crate::schedule::IN_FLIGHT_MAX) at a time, those next to it first.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Schedule for Linear {
    fn operation(&self) -> Operation {
        Operation::Gather
    }

    fn name(&self) -> &'static str {
        "linear"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { fan::rounds(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (place, block) = (instance.from_root(), |rank| instance.block(rank));
        if place == 0 {
            let from = instance.at_place(fan::place(instance.size(), round, index)?);
            return Some(Step::Recv { from, into: block(from) });
        }
        let mine = index == 0 && fan::round_of(place) == round;
        mine.then(|| Step::Send { to: instance.root(), from: block(instance.rank()) })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Linear {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_gather_intra_basic_linear; MPICH gather_allcomm_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        fan::work(size, count)
    }
}
