//! Which links a message passes on its way from node to node.

use core::fmt;
use core::str::FromStr;

/// How the nodes are wired. Messages take one fixed way; those that share a link wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Topology {
    /// A switch that connects every node with every other.
    #[default]
    Crossbar,
    /// Each node with the next and the previous one; the shorter way round.
    Ring,
    /// A grid of two dimensions whose edges meet; first along the row, then along the column.
    Torus,
    /// Leaf switches of about sqrt(n) nodes under as many spine switches.
    FatTree,
}

impl Topology {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Crossbar, Self::Ring, Self::Torus, Self::FatTree];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crossbar => "crossbar",
            Self::Ring => "ring",
            Self::Torus => "torus",
            Self::FatTree => "fat-tree",
        }
    }

    /// How many links there are between `ranks` nodes. The first `ranks` lead into the network, one a node, and the
    /// next `ranks` out of it.
    pub(crate) fn links(self, ranks: u32) -> usize {
        let inner = match self {
            Self::Crossbar => 0,
            Self::Ring => 2 * ranks,
            Self::Torus => 4 * ranks,
            Self::FatTree => 2 * side(ranks) * side(ranks),
        };
        (2 * ranks + inner) as usize
    }

    /// Visits the links from node `from` to node `to`, in order. Nothing is visited from a node to itself.
    pub(crate) fn route(self, ranks: u32, from: u32, to: u32, mut visit: impl FnMut(u32)) {
        if from == to {
            return;
        }
        visit(from);
        let inner = 2 * ranks;
        match self {
            Self::Crossbar => {}
            Self::Ring => walk(from, to, ranks, |node, way| visit(inner + 2 * node + way)),
            Self::Torus => {
                let columns = columns(ranks);
                let (row, column) = (from / columns, from % columns);
                walk(column, to % columns, columns, |at, way| visit(inner + 4 * (row * columns + at) + way));
                let (rows, column) = (ranks / columns, to % columns);
                walk(row, to / columns, rows, |at, way| visit(inner + 4 * (at * columns + column) + 2 + way));
            }
            Self::FatTree => {
                let side = side(ranks);
                let (up, down) = (from / side, to / side);
                if up != down {
                    let spine = (from + to) % side;
                    visit(inner + up * side + spine);
                    visit(inner + side * side + spine * side + down);
                }
            }
        }
        visit(ranks + to);
    }
}

/// Steps along a ring of `size` from `from` to `to`, the shorter way; says where each begins and which way it goes.
fn walk(from: u32, to: u32, size: u32, mut step: impl FnMut(u32, u32)) {
    let ahead = (to + size - from) % size;
    let forward = ahead <= size - ahead;
    let (mut at, steps) = (from, if forward { ahead } else { size - ahead });
    for _ in 0..steps {
        step(at, u32::from(forward));
        at = if forward { (at + 1) % size } else { (at + size - 1) % size };
    }
}

/// Columns of the grid of `ranks` nodes that is nearest to a square without holes.
pub(crate) fn columns(ranks: u32) -> u32 {
    (1..=ranks.isqrt().max(1)).rev().find(|rows| ranks.is_multiple_of(*rows)).map_or(1, |rows| ranks / rows)
}

/// Nodes of a leaf switch.
fn side(ranks: u32) -> u32 {
    let root = ranks.isqrt();
    if root * root < ranks { root + 1 } else { root.max(1) }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|topology| topology.name() == text);
        found.ok_or_else(|| format!("no topology {text}; there are {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(topology: Topology, ranks: u32, from: u32, to: u32) -> Vec<u32> {
        let mut links = Vec::new();
        topology.route(ranks, from, to, |link| links.push(link));
        links
    }

    #[test]
    fn every_route_uses_links_there_are_and_begins_and_ends_at_its_nodes() {
        for topology in Topology::ALL {
            for ranks in 1..20 {
                for (from, to) in (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks)) {
                    let links = route(topology, ranks, from, to);
                    assert!(links.iter().all(|link| (*link as usize) < topology.links(ranks)));
                    if from == to {
                        assert!(links.is_empty());
                        continue;
                    }
                    assert_eq!((links[0], links[links.len() - 1]), (from, ranks + to));
                    let mut once = links.clone();
                    once.sort_unstable();
                    once.dedup();
                    assert_eq!(once.len(), links.len(), "{topology}: a link twice from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn ways_are_as_long_as_they_should_be() {
        let hops = |topology, ranks, from, to| route(topology, ranks, from, to).len() - 2;
        assert_eq!(hops(Topology::Crossbar, 16, 0, 9), 0);
        assert_eq!(hops(Topology::Ring, 16, 1, 14), 3);
        assert_eq!(hops(Topology::Torus, 16, 0, 15), 2, "one step back in each dimension");
        assert_eq!(hops(Topology::FatTree, 16, 0, 3), 0, "under one leaf");
        assert_eq!(hops(Topology::FatTree, 16, 0, 4), 2);
        assert_eq!((columns(12), columns(16), columns(7), columns(1)), (4, 4, 7, 1));
    }

    #[test]
    fn names_are_read_back() {
        assert!(Topology::ALL.into_iter().all(|topology| topology.name().parse() == Ok(topology)));
        assert!("moebius".parse::<Topology>().unwrap_err().contains("fat-tree"));
    }
}
