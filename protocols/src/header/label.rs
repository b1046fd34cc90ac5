//! Labels: what a message may say about its data, for typed and for checked ones.

use aldis_hal::cause::Malformed;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a label in front of a whole message's payload.
pub const LABEL_BYTES: usize = size_of::<RawLabel>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawLabel {
    pub(super) flags: U32,
    pub(super) values: U64,
}

const _: () = assert!(LABEL_BYTES == 12 && LABEL_BYTES <= crate::INLINE_BYTES);

/// Remarks on the data of a message besides its length: in front of the payload of a
/// [labelled](super::Kind::Labelled) message, or in the finish of a rendezvous. A message that
/// needs none takes none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Label {
    flags: u32,
    signature: u32,
    checksum: u32,
}

/// The signature says something; the checksum does.
const SIGNED: u32 = 1;
const CHECKED: u32 = 2;

impl Label {
    /// A label that says nothing.
    pub const NONE: Self = Self { flags: 0, signature: 0, checksum: 0 };

    /// A label that says this.
    #[must_use]
    pub fn new(signature: Option<u32>, checksum: Option<u32>) -> Self {
        let signed = if signature.is_some() { SIGNED } else { 0 };
        let checked = if checksum.is_some() { CHECKED } else { 0 };
        let (signature, checksum) = (signature.unwrap_or(0), checksum.unwrap_or(0));
        Self { flags: signed | checked, signature, checksum }
    }

    /// A label with a signature alone.
    #[must_use]
    pub const fn signed(signature: u32) -> Self {
        Self { flags: SIGNED, signature, checksum: 0 }
    }

    /// Returns true if the label says nothing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.flags == 0
    }

    /// Of a typed message: a hash of the sequence of its basic types.
    #[must_use]
    pub fn signature(&self) -> Option<u32> {
        (self.flags & SIGNED != 0).then_some(self.signature)
    }

    /// The CRC-32C of the data.
    #[must_use]
    pub fn checksum(&self) -> Option<u32> {
        (self.flags & CHECKED != 0).then_some(self.checksum)
    }

    /// Returns the label's values, as they stand on the wire.
    #[must_use]
    #[inline]
    pub const fn values(&self) -> u64 {
        self.signature as u64 | (self.checksum as u64) << 32
    }

    #[inline]
    pub(super) fn raw(&self) -> RawLabel {
        RawLabel { flags: self.flags.into(), values: self.values().into() }
    }

    /// Refuses bits without a meaning, and values that are not said.
    #[inline]
    pub(super) fn read(flags: u32, values: u64) -> Result<Self, Malformed> {
        let label = Self { flags, signature: values as u32, checksum: (values >> 32) as u32 };
        let stray = flags > (SIGNED | CHECKED)
            || (flags & SIGNED == 0 && label.signature != 0)
            || (flags & CHECKED == 0 && label.checksum != 0);
        if stray { Err(Malformed::Reserved) } else { Ok(label) }
    }

    /// The label's bytes.
    pub fn emit(&self) -> [u8; LABEL_BYTES] {
        zerocopy::transmute!(self.raw())
    }
}
