//! Gather: at the leaders first.

use aldis_kernel::hal::Operation;

use super::{NAME, Nodes, NodesShape, TwoLevel, capacity, work};
use crate::phases::locate;
use crate::schedule::{Instance, Schedule, Step, Work, fan};

/// The two-level gather: every rank sends to its leader, every leader all blocks of its node to the
/// root, eight at a time: ceil((k-1)/8) near and ceil((n-1)/8) far rounds for n nodes of k ranks,
/// n - 1 far messages.
///
/// Scratch: p blocks, of which leaders use k.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gather;

impl Gather {
    /// A round within a node; [backwards](Step::backwards) it is the scatter's, and so is the next.
    pub(super) fn near(instance: &Instance, nodes: &Nodes, round: u32, index: u32) -> Option<Step> {
        let (size, place) = (nodes.len(), nodes.place(instance.rank()));
        if place > 0 {
            let mine = index == 0 && fan::round_of(place) == round;
            return mine.then(|| Step::Send { to: nodes.leader, from: instance.block(instance.rank()) });
        }
        if let Some(place) = fan::place(size, round, index) {
            let from = nodes.member(place);
            return Some(Step::Recv { from, into: nodes.kept(instance, from) });
        }
        let own = instance.rank();
        let is_first = round == 0 && fan::place(size, round, index.checked_sub(1)?).is_some();
        let copies = is_first && own != instance.root();
        copies.then(|| Step::Copy { into: nodes.kept(instance, own), from: instance.block(own) })
    }

    /// A round between leaders.
    pub(super) fn far(instance: &Instance, nodes: &Nodes, round: u32, index: u32) -> Option<Step> {
        let place = nodes.node_from_root(instance);
        if instance.rank() == instance.root() {
            let (from, into) =
                nodes.leader_and_blocks(instance, fan::place(nodes.shape.nodes, round, index)?);
            return Some(Step::Recv { from, into });
        }
        let mine = index == 0 && nodes.is_leader(instance) && fan::round_of(place) == round;
        mine.then(|| Step::Send { to: instance.root(), from: nodes.all_kept(instance) })
    }
}

impl Schedule for Gather {
    fn operation(&self) -> Operation {
        Operation::Gather
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        Nodes::of(instance).shape.rounds(instance).into_iter().sum()
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let nodes = Nodes::of(instance);
        match locate(round, nodes.shape.rounds(instance))? {
            (0, round) => Self::near(instance, &nodes, round, index),
            (_, round) => Self::far(instance, &nodes, round, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        capacity(size, scratch)
    }
}

impl TwoLevel for Gather {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_gather_intra_simple"
    }

    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        work(NodesShape::new(size, node), count)
    }
}
