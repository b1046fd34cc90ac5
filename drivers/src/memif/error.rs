//! The reasons why a memif cannot be used, or not any more.

use core::fmt;

use aldis_hal::Cause;

/// Bytes of a name, and of as much of a peer's reason as is kept.
pub(super) const TEXT_BYTES: usize = 32;

/// A short text of a peer, such as its name or its reason.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemifText([u8; TEXT_BYTES]);

impl MemifText {
    /// The text, as much of it as there is room for.
    pub fn new(text: &str) -> Self {
        Self::of_bytes(text.as_bytes())
    }

    /// The bytes up to the first zero, as much of them as there is room for.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let mut text = [0; TEXT_BYTES];
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        for (to, from) in text.iter_mut().zip(bytes.get(..end).unwrap_or_default()) {
            *to = *from;
        }
        Self(text)
    }

    /// The text with zeros behind it.
    pub(super) const fn bytes(&self) -> &[u8; TEXT_BYTES] {
        &self.0
    }
}

impl fmt::Display for MemifText {
    /// Writes a question mark for each byte that cannot be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;

        let said = self.0.iter().take_while(|&&byte| byte != 0);
        said.map(|&byte| if matches!(byte, b' '..=b'~') { byte.into() } else { '?' })
            .try_for_each(|letter| f.write_char(letter))
    }
}

impl fmt::Debug for MemifText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The reason why a memif cannot be used, or not any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MemifError {
    /// The peer has ended the connection.
    Refused(MemifText),
    /// The peer speaks no version that is spoken here.
    Version {
        /// The oldest that it speaks.
        oldest: u16,
        /// The newest.
        newest: u16,
    },
    /// A client asks for an interface of another number.
    Id {
        /// The number that it asks for.
        asked: u32,
        /// The number that there is.
        own: u32,
    },
    /// A client carries no frames of Ethernet.
    Mode(u8),
    /// A client does not know the secret.
    Secret,
    /// No message of the protocol: its type, or 0 for one that is no whole message.
    Malformed(u16),
    /// A message at a time when it makes no sense: its type.
    Unexpected(u16),
    /// A region or a ring that came without its descriptor.
    NoDescriptor,
    /// A region out of order, without bytes, or one more than there is room for: its number.
    Region(u16),
    /// A ring that was not agreed upon, that does not lie in a region, or is none.
    Ring,
    /// An index of a ring that runs ahead of what there is, or back.
    Index {
        /// The index that the peer has written.
        index: u16,
        /// The index at which this end is.
        own: u16,
    },
    /// A descriptor whose buffer does not lie in a region, or has no bytes.
    Descriptor {
        /// Its region.
        region: u16,
        /// The offset of its buffer there.
        offset: u32,
        /// The bytes of its buffer.
        length: u32,
    },
    /// A frame in several buffers of which the last is missing.
    Chain,
}

impl MemifError {
    /// The cause that a transport tells.
    pub const fn cause(&self) -> Cause {
        match self {
            Self::Version { .. } | Self::Mode(_) => Cause::Incompatible,
            Self::Refused(_) | Self::Id { .. } | Self::Secret => Cause::Unreachable,
            _ => Cause::Device,
        }
    }
}

impl fmt::Display for MemifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Refused(reason) if reason == MemifText::default() => f.write_str("the peer has gone"),
            Self::Refused(reason) => write!(f, "the peer refuses: {reason}"),
            Self::Version { oldest, newest } => {
                let [[old, older], [new, newer]] = [oldest, newest].map(u16::to_be_bytes);
                write!(f, "the peer speaks memif {old}.{older} to {new}.{newer}, and this end 2.0")
            }
            Self::Id { asked, own } => write!(f, "the peer asks for id {asked}, and this end is id {own}"),
            Self::Mode(mode) => write!(f, "the peer asks for mode {mode}, and this end is Ethernet"),
            Self::Secret => f.write_str("the peer has another secret"),
            Self::Malformed(kind) => write!(f, "a message of type {kind} that is none"),
            Self::Unexpected(kind) => write!(f, "a message of type {kind} at the wrong time"),
            Self::NoDescriptor => f.write_str("a region or a ring without its descriptor"),
            Self::Region(index) => write!(f, "region {index} is one that cannot be"),
            Self::Ring => f.write_str("a ring that cannot be"),
            Self::Index { index, own } => write!(f, "a ring's index is {index}, and this end is at {own}"),
            Self::Descriptor { region, offset, length } => {
                write!(f, "a buffer of {length} bytes at {offset} of region {region} that cannot be")
            }
            Self::Chain => f.write_str("a frame without its end"),
        }
    }
}

impl core::error::Error for MemifError {}
