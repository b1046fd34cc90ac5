//! Topologies: who is how far from whom, and which links a message shares with others on its way.
//!
//! Ranks are placed in order, one a node. Routes are fixed and minimal. A node's own cable is no shared link: it is
//! what g and G stand for.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

/// How nodes are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// One switch that never blocks.
    Crossbar,
    /// Each node to the next, both ways round.
    Ring,
    /// A grid of rows of `columns` nodes, closed in both directions; routed along the row first.
    Torus {
        /// Nodes in a row; `None` for a grid as square as can be.
        columns: Option<NonZeroU32>,
    },
    /// Leaf switches under spine switches. The target's number picks the spine (D-mod-k).
    FatTree {
        /// Nodes at a leaf switch.
        leaf: NonZeroU32,
        /// Spine switches: uplinks of each leaf switch.
        uplinks: NonZeroU32,
    },
    /// Groups of routers (Kim, Dally, Scott, Abts 2008): every two routers of a group are connected, and every two
    /// groups once.
    Dragonfly {
        /// Routers of a group.
        routers: NonZeroU32,
        /// Nodes at a router.
        nodes: NonZeroU32,
    },
}

/// What [`Topology`] is parsed from.
pub const KNOWN: &str = "crossbar, ring, torus[:COLUMNS], fat-tree[:LEAFxUPLINKS], dragonfly[:ROUTERSxNODES]";

const fn number(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("not zero")
}

impl Topology {
    /// 32 nodes at a leaf, half as many uplinks.
    pub const FAT_TREE: Self = Self::FatTree { leaf: number(32), uplinks: number(16) };
    /// 16 routers of 8 nodes a group.
    pub const DRAGONFLY: Self = Self::Dragonfly { routers: number(16), nodes: number(8) };

    /// Links, or switches, that a message passes between two nodes of `size`; 1 is the shortest way.
    pub fn hops(self, size: u32, from: u32, to: u32) -> u32 {
        match self {
            Self::Crossbar => 1,
            Self::Ring => around(from, to, size).0.max(1),
            Self::Torus { columns } => {
                let grid = Grid::new(size, columns);
                let ((row, column), (to_row, to_column)) = (grid.place(from), grid.place(to));
                let across = around(column, to_column, grid.columns).0;
                (across + around(row, to_row, grid.rows).0).max(1)
            }
            Self::FatTree { leaf, .. } => {
                if from / leaf == to / leaf {
                    1
                } else {
                    3
                }
            }
            Self::Dragonfly { routers, nodes } => {
                let (here, there) = (Router::of(from, routers, nodes), Router::of(to, routers, nodes));
                match (here == there, here.group == there.group) {
                    (true, _) => 1,
                    (_, true) => 2,
                    _ => {
                        let exit = u32::from(here.number != here.gateway(there.group, routers));
                        2 + exit + u32::from(there.number != there.gateway(here.group, routers))
                    }
                }
            }
        }
    }

    /// Shared links in all, with `size` nodes.
    pub(crate) fn links(self, size: u32) -> u64 {
        match self {
            Self::Crossbar => 0,
            Self::Ring => 2 * u64::from(size),
            Self::Torus { columns } => 4 * Grid::new(size, columns).slots(),
            Self::FatTree { leaf, uplinks } => {
                2 * u64::from(size.div_ceil(leaf.get())) * u64::from(uplinks.get())
            }
            Self::Dragonfly { routers, nodes } => {
                let groups = Router::groups(size, routers, nodes);
                let local = groups.saturating_mul(u64::from(routers.get()).saturating_pow(2));
                local.saturating_add(groups.saturating_mul(groups))
            }
        }
    }

    /// The most links of a way between two of `size` nodes: what contention costs to simulate.
    pub(crate) fn diameter(self, size: u32) -> u32 {
        match self {
            Self::Crossbar => 1,
            Self::Ring => size / 2 + 1,
            Self::Torus { columns } => {
                let grid = Grid::new(size, columns);
                grid.rows / 2 + grid.columns / 2 + 1
            }
            Self::FatTree { .. } => 2,
            Self::Dragonfly { .. } => 3,
        }
    }

    /// Calls `visit` with every shared link on the way, in order.
    pub(crate) fn route(self, size: u32, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        match self {
            Self::Crossbar => {}
            Self::Ring => walk(from, to, size, |node, ahead| {
                visit(node as usize + if ahead { 0 } else { size as usize });
            }),
            Self::Torus { columns } => Grid::new(size, columns).route(from, to, visit),
            Self::FatTree { leaf, uplinks } => {
                if from / leaf != to / leaf {
                    let (leaves, each) = (size.div_ceil(leaf.get()) as usize, uplinks.get() as usize);
                    let spine = (to % uplinks) as usize;
                    visit((from / leaf) as usize * each + spine);
                    visit((leaves + (to / leaf) as usize) * each + spine);
                }
            }
            Self::Dragonfly { routers, nodes } => {
                let (here, there) = (Router::of(from, routers, nodes), Router::of(to, routers, nodes));
                let each = routers.get() as usize;
                let mut local = |group: u32, a: u32, b: u32| {
                    if a != b {
                        visit((group as usize * each + a as usize) * each + b as usize);
                    }
                };
                if here.group == there.group {
                    return local(here.group, here.number, there.number);
                }
                local(here.group, here.number, here.gateway(there.group, routers));
                local(there.group, there.gateway(here.group, routers), there.number);
                let groups = Router::groups(size, routers, nodes) as usize;
                visit(groups * each * each + here.group as usize * groups + there.group as usize);
            }
        }
    }
}

