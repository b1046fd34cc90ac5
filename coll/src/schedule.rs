//! The schedule form: an algorithm as a pure function from (rank, size, root, count, round) to
//! steps.
//!
//! # What a round means
//!
//! A round is a short list of [`Step`]s, asked for one at a time by index: first its receives, then
//! its sends, then its local steps. The rank posts every receive and every send, waits until all of
//! them are complete, then carries out the local steps in order. Rounds are local: nothing keeps
//! ranks in the same round but the messages.
//!
//! # Rules for every schedule (the symbolic checker holds each algorithm to them)
//!
//! 1. Messages between two ranks match in order: the k-th send from a to b is the k-th receive of b
//!    from a, with the same length.
//! 2. It completes although every send waits for its receive (nothing is buffered on the way).
//! 3. Within a round a receive overlaps no other receive and no send; a reduction's two spans do
//!    not overlap.
//! 4. A round has at most [`IN_FLIGHT_MAX`] receives and sends. An algorithm with more peers
//!    (linear gather, direct all-to-all) takes more rounds, as MPICH's throttled
//!    `alltoall_scattered` does.
//! 5. Spans lie inside `count` elements of data and inside the scratch that [`Schedule::capacity`]
//!    was asked about.
//!
//! # Why `step(round, index)` and not a list
//!
//! A list needs a bound on all steps and is copied at each round; a step asked for by index needs
//! no storage in the algorithm, the executor or the checker, costs a few instructions, and is the
//! same for 2 ranks and for 65,536.

mod block_range;
pub(crate) mod doubling_groups;
pub(crate) mod exchange;
pub(crate) mod fan;
pub(crate) mod radix;
pub(crate) mod subset;
pub(crate) mod tree;
pub(crate) mod variant;

use core::fmt;
use core::num::NonZeroU32;

use aldis_kernel::hal::{Cause, Operation};
pub(crate) use block_range::BlockRange;

/// The most receives and sends together that one round may have; a request slot is held for each
/// while the round runs.
pub const IN_FLIGHT_MAX: usize = 8;

/// Stages, posting a message or ending a round, that an executor passes at most in one call, before
/// it returns: what bounds its work.
pub(crate) const STAGES_A_CALL: u32 = 128;

/// The most exchanges, a message each way, of a round.
pub(crate) const WIDTH_MAX: u32 = IN_FLIGHT_MAX as u32 / 2;

/// A buffer that steps refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Buffer {
    /// The caller's data: what is broadcast, or what is reduced in place.
    Data,
    /// Scratch memory, lent by the caller; undefined before the first step that writes it.
    Scratch,
    /// The operands that the caller gives and keeps, where they do not become the result: only
    /// read.
    Input,
}

/// A range of a buffer, in elements. In a segmented run both are relative to the segment.
///
/// Data and input of an operation on blocks ([`on_blocks`]) are a circle of blocks, one a rank, of
/// [`count`](Instance::count) elements each: a span there is a number of whole blocks, and may
/// reach past the last one, on to the first. In memory blocks may lie apart and be shorter; the
/// executor sends such a span in pieces, the same on both sides. So a message whose span reaches
/// past the last block does so on both sides. Scratch holds blocks as well, and says which where
/// that matters: [`of_block`](Self::of_block).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    /// The buffer.
    pub buffer: Buffer,
    /// First element.
    pub start: usize,
    /// Elements.
    pub len: usize,
    /// The blocks it holds, where it is scratch of an operation on blocks.
    pub held: HeldBlock,
}

/// The block that scratch holds first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HeldBlock(u32);

impl HeldBlock {
    const FIRST: Self = Self(0);
}

impl Span {
    /// No elements: the span of a message that only signals.
    pub const EMPTY: Self = Self::data(0, 0);

    /// `len` elements of the data from `start` on.
    pub const fn data(start: usize, len: usize) -> Self {
        Self { buffer: Buffer::Data, start, len, held: HeldBlock::FIRST }
    }

    /// The first `len` elements of scratch.
    pub const fn scratch(len: usize) -> Self {
        Self { buffer: Buffer::Scratch, start: 0, len, held: HeldBlock::FIRST }
    }

