//! Parts of arrays: subarrays, and the pieces of arrays that are spread over processes
//! (MPI 4.1, 5.1.3 and 5.1.4).

use aldis_hal::Cause;

use super::compile::grid;
use super::construct::Single;
use super::layout::{OVERFLOW, TypeLayout, steps, word};
use super::node::{Dimension, Dimensions, Node};
use super::table::Writer;
use super::{Combiner, DIMENSIONS_MAX, Datatype, Types};

/// The order of an array's elements in memory, if it has several dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Order {
    /// The last index runs fastest (`MPI_ORDER_C`).
    C,
    /// The first index runs fastest (`MPI_ORDER_FORTRAN`).
    Fortran,
}

/// A dimension of a subarray.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Slice {
    /// Elements of the whole array.
    pub size: u64,
    /// Elements taken.
    pub count: u64,
    /// The first element taken.
    pub start: u64,
}

/// The distribution of one dimension of an array over processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Distribution {
    /// Not at all: one process in this dimension (`MPI_DISTRIBUTE_NONE`).
    None,
    /// A block of this many elements to each process, which must suffice; `None` is as even as can
    /// be (`MPI_DISTRIBUTE_BLOCK`).
    Block(Option<u64>),
    /// Blocks of this many elements dealt in turn; `None` is one (`MPI_DISTRIBUTE_CYCLIC`).
    Cyclic(Option<u64>),
}

/// A dimension of a distributed array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Spread {
    /// Elements of the whole array.
    pub size: u64,
    /// The way in which they are dealt.
    pub distribution: Distribution,
    /// Processes in this dimension of the process grid.
    pub processes: u64,
}

impl Order {
    pub(super) const fn word(self) -> i64 {
        match self {
            Self::C => 0,
            Self::Fortran => 1,
        }
    }

    pub(super) const fn from_word(word: i64) -> Self {
        if word == 0 { Self::C } else { Self::Fortran }
    }

    /// Dimension numbers from the slowest to the fastest.
    fn slowest_first(self, dimensions: usize) -> impl DoubleEndedIterator<Item = usize> {
        (0..dimensions).map(move |index| match self {
            Self::C => index,
            Self::Fortran => dimensions.wrapping_sub(index).wrapping_sub(1),
        })
    }
}

impl Spread {
    pub(super) fn words(&self) -> Result<[i64; 4], Cause> {
        let (kind, block) = match self.distribution {
            Distribution::None => (0, None),
            Distribution::Block(block) => (1, block),
            Distribution::Cyclic(block) => (2, block),
        };
        Ok([word(self.size)?, kind, block.map_or(Ok(-1), word)?, word(self.processes)?])
    }

    pub(super) fn from_words(words: &[i64; 4]) -> Self {
        let [size, kind, block, processes] = *words;
        let block = u64::try_from(block).ok();
        let distribution = match kind {
            0 => Distribution::None,
            1 => Distribution::Block(block),
            _ => Distribution::Cyclic(block),
        };
        Self { size: size.cast_unsigned(), distribution, processes: processes.cast_unsigned() }
    }

    /// The block length, once defaults are filled in and the rules are checked.
    fn block(&self) -> Result<u64, Cause> {
        let even = match self.processes {
            0 => return Err(refused(0, 1)),
            processes => self.size.div_ceil(processes),
        };
        match self.distribution {
            Distribution::None if self.processes == 1 => Ok(self.size),
            Distribution::None => Err(refused(self.processes, 1)),
            Distribution::Block(None) => Ok(even),
            Distribution::Block(Some(block)) if block < even => Err(refused(self.size, block)),
            Distribution::Cyclic(None) => Ok(1),
            Distribution::Cyclic(Some(0)) => Err(refused(0, 1)),
            Distribution::Block(Some(block)) | Distribution::Cyclic(Some(block)) => Ok(block),
        }
    }

    /// The elements of the process at `place` of this dimension: the first, and a loop over all.
    /// The same for blocks and cycles: a block distribution is dealt in one turn.
    fn piece(&self, place: u64, stride: i64) -> Result<(i64, Dimension), Cause> {
        let block = self.block()?;
        let start = place.checked_mul(block).ok_or(OVERFLOW)?;
        let turn = block.checked_mul(self.processes).ok_or(OVERFLOW)?;
        let whole_turns = self.size.checked_div(turn).unwrap_or(0);
        let left = self.size.checked_rem(turn).unwrap_or(0).saturating_sub(start).min(block);
        let count =
            whole_turns.checked_mul(block).and_then(|count| count.checked_add(left)).ok_or(OVERFLOW)?;
        if count == 0 {
            return Ok((0, Dimension::plain(0, stride)));
        }
        let dimension = match count <= block {
            true => Dimension::plain(count, stride),
            false => Dimension { count, block, cycle: steps(turn, stride)?, stride },
        };
        Ok((steps(start, stride)?, dimension))
    }
}

