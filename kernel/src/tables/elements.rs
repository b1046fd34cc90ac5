//! Elements of datatypes in memory: what calls name, what a request works with, and what of a
//! message moves at a time.

use core::ops::Range;

use aldis_hal::{Cause, Handle, Resource};
use aldis_protocols::header::{Header, Label};
use aldis_protocols::reliable::Crc32c;

use crate::datatype::{Committed, Form, Held, Types, addresses};
use crate::memory::buffer::UserBuffer;
use crate::rank::Mode;

/// No table of types is attached.
pub(crate) const NO_TYPES: Cause = Cause::TooSmall { what: Resource::Datatypes, need: 1, have: 0 };

/// The engine's knowledge of typed data. Who takes it answers for the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    pub(crate) memory: UserBuffer,
    pub(crate) place: ElementsPlace,
    pub(crate) mode: Mode,
    pub(crate) checked: bool,
}

/// The engine's knowledge of room for typed data. Who takes it answers for the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementsMut {
    pub(crate) memory: UserBuffer,
    pub(crate) place: ElementsPlace,
}

/// The elements of a memory that are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementsPlace {
    /// Displacement zero of the first element, from the start of the memory.
    pub(crate) origin: isize,
    pub(crate) count: u64,
    pub(crate) datatype: Committed,
}

impl ElementsPlace {
    pub(crate) fn new(count: u64, datatype: impl Into<Committed>) -> Self {
        Self { origin: 0, count, datatype: datatype.into() }
    }
}

/// Elements in one piece of memory, and the signature of all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) datatype: Committed,
    pub(crate) signature: u32,
}

/// Elements of a type in memory, and how they travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypedData<'a> {
    pub(crate) memory: UserBuffer,
    pub(crate) place: &'a ElementsPlace,
    /// The form that the peer gets; of a receive, that of its own elements.
    pub(crate) form: Form,
    /// True if a checksum is sent with them.
    pub(crate) checked: bool,
}

impl<'a> TypedData<'a> {
    /// Elements as they are in memory, without a checksum.
    pub(crate) const fn native(memory: UserBuffer, place: &'a ElementsPlace) -> Self {
        Self { memory, place, form: Form::Native, checked: false }
    }
}

/// The place of the data of a typed request, and the bytes that it has in its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaidOut {
    pub(crate) layout: ElementsLayout,
    pub(crate) len: usize,
}

/// A piece of a message's data.
#[derive(Clone, Copy)]
pub(crate) struct DataPiece<'a> {
    /// Its place in the message.
    pub(crate) offset: u64,
    pub(crate) payload: &'a [u8],
    /// True if it is in the byte order of its sender.
    pub(crate) typed: bool,
    /// A checksum will come.
    pub(crate) checked: bool,
}

impl<'a> DataPiece<'a> {
    /// All of a message.
    pub(crate) fn whole(payload: &'a [u8], label: &Label) -> Self {
        let (typed, checked) = (label.signature().is_some(), label.checksum().is_some());
        Self { offset: 0, payload, typed, checked }
    }
}

/// A fragment of a typed message that is to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    pub(crate) header: Header,
    pub(crate) receiver: Handle,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// The data of a typed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementsLayout {
    /// From the lowest to the highest byte of the data.
    memory: UserBuffer,
    /// Displacement of the lowest byte.
    lowest: i64,
    held: Held,
    /// The form that the peer gets; of a receive, that of its own elements.
    form: Form,
    /// Of what has been packed or unpacked, if the message is checked. Before anything has been
    /// summed, the signature of all elements, if they are plain.
    sum: Crc32c,
    checked: bool,
    /// The memory has the packed data already.
    packed: bool,
    /// The data are in one piece of memory, as they travel between like machines, and their
    /// signature is known.
    plain: bool,
}

impl ElementsLayout {
    /// Works out where elements lie, and how many bytes they have in their form. Refused if memory
    /// does not reach as far.
    pub(crate) fn lay_out(types: &mut Types<'_>, data: TypedData<'_>) -> Result<LaidOut, Cause> {
        let TypedData { memory, place: &ElementsPlace { origin, count, datatype }, form, checked } = data;
        let (held, len, reach) = types.hold(datatype, count, form)?;
        let lowest = reach.lowest;
        let outside = |len| Cause::TooBig { len, max: memory.len() as u64 };
        let (start, end) = addresses(origin, reach)?;
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let memory = match range.and_then(|(start, end)| memory.part(start..end)) {
            _ if len == 0 => UserBuffer::NONE,
            part => part.ok_or(outside(end))?,
        };
        let len = usize::try_from(len).map_err(|_| outside(len))?;
        let sum = Crc32c::new();
        let layout = Self { memory, lowest, held, form, sum, checked, packed: false, plain: false };
        Ok(LaidOut { layout, len })
    }

