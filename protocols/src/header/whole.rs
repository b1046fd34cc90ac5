//! The head of a whole message, eager or signed, read where it lies.

use aldis_hal::Epoch;
use zerocopy::FromBytes;

use super::{Kind, RawHeader};
use crate::VERSION;
use crate::credit::CreditLimits;

/// The fixed part of a whole message, of which each field is read when it is asked for: the quick
/// look, for a receiver that asks for each once, in the order in which it decides.
#[derive(Clone, Copy)]
pub struct WholeHead<'a>(&'a RawHeader);

impl<'a> WholeHead<'a> {
    /// A whole message of this kind, [eager](Kind::Eager) or [signed](Kind::Signed), and its
    /// payload, if that is what the bytes are. It is left to [`parse`](super::Header::parse) to say
    /// what is wrong with all others.
    #[inline(always)]
    pub fn parse(bytes: &'a [u8], kind: Kind) -> Option<(Self, &'a [u8])> {
        let (raw, rest) = RawHeader::ref_from_prefix(bytes).ok()?;
        if [raw.kind, raw.version] != [kind as u8, VERSION] {
            return None;
        }
        let length = raw.length.get();
        let bytes = if matches!(kind, Kind::Signed) { length & u64::from(u32::MAX) } else { length };
        if bytes != rest.len() as u64 {
            return None;
        }
        Some((Self(raw), rest))
    }

    /// The sender's boot id.
    #[inline(always)]
    pub fn epoch(self) -> Epoch {
        Epoch(self.0.epoch.get())
    }

    /// Position in the stream of matchable messages from this peer.
    #[inline(always)]
    pub fn sequence(self) -> u16 {
        self.0.sequence.get()
    }

    /// The limits up to which the receiver of this message may send in return.
    #[inline(always)]
    pub fn limits(self) -> CreditLimits {
        CreditLimits { envelopes: self.0.envelope_limit.get(), blocks: self.0.block_limit.get() }
    }

    /// Context id of the communicator.
    #[inline(always)]
    pub fn context(self) -> u32 {
        self.0.context.get()
    }

    /// The sender's rank in the context.
    #[inline(always)]
    pub fn source(self) -> u32 {
        self.0.source.get()
    }

    /// The message's tag.
    #[inline(always)]
    pub fn tag(self) -> u32 {
        self.0.tag.get()
    }

    /// The signature of the elements, if the message is signed.
    #[inline(always)]
    pub fn signature(self) -> u32 {
        (self.0.length.get() >> 32) as u32
    }
}