/// An argument out of its range.
const fn refused(len: u64, max: u64) -> Cause {
    Cause::TooBig { len, max }
}

fn check_dimensions(count: usize) -> Result<(), Cause> {
    match count {
        1..=DIMENSIONS_MAX => Ok(()),
        _ => Err(refused(count as u64, DIMENSIONS_MAX as u64)),
    }
}

impl Types<'_> {
    /// A box of an array of several dimensions (MPI 4.1, 5.1.3, `MPI_TYPE_CREATE_SUBARRAY`); its
    /// bounds are those of the whole array. At most [`DIMENSIONS_MAX`] dimensions.
    pub fn subarray(
        &mut self,
        slices: &[Slice],
        order: Order,
        of: impl Into<Datatype>,
    ) -> Result<Datatype, Cause> {
        check_dimensions(slices.len())?;
        for slice in slices {
            let end = slice.start.checked_add(slice.count).ok_or(OVERFLOW)?;
            if end > slice.size || word(slice.size).is_err() {
                return Err(refused(end, slice.size));
            }
        }
        let words = slices.iter().flat_map(|slice| [slice.size, slice.count, slice.start]);
        let arguments = core::iter::once(order.word()).chain(words.map(u64::cast_signed));
        self.build_single(Combiner::Subarray, of.into(), arguments, |single, writer| {
            single.array(writer, slices.len(), order, |index, stride| {
                let slice = slices.get(index).ok_or(OVERFLOW)?;
                let piece = (steps(slice.start, stride)?, Dimension::plain(slice.count, stride));
                Ok((slice.size, piece))
            })
        })
    }

    /// The piece of process `rank` of an array that is spread over a grid of processes
    /// (MPI 4.1, 5.1.4, `MPI_TYPE_CREATE_DARRAY`); its bounds are those of the whole array. Ranks
    /// are dealt to the process grid with the last dimension running fastest, whatever the order of
    /// the array. At most [`DIMENSIONS_MAX`] dimensions.
    pub fn darray(
        &mut self,
        rank: u32,
        spreads: &[Spread],
        order: Order,
        of: impl Into<Datatype>,
    ) -> Result<Datatype, Cause> {
        check_dimensions(spreads.len())?;
        let places = places(rank, spreads)?;
        for spread in spreads {
            spread.words()?;
            spread.block()?;
        }
        let words = spreads.iter().filter_map(|spread| spread.words().ok()).flatten();
        let arguments = [order.word(), i64::from(rank)].into_iter().chain(words);
        self.build_single(Combiner::Darray, of.into(), arguments, |single, writer| {
            single.array(writer, spreads.len(), order, |index, stride| {
                let (spread, place) = spreads.get(index).zip(places.get(index)).ok_or(OVERFLOW)?;
                Ok((spread.size, spread.piece(*place, stride)?))
            })
        })
    }
}

/// Returns the place of `rank` in the grid of processes.
fn places(rank: u32, spreads: &[Spread]) -> Result<[u64; DIMENSIONS_MAX], Cause> {
    let mut places = [0; DIMENSIONS_MAX];
    let mut left = u64::from(rank);
    for (place, spread) in places.iter_mut().zip(spreads).take(spreads.len()).rev() {
        *place = left.checked_rem(spread.processes).ok_or(refused(0, 1))?;
        left = left.checked_div(spread.processes).ok_or(refused(0, 1))?;
    }
    if left == 0 {
        return Ok(places);
    }
    let size = spreads.iter().fold(1u64, |size, spread| size.saturating_mul(spread.processes));
    Err(Cause::RankOutOfRange { rank, size: u32::try_from(size).unwrap_or(u32::MAX) })
}

impl Single<'_> {
    /// A part of an array of `count` dimensions. `piece` gives a dimension, whose steps are a
    /// stride of bytes, how many elements the whole array has, and the origin and the loop of those
    /// that are taken.
    fn array(
        &self,
        writer: &mut Writer<'_>,
        count: usize,
        order: Order,
        piece: impl Fn(usize, i64) -> Result<(u64, (i64, Dimension)), Cause>,
    ) -> Result<(Node, TypeLayout), Cause> {
        let (mut stride, mut origin) = (self.extent, 0i64);
        let mut fastest_first = [Dimension::NONE; DIMENSIONS_MAX];
        for (slot, index) in fastest_first.iter_mut().zip(order.slowest_first(count).rev()) {
            let (size, (start, dimension)) = piece(index, stride)?;
            *slot = dimension;
            origin = origin.checked_add(start).ok_or(OVERFLOW)?;
            stride = steps(size, stride)?;
        }
        let mut dimensions = Dimensions::NONE;
        for dimension in fastest_first.iter().take(count).rev() {
            dimensions.push(*dimension).ok_or(OVERFLOW)?;
        }
        let (node, layout) = grid(self.view, writer, &dimensions, origin, self.child)?;
        Ok((node, TypeLayout { lb: 0, ub: stride, marked: true, ..layout }))
    }
}
