//! Queries about a type.

use aldis_hal::Cause;

use super::compile::keep_clear;
use super::external::Form;
use super::handle::Child;
use super::layout::{Item, OVERFLOW, TypeLayout};
use super::node::Node;
use super::table::TableView;
use super::walk::{BlockRun, Walk};
use super::{Basic, Datatype, Signature, Types};

/// The place of something, in bytes from the origin of the type, and its length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Extent {
    /// Lower bound.
    pub lower_bound: i64,
    /// Upper bound less lower bound; negative only where a resized type says so.
    pub extent: i64,
}

/// An entry of a type map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Placed {
    /// Bytes from the origin of the type.
    pub displacement: i64,
    /// The basic type there.
    pub basic: Basic,
}

/// A piece of data for [`Types::overlaps`] to sort.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DataSpan {
    start: i64,
    end: i64,
}

impl Types<'_> {
    /// Bytes of data in one element (MPI 4.1, 5.1.5, `MPI_TYPE_SIZE`).
    pub fn size(&self, datatype: impl Into<Datatype>) -> Result<u64, Cause> {
        Ok(self.layout(datatype.into())?.size)
    }

    /// The bounds that neighbours in an array keep (MPI 4.1, 5.1.7, `MPI_TYPE_GET_EXTENT`).
    pub fn extent(&self, datatype: impl Into<Datatype>) -> Result<Extent, Cause> {
        let layout = self.layout(datatype.into())?;
        Ok(Extent { lower_bound: layout.lb, extent: layout.extent() })
    }

    /// The bounds of the data itself (MPI 4.1, 5.1.8, `MPI_TYPE_GET_TRUE_EXTENT`).
    pub fn true_extent(&self, datatype: impl Into<Datatype>) -> Result<Extent, Cause> {
        let layout = self.layout(datatype.into())?;
        Ok(Extent { lower_bound: layout.true_lb, extent: layout.span() })
    }

    /// The signature of `count` elements, for matching it with another one.
    pub fn signature(&self, datatype: impl Into<Datatype>, count: u64) -> Result<Signature, Cause> {
        let datatype = datatype.into();
        self.basic_elements(datatype, count)?;
        Ok(self.layout(datatype)?.signature.repeat(count))
    }

    /// Returns the number of basic elements in `count` elements.
    pub(super) fn basic_elements(&self, datatype: Datatype, count: u64) -> Result<u64, Cause> {
        self.layout(datatype)?.signature.elements().checked_mul(count).ok_or(OVERFLOW)
    }

    /// Levels that the walk over this type goes down, at most [`DEPTH_MAX`](super::DEPTH_MAX).
    /// Nested regular types are one level.
    pub fn depth(&self, datatype: impl Into<Datatype>) -> Result<usize, Cause> {
        Ok(usize::from(self.layout(datatype.into())?.depth))
    }

    /// The type map of `count` elements (MPI 4.1, 5.1), entry by entry in the order of the packed
    /// stream.
    pub fn type_map(&self, datatype: impl Into<Datatype>, count: u64) -> Result<TypeMap<'_>, Cause> {
        let datatype = datatype.into();
        self.signature(datatype, count)?;
        let walk = Walk::new(self.view(), self.root(datatype, count)?, Form::External32, 0);
        Ok(TypeMap { walk, rest: None })
    }

    /// Returns true if two pieces of the data of `count` elements overlap: such a type can be sent,
    /// but nothing may be received into it (MPI 4.1, 5.1.11).
    ///
    /// Most types show by their structure that they do not. The others are looked at piece by piece
    /// in `scratch`, which must hold one span for each; if it is too short, that is the error.
    pub fn overlaps(
        &self,
        datatype: impl Into<Datatype>,
        count: u64,
        scratch: &mut [DataSpan],
    ) -> Result<bool, Cause> {
        let datatype = datatype.into();
        let child = self.view().child(datatype)?;
        if count == 0 || self.view().layout(child).size == 0 || keep_clear(self.view(), child, count) {
            return Ok(false);
        }
        self.reach(datatype, count)?;
        let (mut used, len) = (0usize, scratch.len());
        let mut walk = Walk::new(self.view(), self.root(datatype, count)?, Form::Native, 0);
        while let Some(run) = walk.next() {
            let free = scratch.get_mut(used..).unwrap_or_default();
            if run.blocks > free.len() as u64 {
                return Err(Cause::TooBig { len: (used as u64).saturating_add(run.blocks), max: len as u64 });
            }
            for (block, place) in (0..run.blocks).zip(free) {
                let start = run.offset.wrapping_add(run.stride.wrapping_mul(block.cast_signed()));
                *place = DataSpan { start, end: start.wrapping_add(run.bytes.cast_signed()) };
            }
            used = used.wrapping_add(run.blocks as usize);
        }
        let spans = scratch.get_mut(..used).unwrap_or_default();
        spans.sort_unstable();
        Ok(spans.windows(2).any(|pair| matches!(pair, [left, right] if right.start < left.end)))
    }

    /// Whole elements of a type in `bytes` of its packed stream (MPI 4.1, 3.2.5, `MPI_GET_COUNT`);
    /// [`Cause::PartialElement`] if the bytes end inside one.
    pub fn count(&self, datatype: impl Into<Datatype>, form: Form, bytes: u64) -> Result<u64, Cause> {
        let packed = self.layout(datatype.into())?.packed(form);
        match bytes.checked_rem(packed).unwrap_or(bytes) {
            0 => Ok(bytes.checked_div(packed).unwrap_or(0)),
            _ => Err(Cause::PartialElement { bytes, element: u32::try_from(packed).unwrap_or(u32::MAX) }),
        }
    }

    /// Basic elements in `bytes` of a type's packed stream, whose last element may be incomplete
    /// (MPI 4.1, 5.1.11, `MPI_GET_ELEMENTS`); [`Cause::PartialElement`] if the bytes end inside a
    /// basic one.
    pub fn elements(&self, datatype: impl Into<Datatype>, form: Form, bytes: u64) -> Result<u64, Cause> {
        Ok(self.prefix_of(self.view().child(datatype.into())?, form, bytes)?.signature.elements())
    }

    /// Returns what `bytes` of a type's packed stream hold; refused as by
    /// [`elements`](Self::elements).
    pub(super) fn prefix_of(&self, child: Child, form: Form, bytes: u64) -> Result<Prefix, Cause> {
        let row = Item { displacement: 0, count: u64::MAX, child };
        let (mut prefix, mut inside) = (Prefix::EMPTY, pass(self.view(), row, form, bytes));
        loop {
            // There are never more elements than bytes, so their number does not overflow.
            prefix = prefix.then(inside.prefix);
            match (inside.rest, inside.child) {
                (0, _) => return Ok(prefix),
                (_, Child::Basic(basic)) => {
                    return Err(Cause::PartialElement { bytes, element: basic.packed(form) as u32 });
                }
                (rest, Child::Slot(slot)) => {
                    let refused = Cause::PartialElement { bytes, element: 0 };
                    inside = self.passed(slot, form, rest).ok_or(refused)?;
                }
            }
        }
    }

    /// Returns what of a type `bytes` of its packed stream, fewer than it has, take up.
    fn passed(&self, slot: u32, form: Form, mut bytes: u64) -> Option<Passed> {
        let view = self.view();
        let entry = view.entry(slot)?;
        match entry.node {
            Node::Empty => None,
            Node::Grid { child, .. } => {
                Some(pass(view, Item { displacement: 0, count: u64::MAX, child }, form, bytes))
            }
            Node::List => {
                let mut prefix = Prefix::EMPTY;
                for words in view.compiled(entry)?.as_chunks().0 {
                    let item = Item::from_words(words)?;
                    let here = pass(view, item, form, bytes);
                    prefix = prefix.then(here.prefix);
                    if here.is_inside {
                        return Some(Passed { prefix, ..here });
                    }
                    bytes = here.rest;
                }
                None
            }
        }
    }

    pub(super) fn layout(&self, datatype: Datatype) -> Result<&TypeLayout, Cause> {
        Ok(self.view().layout(self.view().child(datatype)?))
    }
}

