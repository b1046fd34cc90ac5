//! The place of a typed request's data in memory.

use core::ops::Range;

use aldis_hal::{Cause, Resource};
use aldis_protocols::header::Label;
use aldis_protocols::reliable::Crc32c;

use super::Place;
use crate::datatype::{Form, Held, Types, addresses};
use crate::memory::buffer::Buffer;

/// No table of types is attached.
pub(super) const NO_TYPES: Cause = Cause::TooSmall { what: Resource::Datatypes, need: 1, have: 0 };

/// The data of a typed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// From the lowest to the highest byte of the data.
    memory: Buffer,
    /// Displacement of the lowest byte.
    lowest: i64,
    held: Held,
    /// The form that the peer gets; of a receive, that of its own elements.
    form: Form,
    /// Of what has been packed or unpacked, if the message is checked.
    sum: Crc32c,
    checked: bool,
    /// The memory has the packed data already.
    packed: bool,
}

impl Layout {
    /// Works out where elements in `memory` lie, and how many bytes they have in this form. Refused
    /// if memory does not reach as far.
    pub(super) fn new(
        types: &mut Types<'_>,
        memory: Buffer,
        place: &Place,
        (form, checked): (Form, bool),
    ) -> Result<(Self, usize), Cause> {
        let &Place { origin, count, datatype } = place;
        let (held, len, (lowest, highest)) = types.hold(datatype, count, form)?;
        let outside = |len| Cause::TooBig { len, max: memory.len() as u64 };
        let (start, end) = addresses(origin, (lowest, highest))?;
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let memory = match range.and_then(|(start, end)| memory.part(start..end)) {
            _ if len == 0 => Buffer::NONE,
            part => part.ok_or(outside(end))?,
        };
        let len = usize::try_from(len).map_err(|_| outside(len))?;
        Ok((Self { memory, lowest, held, form, sum: Crc32c::new(), checked, packed: false }, len))
    }

    pub(crate) const fn memory(&self) -> Buffer {
        self.memory
    }

    pub(crate) const fn held(&self) -> Held {
        self.held
    }

    pub(super) const fn is_checked(&self) -> bool {
        self.checked
    }

    /// Packs the bytes from `position` on.
    pub(super) fn pack(&mut self, types: &Types<'_>, position: u64, stream: &mut [u8]) -> Result<(), Cause> {
        let memory = self.memory;
        if self.packed {
            stream.copy_from_slice(memory.read(position, stream.len()));
        } else {
            types.gather(&self.held, self.form, self.lowest, position, memory.bytes(), stream)?;
        }
        if self.checked {
            self.add(position, stream);
        }
        Ok(())
    }

    /// Returns the data packed into `room`.
    pub(super) fn packed_into(mut self, types: &Types<'_>, room: Buffer) -> Result<Self, Cause> {
        room.change(|stream| self.pack(types, 0, stream))?;
        Ok(Self { memory: room, packed: true, ..self })
    }

    /// Unpacks bytes in that form from `position` on, and sums them if they are checked.
    pub(super) fn unpack(
        &mut self,
        types: &Types<'_>,
        form: Form,
        position: u64,
        stream: &[u8],
        checked: bool,
    ) -> Result<(), Cause> {
        if checked {
            self.add(position, stream);
        }
        let Self { held, lowest, memory, .. } = *self;
        memory.change(|memory| types.scatter(&held, form, lowest, position, memory, stream))
    }

    /// Sums a piece, the first of which begins a sum.
    fn add(&mut self, position: u64, bytes: &[u8]) {
        let before = if position == 0 { Crc32c::new() } else { self.sum };
        self.sum = before.update(bytes);
    }

    /// Returns the label of a message of `len` bytes that has been packed.
    pub(super) fn label(&self, types: &Types<'_>, len: u64) -> Label {
        Label::new(self.signature(types, self.form, len), self.checked.then(|| self.checksum(len)))
    }

    /// Returns what is wrong with a message of `len` bytes in this form that has been unpacked, by
    /// its label.
    pub(super) fn judge(&self, types: &Types<'_>, form: Form, len: u64, label: &Label) -> Option<Cause> {
        let corrupt = differs(label, || self.checksum(len));
        let expected = self.signature(types, form, len).unwrap_or(0);
        let mismatch = label.signature().filter(|sent| *sent != expected);
        corrupt.or(mismatch.map(|sent| Cause::SignatureMismatch { sent, expected }))
    }

    fn signature(&self, types: &Types<'_>, form: Form, len: u64) -> Option<u32> {
        types.prefix(&self.held, form, len).ok().map(|prefix| prefix.signature.folded())
    }

    /// Bytes that all elements have in this form.
    pub(super) fn room(&self, types: &Types<'_>, form: Form) -> u64 {
        types.packed_len(&self.held, form)
    }

    /// Returns the bytes of the memory that a partition of its elements covers, from the first byte
    /// to the last.
    pub(super) fn partition(
        &self,
        types: &Types<'_>,
        partition: u64,
        partitions: u32,
    ) -> Option<Range<usize>> {
        let (start, end) = types.reach_of_part(&self.held, partition, partitions)?;
        let place = |at: i64| usize::try_from(at.checked_sub(self.lowest)?).ok();
        Some(place(start)?..place(end)?)
    }

    /// Bytes in memory that `len` bytes in this form fill; `None` if they end inside an element.
    pub(super) fn filled(&self, types: &Types<'_>, form: Form, len: u64) -> Option<u64> {
        types.filled(&self.held, form, len)
    }

    fn checksum(&self, len: u64) -> u32 {
        if len == 0 { Crc32c::new().finish() } else { self.sum.finish() }
    }
}

/// Returns what is wrong with data by the checksum in its label.
pub(super) fn differs(label: &Label, found: impl FnOnce() -> u32) -> Option<Cause> {
    let sent = label.checksum()?;
    let found = found();
    (sent != found).then_some(Cause::Corrupt { sent, found })
}