    /// Scratch that holds blocks from that of `rank` on, for an algorithm that
    /// [serves](Schedule::serves_unlike) blocks of unlike lengths: it gives their lengths. If it
    /// reaches past the last block, the first ones stand before it, where they would if all blocks
    /// stood there in the order of ranks.
    #[must_use]
    pub const fn of_block(self, rank: u32) -> Self {
        Self { held: HeldBlock(rank), ..self }
    }

    /// The block that is held first, where it is scratch.
    pub const fn first_held(&self) -> u32 {
        self.held.0
    }

    /// Returns the same range of the input.
    #[must_use]
    pub const fn of_input(self) -> Self {
        Self { buffer: Buffer::Input, ..self }
    }

    /// Returns the index past the last element, saturating.
    pub const fn end(&self) -> usize {
        self.start.saturating_add(self.len)
    }

    /// Returns true if the two share an element.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.start < other.end() && other.start < self.end()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.buffer {
            Buffer::Data => "data",
            Buffer::Scratch => "scratch",
            Buffer::Input => "input",
        };
        write!(f, "{name}[{}..{}]", self.start, self.end())
    }
}

/// The operand of a reduction that stands on the left. It decides the result of operations that do
/// not commute, and is what makes two ranks that combine the same pair get the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Order {
    /// `into = into op from`.
    IntoFirst,
    /// `into = from op into`.
    FromFirst,
}

impl Order {
    /// Returns the order of the same operands where each has the other's place.
    pub(crate) const fn reversed(self) -> Self {
        match self {
            Self::IntoFirst => Self::FromFirst,
            Self::FromFirst => Self::IntoFirst,
        }
    }
}

/// A step of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Step {
    /// Receives a message of exactly `into.len` elements.
    Recv {
        /// The sender's rank.
        from: u32,
        /// The span that it is stored in.
        into: Span,
    },
    /// Sends a message of `from.len` elements.
    Send {
        /// The receiver's rank.
        to: u32,
        /// The span that is sent.
        from: Span,
    },
    /// Reduces `from` into `into`, element by element; both have the same length.
    Reduce {
        /// Left or right operand, and the result.
        into: Span,
        /// The other operand.
        from: Span,
        /// The operand that is the left.
        order: Order,
    },
    /// Copies `from` to `into`; both have the same length.
    Copy {
        /// The target.
        into: Span,
        /// The source.
        from: Span,
    },
}

impl Step {
    /// Returns the span that is received or sent; an empty one for a local step.
    pub(crate) const fn message(&self) -> Span {
        match *self {
            Self::Recv { into: span, .. } | Self::Send { from: span, .. } => span,
            Self::Reduce { .. } | Self::Copy { .. } => Span::EMPTY,
        }
    }

    /// Returns the step that undoes this one where only messages and copies are exchanged: a
    /// schedule read from its end, so, does the opposite. A reduction has no way back and stays
    /// what it is.
    #[must_use]
    pub(crate) const fn backwards(self) -> Self {
        match self {
            Self::Recv { from, into } => Self::Send { to: from, from: into },
            Self::Send { to, from } => Self::Recv { from: to, into: from },
            Self::Copy { into, from } => Self::Copy { into: from, from: into },
            Self::Reduce { .. } => self,
        }
    }

    /// Returns true for a receive or a send, which come first in a round.
    pub const fn is_message(&self) -> bool {
        matches!(self, Self::Recv { .. } | Self::Send { .. })
    }
}

/// Returns true if an operation's data, and its input, are a block a rank.
pub const fn on_blocks(operation: Operation) -> bool {
    use Operation::{
        Allgather, Allgatherv, Alltoall, Alltoallv, Alltoallw, Gather, Gatherv, ReduceScatter,
        ReduceScatterBlock, Scatter, Scatterv,
    };
    matches!(
        operation,
        Allgather | Allgatherv | Alltoall | Alltoallv | Alltoallw | Gather | Gatherv | Scatter | Scatterv
    ) || matches!(operation, ReduceScatter | ReduceScatterBlock)
}

