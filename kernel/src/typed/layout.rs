//! Where the data of a typed request lies, and what moves it.

use aldis_hal::{Cause, Resource};
use aldis_protocols::header::Label;
use aldis_protocols::reliable::Crc32c;

use super::Place;
use crate::buffer::Buffer;
use crate::datatype::{Form, Held, Types};

/// The data of a typed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// From the lowest to the highest byte of the data.
    memory: Buffer,
    /// Displacement of the lowest byte.
    lowest: i64,
    held: Held,
    /// Of what has been packed or unpacked, if the message is checked.
    sum: Crc32c,
    checked: bool,
}

impl Layout {
    pub(crate) const fn memory(&self) -> Buffer {
        self.memory
    }

    pub(crate) const fn held(&self) -> Held {
        self.held
    }

    pub(super) const fn is_checked(&self) -> bool {
        self.checked
    }

    /// The checksum of all of a message of `len` bytes.
    fn checksum(&self, len: u64) -> u32 {
        if len == 0 { Crc32c::new().finish() } else { self.sum.finish() }
    }

    /// Sums a piece, the first of which begins a sum.
    fn add(&mut self, position: u64, bytes: &[u8]) {
        let before = if position == 0 { Crc32c::new() } else { self.sum };
        self.sum = before.update(bytes);
    }
}

/// A table of datatypes, and the functions that work with it. The engine calls these through a table of its own that
/// [`attach_types`](crate::Endpoint::attach_types) installs: so firmware that never calls it does not link the convertor
/// or the checksum, which the engine's paths would otherwise reach.
pub(crate) struct Conversion<'s> {
    pub(crate) types: Types<'s>,
    pub(super) tools: &'static dyn Tools,
}

impl<'s> Conversion<'s> {
    pub(super) fn new(types: Types<'s>) -> Self {
        Self { types, tools: &Convert }
    }

    /// Where elements in `memory` lie, and how many bytes they have when packed. Refused if memory does not reach as far.
    pub(super) fn lay_out(
        &mut self,
        memory: Buffer,
        place: &Place,
        checked: bool,
    ) -> Result<(Layout, usize), Cause> {
        let &Place { origin, count, datatype } = place;
        let (held, len, (lowest, highest)) = self.types.hold(datatype, count)?;
        let outside = |len| Cause::TooBig { len, max: memory.len() as u64 };
        let below = Cause::TooBig { len: lowest.unsigned_abs(), max: origin as u64 };
        let start = (origin as u64).checked_add_signed(lowest).ok_or(below)?;
        let end = (origin as u64).checked_add_signed(highest).unwrap_or(u64::MAX);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let memory = match range.and_then(|(start, end)| memory.part(start..end)) {
            _ if len == 0 => Buffer::NONE,
            part => part.ok_or(outside(end))?,
        };
        let len = usize::try_from(len).map_err(|_| outside(len))?;
        Ok((Layout { memory, lowest, held, sum: Crc32c::new(), checked }, len))
    }
}

/// No table of types is attached.
pub(super) const NO_TYPES: Cause = Cause::TooSmall { what: Resource::Datatypes, need: 1, have: 0 };

/// What the engine does with types.
pub(super) trait Tools: Sync {
    /// Packs the bytes from `position` on.
    fn pack(
        &self,
        types: &Types<'_>,
        layout: &mut Layout,
        position: u64,
        stream: &mut [u8],
    ) -> Result<(), Cause>;

    /// Unpacks bytes in that form from `position` on, and sums them if they are checked.
    fn unpack(
        &self,
        types: &Types<'_>,
        layout: &mut Layout,
        form: Form,
        position: u64,
        stream: &[u8],
        checked: bool,
    ) -> Result<(), Cause>;

    /// What is to be said of a message of `len` bytes that has been packed.
    fn label(&self, types: &Types<'_>, layout: &Layout, len: u64) -> Label;

    /// What is wrong with a message of `len` bytes that has been unpacked, by its label.
    fn judge(&self, types: &Types<'_>, layout: &Layout, len: u64, label: &Label) -> Option<Cause>;

    /// What is wrong with the bytes of a message.
    fn judge_bytes(&self, bytes: &[u8], label: &Label) -> Option<Cause>;
}

struct Convert;

impl Convert {
    fn signature(types: &Types<'_>, layout: &Layout, len: u64) -> Option<u32> {
        types.prefix(&layout.held, len).ok().map(|signature| signature.folded())
    }
}

impl Tools for Convert {
    fn pack(
        &self,
        types: &Types<'_>,
        layout: &mut Layout,
        position: u64,
        stream: &mut [u8],
    ) -> Result<(), Cause> {
        let memory = layout.memory;
        types.gather(&layout.held, layout.lowest, position, memory.read(0, memory.len()), stream)?;
        if layout.checked {
            layout.add(position, stream);
        }
        Ok(())
    }

    fn unpack(
        &self,
        types: &Types<'_>,
        layout: &mut Layout,
        form: Form,
        position: u64,
        stream: &[u8],
        checked: bool,
    ) -> Result<(), Cause> {
        if checked {
            layout.add(position, stream);
        }
        let Layout { held, lowest, memory, .. } = *layout;
        memory.change(|memory| types.scatter(&held, form, lowest, position, memory, stream))
    }

    fn label(&self, types: &Types<'_>, layout: &Layout, len: u64) -> Label {
        Label {
            signature: Self::signature(types, layout, len),
            checksum: layout.checked.then(|| layout.checksum(len)),
        }
    }

    fn judge(&self, types: &Types<'_>, layout: &Layout, len: u64, label: &Label) -> Option<Cause> {
        let corrupt = differs(label.checksum, || layout.checksum(len));
        let expected = Self::signature(types, layout, len).unwrap_or(0);
        let mismatch = label.signature.filter(|sent| *sent != expected);
        corrupt.or(mismatch.map(|sent| Cause::SignatureMismatch { sent, expected }))
    }

    fn judge_bytes(&self, bytes: &[u8], label: &Label) -> Option<Cause> {
        differs(label.checksum, || aldis_protocols::reliable::crc32c(bytes))
    }
}

fn differs(sent: Option<u32>, found: impl FnOnce() -> u32) -> Option<Cause> {
    let sent = sent?;
    let found = found();
    (sent != found).then_some(Cause::Corrupt { sent, found })
}
