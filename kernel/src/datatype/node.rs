//! Compiled nodes: how the walk sees a type. There are two kinds. A *grid* is a nest of regular
//! loops around one part; every regular constructor (contiguous, vectors, subarray, darray,
//! resized, duplicate) is one, and a grid of grids is one too. A *list* is a sequence of stretches
//! of parts anywhere; indexed types and structures are.

use aldis_hal::Cause;

use super::DIMENSIONS_MAX;
use super::handle::Child;
use super::layout::{Item, OVERFLOW, steps, word};

/// A compiled node. All-zero is one without data.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Node {
    /// No data.
    Empty,
    /// `child` at `origin` plus a step in every dimension; its words are the dimensions, outermost
    /// first.
    Grid { child: Child, origin: i64 },
    /// Its words are the items.
    List,
}

/// Words of a dimension.
pub(super) const DIMENSION: usize = 4;
/// Words of an item.
pub(super) const ITEM: usize = 4;

/// A loop of a grid: `count` steps, in blocks of `block`. Step i is at `(i / block) * cycle + (i %
/// block) * stride`, in bytes. So a vector is one dimension, and so is a block-cyclic distribution,
/// whose last block may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dimension {
    pub(super) count: u64,
    pub(super) block: u64,
    pub(super) cycle: i64,
    pub(super) stride: i64,
}

impl Dimension {
    pub(super) const NONE: Self = Self { count: 0, block: 0, cycle: 0, stride: 0 };

    /// `count` steps of `stride` bytes.
    pub(super) const fn plain(count: u64, stride: i64) -> Self {
        Self { count, block: count, cycle: 0, stride }
    }

    pub(super) const fn is_plain(&self) -> bool {
        self.block >= self.count
    }

    /// The simplest spelling of the same steps.
    fn canonical(self) -> Self {
        let joins = steps(self.block, self.stride) == Ok(self.cycle);
        match self {
            Self { count, block: 1, cycle, .. } => Self::plain(count, cycle),
            Self { count, stride, .. } if joins || self.is_plain() => Self::plain(count, stride),
            other => other,
        }
    }

    /// This loop around `inner`, as one; `None` if that takes two.
    fn around(self, inner: Self) -> Option<Self> {
        let count = self.count.checked_mul(inner.count)?;
        if !self.is_plain() {
            return None;
        }
        if !inner.is_plain() {
            let cycles = inner.count.checked_div(inner.block)?;
            let whole = inner.count.checked_rem(inner.block)? == 0;
            return (whole && steps(cycles, inner.cycle) == Ok(self.stride))
                .then_some(Self { count, ..inner });
        }
        if steps(inner.count, inner.stride) == Ok(self.stride) {
            return Some(Self::plain(count, inner.stride));
        }
        Some(Self { count, block: inner.count, cycle: self.stride, stride: inner.stride })
    }

    /// Offset of step `index`; `None` where it does not fit.
    fn at(&self, index: u64) -> Option<i64> {
        let block = steps(index.checked_div(self.block)?, self.cycle).ok()?;
        block.checked_add(steps(index.checked_rem(self.block)?, self.stride).ok()?)
    }

    /// Offset of a step of a block. It wraps where a sum of such offsets would, so that the sum
    /// comes out right.
    #[inline]
    pub(super) const fn offset(&self, block: u64, in_block: u64) -> i64 {
        let cycles = self.cycle.wrapping_mul(block.cast_signed());
        cycles.wrapping_add(self.stride.wrapping_mul(in_block.cast_signed()))
    }

    /// The lowest and the highest offset of any step; `count` is not zero. Steps are linear in a
    /// block and from block to block, so the extremes are at the corners of the whole blocks and at
    /// the ends of the last one.
    pub(super) fn range(&self) -> Result<(i64, i64), Cause> {
        let end = self.count.saturating_sub(1);
        let block = self.block.max(1);
        let last = (end / block).saturating_mul(block);
        let before = last.saturating_sub(block);
        let corners = [0, block.saturating_sub(1), before, last.saturating_sub(1), last, end];
        let (mut lowest, mut highest) = (0, 0);
        for index in corners {
            let offset = self.at(index.min(end)).ok_or(OVERFLOW)?;
            (lowest, highest) = (offset.min(lowest), offset.max(highest));
        }
        Ok((lowest, highest))
    }

    pub(super) fn words(&self) -> Result<[i64; DIMENSION], Cause> {
        Ok([word(self.count)?, word(self.block)?, self.cycle, self.stride])
    }

    pub(super) fn from_words(words: &[i64; DIMENSION]) -> Self {
        let [count, block, cycle, stride] = *words;
        Self { count: count.cast_unsigned(), block: block.cast_unsigned(), cycle, stride }
    }
}

/// The dimensions of a grid, outermost first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dimensions {
    all: [Dimension; DIMENSIONS_MAX],
    len: usize,
}

impl Dimensions {
    pub(super) const NONE: Self = Self { all: [Dimension::NONE; DIMENSIONS_MAX], len: 0 };

    pub(super) fn one(dimension: Dimension) -> Self {
        let mut new = Self::NONE;
        // There is room for one.
        let _ = new.push(dimension);
        new
    }

    /// Adds an inner dimension; `None` if there are too many.
    pub(super) fn push(&mut self, dimension: Dimension) -> Option<()> {
        *self.all.get_mut(self.len)? = dimension;
        self.len = self.len.wrapping_add(1);
        Some(())
    }

