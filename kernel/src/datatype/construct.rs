//! The constructors (MPI 4.1, 5.1.2 to 5.1.4, 5.1.7, 5.1.10). Each costs time in proportion to its
//! arguments.

use aldis_hal::Cause;

use super::compile::{StretchList, grid};
use super::handle::Child;
use super::layout::{Item, OVERFLOW, TypeLayout, word};
use super::node::{Dimension, Dimensions, Node};
use super::table::{Draft, TableView, Writer};
use super::{Combiner, Datatype, Types};

/// `length` elements at `displacement`: in extents of the element, or in bytes for the constructors
/// whose name has an h.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IndexedBlock {
    /// Elements.
    pub length: u64,
    /// From the origin of the type.
    pub displacement: i64,
}

/// `length` elements of a type at `displacement` bytes: a field of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Field {
    /// Elements.
    pub length: u64,
    /// Bytes from the origin of the type.
    pub displacement: i64,
    /// Of what.
    pub datatype: Datatype,
}

impl Field {
    /// Describes a single element.
    pub fn new(displacement: usize, datatype: impl Into<Datatype>) -> Self {
        Self::array(displacement, 1, datatype)
    }

    /// `length` elements in a row.
    pub fn array(displacement: usize, length: u64, datatype: impl Into<Datatype>) -> Self {
        // No field of a Rust type lies beyond `isize::MAX`; a larger number is refused by the
        // constructor.
        let displacement = i64::try_from(displacement).unwrap_or(i64::MAX);
        Self { length, displacement, datatype: datatype.into() }
    }
}

/// A type of one part: what it is, what it was made of.
pub(super) struct Single<'v> {
    pub(super) view: TableView<'v>,
    pub(super) child: Child,
    pub(super) extent: i64,
}

