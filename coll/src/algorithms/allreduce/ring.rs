//! The ring: a reduce-scatter and an allgather, each a walk once around, in chunks of n/p.

use aldis_kernel::hal::Operation;

use crate::phases::{Parts, locate, messages, nth, pass, pass_reducing, sum};
use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// The ring all-reduce: 2 (p - 1) rounds of n/p elements, optimal in bytes.
///
/// The data is cut into p chunks. In round k of the reduce-scatter a rank passes chunk `rank - k`
/// on to the next rank and adds its own part to the chunk that comes from the one before; after p -
/// 1 rounds it holds chunk `rank + 1` complete. The allgather sends the complete chunks once
/// around. Uneven chunks differ by one element; empty ones (fewer elements than ranks) send
/// nothing.
///
/// **Same bits everywhere:** each chunk is combined exactly once, on one path around the ring, what
/// came from the left standing on the left; every other rank receives a copy of that result. The
/// path of chunk c starts at rank c, so operands are in ring order, not in rank order: only for
/// operations that commute.
///
/// Scratch: one chunk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ring;

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
        let chunk = |before| instance.chunk(instance.before(before));
        let lap = instance.size() - 1;
        match locate(round, [lap, lap])? {
            (0, round) => nth(pass_reducing(instance, chunk(round), chunk(round + 1)), index),
            // What was completed here is sent first: the chunk after this rank's.
            (_, 0) => nth(pass(instance, instance.chunk(instance.after(1)), chunk(0)), index),
            (_, round) => nth(pass(instance, chunk(round - 1), chunk(round)), index),
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
        let (lap, longest) = (size.saturating_sub(1), Parts::new(count, size).len(0, 1));
        sum([messages(lap, longest, true), messages(lap, longest, false)])
    }
}
