//! Algorithms in two levels, within nodes and between them: see [`hierarchy`](crate::hierarchy).

mod allgather;
mod alltoall;
mod barrier;
mod gather;
mod reduce;
mod scatter;

use core::ops::Range;

use aldis_kernel::hal::Operation;
pub use allgather::Allgather;
pub use alltoall::Alltoall;
pub use barrier::{Barrier, Bcast};
pub use gather::Gather;
pub use reduce::{Allreduce, Reduce};
pub use scatter::Scatter;

use crate::phases::ring_before;
use crate::schedule::subset::RankSubset;
use crate::schedule::{Instance, Schedule, Span, Work, divide, fan};

/// An algorithm in two levels.
pub trait TwoLevel: Schedule {
    /// Returns the publication that it is from.
    fn source(&self) -> &'static str;

    /// The cost on the critical path with so many ranks a node, within nodes and between them; in
    /// closed form, the same on every rank.
    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2];
}

/// The algorithm in two levels of an operation, if it has one.
pub fn algorithm(operation: Operation) -> Option<&'static dyn TwoLevel> {
    Some(match operation {
        Operation::Barrier => &Barrier,
        Operation::Bcast => &Bcast,
        Operation::Reduce => &Reduce,
        Operation::Allreduce => &Allreduce,
        Operation::Gather => &Gather,
        Operation::Scatter => &Scatter,
        Operation::Allgather | Operation::Allgatherv => &Allgather,
        Operation::Alltoall => &Alltoall,
        _ => return None,
    })
}

/// The name of all of them.
pub(crate) const NAME: &str = "two_level";

/// The division of a schedule's ranks into nodes.
struct Nodes {
    /// The ranks of this rank's node.
    own: Range<u32>,
    /// The ranks of the node with their leader.
    near: RankSubset,
    /// The leaders.
    far: RankSubset,
    /// This rank's leader.
    leader: u32,
    shape: NodesShape,
}

/// The number of nodes, and of ranks on the largest of them.
#[derive(Clone, Copy)]
struct NodesShape {
    largest: u32,
    nodes: u32,
}

impl NodesShape {
    /// Of `node` ranks a node; all ranks on one if that is not known.
    fn new(size: u32, node: u32) -> Self {
        let largest = if node == 0 { size } else { node.min(size) };
        Self { largest, nodes: size.div_ceil(largest.max(1)) }
    }

    /// Returns the numbers of rounds in which leaders receive from their nodes, and the root from
    /// leaders.
    fn rounds(&self, instance: &Instance) -> [u32; 2] {
        if instance.count() == 0 { [0; 2] } else { [self.largest, self.nodes].map(fan::rounds) }
    }
}

impl Nodes {
    fn of(instance: &Instance) -> Self {
        let (rank, size, root) = (instance.rank(), instance.size(), instance.root());
        let shape = NodesShape::new(size, instance.cut());
        let first = |rank: u32| rank - rank.checked_rem(shape.largest).unwrap_or(0);
        let own = first(rank)..first(rank).saturating_add(shape.largest).min(size);
        let leader = if own.contains(&root) { root } else { own.start };
        let near = RankSubset::of_range(&own, leader);
        Self { own, near, far: RankSubset::strided(shape.largest, size, root), leader, shape }
    }

    fn is_leader(&self, instance: &Instance) -> bool {
        self.leader == instance.rank()
    }

    /// Ranks of this node.
    fn len(&self) -> u32 {
        self.own.end.saturating_sub(self.own.start)
    }

    /// Returns a rank's place in this node, counted from the leader; the first rank follows the
    /// last.
    fn place(&self, rank: u32) -> u32 {
        ring_before(
            rank.saturating_sub(self.own.start),
            self.leader.saturating_sub(self.own.start),
            self.len(),
        )
    }

    /// Returns the rank at such a [place](Self::place), which is not 0.
    fn member(&self, place: u32) -> u32 {
        let leader = self.leader.saturating_sub(self.own.start);
        self.own.start.saturating_add(ring_before(leader, self.len().saturating_sub(place), self.len()))
    }

    /// The node of a rank.
    fn node(&self, rank: u32) -> u32 {
        rank.checked_div(self.shape.largest).unwrap_or(0)
    }

    /// The first rank of a node.
    fn first(&self, node: u32) -> u32 {
        node.saturating_mul(self.shape.largest)
    }

    /// Returns this node's place, counted from the root's node; the first node follows the last.
    fn node_from_root(&self, instance: &Instance) -> u32 {
        ring_before(self.node(instance.rank()), self.node(instance.root()), self.shape.nodes)
    }

    /// Returns the number of ranks that a node has, of `size` in all.
    fn ranks(&self, size: u32, node: u32) -> u32 {
        self.shape.largest.min(size.saturating_sub(self.first(node)))
    }

    /// The blocks of a node.
    fn blocks(&self, instance: &Instance, node: u32) -> Span {
        instance.blocks(self.first(node), self.ranks(instance.size(), node))
    }

    /// Returns the leader of the node at `place`, counted from the root's node and not 0, and the
    /// blocks of that node.
    fn leader_and_blocks(&self, instance: &Instance, place: u32) -> (u32, Span) {
        let behind = self.shape.nodes.saturating_sub(place);
        let node = ring_before(self.node(instance.root()), behind, self.shape.nodes);
        (self.first(node), self.blocks(instance, node))
    }

    /// Returns the place where a leader keeps the block of a rank of its node: the root where it
    /// belongs, others in scratch.
    fn kept(&self, instance: &Instance, rank: u32) -> Span {
        let block = instance.block(rank);
        if self.leader == instance.root() {
            return block;
        }
        let before = instance.blocks(rank.saturating_sub(self.own.start), 0).start;
        Span { start: before, ..Span::scratch(block.len) }
    }

    /// Returns the place where another leader than the root keeps all of them.
    fn all_kept(&self, instance: &Instance) -> Span {
        match self.len() {
            1 => instance.block(instance.rank()),
            len => Span::scratch(instance.blocks(0, len).len),
        }
    }
}

/// Elements of a block that leaders can keep for a node, of whatever size.
fn capacity(size: u32, scratch: usize) -> usize {
    if size < 3 { usize::MAX } else { divide(scratch, size as usize).0 }
}

/// The work of fans within nodes and between leaders, with the root where it is most.
fn work(NodesShape { largest, nodes }: NodesShape, count: usize) -> [Work; 2] {
    let copied = if largest > 1 && nodes > 1 { count as u64 } else { 0 };
    let of_node = count.saturating_mul(largest as usize);
    [Work { copied, ..fan::work(largest, count) }, fan::work(nodes, of_node)]
}
