//! Sparbit: far ranks first, near ones last, when there is most to send.

use aldis_kernel::hal::Operation;

use crate::schedule::exchange::WIDTH_MAX;
use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_ceil};

/// The sparbit allgather: ceil(log2 p) stages with distances that halve, so that most bytes travel
/// between neighbours.
///
/// Before the stage with distance d a rank has the blocks of every rank that is a multiple of 2 d
/// before it, as far as there are such; in it, each is sent on to the rank d after. Every block is
/// a message of its own and stays in its place; a stage with more of them than fit into a round
/// takes several.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sparbit;

/// Blocks that pass in the stage with this distance: those at its odd multiples that are below the
/// size.
const fn passing(size: u32, distance: u32) -> u32 {
    size.div_ceil(distance) / 2
}

/// The distances in the order of stages.
fn distances(size: u32) -> impl Iterator<Item = u32> {
    (0..log2_ceil(size)).rev().map(|bits| 1u32.unbounded_shl(bits))
}

impl Schedule for Sparbit {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "sparbit"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 {
            return 0;
        }
        distances(instance.size())
            .map(|distance| passing(instance.size(), distance).div_ceil(WIDTH_MAX))
            .sum()
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let mut turn = round;
        let (distance, blocks) = distances(instance.size()).find_map(|distance| {
            let blocks = passing(instance.size(), distance);
            match turn.checked_sub(blocks.div_ceil(WIDTH_MAX)) {
                None => Some((distance, blocks)),
                Some(left) => {
                    turn = left;
                    None
                }
            }
        })?;
        let before = turn.saturating_mul(WIDTH_MAX);
        let now = blocks.saturating_sub(before).min(WIDTH_MAX);
        let nth = |index: u32| (before + index).saturating_mul(2);
        if index < now {
            let block = instance.before((nth(index) + 1).saturating_mul(distance));
            return Some(Step::Recv { from: instance.before(distance), into: instance.block(block) });
        }
        let index = index - now;
        let block = instance.before(nth(index).saturating_mul(distance));
        (index < now).then(|| Step::Send { to: instance.after(distance), from: instance.block(block) })
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Sparbit {
    fn source(&self) -> &'static str {
        "Loch, Koslovski 2021; Open MPI ompi_coll_base_allgather_intra_sparbit"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let rounds =
            distances(size).map(|distance| u64::from(passing(size, distance).div_ceil(WIDTH_MAX))).sum();
        let blocks = u64::from(size.saturating_sub(1));
        Work {
            rounds,
            fan: blocks - rounds,
            elements: blocks.saturating_mul(count as u64),
            ..Work::default()
        }
    }
}
