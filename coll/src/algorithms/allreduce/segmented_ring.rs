//! The ring with its reduce-scatter in two goes, of half a chunk each.

use aldis_kernel::hal::Operation;

use crate::phases::{Parts, locate, messages, nth, pass, pass_reducing, sum};
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The segmented ring all-reduce: 3 (p - 1) rounds; bytes as in the ring, with half its scratch.
///
/// Open MPI's reduce-scatter walks around the ring once for every segment of the chunks, then its
/// allgather once for all of them; gloo keeps two segments in flight. Here segments in flight are
/// the executor's affair, for every algorithm, and what is left of this one is the shape: **it is
/// the [`Ring`](super::Ring) with two segments in the reduce-scatter and one in the allgather**. It
/// pays off where scratch is so short that the ring's allgather would be cut as well.
///
/// **Same bits everywhere** as in the ring: only for operations that commute.
///
/// Scratch: half a chunk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SegmentedRing;

/// The first or second half of a chunk; the first is the longer one.
fn half(chunk: Span, second: bool) -> Span {
    let first = chunk.len.div_ceil(2);
    if second {
        Span::data(chunk.start.saturating_add(first), chunk.len.saturating_sub(first))
    } else {
        Span::data(chunk.start, first)
    }
}

impl Schedule for SegmentedRing {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "segmented_ring"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).saturating_mul(3) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let chunk = |before| instance.chunk(instance.before(before));
        let lap = instance.size() - 1;
        match locate(round, [lap, lap, lap])? {
            (2, 0) => nth(pass(instance, instance.chunk(instance.after(1)), chunk(0)), index),
            (2, round) => nth(pass(instance, chunk(round - 1), chunk(round)), index),
            (segment, round) => {
                let part = |before| half(chunk(before), segment == 1);
                nth(pass_reducing(instance, part(round), part(round + 1)), index)
            }
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        let chunk = scratch.saturating_mul(2);
        if size < 2 { usize::MAX } else { chunk.saturating_mul(size as usize) }
    }

    fn keeps_rank_order(&self) -> bool {
        false
    }
}

impl Priced for SegmentedRing {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allreduce_intra_ring_segmented; gloo allreduce.cc ring"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let lap = size.saturating_sub(1);
        let longest = Parts::new(count, size).span(0, 1);
        let segment = |second| messages(lap, half(longest, second).len, true);
        sum([segment(false), segment(true), messages(lap, longest.len, false)])
    }
}
