//! Allgather: at the leaders, between them, and within nodes.

use aldis_kernel::hal::Operation;

use super::{NAME, Nodes, NodesShape, TwoLevel};
use crate::algorithms::bcast::Binomial;
use crate::phases::{locate, messages, ring_before, sum};
use crate::schedule::{Instance, Priced, Schedule, Step, Work, fan, log2_ceil};

/// The two-level allgather: every rank sends its block to its leader, leaders pass the blocks of
/// whole nodes around a ring, and send all of them [along a tree](Binomial) to their nodes:
/// ceil((k-1)/8) + ceil(log2 k) near and n - 1 far rounds for n nodes of k ranks; n (n - 1) far
/// messages of k blocks. Blocks may have unlike lengths; no scratch.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allgather;

impl Allgather {
    fn lengths(instance: &Instance) -> [u32; 3] {
        let NodesShape { largest, nodes } = Nodes::of(instance).shape;
        if instance.count() == 0 {
            return [0; 3];
        }
        [fan::rounds(largest), nodes.saturating_sub(1), log2_ceil(largest)]
    }

    /// A round within a node, in which its leader gets blocks.
    fn gather(instance: &Instance, nodes: &Nodes, round: u32, index: u32) -> Option<Step> {
        let place = nodes.place(instance.rank());
        if place == 0 {
            let from = nodes.member(fan::place(nodes.len(), round, index)?);
            return Some(Step::Recv { from, into: instance.block(from) });
        }
        let mine = index == 0 && fan::round_of(place) == round;
        mine.then(|| Step::Send { to: nodes.leader, from: instance.block(instance.rank()) })
    }

    /// A round of the ring of leaders.
    fn pass(instance: &Instance, nodes: &Nodes, round: u32, index: u32) -> Option<Step> {
        if !nodes.is_leader(instance) {
            return None;
        }
        let (own, all) = (nodes.node(instance.rank()), nodes.shape.nodes);
        let blocks = |by: u32| nodes.blocks(instance, ring_before(own, by, all));
        match index {
            0 => Some(Step::Recv { from: nodes.first(ring_before(own, 1, all)), into: blocks(round + 1) }),
            1 => Some(Step::Send { to: nodes.first(ring_before(own, all - 1, all)), from: blocks(round) }),
            _ => None,
        }
    }
}

impl Schedule for Allgather {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        Self::lengths(instance).into_iter().fold(0, u32::saturating_add)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let nodes = Nodes::of(instance);
        match locate(round, Self::lengths(instance))? {
            (0, round) => Self::gather(instance, &nodes, round, index),
            (1, round) => Self::pass(instance, &nodes, round, index),
            (_, round) => {
                let all = instance.with_count(instance.blocks(0, instance.size()).len);
                nodes.near.step(&Binomial, &all, round, index)
            }
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl TwoLevel for Allgather {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_allgather_intra_simple, the leaders by a ring"
    }

    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        let NodesShape { largest, nodes } = NodesShape::new(size, node);
        let (of_node, all) = (count.saturating_mul(largest as usize), count.saturating_mul(size as usize));
        let near = sum([fan::work(largest, count), Binomial.work(largest, all)]);
        [near, messages(nodes.saturating_sub(1), of_node, false)]
    }
}
