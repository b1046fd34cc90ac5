//! The constructor and arguments of a type (MPI 4.1, 5.1.13: decoding a datatype).

use aldis_hal::Cause;

use super::handle::Child;
use super::{Basic, Datatype, IndexedBlock, Order, Slice, Spread, Types};

/// The constructor that made a type. All-zero is a predefined one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Combiner {
    /// A basic type (`MPI_COMBINER_NAMED`).
    Named,
    /// [`Types::duplicate`].
    Dup,
    /// [`Types::contiguous`].
    Contiguous,
    /// [`Types::vector`].
    Vector,
    /// [`Types::hvector`].
    Hvector,
    /// [`Types::indexed`].
    Indexed,
    /// [`Types::hindexed`].
    Hindexed,
    /// [`Types::indexed_block`].
    IndexedBlock,
    /// [`Types::hindexed_block`].
    HindexedBlock,
    /// [`Types::structure`].
    Struct,
    /// [`Types::subarray`].
    Subarray,
    /// [`Types::darray`].
    Darray,
    /// [`Types::resized`].
    Resized,
}

/// The constructor of a type and how much there is to tell (`MPI_TYPE_GET_ENVELOPE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Envelope {
    /// The constructor.
    pub combiner: Combiner,
    /// The types that it was made of; [`Types::component`] gives a handle to each.
    pub components: usize,
}

/// The arguments of the constructor (`MPI_TYPE_GET_CONTENTS`), but for the types, which
/// [`Types::component`] tells.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Contents<'t> {
    /// A basic type.
    Named(Basic),
    /// A duplicate.
    Dup,
    /// Elements in a row.
    Contiguous {
        /// Number of the elements.
        count: u64,
    },
    /// Blocks at a regular distance, as [`Combiner::Vector`] in extents, as [`Combiner::Hvector`]
    /// in bytes.
    Vector {
        /// Blocks.
        count: u64,
        /// Elements of each.
        length: u64,
        /// From one to the next.
        stride: i64,
    },
    /// Blocks anywhere, as [`Combiner::Indexed`] in extents, as [`Combiner::Hindexed`] in bytes.
    Indexed(ConstructorBlocks<'t>),
    /// Blocks of one length, as [`Combiner::IndexedBlock`] in extents, as
    /// [`Combiner::HindexedBlock`] in bytes.
    IndexedBlock {
        /// Elements of each.
        length: u64,
        /// The places where they begin.
        displacements: &'t [i64],
    },
    /// Fields: their lengths and displacements in bytes. Their types are the components, in the
    /// same order.
    Struct(ConstructorBlocks<'t>),
    /// A box of an array.
    Subarray {
        /// The order of the array's elements in memory.
        order: Order,
        /// Its dimensions.
        slices: Slices<'t>,
    },
    /// A process's piece of a distributed array.
    Darray {
        /// The process.
        rank: u32,
        /// The order of the array's elements in memory.
        order: Order,
        /// Its dimensions.
        spreads: Spreads<'t>,
    },
    /// Other bounds.
    Resized {
        /// The lower bound.
        lower_bound: i64,
        /// The extent.
        extent: i64,
    },
}

/// Blocks as they were handed to a constructor.
#[derive(Clone, Copy, Debug)]
pub struct ConstructorBlocks<'t>(&'t [[i64; 2]]);

/// Dimensions as they were handed to [`Types::subarray`].
#[derive(Clone, Copy, Debug)]
pub struct Slices<'t>(&'t [[i64; 3]]);

/// Dimensions as they were handed to [`Types::darray`].
#[derive(Clone, Copy, Debug)]
pub struct Spreads<'t>(&'t [[i64; 4]]);

impl ConstructorBlocks<'_> {
    /// The blocks, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = IndexedBlock> {
        self.0
            .iter()
            .map(|&[length, displacement]| IndexedBlock { length: length.cast_unsigned(), displacement })
    }
}

impl Slices<'_> {
    /// The dimensions, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Slice> {
        self.0.iter().map(|words| {
            let [size, count, start] = words.map(i64::cast_unsigned);
            Slice { size, count, start }
        })
    }
}

impl Spreads<'_> {
    /// The dimensions, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Spread> {
        self.0.iter().map(Spread::from_words)
    }
}

impl Types<'_> {
    /// Returns the envelope of a type: how it was made.
    pub fn envelope(&self, datatype: impl Into<Datatype>) -> Result<Envelope, Cause> {
        Ok(match self.view().child(datatype.into())? {
            Child::Basic(_) => Envelope { combiner: Combiner::Named, components: 0 },
            Child::Slot(slot) => {
                let entry = self.view().entry(slot).ok_or(Cause::Stale)?;
                Envelope { combiner: entry.combiner, components: entry.children as usize }
            }
        })
    }

    /// The arguments that a type was made with.
    pub fn contents(&self, datatype: impl Into<Datatype>) -> Result<Contents<'_>, Cause> {
        let slot = match self.view().child(datatype.into())? {
            Child::Basic(basic) => return Ok(Contents::Named(basic)),
            Child::Slot(slot) => slot,
        };
        let view = self.view();
        let (_, words) = view.described(slot).ok_or(Cause::Stale)?;
        let combiner = view.entry(slot).ok_or(Cause::Stale)?.combiner;
        // A type's words are those that its own constructor wrote.
        decoded(combiner, words).ok_or(Cause::Stale)
    }
}

fn decoded(combiner: Combiner, words: &[i64]) -> Option<Contents<'_>> {
    Some(match (combiner, words) {
        (Combiner::Dup, []) => Contents::Dup,
        (Combiner::Contiguous, &[count]) => Contents::Contiguous { count: count.cast_unsigned() },
        (Combiner::Vector | Combiner::Hvector, &[count, length, stride]) => {
            Contents::Vector { count: count.cast_unsigned(), length: length.cast_unsigned(), stride }
        }
        (Combiner::Indexed | Combiner::Hindexed, blocks) => {
            Contents::Indexed(ConstructorBlocks(blocks.as_chunks().0))
        }
        (Combiner::IndexedBlock | Combiner::HindexedBlock, [length, displacements @ ..]) => {
            Contents::IndexedBlock { length: length.cast_unsigned(), displacements }
        }
        (Combiner::Struct, blocks) => Contents::Struct(ConstructorBlocks(blocks.as_chunks().0)),
        (Combiner::Subarray, [order, slices @ ..]) => {
            Contents::Subarray { order: Order::from_word(*order), slices: Slices(slices.as_chunks().0) }
        }
        (Combiner::Darray, [order, rank, spreads @ ..]) => Contents::Darray {
            rank: u32::try_from(*rank).ok()?,
            order: Order::from_word(*order),
            spreads: Spreads(spreads.as_chunks().0),
        },
        (Combiner::Resized, &[lower_bound, extent]) => Contents::Resized { lower_bound, extent },
        _ => return None,
    })
}
