//! Topologies: how nodes are connected, how far each is from each, and which links a message passes
//! on its way. The simulator and the predictions wire their nodes by the same ones.
//!
//! Ranks are placed in order, one a node. Routes are fixed, and minimal in their kind: a
//! dragonfly's go straight from group to group. A node's own cable, in either direction, is used by
//! its messages alone; all other links are shared.
//!
//! | module | what it holds |
//! |---|---|
//! | `grid` | the ring and the torus |
//! | `fat_tree` | leaf switches under spine switches |
//! | `dragonfly` | groups of routers |
//! | `text` | names and sizes as they are typed |

use core::num::NonZeroU32;

mod dragonfly;
mod fat_tree;
mod grid;
mod text;

pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
use grid::TorusGrid;
pub use text::{HELP, KNOWN, UnknownTopology};

/// The way in which nodes are connected. Sizes that are left out are chosen by the number of nodes;
/// sizes beyond what the nodes fill are cut to that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Topology {
    /// A single switch that never blocks.
    #[default]
    Crossbar,
    /// Each node to the next, both ways round; the shorter way is taken.
    Ring,
    /// A grid closed in both directions; along the row first, then along the column.
    Torus {
        /// Nodes in a row; `None` for a grid as square as can be.
        columns: Option<NonZeroU32>,
    },
    /// Leaf switches under spine switches.
    FatTree(Option<FatTree>),
    /// Groups of routers.
    Dragonfly(Option<Dragonfly>),
}

/// A topology with its sizes, for so many nodes.
enum Wiring {
    Crossbar,
    Grid(TorusGrid),
    FatTree(FatTree),
    Dragonfly(Dragonfly),
}

impl Topology {
    /// A torus as square as can be.
    pub const TORUS: Self = Self::Torus { columns: None };
    /// A fat tree sized by the number of nodes: [`FatTree::of`].
    pub const FAT_TREE: Self = Self::FatTree(None);
    /// A dragonfly sized by the number of nodes: [`Dragonfly::of`].
    pub const DRAGONFLY: Self = Self::Dragonfly(None);
    /// A topology of each kind, sized by the number of nodes.
    pub const ALL: [Self; 5] = [Self::Crossbar, Self::Ring, Self::TORUS, Self::FAT_TREE, Self::DRAGONFLY];

    fn wiring(self, size: u32) -> Wiring {
        match self {
            Self::Crossbar => Wiring::Crossbar,
            Self::Ring => Wiring::Grid(TorusGrid::ring(size)),
            Self::Torus { columns } => Wiring::Grid(TorusGrid::torus(size, columns)),
            Self::FatTree(tree) => Wiring::FatTree(tree.unwrap_or(FatTree::of(size)).cut(size)),
            Self::Dragonfly(sizes) => Wiring::Dragonfly(sizes.unwrap_or(Dragonfly::of(size)).cut(size)),
        }
    }

    /// Links between nodes, or switches, that a message passes from one of `size` nodes to another;
    /// 1 is the shortest way, also from a node to itself.
    pub fn hops(self, size: u32, from: u32, to: u32) -> u32 {
        match self.wiring(size) {
            Wiring::Crossbar => 1,
            Wiring::Grid(grid) => grid.steps(from, to).max(1),
            Wiring::FatTree(tree) => tree.switches(from, to),
            Wiring::Dragonfly(dragonfly) => dragonfly.routers_between(from, to),
        }
    }

    /// The most shared links of a way between two of `size` nodes, and at least 1: what it costs to
    /// simulate them.
    pub fn diameter(self, size: u32) -> u32 {
        match self.wiring(size) {
            Wiring::Crossbar => 1,
            Wiring::Grid(grid) => grid.diameter().max(1),
            Wiring::FatTree(_) => 2,
            Wiring::Dragonfly(_) => 3,
        }
    }

    /// Returns the number of shared links that there may be between `size` nodes; they are numbered
    /// from 0.
    pub fn shared_links(self, size: u32) -> u64 {
        match self.wiring(size) {
            Wiring::Crossbar => 0,
            Wiring::Grid(grid) => grid.links(),
            Wiring::FatTree(tree) => tree.links(size),
            Wiring::Dragonfly(dragonfly) => dragonfly.links(size),
        }
    }

    /// Visits every shared link on the way from one of `size` nodes to another, in order.
    pub fn shared_route(self, size: u32, from: u32, to: u32, visit: impl FnMut(usize)) {
        match self.wiring(size) {
            Wiring::Crossbar => {}
            Wiring::Grid(grid) => grid.route(from, to, visit),
            Wiring::FatTree(tree) => tree.route(size, from, to, visit),
            Wiring::Dragonfly(dragonfly) => dragonfly.route(size, from, to, visit),
        }
    }

    /// Returns the number of links that there may be between `size` nodes. The first `size` lead
    /// into the network, one a node, the next `size` out of it, and the shared ones follow.
    pub fn links(self, size: u32) -> u64 {
        self.shared_links(size).saturating_add(2 * u64::from(size))
    }

    /// Visits every link on the way from one of `size` nodes to another, in order: the sender's
    /// cable, the shared links, the receiver's cable. Nothing is visited from a node to itself.
    pub fn route(self, size: u32, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        if from == to {
            return;
        }
        let nodes = size as usize;
        visit(from as usize);
        self.shared_route(size, from, to, |link| visit(2 * nodes + link));
        visit(nodes + to as usize);
    }
}

#[cfg(test)]
mod tests;
