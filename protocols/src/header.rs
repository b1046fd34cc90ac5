//! Headers on the wire. Fixed layout, little-endian, no padding, reserved fields zero; a checked
//! view over bytes on one side ([`Packet::parse`]) and a plain value on the other ([`Header`],
//! [`Body`]).
//!
//! ```text
//!  0      kind         1  version      2  envelope limit (u16)
//!  4      epoch of the sender (u32)
//!  8      context (u32)               12  source: the sender's rank in the context (u32)
//! 16      tag (u32)                   20  sequence (u16)    22  block limit (u16)
//! 24      length (u64)
//! 32      body, by kind
//! ```
//!
//! The two limits are the credits that every message carries back, see [`credit`](crate::credit).
//! `length` is the whole message for eager and announcements (of a signed message its low half
//! alone: the high half is the signature, and such a message is shorter than 4 GiB), the end of the
//! granted range for clear-to-send and clear-to-write, the fragment for data, the values of its
//! [`Label`] for a finish. The sequence counts matchable messages per peer; other kinds carry zero.
//! A seek carries the tag of a receive, an offer source, tag and length of a message; the tag of a
//! clear-to-send has bit 0 if its receive was late, bit 1 if it will ask for another piece, and bit
//! 2 if it has read all it wants of the sender's memory, so that nothing is asked for and no finish
//! is to follow; that of a clear-to-write has bit 0 as well, and its context and source are slot
//! and generation of the receiving request; that of data has bit 0 if it is typed, and bit 1 if its
//! finish will have a checksum; nothing is one byte long if other messages are held back, a settle
//! if the offer is taken, a recall if it is the answer.

use aldis_hal::cause::Malformed;
use aldis_hal::{Epoch, Handle};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

mod label;
mod packet;
mod whole;

pub use label::{LABEL_BYTES, Label};
pub use packet::{Body, DataHead, Packet};
pub use whole::WholeHead;

use crate::VERSION;
use crate::card::{ByteOrder, Room, WordWidth};
use crate::credit::CreditLimits;

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = size_of::<RawHeader>();
/// Bytes of a data fragment in front of its payload.
pub const DATA_HEADER_BYTES: usize = HEADER_BYTES + size_of::<RawData>();
/// The longest message that is not payload: clear-to-send.
pub const CONTROL_BYTES_MAX: usize = HEADER_BYTES + size_of::<RawClearToSend>();

/// Bytes of a key by which a peer reads or writes memory.
pub const KEY_BYTES: usize = 16;

