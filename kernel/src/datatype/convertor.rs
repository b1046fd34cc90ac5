//! The convertor: any range of the packed stream of (type, count), in any order, straight from and
//! into memory.

use aldis_hal::Cause;

use super::handle::Child;
use super::layout::{OVERFLOW, Reach, steps, word};
use super::node::Dimension;
use super::transfer::{GatherTransfer, Scatter, Transfer, transfer};
use super::walk::{Root, Walk};
use super::{Committed, Form, Types};

/// Packs and unpacks `count` elements of a type piece by piece.
///
/// It is a position and nothing else: 64 bytes that are copied, kept in a request, and set to any
/// place. Each call finds its place in the type anew, which takes O(depth x log blocks), and walks
/// on from there with a stack on the machine's stack; pieces may be of any size and end inside an
/// element.
///
/// Memory is a slice and an *origin*: the address in it that displacement zero of the type's first
/// element falls on, since data may lie below that. All of it is checked before the first byte is
/// moved.
///
/// ```
/// use aldis_kernel::datatype::{Basic, Convertor, Form, TypeTable};
/// # fn main() -> Result<(), aldis_kernel::hal::Cause> {
/// let mut table = TypeTable::<4, 64>::new();
/// let mut types = table.types();
/// // The second column of a row-major matrix of 3 x 4 numbers.
/// let matrix: [u16; 12] = core::array::from_fn(|index| index as u16);
/// let column = types.vector(3, 1, 4, Basic::U16)?;
/// let column = types.commit(column)?;
/// let memory: Vec<u8> = matrix.iter().flat_map(|number| number.to_ne_bytes()).collect();
///
/// let mut convertor = Convertor::new(&types, column, 1, Form::Native)?.with_origin(2);
/// let mut packed = [0; 6];
/// let (first, second) = packed.split_at_mut(3);
/// assert_eq!(convertor.pack(&types, &memory, first)?, 3);
/// assert_eq!(convertor.pack(&types, &memory, second)?, 3);
/// assert_eq!(packed.as_chunks().0, [1u16, 5, 9].map(u16::to_ne_bytes));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Convertor {
    datatype: Committed,
    form: Form,
    count: u64,
    origin: isize,
    position: u64,
    len: u64,
}

const _: () = assert!(size_of::<Convertor>() <= 64);

impl Convertor {
    /// A convertor at the start of `count` elements. Refused if their bytes or their extent do not
    /// fit 63 bits.
    pub fn new(
        types: &Types<'_>,
        datatype: impl Into<Committed>,
        count: u64,
        form: Form,
    ) -> Result<Self, Cause> {
        let datatype = datatype.into();
        let len = types.pack_size(datatype, count, form)?;
        types.reach(datatype.into(), count)?;
        Ok(Self { datatype, form, count, origin: 0, position: 0, len })
    }

    /// Sets the type's origin to another address than the start of the memory: before it if that is
    /// negative.
    #[must_use]
    pub const fn with_origin(self, origin: isize) -> Self {
        Self { origin, ..self }
    }

    /// Bytes of the whole packed stream.
    pub const fn packed_len(&self) -> u64 {
        self.len
    }

    /// The next byte of the packed stream.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Bytes from the position to the end.
    pub const fn remaining(&self) -> u64 {
        self.len.saturating_sub(self.position)
    }

    /// Sets the position to any byte of the packed stream, or to its end.
    pub fn set_position(&mut self, position: u64) -> Result<(), Cause> {
        if position > self.len {
            return Err(Cause::TooBig { len: position, max: self.len });
        }
        self.position = position;
        Ok(())
    }

    /// Packs from the position on until `stream` is full or nothing remains. Returns the bytes, by
    /// which the position advances. On an error the position stays.
    pub fn pack(&mut self, types: &Types<'_>, memory: &[u8], stream: &mut [u8]) -> Result<usize, Cause> {
        let root = self.prepare(types, memory.len())?;
        let len = self.piece(stream.len());
        let stream = stream.get_mut(..len).unwrap_or_default();
        self.transfer(types, root, len, &mut GatherTransfer { memory, stream })
    }

    /// Unpacks `stream` to the position on, until it is used up or nothing remains. Returns the
    /// bytes, by which the position advances. Memory between the pieces of data is not touched. On
    /// an error the position stays.
    pub fn unpack(&mut self, types: &Types<'_>, memory: &mut [u8], stream: &[u8]) -> Result<usize, Cause> {
        let root = self.prepare(types, memory.len())?;
        let len = self.piece(stream.len());
        let stream = stream.get(..len).unwrap_or_default();
        self.transfer(types, root, len, &mut Scatter { memory, stream })
    }

    /// The data as one run of bytes of the memory, where there is nothing to convert and it is one:
    /// the range of addresses that a transport can send as it stands. Without data it is empty.
    /// Whether memory reaches that far is not looked at.
    pub fn contiguous(&self, types: &Types<'_>) -> Result<Option<core::ops::Range<usize>>, Cause> {
        let root = types.root(self.datatype.into(), self.count)?;
        let layout = types.view().layout(root.child);
        if self.len == 0 {
            return Ok(Some(0..0));
        }
        if self.form != Form::Native || !layout.abuts(self.count, layout.extent()) {
            return Ok(None);
        }
        let start = self.origin.checked_add(isize::try_from(layout.true_lb).map_err(|_| OVERFLOW)?);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let end = start.zip(usize::try_from(self.len).ok()).and_then(|(start, len)| start.checked_add(len));
        Ok(start.zip(end).map(|(start, end)| start..end))
    }

