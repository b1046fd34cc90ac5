//! The barrier and the broadcast, which go along trees within nodes.

use aldis_kernel::hal::Operation;

use super::{NAME, Nodes, NodesShape, TwoLevel};
use crate::algorithms::{barrier, bcast};
use crate::phases::locate;
use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_ceil};

/// The two-level barrier: [signals](barrier::Tree) gather at each leader, leaders meet by
/// [dissemination](barrier::Dissemination), and the answers spread out: 2 ceil(log2 k) near and
/// ceil(log2 n) far rounds for n nodes of k ranks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Barrier;

impl Schedule for Barrier {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        let NodesShape { largest, nodes } = Nodes::of(instance).shape;
        log2_ceil(largest).saturating_mul(2).saturating_add(log2_ceil(nodes))
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let Nodes { own, near, far, shape, .. } = Nodes::of(instance);
        // A node with fewer ranks than the largest has fewer rounds: the last ones of the way in,
        // the first of the way out.
        let (deepest, depth) = (log2_ceil(shape.largest), log2_ceil(own.end.saturating_sub(own.start)));
        match locate(round, [deepest, log2_ceil(shape.nodes), deepest])? {
            (0, round) => near.step(&barrier::Tree, instance, round.checked_sub(deepest - depth)?, index),
            (1, round) => far.step(&barrier::Dissemination, instance, round, index),
            (_, round) => near.step(&barrier::Tree, instance, depth.checked_add(round)?, index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl TwoLevel for Barrier {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_barrier_intra_simple; MPICH barrier_intra_smp"
    }

    fn work(&self, size: u32, node: u32, _count: usize) -> [Work; 2] {
        let NodesShape { largest, nodes } = NodesShape::new(size, node);
        [barrier::Tree.work(largest, 0), barrier::Dissemination.work(nodes, 0)]
    }
}

/// The two-level broadcast: leaders [along a tree](bcast::Binomial) from the root, then each node
/// along one from its leader: ceil(log2 n) far and ceil(log2 k) near rounds for n nodes of k ranks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bcast;

impl Schedule for Bcast {
    fn operation(&self) -> Operation {
        Operation::Bcast
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        let NodesShape { largest, nodes } = Nodes::of(instance).shape;
        if instance.count() == 0 { 0 } else { log2_ceil(largest).saturating_add(log2_ceil(nodes)) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let Nodes { near, far, shape, .. } = Nodes::of(instance);
        match locate(round, [log2_ceil(shape.nodes), log2_ceil(shape.largest)])? {
            (0, round) => far.step(&bcast::Binomial, instance, round, index),
            (_, round) => near.step(&bcast::Binomial, instance, round, index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl TwoLevel for Bcast {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_bcast_intra_simple; MPICH bcast_intra_smp"
    }

    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        let NodesShape { largest, nodes } = NodesShape::new(size, node);
        [bcast::Binomial.work(largest, count), bcast::Binomial.work(nodes, count)]
    }
}