    /// Elements that lie in one piece, which is this memory, as they travel between like machines;
    /// with the signature of all of them.
    #[inline]
    pub(crate) const fn of_plain(held: Held, memory: UserBuffer, signature: u32) -> Self {
        let (form, sum) = (Form::Native, Crc32c::of_word(signature));
        Self { memory, lowest: 0, held, form, sum, checked: false, packed: false, plain: true }
    }

    /// Returns true if the data lie in one piece as they travel between like machines, and this is
    /// the signature of all elements.
    #[inline]
    pub(crate) const fn has(&self, signature: u32) -> bool {
        self.plain && self.sum.word() == signature
    }

    /// Returns the memory and the signature, if the data lie in one piece as they travel between
    /// like machines.
    pub(crate) const fn plain(&self) -> Option<(UserBuffer, u32)> {
        if self.plain { Some((self.memory, self.sum.word())) } else { None }
    }

    pub(crate) const fn memory(&self) -> UserBuffer {
        self.memory
    }

    /// The memory, if the data are in one piece there as they travel between like machines.
    pub(crate) fn piece(&self) -> Option<UserBuffer> {
        self.plain().map(|(memory, _)| memory)
    }

    pub(crate) const fn held(&self) -> Held {
        self.held
    }

    pub(crate) const fn is_checked(&self) -> bool {
        self.checked
    }

    /// Packs the bytes from `position` on.
    pub(crate) fn pack(&mut self, types: &Types<'_>, position: u64, stream: &mut [u8]) -> Result<(), Cause> {
        let memory = self.memory;
        if self.packed || self.plain {
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
    pub(crate) fn packed_into(mut self, types: &Types<'_>, room: UserBuffer) -> Result<Self, Cause> {
        room.change(|stream| self.pack(types, 0, stream))?;
        Ok(Self { memory: room, packed: true, ..self })
    }

    /// Unpacks a piece in that form, and sums it if it is checked.
    pub(crate) fn unpack(
        &mut self,
        types: &Types<'_>,
        form: Form,
        piece: &DataPiece<'_>,
    ) -> Result<(), Cause> {
        let &DataPiece { offset: position, payload: stream, checked, .. } = piece;
        if checked {
            self.add(position, stream);
        }
        let Self { held, lowest, memory, plain, .. } = *self;
        if plain && form == Form::Native && memory.write(position, stream) {
            return Ok(());
        }
        memory.change(|memory| types.scatter(&held, form, lowest, position, memory, stream))
    }

    /// Sums a piece, the first of which begins a sum.
    fn add(&mut self, position: u64, bytes: &[u8]) {
        let before = if position == 0 { Crc32c::new() } else { self.sum };
        (self.sum, self.plain) = (before.update(bytes), false);
    }

    /// Returns the label of a message of `len` bytes that has been packed.
    pub(crate) fn label(&self, types: &Types<'_>, len: u64) -> Label {
        Label::new(self.signature(types, self.form, len), self.checked.then(|| self.checksum(len)))
    }

    /// Returns what is wrong with a message of `len` bytes in this form that has been unpacked, by
    /// its label.
    pub(crate) fn judge(&self, types: &Types<'_>, form: Form, len: u64, label: &Label) -> Option<Cause> {
        let corrupt = differs(label, || self.checksum(len));
        let expected = self.signature(types, form, len).unwrap_or(0);
        let mismatch = label.signature().filter(|sent| *sent != expected);
        corrupt.or(mismatch.map(|sent| Cause::SignatureMismatch { sent, expected }))
    }

    fn signature(&self, types: &Types<'_>, form: Form, len: u64) -> Option<u32> {
        if self.plain && form == Form::Native && len == self.memory.len() as u64 {
            return Some(self.sum.word());
        }
        types.prefix(&self.held, form, len).ok().map(|prefix| prefix.signature.folded())
    }

    /// Bytes that all elements have in this form.
    pub(crate) fn room(&self, types: &Types<'_>, form: Form) -> u64 {
        types.packed_len(&self.held, form)
    }

    /// Returns the bytes of the memory that a partition of its elements covers, from the first byte
    /// to the last.
    pub(crate) fn partition(
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
    pub(crate) fn filled(&self, types: &Types<'_>, form: Form, len: u64) -> Option<u64> {
        types.filled(&self.held, form, len)
    }

    fn checksum(&self, len: u64) -> u32 {
        if len == 0 { Crc32c::new().finish() } else { self.sum.finish() }
    }
}

/// Returns what is wrong with data by the checksum in its label.
pub(crate) fn differs(label: &Label, found: impl FnOnce() -> u32) -> Option<Cause> {
    let sent = label.checksum()?;
    let found = found();
    (sent != found).then_some(Cause::Corrupt { sent, found })
}
