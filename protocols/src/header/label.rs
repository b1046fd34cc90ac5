//! Labels: what a message may say about its data, for typed and for checked ones.

use aldis_hal::cause::Malformed;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::short;

/// Bytes of a label in front of a whole message's payload.
pub const LABEL_BYTES: usize = size_of::<RawLabel>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawLabel {
    pub(super) flags: U32,
    pub(super) values: U64,
}

const _: () = assert!(LABEL_BYTES == 12 && LABEL_BYTES <= crate::INLINE_BYTES);

/// What is said about the data of a message besides its length: in front of the payload of a
/// [labelled](super::Kind::Labelled) message, or in the finish of a rendezvous. A message that needs none takes none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Label {
    /// The message is typed: a hash of the sequence of its basic types.
    pub signature: Option<u32>,
    /// The CRC-32C of its data.
    pub checksum: Option<u32>,
}

impl Label {
    /// Nothing is said.
    pub const NONE: Self = Self { signature: None, checksum: None };

    /// Low bit: the low half of the values is a signature; next bit: the high half is a checksum. All else is zero.
    pub(super) fn raw(&self) -> RawLabel {
        let low = u64::from(self.signature.unwrap_or(0));
        let high = u64::from(self.checksum.unwrap_or(0));
        let flags = u32::from(self.signature.is_some()) | u32::from(self.checksum.is_some()) << 1;
        RawLabel { flags: flags.into(), values: (low | high << 32).into() }
    }

    pub(super) fn from_raw(raw: &RawLabel) -> Result<Self, Malformed> {
        let (flags, values) = (raw.flags.get(), raw.values.get());
        let label = Self {
            signature: (flags & 1 != 0).then_some(values as u32),
            checksum: (flags & 2 != 0).then_some((values >> 32) as u32),
        };
        // What is not said is zero, as is every bit without a meaning.
        let again = label.raw();
        if again.flags == raw.flags && again.values == raw.values {
            Ok(label)
        } else {
            Err(Malformed::Reserved)
        }
    }

    /// The label's bytes.
    pub fn emit(&self) -> [u8; LABEL_BYTES] {
        zerocopy::transmute!(self.raw())
    }

    /// Reads what follows the header of a [labelled](super::Kind::Labelled) message: the label, and the payload behind it.
    ///
    /// # Errors
    /// Too few bytes, or a bit without a meaning.
    pub fn split(rest: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        match RawLabel::read_from_prefix(rest) {
            Ok((raw, payload)) => Ok((Self::from_raw(&raw)?, payload)),
            Err(_) => Err(short(rest.len(), LABEL_BYTES)),
        }
    }
}