/// The shorter way round from `from` to `to`, and whether it goes ahead.
const fn around(from: u32, to: u32, size: u32) -> (u32, bool) {
    let ahead = if to >= from { to - from } else { size - (from - to) };
    if ahead <= size - ahead { (ahead, true) } else { (size - ahead, false) }
}

/// Every node from which a link is taken on the shorter way round, and whether it is the link ahead.
fn walk(from: u32, to: u32, size: u32, mut visit: impl FnMut(u32, bool)) {
    let (steps, ahead) = around(from, to, size);
    let mut node = from;
    for _ in 0..steps {
        visit(node, ahead);
        node = match (ahead, node) {
            (true, last) if last + 1 == size => 0,
            (true, _) => node + 1,
            (false, 0) => size - 1,
            (false, _) => node - 1,
        };
    }
}

/// A torus; where its last row is short, switches without nodes fill it.
struct Grid {
    rows: u32,
    columns: u32,
}

impl Grid {
    fn new(size: u32, columns: Option<NonZeroU32>) -> Self {
        let square = size.isqrt() + u32::from(size.isqrt().pow(2) < size);
        let columns = columns.map_or(square, NonZeroU32::get).clamp(1, size.max(1));
        Self { rows: size.div_ceil(columns), columns }
    }

    const fn place(&self, node: u32) -> (u32, u32) {
        (node / self.columns, node % self.columns)
    }

    const fn slots(&self) -> u64 {
        self.rows as u64 * self.columns as u64
    }

    fn route(&self, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        let ((row, column), (to_row, to_column)) = (self.place(from), self.place(to));
        let mut link = |row: u32, column: u32, direction: usize| {
            visit((row as usize * self.columns as usize + column as usize) * 4 + direction);
        };
        walk(column, to_column, self.columns, |at, ahead| link(row, at, usize::from(ahead)));
        walk(row, to_row, self.rows, |at, ahead| link(at, to_column, 2 + usize::from(ahead)));
    }
}

/// A router of a dragonfly: its group, and its number there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Router {
    group: u32,
    number: u32,
}

impl Router {
    fn of(node: u32, routers: NonZeroU32, nodes: NonZeroU32) -> Self {
        let router = node / nodes;
        Self { group: router / routers, number: router % routers }
    }

    fn groups(size: u32, routers: NonZeroU32, nodes: NonZeroU32) -> u64 {
        u64::from(size).div_ceil(u64::from(routers.get()) * u64::from(nodes.get()))
    }

    /// The router of this group that has the link to another group: the other groups are dealt out in turn.
    fn gateway(self, other: u32, routers: NonZeroU32) -> u32 {
        (other - u32::from(other > self.group)) % routers
    }
}

/// A text that names no topology; displays which there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownTopology(String);

impl fmt::Display for UnknownTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no topology is called `{}`; known: {KNOWN}", self.0)
    }
}

impl core::error::Error for UnknownTopology {}

impl FromStr for Topology {
    type Err = UnknownTopology;

    fn from_str(text: &str) -> Result<Self, UnknownTopology> {
        let (name, sizes) = text.split_once(':').map_or((text, None), |(name, sizes)| (name, Some(sizes)));
        let pair = || sizes.and_then(|sizes| sizes.split_once('x'));
        let pair = || pair().and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let known = match (name, sizes) {
            ("crossbar", None) => Some(Self::Crossbar),
            ("ring", None) => Some(Self::Ring),
            ("torus", None) => Some(Self::Torus { columns: None }),
            ("torus", Some(columns)) => columns.parse().ok().map(|it| Self::Torus { columns: Some(it) }),
            ("fat-tree", None) => Some(Self::FAT_TREE),
            ("fat-tree", Some(_)) => pair().map(|(leaf, uplinks)| Self::FatTree { leaf, uplinks }),
            ("dragonfly", None) => Some(Self::DRAGONFLY),
            ("dragonfly", Some(_)) => pair().map(|(routers, nodes)| Self::Dragonfly { routers, nodes }),
            _ => None,
        };
        known.ok_or_else(|| UnknownTopology(text.into()))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crossbar => f.write_str("crossbar"),
            Self::Ring => f.write_str("ring"),
            Self::Torus { columns: None } => f.write_str("torus"),
            Self::Torus { columns: Some(columns) } => write!(f, "torus:{columns}"),
            Self::FatTree { leaf, uplinks } => write!(f, "fat-tree:{leaf}x{uplinks}"),
            Self::Dragonfly { routers, nodes } => write!(f, "dragonfly:{routers}x{nodes}"),
        }
    }
}

#[cfg(test)]
mod tests;