/// A key that a transport has packed for the memory of one message, zeroes behind it. Only the
/// transport of the rank that reads or writes there knows what it means, and checks it.
pub type MemoryKey = [u8; KEY_BYTES];

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawHeader {
    kind: u8,
    version: u8,
    envelope_limit: U16,
    epoch: U32,
    context: U32,
    source: U32,
    tag: U32,
    sequence: U16,
    block_limit: U16,
    length: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawHandle {
    slot: U32,
    generation: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawClearToSend {
    sender: RawHandle,
    receiver: RawHandle,
    offset: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawExposed {
    sender: RawHandle,
    key: MemoryKey,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawPair {
    sender: RawHandle,
    receiver: RawHandle,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawContact {
    envelopes: U16,
    blocks: U16,
    block_bytes: U32,
    order: U32,
    words: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawData {
    receiver: RawHandle,
    offset: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawFinish {
    receiver: RawHandle,
    status: U32,
    label: U32,
}

const _: () = {
    assert!(HEADER_BYTES == 32 && align_of::<RawHeader>() == 1);
    assert!(size_of::<RawHandle>() == 8);
    assert!(DATA_HEADER_BYTES == 48);
    assert!(CONTROL_BYTES_MAX == 56, "a clear-to-send fits one shared-memory slot");
    assert!(size_of::<RawFinish>() == 16);
    assert!(size_of::<RawExposed>() == size_of::<RawClearToSend>());
};

impl From<Handle> for RawHandle {
    fn from(handle: Handle) -> Self {
        Self { slot: handle.slot.into(), generation: handle.generation.into() }
    }
}

impl From<RawHandle> for Handle {
    fn from(raw: RawHandle) -> Self {
        Self { slot: raw.slot.get(), generation: raw.generation.get() }
    }
}

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Kind {
    /// A whole message with its payload.
    Eager = 1,
    /// Rendezvous request: a message too large for eager is announced (RTS).
    Announce = 2,
    /// A message of eager size that found no block credit: announced, its data asked for later.
    Defer = 3,
    /// The receiver has matched an announcement and asks for a range of its data (RTR).
    ClearToSend = 4,
    /// A fragment of the data asked for.
    Data = 5,
    /// The sender has sent what was asked for, or will not.
    Finish = 6,
    /// No payload: only the credits that every header carries.
    Credit = 7,
    /// A [`Control`](crate::Control) message.
    Control = 8,
    /// The sender holds messages back for want of envelopes: see [`overflow`](crate::overflow) for
    /// this and the next.
    Stalled = 9,
    /// The receiver asks whether a message held back fits a receive.
    Seek = 10,
    /// The first message held back that fits.
    Offer = 11,
    /// No message held back fits.
    Nothing = 12,
    /// The offer is not taken, and the message stays where it is; or it is taken, and its data
    /// asked for later.
    Settle = 13,
    /// A whole message with a [`Label`] in front of its payload.
    Labelled = 14,
    /// The receiver of a partitioned message has matched it, or has started a round: see
    /// [`partitioned`](crate::partitioned).
    Grant = 15,
    /// An announcement with the key by which the receiver can read the data from the sender's
    /// memory.
    Expose = 16,
    /// An announcement whose data the sender writes into the receiver's memory, if it gets the key.
    AnnounceWrite = 17,
    /// The receiver has matched such an announcement, and tells the key.
    ClearToWrite = 18,
    /// A whole message whose header tells the signature of its elements, and which is like an eager
    /// one otherwise.
    Signed = 19,
    /// An announcement like [`Expose`](Self::Expose) whose header tells the signature of the
    /// elements.
    ExposeSigned = 20,
    /// The sender has a row for the receiver, and tells the room in it: see
    /// [`contact`](crate::contact) for this and the next.
    Contact = 21,
    /// The sender says nothing more in this contact.
    Close = 22,
    /// The sender of an announced message asks for it back, or the receiver, who had not matched
    /// it, gives it back: see [`rendezvous`](crate::rendezvous).
    Recall = 23,
}

impl Kind {
    fn from_wire(kind: u8) -> Result<Self, Malformed> {
        Ok(match kind {
            1 => Self::Eager,
            2 => Self::Announce,
            3 => Self::Defer,
            4 => Self::ClearToSend,
            5 => Self::Data,
            6 => Self::Finish,
            7 => Self::Credit,
            8 => Self::Control,
            9 => Self::Stalled,
            10 => Self::Seek,
            11 => Self::Offer,
            12 => Self::Nothing,
            13 => Self::Settle,
            14 => Self::Labelled,
            15 => Self::Grant,
            16 if crate::LENDS => Self::Expose,
            17 if crate::LENDS => Self::AnnounceWrite,
            18 if crate::LENDS => Self::ClearToWrite,
            19 => Self::Signed,
            20 if crate::LENDS => Self::ExposeSigned,
            21 if crate::ACTIVE => Self::Contact,
            22 if crate::ACTIVE => Self::Close,
            23 => Self::Recall,
            other => return Err(Malformed::Kind(other)),
        })
    }

    /// Returns true if the message takes part in matching: takes an envelope credit and a sequence
    /// number.
    #[inline]
    pub const fn is_matchable(self) -> bool {
        use Kind::*;
        matches!(self, Eager | Signed | Announce | Defer | Labelled | Expose | ExposeSigned | AnnounceWrite)
    }
}

/// In the tag of a grant: a round has been started.
pub const GRANT_STARTED: u32 = 1 << 31;

/// The fixed part of every message. See the [module](self) for the meaning of each field by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    /// The kind of the message.
    pub kind: Kind,
    /// The limits up to which the receiver of this message may send in return.
    pub limits: CreditLimits,
    /// The sender's boot id.
    pub epoch: Epoch,
    /// Context id of the communicator.
    pub context: u32,
    /// The sender's rank in the context.
    pub source: u32,
    /// The message's tag.
    pub tag: u32,
    /// Position in the stream of matchable messages from this peer.
    pub sequence: u16,
    /// Bytes; see the module.
    pub length: u64,
}

impl Header {
    fn raw(&self) -> RawHeader {
        RawHeader {
            kind: self.kind as u8,
            version: VERSION,
            envelope_limit: self.limits.envelopes.into(),
            epoch: self.epoch.0.into(),
            context: self.context.into(),
            source: self.source.into(),
            tag: self.tag.into(),
            sequence: self.sequence.into(),
            block_limit: self.limits.blocks.into(),
            length: self.length.into(),
        }
    }

    /// This header made one of a [signed](Kind::Signed) message, with a hash of the sequence of its
    /// basic types; of an announcement by which data can be read, one of its
    /// [signed](Kind::ExposeSigned) kind.
    #[must_use]
    #[inline]
    pub const fn signed(self, signature: u32) -> Self {
        let kind = match self.kind {
            Kind::Expose if crate::LENDS => Kind::ExposeSigned,
            _ => Kind::Signed,
        };
        Self { kind, length: self.length | (signature as u64) << 32, ..self }
    }

    /// Bytes of a whole message, or of one that is announced.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> u64 {
        let is_signed =
            matches!(self.kind, Kind::Signed) || crate::LENDS && matches!(self.kind, Kind::ExposeSigned);
        if is_signed { self.length & u32::MAX as u64 } else { self.length }
    }

    /// The signature of a signed message.
    #[inline]
    const fn signature(&self) -> u32 {
        (self.length >> 32) as u32
    }

    /// Reads the fixed part of a message; the second is what follows it.
    ///
    /// # Errors
    /// Too few bytes, another version, or an unknown kind.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Ok((raw, rest)) = RawHeader::read_from_prefix(bytes) else {
            return Err(short(bytes.len(), HEADER_BYTES));
        };
        if raw.version != VERSION {
            return Err(Malformed::Version(raw.version));
        }
        Ok((Self::from_raw(&raw, Kind::from_wire(raw.kind)?), rest))
    }

    fn from_raw(raw: &RawHeader, kind: Kind) -> Self {
        Self {
            kind,
            limits: CreditLimits { envelopes: raw.envelope_limit.get(), blocks: raw.block_limit.get() },
            epoch: Epoch(raw.epoch.get()),
            context: raw.context.get(),
            source: raw.source.get(),
            tag: raw.tag.get(),
            sequence: raw.sequence.get(),
            length: raw.length.get(),
        }
    }

    /// Returns the bytes behind the header of an eager or control message: as many as the header
    /// says.
    ///
    /// # Errors
    /// [`Malformed::Length`] if it is not.
    pub fn payload<'a>(&self, rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        if self.length == rest.len() as u64 { Ok(rest) } else { Err(Malformed::Length) }
    }

    /// The header's bytes, made in words where words have 64 bits. A caller that copies them by
    /// words gets them in registers: bytes that are stored in small pieces and loaded in larger
    /// ones wait until all stores before them are done, of which one may be for a line that another
    /// core has.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        if !cfg!(target_pointer_width = "64") {
            return zerocopy::transmute!(self.raw());
        }
        let CreditLimits { envelopes, blocks } = self.limits;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let halves = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        let kind = u16::from_le_bytes([self.kind as u8, VERSION]);
        let words: [U64; HEADER_BYTES / 8] = [
            pair(halves(kind, envelopes), self.epoch.0).into(),
            pair(self.context, self.source).into(),
            pair(self.tag, halves(self.sequence, blocks)).into(),
            self.length.into(),
        ];
        zerocopy::transmute!(words)
    }

    /// Header and fixed body of a data fragment; its payload follows on the wire.
    pub fn emit_data(&self, receiver: Handle, offset: u64) -> [u8; DATA_HEADER_BYTES] {
        let body = RawData { receiver: receiver.into(), offset: offset.into() };
        zerocopy::transmute!((self.raw(), body).pack())
    }
}