impl Types<'_> {
    /// Makes a type of one part. `arguments` are what [`contents`](Self::contents) gives back.
    pub(super) fn build_single(
        &mut self,
        combiner: Combiner,
        of: Datatype,
        arguments: impl IntoIterator<Item = i64> + Clone,
        make: impl Fn(&Single<'_>, &mut Writer<'_>) -> Result<(Node, TypeLayout), Cause>,
    ) -> Result<Datatype, Cause> {
        self.build(|view, writer| {
            let child = view.child(of)?;
            writer.push(child.word())?;
            writer.extend(arguments.clone())?;
            let described = writer.len() as u32;
            let single = Single { view, child, extent: view.layout(child).extent() };
            let (node, layout) = make(&single, writer)?;
            Ok(Draft { combiner, children: 1, described, node, layout })
        })
    }

    /// `count` elements in a row (MPI 4.1, 5.1.2, `MPI_TYPE_CONTIGUOUS`).
    pub fn contiguous(&mut self, count: u64, of: impl Into<Datatype>) -> Result<Datatype, Cause> {
        self.build_single(Combiner::Contiguous, of.into(), [word(count)?], |single, writer| {
            single.grid(writer, Dimension::plain(count, single.extent))
        })
    }

    /// `count` blocks of `length` elements, `stride` extents apart (MPI 4.1, 5.1.2,
    /// `MPI_TYPE_VECTOR`).
    pub fn vector(
        &mut self,
        count: u64,
        length: u64,
        stride: i64,
        of: impl Into<Datatype>,
    ) -> Result<Datatype, Cause> {
        let arguments = [word(count)?, word(length)?, stride];
        self.build_single(Combiner::Vector, of.into(), arguments, |single, writer| {
            let cycle = stride.checked_mul(single.extent).ok_or(OVERFLOW)?;
            single.blocks(writer, count, length, cycle)
        })
    }

    /// `count` blocks of `length` elements, `stride` bytes apart (MPI 4.1, 5.1.2,
    /// `MPI_TYPE_CREATE_HVECTOR`).
    pub fn hvector(
        &mut self,
        count: u64,
        length: u64,
        stride: i64,
        of: impl Into<Datatype>,
    ) -> Result<Datatype, Cause> {
        let arguments = [word(count)?, word(length)?, stride];
        self.build_single(Combiner::Hvector, of.into(), arguments, |single, writer| {
            single.blocks(writer, count, length, stride)
        })
    }

    /// Blocks of any length anywhere, displacements in extents (MPI 4.1, 5.1.2,
    /// `MPI_TYPE_INDEXED`).
    pub fn indexed(&mut self, blocks: &[IndexedBlock], of: impl Into<Datatype>) -> Result<Datatype, Cause> {
        self.build_blocks(Combiner::Indexed, blocks, of.into())
    }

    /// Blocks of any length anywhere, displacements in bytes (MPI 4.1, 5.1.2,
    /// `MPI_TYPE_CREATE_HINDEXED`).
    pub fn hindexed(&mut self, blocks: &[IndexedBlock], of: impl Into<Datatype>) -> Result<Datatype, Cause> {
        self.build_blocks(Combiner::Hindexed, blocks, of.into())
    }

    fn build_blocks(
        &mut self,
        combiner: Combiner,
        blocks: &[IndexedBlock],
        of: Datatype,
    ) -> Result<Datatype, Cause> {
        if blocks.iter().any(|block| word(block.length).is_err()) {
            return Err(OVERFLOW);
        }
        let arguments = blocks.iter().flat_map(|block| [block.length.cast_signed(), block.displacement]);
        self.build_single(combiner, of, arguments, |single, writer| {
            single.list(writer, combiner == Combiner::Indexed, blocks.iter().copied())
        })
    }

    /// Blocks of `length` elements anywhere, displacements in extents (MPI 4.1, 5.1.2,
    /// `MPI_TYPE_CREATE_INDEXED_BLOCK`).
    pub fn indexed_block(
        &mut self,
        length: u64,
        displacements: &[i64],
        of: impl Into<Datatype>,
    ) -> Result<Datatype, Cause> {
        self.build_equal_blocks(Combiner::IndexedBlock, length, displacements, of.into())
    }

    /// Blocks of `length` elements anywhere, displacements in bytes (MPI 4.1, 5.1.2,
    /// `MPI_TYPE_CREATE_HINDEXED_BLOCK`).
    pub fn hindexed_block(
        &mut self,
        length: u64,
        displacements: &[i64],
        of: impl Into<Datatype>,
    ) -> Result<Datatype, Cause> {
        self.build_equal_blocks(Combiner::HindexedBlock, length, displacements, of.into())
    }

    fn build_equal_blocks(
        &mut self,
        combiner: Combiner,
        length: u64,
        displacements: &[i64],
        of: Datatype,
    ) -> Result<Datatype, Cause> {
        let arguments = core::iter::once(word(length)?).chain(displacements.iter().copied());
        self.build_single(combiner, of, arguments, |single, writer| {
            let blocks = displacements.iter().map(|&displacement| IndexedBlock { length, displacement });
            single.list(writer, combiner == Combiner::IndexedBlock, blocks)
        })
    }

    /// Fields of any types anywhere (MPI 4.1, 5.1.2, `MPI_TYPE_CREATE_STRUCT`). The extent is
    /// rounded up to the strictest alignment of the fields; where a Rust or C structure is padded
    /// otherwise, use [`resized`](Self::resized).
    pub fn structure(&mut self, fields: &[Field]) -> Result<Datatype, Cause> {
        self.build(|view, writer| {
            for field in fields {
                writer.push(view.child(field.datatype)?.word())?;
            }
            for field in fields {
                writer.extend([word(field.length)?, field.displacement])?;
            }
            let described = writer.len() as u32;
            let mut list = StretchList::new(view, writer);
            for &Field { length: count, displacement, datatype } in fields {
                list.add(Item { displacement, count, child: view.child(datatype)? })?;
            }
            let (node, layout) = list.finish()?;
            Ok(Draft { combiner: Combiner::Struct, children: fields.len() as u32, described, node, layout })
        })
    }

    /// Makes a type of the same data with other bounds (MPI 4.1, 5.1.7, `MPI_TYPE_CREATE_RESIZED`).
    /// Both may be negative.
    pub fn resized(
        &mut self,
        of: impl Into<Datatype>,
        lower_bound: i64,
        extent: i64,
    ) -> Result<Datatype, Cause> {
        let upper_bound = lower_bound.checked_add(extent).ok_or(OVERFLOW)?;
        self.build_single(Combiner::Resized, of.into(), [lower_bound, extent], |single, writer| {
            let (node, layout) = single.grid(writer, Dimension::plain(1, 0))?;
            Ok((node, TypeLayout { lb: lower_bound, ub: upper_bound, marked: true, ..layout }))
        })
    }

    /// Makes a type of the same data and bounds that structures are padded for as one aligned to so
    /// many bytes: what is opaque here and has an alignment in C, such as a `long double`.
    /// Described as a duplicate.
    ///
    /// ```
    /// use aldis_kernel::datatype::{Basic, Field, TypeTable};
    ///
    /// let mut table = TypeTable::<8, 128>::new();
    /// let mut types = table.types();
    /// let wide = types.contiguous(16, Basic::Byte)?;
    /// let wide = types.aligned(wide, 16)?;
    /// let pair = types.structure(&[Field::new(0, wide), Field::new(16, Basic::I32)])?;
    /// assert_eq!(types.extent(pair)?.extent, 32);
    /// # Ok::<(), aldis_kernel::hal::Cause>(())
    /// ```
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if the alignment is no power of two.
    pub fn aligned(&mut self, of: impl Into<Datatype>, alignment: u8) -> Result<Datatype, Cause> {
        if !alignment.is_power_of_two() {
            return Err(Cause::LengthMismatch { left: alignment.into(), right: 1 });
        }
        self.build_single(Combiner::Dup, of.into(), [], |single, writer| single.aligned(writer, alignment))
    }

    /// Makes a copy of a type under a handle of its own (MPI 4.1, 5.1.10, `MPI_TYPE_DUP`).
    pub fn duplicate(&mut self, of: impl Into<Datatype>) -> Result<Datatype, Cause> {
        self.build_single(Combiner::Dup, of.into(), [], |single, writer| {
            single.grid(writer, Dimension::plain(1, 0))
        })
    }
}