/// Returns true for an operation among neighbours.
pub(crate) const fn is_among_neighbors(operation: Operation) -> bool {
    use Operation::{
        NeighborAllgather, NeighborAllgatherv, NeighborAlltoall, NeighborAlltoallv, NeighborAlltoallw,
    };
    matches!(
        operation,
        NeighborAllgather | NeighborAllgatherv | NeighborAlltoall | NeighborAlltoallv | NeighborAlltoallw
    )
}

/// The operation whose algorithms serve: that on blocks of one length for those on blocks of unlike
/// lengths.
#[inline]
pub(crate) const fn alike(operation: Operation) -> Operation {
    match operation {
        Operation::Gatherv => Operation::Gather,
        Operation::Scatterv => Operation::Scatter,
        Operation::Allgatherv => Operation::Allgather,
        Operation::Alltoallv | Operation::Alltoallw => Operation::Alltoall,
        Operation::ReduceScatter => Operation::ReduceScatterBlock,
        Operation::NeighborAllgatherv => Operation::NeighborAllgather,
        Operation::NeighborAlltoallv | Operation::NeighborAlltoallw => Operation::NeighborAlltoall,
        other => other,
    }
}

/// A collective as one rank sees it: the whole input of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Instance {
    rank: u32,
    size: NonZeroU32,
    root: u32,
    count: usize,
    /// Ranks of the first of two groups.
    cut: u32,
}

impl Instance {
    /// The only rank, without data.
    pub(crate) const ALONE: Self = Self { rank: 0, size: NonZeroU32::MIN, root: 0, count: 0, cut: 0 };

    /// Rank `rank` of `size`, with root `root` (0 where the operation has none) and `count`
    /// elements.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] unless both ranks are below `size`.
    pub fn new(rank: u32, size: u32, root: u32, count: usize) -> Result<Self, Cause> {
        let outside = if rank < size { root } else { rank };
        match NonZeroU32::new(size) {
            Some(nonzero) if rank < size && root < size => {
                Ok(Self { rank, size: nonzero, root, count, cut: 0 })
            }
            _ => Err(Cause::RankOutOfRange { rank: outside, size }),
        }
    }

    /// Returns this call with another count: one segment of it.
    #[must_use]
    pub const fn with_count(self, count: usize) -> Self {
        Self { count, ..self }
    }

    /// This rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in all, at least 1.
    pub const fn size(&self) -> u32 {
        self.size.get()
    }

    /// The root's rank.
    pub const fn root(&self) -> u32 {
        self.root
    }

    /// Elements of data (0 in a barrier), of a block in an operation on blocks.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The rank `by` places after this one on the ring of all ranks.
    pub fn after(&self, by: u32) -> u32 {
        self.shift(self.rank, by)
    }

    /// The rank `by` places before this one on the ring of all ranks.
    pub fn before(&self, by: u32) -> u32 {
        self.shift(self.rank, self.size.get() - by % self.size)
    }

    /// This rank's place counted from the root: 0 is the root.
    pub fn from_root(&self) -> u32 {
        self.before(self.root)
    }

    /// The rank at place `place` counted from the root.
    pub fn at_place(&self, place: u32) -> u32 {
        self.shift(self.root, place)
    }

    /// `rank + by` modulo the size, without overflow.
    fn shift(&self, rank: u32, by: u32) -> u32 {
        let by = by % self.size;
        let room = self.size.get() - rank;
        if by < room { rank + by } else { by - room }
    }

    /// The data's block of a rank, in an operation on blocks.
    pub fn block(&self, rank: u32) -> Span {
        self.blocks(rank, 1)
    }

    /// Returns `number` of the data's blocks from that of rank `first` on, around the circle. Both
    /// are taken modulo the size, but all blocks are all.
    pub fn blocks(&self, first: u32, number: u32) -> Span {
        let elements = |blocks: u32| (blocks as usize).saturating_mul(self.count);
        Span::data(elements(first % self.size), elements(number.min(self.size())))
    }

    /// The data cut into one chunk per rank, as even as can be: the first `count % size` chunks are
    /// one element longer. Chunk `index` modulo the size; chunks may be empty.
    pub fn chunk(&self, index: u32) -> Span {
        let index = (index % self.size) as usize;
        let size = self.size.get() as usize;
        let (base, longer) = divide(self.count, size);
        let start = index.saturating_mul(base).saturating_add(index.min(longer));
        Span::data(start, base + usize::from(index < longer))
    }
}

