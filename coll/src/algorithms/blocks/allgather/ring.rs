//! The ring: blocks go around.

use aldis_kernel::hal::Operation;

use crate::schedule::variant::{Pattern, Variant};
use crate::schedule::{Instance, Step, Work};

/// The ring allgather: p - 1 rounds of a block, each to the next rank; optimal in bytes.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ring;

/// Blocks that go around: in each round a rank sends on the one that came in the round before.
pub(crate) struct RingPattern;

impl Pattern for RingPattern {
    const OPERATION: Operation = Operation::Allgather;

    fn rounds(instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { instance.size() - 1 }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        match index {
            0 => {
                let into = instance.block(instance.before(round + 1));
                Some(Step::Recv { from: instance.before(1), into })
            }
            1 => Some(Step::Send { to: instance.after(1), from: instance.block(instance.before(round)) }),
            _ => None,
        }
    }

    fn work(size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(size.saturating_sub(1)) };
        Work { rounds, elements: rounds.saturating_mul(count as u64), ..Work::default() }
    }
}

impl Variant for Ring {
    type Pattern = RingPattern;
    const NAME: &'static str = "ring";
    const SOURCE: &'static str = "Chan, Heimlich, Purkayastha, van de Geijn 2007; Open MPI ompi_coll_base_allgather_intra_ring; MPICH allgather_intra_ring; gloo allgather_ring.h";
}
