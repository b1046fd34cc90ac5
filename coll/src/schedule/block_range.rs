//! Consecutive blocks of an operation on blocks.

use super::{Instance, Span};

/// Consecutive blocks of an operation on blocks: that of rank `first` and those after it, around
/// the circle of all blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockRange {
    /// The rank of the first block.
    pub(crate) first: u32,
    /// The number of blocks.
    pub(crate) len: u32,
}

impl BlockRange {
    /// The block of one rank.
    pub(crate) const fn of(rank: u32) -> Self {
        Self { first: rank, len: 1 }
    }

    /// The blocks of all ranks.
    pub(crate) const fn all(size: u32) -> Self {
        Self { first: 0, len: size }
    }

    /// Returns the place of these blocks in the data.
    pub(crate) fn span(self, instance: &Instance) -> Span {
        instance.blocks(self.first, self.len)
    }
}