    pub(super) fn as_slice(&self) -> &[Dimension] {
        self.all.get(..self.len).unwrap_or_default()
    }

    /// Returns as few dimensions as the rules of [`Dimension::around`] lead to.
    pub(super) fn simplified(&self) -> Self {
        let mut inner_first = Self::NONE;
        for dimension in self.as_slice().iter().rev().map(|dimension| dimension.canonical()) {
            let inner = inner_first.len.checked_sub(1).and_then(|last| inner_first.all.get_mut(last));
            match inner {
                _ if dimension.count == 1 => {}
                Some(inner) if let Some(both) = dimension.around(*inner) => *inner = both,
                _ => inner_first.push(dimension).unwrap_or_default(),
            }
        }
        if inner_first.len == 0 {
            return Self::one(Dimension::plain(1, 0));
        }
        let (all, len) = (inner_first.all, inner_first.len);
        let mut outer_first = Self { all, len };
        outer_first.all.get_mut(..len).unwrap_or_default().reverse();
        outer_first
    }

    /// Steps in all; `None` if that does not fit 64 bits.
    pub(super) fn count(&self) -> Option<u64> {
        if self.as_slice().iter().any(|dimension| dimension.count == 0) {
            return Some(0);
        }
        self.as_slice().iter().try_fold(1u64, |product, dimension| product.checked_mul(dimension.count))
    }

    /// The lowest and highest offset that the steps reach.
    pub(super) fn range(&self, origin: i64) -> Result<(i64, i64), Cause> {
        let (mut lowest, mut highest) = (origin, origin);
        for dimension in self.as_slice() {
            let (low, high) = dimension.range()?;
            lowest = lowest.checked_add(low).ok_or(OVERFLOW)?;
            highest = highest.checked_add(high).ok_or(OVERFLOW)?;
        }
        Ok((lowest, highest))
    }

    /// Returns true if pieces of `span` bytes at all steps are seen to keep clear of each other: if
    /// every loop, from the smallest stride to the largest, steps over all that the smaller ones
    /// cover.
    pub(super) fn keep_clear(&self, mut span: u64) -> bool {
        let mut loops = [(0, 1); 2 * DIMENSIONS_MAX];
        for (pair, dimension) in loops.as_chunks_mut().0.iter_mut().zip(self.as_slice()) {
            let blocks = dimension.count.div_ceil(dimension.block.max(1));
            *pair = [
                (dimension.stride.unsigned_abs(), dimension.block.min(dimension.count)),
                (dimension.cycle.unsigned_abs(), blocks),
            ];
        }
        loops.sort_unstable();
        loops.into_iter().filter(|(_, count)| *count > 1).all(|(stride, count)| {
            let clear = stride >= span;
            span = stride.saturating_mul(count.saturating_sub(1)).saturating_add(span);
            clear
        })
    }

    pub(super) fn words(&self) -> impl Iterator<Item = Result<[i64; DIMENSION], Cause>> {
        self.as_slice().iter().map(Dimension::words)
    }
}

impl Item {
    /// Returns it as words, with the bytes of packed data that come before it.
    pub(super) fn words(&self, before: u64) -> Result<[i64; ITEM], Cause> {
        Ok([self.displacement, word(self.count)?, self.child.word(), word(before)?])
    }

    pub(super) fn from_words(words: &[i64; ITEM]) -> Option<Self> {
        let [displacement, count, child, _] = *words;
        Some(Self { displacement, count: count.cast_unsigned(), child: Child::from_word(child)? })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn dimensions() -> impl Strategy<Value = Dimensions> {
        let one = (1u64..6, 1u64..4, -8i64..9, -4i64..5)
            .prop_map(|(count, block, cycle, stride)| Dimension { count, block, cycle, stride });
        vec(one, 1..4).prop_map(|all| {
            let mut dimensions = Dimensions::NONE;
            all.into_iter().for_each(|dimension| dimensions.push(dimension).unwrap());
            dimensions
        })
    }

    /// All steps of all loops, the last one fastest.
    fn offsets(dimensions: &Dimensions) -> Vec<i64> {
        dimensions.as_slice().iter().fold(Vec::from([0]), |outer, dimension| {
            let steps = |base| (0..dimension.count).map(move |step| base + dimension.at(step).unwrap());
            outer.into_iter().flat_map(steps).collect()
        })
    }

    proptest! {
        #[test]
        fn a_simpler_spelling_means_the_same(dimensions in dimensions()) {
            let simple = dimensions.simplified();
            prop_assert_eq!(offsets(&simple), offsets(&dimensions));
            prop_assert!(simple.as_slice().len() <= dimensions.as_slice().len());
        }

        #[test]
        fn the_range_is_that_of_all_steps(dimensions in dimensions(), origin in -9i64..9) {
            let all = offsets(&dimensions);
            let (lowest, highest) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            prop_assert_eq!(dimensions.range(origin), Ok((origin + lowest, origin + highest)));
            prop_assert_eq!(dimensions.count(), Some(all.len() as u64));
        }

        /// Pieces that are said to keep clear do. (Not the other way round: pieces can mesh in ways
        /// that this misses.)
        #[test]
        fn what_keeps_clear_does_not_overlap(dimensions in dimensions(), span in 1u64..4) {
            let mut all = offsets(&dimensions);
            all.sort_unstable();
            let clear = all.windows(2).all(|pair| (pair[1] - pair[0]) as u64 >= span);
            prop_assert!(clear || !dimensions.keep_clear(span));
        }
    }
}
