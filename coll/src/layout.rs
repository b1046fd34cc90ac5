//! The places in memory of an operation's blocks, one a rank, and the pieces in which a span of
//! them is sent.
//!
//! A schedule sees blocks of one length in a circle. In memory they may have lengths of their own
//! and any place, and where the data is cut into segments, each segment is a stretch of every
//! block. A span is then sent a block at a time, else in one piece, or two where it reaches past
//! the last block. Both sides cut alike, as this depends on nothing but what both know: whether the
//! blocks are listed, and the segments. Blocks of datatypes are never cut.

use core::ops::Range;

use aldis_kernel::{
    datatype::{Basic, Committed},
    hal::Cause,
};

use crate::schedule::{Buffer, Instance, Span, divide};
use crate::select::slots::slot_elements;

/// A block of a buffer, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Block {
    /// First element.
    pub start: usize,
    /// Elements.
    pub len: usize,
}

impl Block {
    /// Blocks of these lengths, one behind the other.
    pub fn packed<const N: usize>(lens: [usize; N]) -> [Self; N] {
        let mut start = 0_usize;
        lens.map(|len| {
            let block = Self { start, len };
            start = start.saturating_add(len);
            block
        })
    }
}

/// A block of elements of a datatype, which may lie scattered between those of other blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TypedBlock {
    /// The byte of the buffer that displacement zero of the first element falls on.
    pub origin: isize,
    /// Elements.
    pub count: u64,
    /// The datatype of the elements.
    pub datatype: Committed,
}

impl TypedBlock {
    /// `count` elements of `datatype`, from byte `origin` of the buffer on.
    pub fn new(origin: isize, count: u64, datatype: impl Into<Committed>) -> Self {
        Self { origin, count, datatype: datatype.into() }
    }

    /// An empty block, for a rank that there is nothing for.
    pub fn empty() -> Self {
        Self::new(0, 0, Basic::Byte)
    }
}