/// The body of a message about one request: an announcement, a settle or a recall names the
/// sender's, a seek and its answer nothing the receiver's.
pub fn about(request: Handle) -> [u8; 8] {
    zerocopy::transmute!(RawHandle::from(request))
}

/// The body of an announcement whose data can be read by `key`, and of the answer to one whose data
/// can be written by it.
pub fn exposed(sender: Handle, key: MemoryKey) -> [u8; CONTROL_BYTES_MAX - HEADER_BYTES] {
    zerocopy::transmute!(RawExposed { sender: sender.into(), key })
}

/// The body of a message about two requests: an offer, a grant.
pub fn about_both(sender: Handle, receiver: Handle) -> [u8; 16] {
    zerocopy::transmute!(RawPair { sender: sender.into(), receiver: receiver.into() })
}

/// The body of a contact: the room that the sender has for the receiver, and how its data looks.
/// The limits in its header are the credits to begin with.
pub fn contact(room: &Room, order: ByteOrder, words: WordWidth) -> [u8; 16] {
    zerocopy::transmute!(RawContact {
        envelopes: room.envelopes.into(),
        blocks: room.blocks.into(),
        block_bytes: room.block_bytes.into(),
        order: (order as u32).into(),
        words: (words as u32).into(),
    })
}

/// The body of a clear-to-send from `offset` up to the length in its header.
pub fn clear_to_send(
    sender: Handle,
    receiver: Handle,
    offset: u64,
) -> [u8; CONTROL_BYTES_MAX - HEADER_BYTES] {
    let (sender, receiver) = (sender.into(), receiver.into());
    zerocopy::transmute!(RawClearToSend { sender, receiver, offset: offset.into() })
}

/// The body of a finish. [`Label::values`] take the place of the length in its header.
pub fn finish(receiver: Handle, status: Finish, label: &Label) -> [u8; 16] {
    let (status, label) = ((status as u32).into(), label.raw().flags);
    zerocopy::transmute!(RawFinish { receiver: receiver.into(), status, label })
}

/// Two wire structs one after the other.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Joined<A, B>(A, B);

trait Pack<A, B> {
    fn pack(self) -> Joined<A, B>;
}

impl<A, B> Pack<A, B> for (A, B) {
    fn pack(self) -> Joined<A, B> {
        Joined(self.0, self.1)
    }
}

/// The outcome of a rendezvous at the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum Finish {
    /// All bytes asked for were sent.
    Complete = 0,
    /// The sender withdrew the message before it was matched.
    Withdrawn = 1,
    /// All bytes were written into the receiver's memory.
    Written = 2,
}

fn short(got: usize, need: usize) -> Malformed {
    Malformed::Short {
        got: got.min(usize::from(u16::MAX)) as u16,
        need: need.min(usize::from(u16::MAX)) as u16,
    }
}

#[cfg(test)]
mod tests;
