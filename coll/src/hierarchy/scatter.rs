//! Scatter: to the leaders first.

use aldis_kernel::hal::Operation;

use super::{NAME, Nodes, Shape, TwoLevel, capacity, work};
use crate::phases::locate;
use crate::schedule::{Instance, Schedule, Step, Work, fan};

/// The two-level scatter, the [gather](super::Gather) backwards: the root sends every leader all blocks of its node, leaders send every
/// rank its own.
///
/// Scratch: p blocks, of which leaders use k.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Scatter;

impl Scatter {
    /// A round within a node.
    fn near(instance: &Instance, nodes: &Nodes, (round, index): (u32, u32)) -> Option<Step> {
        let (size, place, own) = (nodes.len(), nodes.place(instance.rank()), instance.rank());
        if place > 0 {
            let mine = index == 0 && fan::turn(place) == round;
            return mine.then(|| Step::Recv { from: nodes.leader, into: instance.block(own) });
        }
        if let Some(place) = fan::place(size, round, index) {
            let to = nodes.member(place);
            return Some(Step::Send { to, from: nodes.kept(instance, to) });
        }
        let is_first = round == 0 && fan::place(size, round, index.checked_sub(1)?).is_some();
        let copies = is_first && own != instance.root();
        copies.then(|| Step::Copy { into: instance.block(own), from: nodes.kept(instance, own) })
    }

    /// A round between leaders.
    fn far(instance: &Instance, nodes: &Nodes, (round, index): (u32, u32)) -> Option<Step> {
        let place = nodes.node_from_root(instance);
        if instance.rank() == instance.root() {
            let (to, from) = nodes.run(instance, fan::place(nodes.shape.nodes, round, index)?);
            return Some(Step::Send { to, from });
        }
        let mine = index == 0 && nodes.is_leader(instance) && fan::turn(place) == round;
        mine.then(|| Step::Recv { from: instance.root(), into: nodes.all_kept(instance) })
    }
}

impl Schedule for Scatter {
    fn operation(&self) -> Operation {
        Operation::Scatter
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        Nodes::of(instance).shape.turns(instance).into_iter().sum()
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let nodes = Nodes::of(instance);
        let [near, far] = nodes.shape.turns(instance);
        match locate(round, [far, near])? {
            (0, round) => Self::far(instance, &nodes, (round, index)),
            (_, round) => Self::near(instance, &nodes, (round, index)),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        capacity(size, scratch)
    }
}

impl TwoLevel for Scatter {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_han_scatter_intra_simple"
    }

    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        work(Shape::new(size, node), count)
    }
}
