//! The fan: the root sends to every rank, to several at a time.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, fan};

/// The linear scatter with [`IN_FLIGHT_MAX`](crate::schedule::IN_FLIGHT_MAX) blocks on their way at
/// a time.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinearNonblocking;

impl Schedule for LinearNonblocking {
    fn operation(&self) -> Operation {
        Operation::Scatter
    }

    fn name(&self) -> &'static str {
        "linear_nonblocking"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { fan::rounds(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let place = instance.from_root();
        if place == 0 {
            let to = instance.at_place(fan::place(instance.size(), round, index)?);
            return Some(Step::Send { to, from: instance.block(to) });
        }
        let mine = index == 0 && fan::round_of(place) == round;
        mine.then(|| Step::Recv { from: instance.root(), into: instance.block(instance.rank()) })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for LinearNonblocking {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_scatter_intra_linear_nb; MPICH scatter_allcomm_linear"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        fan::work(size, count)
    }
}
