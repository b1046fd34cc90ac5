//! A scatter down a binomial tree, and an allgather around the ring.

use aldis_kernel::hal::Operation;

use crate::phases::{Halving, Parts, locate, messages, nth, pass, ring_before, sum};
use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_ceil};

/// The broadcast by scatter and ring allgather: ceil(log2 p) + p - 1 rounds, 2 (p - 1)/p n
/// elements, any p, any root.
///
/// The root's data is cut into p chunks, and each rank gets its own down a binomial tree; then the
/// chunks go once around the ring.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ScatterRingAllgather;

/// The tree of `size` places, as far as there are chunks.
fn tree(size: u32, count: usize) -> Halving {
    Halving { parts: Parts::new(count, size), bits: log2_ceil(size) }
}

impl Schedule for ScatterRingAllgather {
    fn operation(&self) -> Operation {
        Operation::Bcast
    }

    fn name(&self) -> &'static str {
        "scatter_ring_allgather"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) + instance.size() - 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (place, size) = (instance.from_root(), instance.size());
        let tree = tree(size, instance.count());
        // The chunk of the place `by` before this one.
        let chunk = |by| tree.parts.span(ring_before(place, by, size), 1);
        match locate(round, [tree.bits, size - 1])? {
            (0, round) => {
                nth([tree.scatter(place, round, instance.at_place(tree.partner(place, round)))?], index)
            }
            (_, round) => nth(pass(instance, chunk(round), chunk(round + 1)), index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for ScatterRingAllgather {
    fn source(&self) -> &'static str {
        "Van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005, section 4.2; MPICH bcast_intra_scatter_ring_allgather; Open \
         MPI ompi_coll_base_bcast_intra_scatter_allgather_ring"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let tree = tree(size, count);
        sum([tree.spread(), messages(size.saturating_sub(1), tree.parts.len(0, 1), false)])
    }
}