    /// Moves `len` bytes. If there are fewer, the type is not the one that the convertor was made
    /// with: its handle names another one in another table.
    fn transfer(
        &mut self,
        types: &Types<'_>,
        root: Root,
        len: usize,
        way: &mut impl Transfer,
    ) -> Result<usize, Cause> {
        let mut walk = Walk::new(types.view(), root, self.form, self.position);
        transfer(&mut walk, self.form, self.origin, way)?;
        if way.room() > 0 {
            return Err(Cause::Stale);
        }
        self.position = self.position.wrapping_add(len as u64);
        Ok(len)
    }

    fn piece(&self, stream: usize) -> usize {
        usize::try_from(self.remaining()).map_or(stream, |remaining| remaining.min(stream))
    }

    /// Checks that the type lives and that all of its data lies in the memory.
    fn prepare(&self, types: &Types<'_>, memory: usize) -> Result<Root, Cause> {
        let root = types.root(self.datatype.into(), self.count)?;
        if self.len == 0 {
            return Ok(root);
        }
        let (_, end) = addresses(self.origin, types.reach(self.datatype.into(), self.count)?)?;
        let max = memory as u64;
        if end <= max { Ok(root) } else { Err(Cause::TooBig { len: end, max }) }
    }
}

/// Returns where data begins and ends that reaches so far around its origin.
/// Refused if it begins before the memory.
pub(crate) fn addresses(origin: isize, reach: Reach) -> Result<(u64, u64), Cause> {
    let Reach { lowest, highest } = reach;
    let before = Cause::TooBig { len: lowest.unsigned_abs(), max: origin.max(0) as u64 };
    let start = (origin as i64).checked_add(lowest).and_then(|start| u64::try_from(start).ok());
    let end = (origin as i64).checked_add(highest).map_or(u64::MAX, |end| end.max(0) as u64);
    Ok((start.ok_or(before)?, end))
}

impl Types<'_> {
    /// Bytes that `count` elements take when packed (MPI 4.1, 5.2, `MPI_PACK_SIZE`,
    /// `MPI_PACK_EXTERNAL_SIZE`).
    pub fn pack_size(&self, datatype: impl Into<Committed>, count: u64, form: Form) -> Result<u64, Cause> {
        let child = self.view().child(datatype.into().0)?;
        let packed = self.view().layout(child).packed(form).checked_mul(count).ok_or(OVERFLOW)?;
        word(packed).map(|_| packed)
    }

    /// Packs `count` elements into `stream` from byte `position` on, and moves that on
    /// (MPI 4.1, 5.2, `MPI_PACK`; 5.3, `MPI_PACK_EXTERNAL`). `memory` begins at the origin of the
    /// first element; for data below it there is [`Convertor::with_origin`]. Refused, with nothing
    /// written, if the stream is too short.
    pub fn pack(
        &self,
        form: Form,
        memory: &[u8],
        count: u64,
        datatype: impl Into<Committed>,
        stream: &mut [u8],
        position: &mut usize,
    ) -> Result<(), Cause> {
        let mut convertor = Convertor::new(self, datatype, count, form)?;
        let (range, end) = piece(*position, convertor.packed_len(), stream.len())?;
        convertor.pack(self, memory, stream.get_mut(range).unwrap_or_default())?;
        *position = end;
        Ok(())
    }

    /// Unpacks `count` elements from `stream` from byte `position` on, and moves that on
    /// (MPI 4.1, 5.2, `MPI_UNPACK`; 5.3, `MPI_UNPACK_EXTERNAL`). Refused, with nothing written, if
    /// the stream is too short.
    pub fn unpack(
        &self,
        form: Form,
        stream: &[u8],
        position: &mut usize,
        memory: &mut [u8],
        count: u64,
        datatype: impl Into<Committed>,
    ) -> Result<(), Cause> {
        let mut convertor = Convertor::new(self, datatype, count, form)?;
        let (range, end) = piece(*position, convertor.packed_len(), stream.len())?;
        convertor.unpack(self, memory, stream.get(range).unwrap_or_default())?;
        *position = end;
        Ok(())
    }

    /// The lowest byte of the data of `count` elements, and the end of its highest one.
    pub(super) fn reach(&self, datatype: super::Datatype, count: u64) -> Result<Reach, Cause> {
        let layout = self.view().layout(self.view().child(datatype)?);
        let last = steps(count.saturating_sub(1), layout.extent())?;
        let lowest = last.min(0).checked_add(layout.true_lb).ok_or(OVERFLOW)?;
        let highest = last.max(0).checked_add(layout.true_ub).ok_or(OVERFLOW)?;
        Ok(Reach { lowest, highest })
    }

    pub(super) fn root(&self, datatype: super::Datatype, count: u64) -> Result<Root, Cause> {
        self.root_of(self.view().child(datatype)?, count)
    }

    pub(super) fn root_of(&self, child: Child, count: u64) -> Result<Root, Cause> {
        let stride = self.view().extent(child);
        let dimension = Dimension::plain(count, stride);
        Ok(Root { child, dimension: dimension.words()? })
    }
}

/// The next `len` bytes of a stream, and their end.
fn piece(position: usize, len: u64, stream: usize) -> Result<(core::ops::Range<usize>, usize), Cause> {
    let max = stream.saturating_sub(position) as u64;
    let end = usize::try_from(len).ok().and_then(|len| position.checked_add(len));
    match end {
        Some(end) if end <= stream => Ok((position..end, end)),
        _ => Err(Cause::TooBig { len, max }),
    }
}
