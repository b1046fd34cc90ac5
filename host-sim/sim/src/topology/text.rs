//! Topologies as they are typed and printed.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use super::{Dragonfly, FatTree, Topology};

/// The texts that a [`Topology`] is parsed from.
pub const KNOWN: &str = "crossbar, ring, torus[:COLUMNS], fat-tree[:LEAFxUPLINKS], dragonfly[:ROUTERSxNODES]";

/// The known texts for a help text: a line each, with the sizes that are chosen where they are left
/// out.
pub const HELP: &str = "\
  crossbar                   one switch that never blocks
  ring                       each node to the next, both ways round
  torus[:COLUMNS]            a grid closed in both directions [square]
  fat-tree[:LEAFxUPLINKS]    LEAF nodes a switch, UPLINKS spines [by ranks, up to 32x16]
  dragonfly[:ROUTERSxNODES]  groups of routers, NODES at each [by ranks, up to 16x8]
";

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
        let known = match (name, sizes) {
            ("crossbar", None) => Some(Self::Crossbar),
            ("ring", None) => Some(Self::Ring),
            ("torus", None) => Some(Self::TORUS),
            ("torus", Some(columns)) => columns.parse().ok().map(|it| Self::Torus { columns: Some(it) }),
            ("fat-tree", None) => Some(Self::FAT_TREE),
            ("fat-tree", Some(sizes)) => {
                pair(sizes).map(|(leaf, uplinks)| Self::FatTree(Some(FatTree { leaf, uplinks })))
            }
            ("dragonfly", None) => Some(Self::DRAGONFLY),
            ("dragonfly", Some(sizes)) => {
                pair(sizes).map(|(routers, nodes)| Self::Dragonfly(Some(Dragonfly { routers, nodes })))
            }
            _ => None,
        };
        known.ok_or_else(|| UnknownTopology(text.into()))
    }
}

fn pair(sizes: &str) -> Option<(NonZeroU32, NonZeroU32)> {
    let (first, second) = sizes.split_once('x')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, sizes) = match self {
            Self::Crossbar => ("crossbar", None),
            Self::Ring => ("ring", None),
            Self::Torus { columns } => ("torus", columns.map(|columns| columns.to_string())),
            Self::FatTree(tree) => ("fat-tree", tree.map(|tree| format!("{}x{}", tree.leaf, tree.uplinks))),
            Self::Dragonfly(sizes) => {
                ("dragonfly", sizes.map(|sizes| format!("{}x{}", sizes.routers, sizes.nodes)))
            }
        };
        match sizes {
            Some(sizes) => write!(f, "{name}:{sizes}"),
            None => f.write_str(name),
        }
    }
}