/// Quotient and remainder; (0, 0) for a zero divisor, so that no panic is left in the image.
pub(crate) fn divide(dividend: usize, divisor: usize) -> (usize, usize) {
    (dividend.checked_div(divisor).unwrap_or(0), dividend.checked_rem(divisor).unwrap_or(0))
}

/// The number of times 2 must be multiplied with itself to reach `size`: the rounds of a binomial
/// tree.
pub const fn log2_ceil(size: u32) -> u32 {
    u32::BITS - size.saturating_sub(1).leading_zeros()
}

/// The largest power of two that is at most `size`, as its exponent; 0 for a size of 0.
pub const fn log2_floor(size: u32) -> u32 {
    31u32.saturating_sub(size.leading_zeros())
}

/// Returns true if groups of 2, 4, 8, .. neighbouring ranks make the tree which
/// [`Priced::reproduces`] describes: over 2^a - 2^b ranks.
pub(crate) fn pairs_up(size: u32) -> bool {
    size.checked_add(1u32.wrapping_shl(size.trailing_zeros())).is_none_or(u32::is_power_of_two)
}

/// The cost of a schedule on its critical path: summed over the rounds, the most that any rank does
/// in that round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Work {
    /// Rounds that carry messages.
    pub rounds: u64,
    /// Messages beyond the first that one rank sends in a round, or receives, whichever are more.
    pub fan: u64,
    /// Elements sent, or received, whichever are more.
    pub elements: u64,
    /// Elements reduced.
    pub reduced: u64,
    /// Elements copied.
    pub copied: u64,
}

/// An algorithm: pure, without storage and without I/O. See the [module](self) for the rules it
/// keeps.
///
/// Implementations are unit structs, passed around as [`Algorithm`].
pub trait Schedule: Sync {
    /// The collective that it carries out.
    fn operation(&self) -> Operation;

    /// Its name within the operation, as Open MPI, MPICH or gloo call it.
    fn name(&self) -> &'static str;

    /// Rounds, the same on every rank. O(1).
    fn rounds(&self, instance: &Instance) -> u32;

    /// The step of `round` with `index`, counted from 0; `None` past the last one. O(1).
    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step>;

    /// The most elements of data that can be worked on at once with `scratch` elements of scratch.
    /// A longer operation is cut into segments of at most this many, each run by itself.
    fn capacity(&self, size: u32, scratch: usize) -> usize;

    /// Returns true if it is made for so many ranks.
    fn serves(&self, _size: u32) -> bool {
        true
    }

    /// Returns true if it serves blocks of unlike lengths, in an operation on blocks: if it needs
    /// no scratch, or if it says which [blocks](Span::of_block) scratch holds, as all that reduce
    /// and scatter must.
    fn serves_unlike(&self, size: u32) -> bool {
        self.operation() == Operation::ReduceScatterBlock || self.capacity(size, 0) == usize::MAX
    }

    /// Returns true if its ranks are two groups, so that what a group has is sent to the
    /// [other](Instance::groups): an algorithm for [intercommunicators](crate::inter) alone. It is
    /// asked for capacity, sizes and work as if both were as large as the larger one; or it has one
    /// rank alone in the second group, the root.
    fn crosses(&self) -> bool {
        false
    }

    /// Returns true if operands are combined in the order of their ranks, as an operation that does
    /// not commute needs.
    fn keeps_rank_order(&self) -> bool {
        true
    }
}

/// The facts that selection knows of an algorithm beside its steps. Apart from [`Schedule`], so
/// that a program whose calls name their algorithms holds none of it.
pub trait Priced: Schedule {
    /// Returns the publication that it is from, and the name under which one of the big three has
    /// it.
    fn source(&self) -> &'static str;

    /// The cost on the critical path in closed form. O(1), the same on every rank.
    fn work(&self, size: u32, count: usize) -> Work;