impl Single<'_> {
    /// This type with a stricter alignment than that of its basic types.
    fn aligned(&self, writer: &mut Writer<'_>, alignment: u8) -> Result<(Node, TypeLayout), Cause> {
        let (node, layout) = self.grid(writer, Dimension::plain(1, 0))?;
        Ok((node, TypeLayout { alignment: layout.alignment.max(alignment), ..layout }))
    }

    fn grid(&self, writer: &mut Writer<'_>, dimension: Dimension) -> Result<(Node, TypeLayout), Cause> {
        grid(self.view, writer, &Dimensions::one(dimension), 0, self.child)
    }

    fn blocks(
        &self,
        writer: &mut Writer<'_>,
        count: u64,
        length: u64,
        cycle: i64,
    ) -> Result<(Node, TypeLayout), Cause> {
        let mut dimensions = Dimensions::one(Dimension::plain(count, cycle));
        dimensions.push(Dimension::plain(length, self.extent)).ok_or(OVERFLOW)?;
        grid(self.view, writer, &dimensions, 0, self.child)
    }

    fn list(
        &self,
        writer: &mut Writer<'_>,
        in_extents: bool,
        blocks: impl Iterator<Item = IndexedBlock>,
    ) -> Result<(Node, TypeLayout), Cause> {
        let unit = if in_extents { self.extent } else { 1 };
        let mut list = StretchList::new(self.view, writer);
        for IndexedBlock { length: count, displacement } in blocks.filter(|block| block.length > 0) {
            let displacement = displacement.checked_mul(unit).ok_or(OVERFLOW)?;
            list.add(Item { displacement, count, child: self.child })?;
        }
        list.finish()
    }
}
