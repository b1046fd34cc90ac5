//! Scatter: to the leaders first.

use aldis_kernel::hal::Operation;

use super::{Gather, NAME, Nodes, NodesShape, TwoLevel, capacity, work};
use crate::phases::locate;
use crate::schedule::{Instance, Schedule, Step, Work};

/// The two-level scatter, the [gather](Gather) backwards: the root sends every leader all blocks of
/// its node, leaders send every rank its own.
///
/// Scratch: p blocks, of which leaders use k.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Scatter;

impl Schedule for Scatter {
    fn operation(&self) -> Operation {
        Operation::Scatter
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        Nodes::of(instance).shape.rounds(instance).into_iter().sum()
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let nodes = Nodes::of(instance);
        let [near, far] = nodes.shape.rounds(instance);
        match locate(round, [far, near])? {
            (0, round) => Gather::far(instance, &nodes, round, index),
            (_, round) => Gather::near(instance, &nodes, round, index),
        }
        .map(Step::backwards)
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
        work(NodesShape::new(size, node), count)
    }
}
