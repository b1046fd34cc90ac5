//! Groups of neighbouring ranks that double: of 1, 2, 4, .. ranks, counted from rank 0, the last
//! one cut off by the size. Each has a leader: the root if it is among them, else the first. So
//! blocks of a group stand together in the order of ranks, wherever the root is.

use super::{BlockRange, Instance, Span, Work, log2_ceil};

/// A group's first rank, by one of its ranks and its size as an exponent.
pub(crate) fn first(rank: u32, bits: u32) -> u32 {
    rank.checked_shr(bits).and_then(|group| group.checked_shl(bits)).unwrap_or(0)
}

/// The leader of the group of `2^bits` ranks that `rank` is in.
fn leader(instance: &Instance, rank: u32, bits: u32) -> u32 {
    let first_of = |rank| first(rank, bits);
    if first_of(instance.root()) == first_of(rank) { instance.root() } else { first_of(rank) }
}

/// The part of a group's leader when groups of `2^bits` ranks merge in pairs.
pub(crate) struct GroupMerge {
    /// The other group's leader.
    pub(crate) other: u32,
    /// True if this rank leads both.
    pub(crate) leads: bool,
    /// The blocks that pass: those of the group whose leader does not lead both.
    pub(crate) passing: BlockRange,
}

/// Returns this rank's part in the merge of its group of `2^bits` ranks with another; `None` if it
/// does not lead its group, or there is no other.
pub(crate) fn merge(instance: &Instance, bits: u32) -> Option<GroupMerge> {
    let (rank, half) = (instance.rank(), 1u32.checked_shl(bits)?);
    let beyond = first(rank ^ half, bits);
    if beyond >= instance.size() || leader(instance, rank, bits) != rank {
        return None;
    }
    let other = leader(instance, beyond, bits);
    let leads = leader(instance, rank, bits + 1) == rank;
    let first = if leads { beyond } else { first(rank, bits) };
    let passing = BlockRange { first, len: half.min(instance.size() - first) };
    Some(GroupMerge { other, leads, passing })
}

/// Returns the place where a leader holds these blocks of its group. The root holds them where they
/// belong. Another leader's data have room for its own block alone: it holds several in scratch,
/// from its own on.
pub(crate) fn held(instance: &Instance, blocks: BlockRange) -> Span {
    let (rank, span) = (instance.rank(), blocks.span(instance));
    if rank == instance.root() || blocks == BlockRange::of(rank) {
        return span;
    }
    let before = instance.blocks(blocks.first.saturating_sub(rank), 0).start;
    Span { start: before, ..Span::scratch(span.len) }
}

/// Returns the most blocks that a leader other than the root needs scratch for.
pub(crate) fn held_max(size: u32) -> usize {
    match log2_ceil(size) {
        0 | 1 => 0,
        bits => 1 << (bits - 1),
    }
}

/// The work of all merges, with the root where it is most, and of so many copies of a
/// block.
pub(crate) fn work(size: u32, count: usize, copies: u64) -> Work {
    if count == 0 {
        return Work::default();
    }
    let (rounds, count) = (log2_ceil(size), count as u64);
    let blocks = 1u64.checked_shl(rounds).unwrap_or(0) - 1;
    Work {
        rounds: rounds.into(),
        elements: blocks.saturating_mul(count),
        copied: copies.saturating_mul(count),
        ..Work::default()
    }
}
