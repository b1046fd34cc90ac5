//! Everyone sends to everyone.

use aldis_kernel::hal::Operation;

use crate::schedule::{IN_FLIGHT_MAX, Instance, Priced, Schedule, Step, Work};

/// The direct allgather: each rank sends its block to each other, as many at a time as fit into a round.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Direct;

/// Exchanges of a round.
const WIDTH: u32 = IN_FLIGHT_MAX as u32 / 2;

impl Schedule for Direct {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "direct"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).div_ceil(WIDTH) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let before = round.saturating_mul(WIDTH);
        let now = (instance.size() - 1).saturating_sub(before).min(WIDTH);
        if index < now {
            let from = instance.before(before + index + 1);
            return Some(Step::Recv { from, into: instance.block(from) });
        }
        let index = index - now;
        let to = instance.after(before + index + 1);
        (index < now).then(|| Step::Send { to, from: instance.block(instance.rank()) })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Direct {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allgather_intra_direct_messaging; gloo allgatherv.cc"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let others = size.saturating_sub(1);
        let (rounds, blocks) = (u64::from(others.div_ceil(WIDTH)), u64::from(others));
        Work {
            rounds,
            fan: blocks - rounds,
            elements: blocks.saturating_mul(count as u64),
            ..Work::default()
        }
    }
}