/// The division of a buffer into blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout<'b> {
    /// Not at all.
    Whole,
    /// A block of one length for every rank, in their order.
    Even,
    /// This rank's block alone is there.
    Own,
    /// This rank's block alone is there, and stands in the other buffer too.
    Twin,
    /// A block of this length for every rank; of this length alone, as those of another buffer have
    /// one of theirs.
    Each(usize),
    /// A single block of so many elements is there, of whichever rank.
    One(usize),
    /// Blocks as listed, by rank.
    Listed(&'b [Block]),
    /// Blocks as listed, by rank, each of them one element: it is sent as a whole.
    Typed(&'b [TypedBlock]),
    /// Like [`Listed`](Self::Listed), but without the blocks of at most so many elements: no rank
    /// gives or takes them.
    Longer(&'b [Block], usize),
}

impl Layout<'_> {
    /// Returns the first byte of the block of `rank`, which has so many, in a buffer of elements of
    /// `element_bytes` that has a block for each rank.
    #[inline]
    pub(crate) fn first_byte(&self, rank: u32, bytes: usize, element_bytes: u32) -> usize {
        match self.listed(rank) {
            Some(block) => block.start.saturating_mul(element_bytes as usize),
            None => bytes.saturating_mul(rank as usize),
        }
    }

    /// Elements of the longest block of a buffer of `len` elements.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] (in elements) if it does not divide into `size` blocks, or another
    /// number is listed; [`Cause::TooBig`] for a block that is not inside.
    #[inline(always)]
    pub(crate) fn count(&self, size: u32, len: usize) -> Result<usize, Cause> {
        let mismatch =
            |left: usize, right: usize| Cause::LengthMismatch { left: left as u64, right: right as u64 };
        let blocks = self.blocks(size as usize);
        match *self {
            _ if blocks != size as usize => Err(mismatch(blocks, size as usize)),
            Self::Whole | Self::Own | Self::Twin | Self::One(_) => Ok(len),
            Self::Even | Self::Each(_) => match divide(len, size as usize) {
                (count, 0) => Ok(count),
                (count, _) => Err(mismatch(len, count.saturating_mul(size as usize))),
            },
            Self::Listed(blocks) | Self::Longer(blocks, _) => {
                let mut longest = 0;
                for block in blocks {
                    let end = block.start.saturating_add(block.len);
                    if end > len {
                        return Err(Cause::TooBig { len: end as u64, max: len as u64 });
                    }
                    longest = block.len.max(longest);
                }
                Ok(longest)
            }
            // Where they lie is looked at with the table of types at hand.
            Self::Typed(_) => Ok(1),
        }
    }

    /// Returns this division without the blocks that stand in slots, where blocks are listed.
    pub(crate) fn without_short(self, element_bytes: u32) -> Self {
        match self {
            Self::Listed(blocks) => Self::Longer(blocks, slot_elements(element_bytes)),
            _ => self,
        }
    }

    /// Returns true if blocks may have a length that those of another buffer have not.
    fn is_unlike(&self) -> bool {
        match self {
            Self::Whole | Self::Even | Self::Own | Self::Twin => false,
            Self::Each(_) | Self::Typed(_) | Self::Longer(..) => true,
            Self::One(_) | Self::Listed(_) => true,
        }
    }

    /// Elements of a block, if even ones have `count`.
    pub(crate) fn len(&self, index: u32, count: usize) -> usize {
        match *self {
            Self::Whole | Self::Own | Self::Twin | Self::Even => count,
            Self::One(len) | Self::Each(len) => len,
            Self::Listed(_) | Self::Longer(..) => self.listed(index).map_or(0, |block| block.len),
            Self::Typed(_) => 1,
        }
    }

    /// The block of a rank, where blocks are listed.
    fn listed(&self, rank: u32) -> Option<Block> {
        let (blocks, left_out) = match *self {
            Self::Listed(blocks) => (blocks, None),
            Self::Longer(blocks, than) => (blocks, Some(than)),
            _ => return None,
        };
        let block = blocks.get(rank as usize).copied().unwrap_or_default();
        let is_left_out = left_out.is_some_and(|than| block.len <= than);
        Some(if is_left_out { Block { len: 0, ..block } } else { block })
    }

    /// Blocks there are, if even ones are as many as ranks.
    fn blocks(&self, size: usize) -> usize {
        match *self {
            Self::Listed(blocks) => blocks.len(),
            Self::Typed(blocks) => blocks.len(),
            Self::Longer(blocks, _) => blocks.len(),
            _ => size,
        }
    }
}

/// Returns the place of a span of buffers that are not divided, in the segment that begins at
/// `base`.
#[inline]
pub(crate) fn stretch(span: Span, base: usize) -> Range<usize> {
    let base = if span.buffer == Buffer::Data { base } else { 0 };
    let start = base.saturating_add(span.start);
    start..start.saturating_add(span.len)
}

/// The place of the segment at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentPlace<'b> {
    pub(crate) data: Layout<'b>,
    pub(crate) input: Layout<'b>,
    /// The whole call.
    pub(crate) whole: Instance,
    /// First element of the segment, of every block where there are blocks.
    pub(crate) base: usize,
    /// Elements of the segment.
    pub(crate) segment: usize,
}

