//! Reductions: within each node first.

use aldis_kernel::hal::Operation;

use super::{NAME, Nodes, NodesShape, TwoLevel};
use crate::algorithms::{allreduce, bcast, reduce};
use crate::phases::{locate, sum};
use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_ceil};

/// The two-level reduction: each node [along a tree](reduce::Binomial) to its leader, then leaders
/// along one to the root: ceil(log2 k) near and ceil(log2 n) far rounds for n nodes of k ranks.
/// Operands keep the order of ranks, as nodes are runs of them.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reduce;

impl Schedule for Reduce {
    fn operation(&self) -> Operation {
        Operation::Reduce
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
        match locate(round, [log2_ceil(shape.largest), log2_ceil(shape.nodes)])? {
            (0, round) => near.step(&reduce::Binomial, instance, round, index),
            (_, round) => far.step(&reduce::Binomial, instance, round, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        reduce::Binomial.capacity(size, scratch)
    }
}

impl TwoLevel for Reduce {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_reduce_intra_simple; MPICH reduce_intra_smp"
    }

    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        let NodesShape { largest, nodes } = NodesShape::new(size, node);
        [reduce::Binomial.work(largest, count), reduce::Binomial.work(nodes, count)]
    }
}

/// The two-level all-reduce: each node [along a tree](reduce::Binomial) to its leader, leaders by
/// [recursive doubling](allreduce::RecursiveDoubling), then each node along a
/// [tree](bcast::Binomial) from its leader.
///
/// **Same bits everywhere:** all leaders evaluate the same expression, and the others get a copy;
/// rank order is kept.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allreduce;

/// Rounds within nodes, of leaders, and within nodes again.
fn lengths(instance: &Instance) -> [u32; 3] {
    let NodesShape { largest, nodes } = Nodes::of(instance).shape;
    let leaders = Instance::new(0, nodes, 0, instance.count());
    let far = leaders.map_or(0, |leaders| allreduce::RecursiveDoubling.rounds(&leaders));
    let near = if instance.count() == 0 { 0 } else { log2_ceil(largest) };
    [near, far, near]
}

impl Schedule for Allreduce {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        lengths(instance).into_iter().fold(0, u32::saturating_add)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let Nodes { near, far, .. } = Nodes::of(instance);
        match locate(round, lengths(instance))? {
            (0, round) => near.step(&reduce::Binomial, instance, round, index),
            (1, round) => far.step(&allreduce::RecursiveDoubling, instance, round, index),
            (_, round) => near.step(&bcast::Binomial, instance, round, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        reduce::Binomial.capacity(size, scratch)
    }
}

impl TwoLevel for Allreduce {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_allreduce_intra_simple; MPICH allreduce_intra_smp"
    }

    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        let NodesShape { largest, nodes } = NodesShape::new(size, node);
        let near = sum([reduce::Binomial.work(largest, count), bcast::Binomial.work(largest, count)]);
        [near, allreduce::RecursiveDoubling.work(nodes, count)]
    }
}