/// The contents of some bytes of a packed stream.
#[derive(Clone, Copy)]
pub(crate) struct Prefix {
    pub(crate) signature: Signature,
    /// Its bytes in memory.
    pub(crate) size: u64,
}

impl Prefix {
    const EMPTY: Self = Self { signature: Signature::EMPTY, size: 0 };

    fn then(self, other: Self) -> Self {
        // Words at most double.
        let size = self.size.saturating_add(other.size);
        Self { signature: self.signature.then(other.signature), size }
    }
}

/// The place where some bytes of a packed stream end.
struct Passed {
    /// The whole children before.
    prefix: Prefix,
    /// Bytes of the child that they end in, or behind the stretch.
    rest: u64,
    child: Child,
    /// True if they end before the stretch does.
    is_inside: bool,
}

/// Takes `bytes` of the packed stream of a stretch.
fn pass(view: TableView<'_>, stretch: Item, form: Form, bytes: u64) -> Passed {
    let Item { child, count, .. } = stretch;
    let layout = view.layout(child);
    let packed = layout.packed(form);
    let taken = bytes.checked_div(packed).unwrap_or(0).min(count);
    let prefix =
        Prefix { signature: layout.signature.repeat(taken), size: layout.size.saturating_mul(taken) };
    let rest = bytes.wrapping_sub(taken.wrapping_mul(packed));
    Passed { prefix, rest, child, is_inside: taken < count }
}

/// An iterator over a type map.
pub struct TypeMap<'t> {
    walk: Walk<'t>,
    rest: Option<Rest>,
}

/// The rest of a run: the elements from one of a block on.
#[derive(Clone, Copy)]
struct Rest {
    run: BlockRun,
    block: u64,
    byte: u64,
}

impl Iterator for TypeMap<'_> {
    type Item = Placed;

    fn next(&mut self) -> Option<Placed> {
        let Rest { run, block, byte } = match self.rest {
            Some(rest) => rest,
            None => Rest { run: self.walk.next()?, block: 0, byte: 0 },
        };
        let in_run = run.stride.wrapping_mul(block.cast_signed()).wrapping_add(byte.cast_signed());
        let after = byte.wrapping_add(run.basic.size() as u64);
        self.rest = match (after < run.bytes, block.wrapping_add(1)) {
            (true, _) => Some(Rest { run, block, byte: after }),
            (false, next) if next < run.blocks => Some(Rest { run, block: next, byte: 0 }),
            _ => None,
        };
        Some(Placed { displacement: run.offset.wrapping_add(in_run), basic: run.basic })
    }
}