impl SegmentPlace<'_> {
    /// Returns true if spans are sent a block at a time.
    pub(crate) fn is_by_block(&self) -> bool {
        self.data.is_unlike() || self.input.is_unlike() || self.segment < self.whole.count()
    }

    /// Elements of the block of `rank`, which scratch and a rank's own block have as well.
    fn len(&self, rank: u32) -> usize {
        match (self.data, self.input) {
            // Of two groups: the input has blocks for the other group, and the data are this rank's
            // own.
            (Layout::One(own), given) => {
                let [_, others] = self.whole.groups();
                let number = rank.checked_sub(others.start).filter(|_| others.contains(&rank));
                number.map_or(own, |number| given.len(number, self.whole.count()))
            }
            (data, input) => {
                data.listed(rank).or(input.listed(rank)).map_or(self.whole.count(), |block| block.len)
            }
        }
    }

    /// Returns the part of a block that is in the segment.
    fn cut(&self, block: Block) -> Range<usize> {
        let start = block.start.saturating_add(self.base.min(block.len));
        start..start.saturating_add(block.len.saturating_sub(self.base).min(self.segment))
    }

    /// Returns the part in the segment of the block of `rank` in a buffer of this layout.
    fn stretch_of(&self, layout: Layout<'_>, rank: u32) -> Range<usize> {
        let count = self.whole.count();
        self.cut(match layout {
            Layout::Whole | Layout::Own | Layout::Twin => Block { start: 0, len: self.len(rank) },
            Layout::One(len) => Block { start: 0, len },
            Layout::Even => Block { start: (rank as usize).saturating_mul(count), len: count },
            Layout::Each(len) => Block { start: (rank as usize).saturating_mul(len), len },
            Layout::Listed(_) => layout.listed(rank).unwrap_or_default(),
            Layout::Typed(_) => Block { start: rank as usize, len: 1 },
            Layout::Longer(..) => layout.listed(rank).unwrap_or_default(),
        })
    }

    /// The piece of `span` with this number, as elements of its buffer; `None` past the last one.
    #[inline]
    pub(crate) fn piece(&self, span: Span, number: u32) -> Option<Range<usize>> {
        if matches!(self.data, Layout::Whole) || span.len == 0 {
            return (number == 0 && !self.is_void(span)).then(|| stretch(span, self.base));
        }
        let (nth, _) = divide(span.start, self.segment);
        let (layout, first) = match span.buffer {
            Buffer::Scratch => (Layout::Whole, span.first_held() as usize),
            Buffer::Input if !matches!(self.input, Layout::Whole) => (self.input, nth),
            // Without an input of its own, the data are what is given.
            Buffer::Data | Buffer::Input => (self.data, nth),
        };
        if self.is_by_block() {
            self.block_piece(span, layout, first, number)
        } else {
            self.span_piece(span, layout, first, number)
        }
    }

    /// Returns true if a message without elements is about a block of which the segment has
    /// nothing: the rank whose block that is sends nothing and waits for nothing.
    fn is_void(&self, span: Span) -> bool {
        let is_about_block = span.buffer == Buffer::Scratch && self.data.listed(0).is_some();
        is_about_block && self.stretch_of(Layout::Whole, span.first_held()).is_empty()
    }

    /// The piece of a span that is sent a block at a time.
    fn block_piece(&self, span: Span, layout: Layout<'_>, first: usize, number: u32) -> Option<Range<usize>> {
        let (size, nth) = (layout.blocks(self.whole.size() as usize), number as usize);
        let (blocks, _) = divide(span.len, self.segment);
        let (turns, rank) = divide(first.saturating_add(nth), size);
        let stretch = self.stretch_of(layout, rank as u32);
        let before = turns.saturating_mul(size);
        (nth < blocks).then(|| match layout {
            Layout::Whole => {
                let elements = |blocks: usize| blocks.saturating_mul(self.segment);
                let start = span.start.saturating_add(elements(nth)).saturating_sub(elements(before));
                start..start.saturating_add(stretch.len())
            }
            _ => stretch,
        })
    }

    /// The piece of a span that is sent as a whole, but for what is past the last block.
    fn span_piece(&self, span: Span, layout: Layout<'_>, first: usize, number: u32) -> Option<Range<usize>> {
        if matches!(layout, Layout::Own) {
            return (number == 0).then_some(0..span.len);
        }
        let (size, first) = (self.whole.size() as usize, first.saturating_mul(self.segment));
        let before = size.saturating_mul(self.segment).saturating_sub(first).min(span.len);
        let again = span.start.saturating_sub(first);
        match number {
            0 => Some(span.start..span.start.saturating_add(before)),
            1 if before < span.len => Some(again..again.saturating_add(span.len - before)),
            _ => None,
        }
    }
}

/// A span's pieces one after the other, of which a part may be taken at a time.
pub(crate) struct Pieces<'p, 'b> {
    place: &'p SegmentPlace<'b>,
    span: Span,
    number: u32,
    taken: usize,
}

impl<'p, 'b> Pieces<'p, 'b> {
    pub(crate) fn new(place: &'p SegmentPlace<'b>, span: Span) -> Self {
        Self { place, span, number: 0, taken: 0 }
    }

    /// Returns the rest of the piece at hand, or the next piece that has elements if nothing is
    /// left.
    pub(crate) fn rest(&mut self) -> Option<Range<usize>> {
        loop {
            let piece = self.place.piece(self.span, self.number)?;
            let start = piece.start.saturating_add(self.taken);
            if start < piece.end {
                return Some(start..piece.end);
            }
            (self.number, self.taken) = (self.number.checked_add(1)?, 0);
        }
    }

    /// Takes some of it.
    pub(crate) fn take(&mut self, elements: usize) {
        self.taken = self.taken.saturating_add(elements);
    }
}