    /// The most that any one rank does over all rounds, in closed form: what each further segment
    /// costs where several are in flight. A rank of a chain receives once and sends once, however
    /// long the chain is; where one rank takes part in every round, as by default, it is the whole
    /// [`work`](Self::work).
    fn share(&self, size: u32, count: usize) -> Work {
        self.work(size, count)
    }

    /// Returns true if over so many ranks every element's result is the operation's one expression,
    /// whatever the count, the scratch, the segments and the root: then it has the bits of every
    /// other algorithm of which this is true.
    ///
    /// - reduce, allreduce, reduce_scatter: pairs of neighbouring ranks, then pairs of those, and
    ///   so on, as recursive doubling has it. If p is no power of two, the first
    ///   2 (p - 2^floor(log2 p)) ranks make pairs first, and each pair counts as one rank.
    /// - scan, exscan: that of [`scan::RecursiveDoubling`](crate::scan::RecursiveDoubling): what is
    ///   before the last 2^k ranks, then those, k as large as can be.
    fn reproduces(&self, _size: u32) -> bool {
        false
    }
}

impl fmt::Debug for dyn Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The fewest elements of scratch with which an algorithm works at all, at least 1.
pub fn least_scratch(algorithm: &dyn Schedule, size: u32) -> usize {
    let (mut few, mut enough) = (1, usize::MAX);
    while few < enough {
        let half = few + (enough - few) / 2;
        if algorithm.capacity(size, half) == 0 { few = half + 1 } else { enough = half }
    }
    enough
}

/// A reference to an algorithm. `&'static dyn`: one indirect call a step, and only the algorithms
/// that a program names are linked into it.
pub type Algorithm = &'static dyn Schedule;

/// An algorithm that selection can choose.
pub type Candidate = &'static dyn Priced;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_needs_its_ranks_inside_the_size() {
        assert_eq!(Instance::new(0, 0, 0, 1), Err(Cause::RankOutOfRange { rank: 0, size: 0 }));
        assert_eq!(Instance::new(4, 4, 9, 1), Err(Cause::RankOutOfRange { rank: 4, size: 4 }));
        assert_eq!(Instance::new(3, 4, 9, 1), Err(Cause::RankOutOfRange { rank: 9, size: 4 }));
        assert!(Instance::new(3, 4, 0, 1).is_ok());
    }

    #[test]
    fn the_ring_closes_even_at_the_largest_size() {
        let last = Instance::new(u32::MAX - 1, u32::MAX, 5, 0).unwrap();
        assert_eq!(last.after(1), 0);
        assert_eq!(last.after(u32::MAX), last.rank());
        assert_eq!(last.before(u32::MAX - 1), 0);
        assert_eq!(last.at_place(last.from_root()), last.rank());
        let first = last.after(1);
        assert_eq!(Instance::new(first, u32::MAX, 5, 0).unwrap().before(1), u32::MAX - 1);
    }

    #[test]
    fn chunks_are_even_and_cover_the_data() {
        for (size, count) in [(1, 0), (3, 10), (4, 4), (7, 3), (5, 0), (64, 1000)] {
            let instance = Instance::new(0, size, 0, count).unwrap();
            let mut next = 0;
            for index in 0..size {
                let chunk = instance.chunk(index);
                assert_eq!(chunk.start, next);
                assert!(chunk.len.abs_diff(count / size as usize) <= 1);
                next = chunk.end();
            }
            assert_eq!(next, count);
        }
    }

    #[test]
    fn sizes_of_ones_then_zeros_pair_up() {
        let sizes: std::vec::Vec<u32> = (1..=32).filter(|size| pairs_up(*size)).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 6, 7, 8, 12, 14, 15, 16, 24, 28, 30, 31, 32]);
        assert!(pairs_up(1 << 31) && pairs_up(u32::MAX) && !pairs_up(5 << 29));
    }

    #[test]
    fn rounds_of_a_tree() {
        assert_eq!([1, 2, 3, 4, 5, 64, 65, u32::MAX].map(log2_ceil), [0, 1, 2, 2, 3, 6, 7, 32]);
        assert_eq!([0, 1, 2, 3, 4, 64, 65, u32::MAX].map(log2_floor), [0, 0, 1, 1, 2, 6, 6, 31]);
    }
}
