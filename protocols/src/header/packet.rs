//! A received message, checked: its header and what follows by its kind.

use aldis_hal::Handle;
use aldis_hal::cause::Malformed;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    Finish, GRANT_STARTED, Header, Kind, LABEL_BYTES, Label, RawClearToSend, RawContact, RawData, RawExposed,
    RawFinish, RawHandle, RawPair, short,
};
use crate::card::{ByteOrder, Room, WordWidth};

/// The part of a message that depends on its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Body<'a> {
    /// A whole message's payload.
    Eager(&'a [u8]),
    /// An announced message; the data is asked for from `sender`.
    Announce {
        /// The sending request: the token by which the receiver resumes it.
        sender: Handle,
        /// True if it was deferred for want of a block, not for its size.
        deferred: bool,
    },
    /// An announced message whose data can be read.
    Expose {
        /// The sending request.
        sender: Handle,
        /// By which its memory is read.
        key: super::MemoryKey,
        /// The signature of its elements, if it is typed.
        signature: Option<u32>,
    },
    /// An announced message whose data the sender would write.
    AnnounceWrite {
        /// The sending request.
        sender: Handle,
    },
    /// The receiver is ready for such data, up to the length in the header.
    ClearToWrite {
        /// The request asked.
        sender: Handle,
        /// The request that waits for the data.
        receiver: Handle,
        /// By which its memory is written.
        key: super::MemoryKey,
        /// The receive was posted only after the announcement had come.
        late: bool,
    },
    /// The receiver asks for `offset..header.length`.
    ClearToSend {
        /// The request asked.
        sender: Handle,
        /// The request that will take the data.
        receiver: Handle,
        /// First byte wanted.
        offset: u64,
        /// The receive was posted only after the announcement had come.
        late: bool,
        /// True if the receiver will ask for another piece after this one.
        more: bool,
        /// True if the receiver has read what it wants: nothing is asked for, and nothing is to be
        /// said.
        read: bool,
    },
    /// A fragment.
    Data {
        /// The request it is for.
        receiver: Handle,
        /// Its place in the message.
        offset: u64,
        /// Its bytes.
        payload: &'a [u8],
        /// True if they are of a typed message: in the byte order of the sender.
        typed: bool,
        /// The finish will have a checksum of them.
        checked: bool,
    },
    /// The end of a rendezvous.
    Finish {
        /// The request it is for.
        receiver: Handle,
        /// The outcome.
        status: Finish,
        /// The label of the data.
        label: Label,
    },
    /// A whole message's label and payload.
    Labelled(Label, &'a [u8]),
    /// Credits only.
    Credit,
    /// Messages are held back.
    Stalled,
    /// The receiver asks for a message for this request.
    Seek {
        /// The receive.
        receiver: Handle,
    },
    /// A message held back is offered.
    Offer {
        /// The request that sends it.
        sender: Handle,
        /// The receive that was asked about.
        receiver: Handle,
    },
    /// No message held back fits.
    Nothing {
        /// The receive that was asked about.
        receiver: Handle,
        /// Others are held back.
        more: bool,
    },
    /// The fate of an offer.
    Settle {
        /// The request that was offered.
        sender: Handle,
        /// True if it is matched, and waits to be asked; if not, it stays where it is.
        taken: bool,
    },
    /// The receiver of a partitioned message has matched it. The header's length is that of the
    /// receiver.
    Grant {
        /// The request that sends it.
        sender: Handle,
        /// The request that takes the data.
        receiver: Handle,
        /// The number of partitions into which the receiver cuts it.
        partitions: u32,
        /// A round has been started.
        started: bool,
    },
    /// A control message, still encoded.
    Control(&'a [u8]),
    /// The sender has a row for the receiver.
    Contact {
        /// The room that it grants.
        room: Room,
        /// The byte order of its typed messages.
        order: ByteOrder,
        /// The width of its words.
        words: WordWidth,
    },
    /// The sender says nothing more in this contact.
    Close,
    /// An announced message is asked for back, or given back.
    Recall {
        /// The request that sends it.
        sender: Handle,
        /// True if it is given back: no receive has matched it, and none will.
        given: bool,
    },
}

/// A received message, checked: every length in it agrees with the bytes that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Packet<'a> {
    /// The fixed part.
    pub header: Header,
    /// The rest.
    pub body: Body<'a>,
}

impl<'a> Packet<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// What is wrong with it. The bytes are untrusted; no input panics.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::parse(bytes)?;
        Ok(Self { header, body: Body::parse(&header, rest)? })
    }
}

/// The head of a data fragment whose payload has not come yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DataHead {
    /// The fixed part; its length is that of the payload.
    pub header: Header,
    /// The request it is for.
    pub receiver: Handle,
    /// Its place in the message.
    pub offset: u64,
    /// True if its bytes are of a typed message: in the byte order of the sender.
    pub typed: bool,
}

impl DataHead {
    /// Reads the head of a fragment whose finish will have no checksum.
    ///
    /// # Errors
    /// What is wrong with it; [`Malformed::Kind`] for any other message, [`Malformed::Reserved`]
    /// for a fragment that is checked.
    pub fn parse(head: &[u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::parse(head)?;
        if header.kind != Kind::Data {
            return Err(Malformed::Kind(header.kind as u8));
        }
        let Header { source: 0, tag: 0 | 1, sequence: 0, .. } = header else {
            return Err(Malformed::Reserved);
        };
        let Ok(RawData { receiver, offset }) = RawData::read_from_bytes(rest) else {
            return Err(short(rest.len(), size_of::<RawData>()));
        };
        let offset = offset.get();
        if offset.checked_add(header.length).is_none() {
            return Err(Malformed::Length);
        }
        Ok(Self { header, receiver: receiver.into(), offset, typed: header.tag == 1 })
    }
}

/// The fixed part of a body: bytes of each kind, and whether a payload follows, as long as the
/// header says.
const fn form(kind: Kind) -> (usize, bool) {
    match kind {
        Kind::Eager | Kind::Signed | Kind::Control => (0, true),
        Kind::Labelled => (LABEL_BYTES, true),
        Kind::Data => (size_of::<RawData>(), true),
        Kind::Credit | Kind::Stalled | Kind::Close => (0, false),
        Kind::Contact => (size_of::<RawContact>(), false),
        Kind::Announce | Kind::AnnounceWrite | Kind::Defer => (size_of::<RawHandle>(), false),
        Kind::Seek | Kind::Nothing | Kind::Settle | Kind::Recall => (size_of::<RawHandle>(), false),
        Kind::Offer | Kind::Grant => (size_of::<RawPair>(), false),
        Kind::Finish => (size_of::<RawFinish>(), false),
        Kind::ClearToSend => (size_of::<RawClearToSend>(), false),
        Kind::Expose | Kind::ExposeSigned | Kind::ClearToWrite => (size_of::<RawExposed>(), false),
    }
}

/// The largest length and tag in the header of a message that is not matched; of an offer both are
/// the message's.
const fn limits(kind: Kind) -> (u64, u32) {
    match kind {
        Kind::Credit | Kind::Stalled | Kind::Seek | Kind::Contact | Kind::Close => (0, u32::MAX),
        Kind::Nothing | Kind::Settle | Kind::Recall => (1, u32::MAX),
        Kind::ClearToSend => (u64::MAX, 7),
        Kind::ClearToWrite => (u64::MAX, 1),
        Kind::Data => (u64::MAX, 3),
        _ => (u64::MAX, u32::MAX),
    }
}

/// The fixed part of any body as words, with zeroes behind a short one.
type HeaderWords = [u32; size_of::<RawClearToSend>() / 4];

impl<'a> Body<'a> {
    /// Reads what follows a header.
    ///
    /// # Errors
    /// What is wrong with it, in itself or by the header.
    pub fn parse(header: &Header, rest: &'a [u8]) -> Result<Self, Malformed> {
        let kind = header.kind;
        let has_source = kind.is_matchable() || matches!(kind, Kind::Offer | Kind::ClearToWrite);
        let has_tag = has_source || matches!(kind, Kind::Seek | Kind::ClearToSend | Kind::Data | Kind::Grant);
        let stray = (!has_source && header.source != 0) || (!has_tag && header.tag != 0);
        if stray || (!kind.is_matchable() && header.sequence != 0) {
            return Err(Malformed::Reserved);
        }
        let (need, has_payload) = form(kind);
        let Some((fixed, payload)) = rest.split_at_checked(need) else {
            return Err(short(rest.len(), need));
        };
        let (length_max, tag_max) = limits(kind);
        let length = if has_payload { header.bytes() } else { 0 };
        if length != payload.len() as u64 || header.length > length_max {
            return Err(Malformed::Length);
        }
        if header.tag > tag_max {
            return Err(Malformed::Reserved);
        }
        let mut words: HeaderWords = [0; _];
        for (to, from) in words.as_mut_bytes().iter_mut().zip(fixed) {
            *to = *from;
        }
        for word in &mut words {
            *word = u32::from_le(*word);
        }
        Self::of(header, words, payload)
    }

    fn of(header: &Header, words: [u32; 6], payload: &'a [u8]) -> Result<Self, Malformed> {
        let [slot, generation, other_slot, other_generation, low, high] = words;
        let first = Handle { slot, generation };
        let second = Handle { slot: other_slot, generation: other_generation };
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (bit, other_bit) = (header.tag & 1 != 0, header.tag & 2 != 0);
        let key = || zerocopy::transmute!([other_slot, other_generation, low, high].map(U32::new));
        Ok(match header.kind {
            Kind::Eager => Self::Eager(payload),
            Kind::Signed => Self::Labelled(Label::signed(header.signature()), payload),
            Kind::Control => Self::Control(payload),
            Kind::Labelled => Self::Labelled(Label::read(slot, long(generation, other_slot))?, payload),
            Kind::Announce | Kind::Defer => {
                Self::Announce { sender: first, deferred: header.kind == Kind::Defer }
            }
            Kind::ClearToSend => {
                let offset = long(low, high);
                if offset > header.length {
                    return Err(Malformed::Length);
                }
                let read = header.tag & 4 != 0;
                if read && (other_bit || offset != header.length) {
                    return Err(Malformed::Reserved);
                }
                Self::ClearToSend {
                    sender: first,
                    receiver: second,
                    offset,
                    late: bit,
                    more: other_bit,
                    read,
                }
            }
            Kind::Data => {
                let offset = long(other_slot, other_generation);
                if offset.checked_add(header.length).is_none() {
                    return Err(Malformed::Length);
                }
                Self::Data { receiver: first, offset, payload, typed: bit, checked: other_bit }
            }
            Kind::Finish => {
                let label = Label::read(other_generation, header.length)?;
                let status = match other_slot {
                    0 => Finish::Complete,
                    1 if label == Label::NONE => Finish::Withdrawn,
                    2 if crate::LENDS => Finish::Written,
                    _ => return Err(Malformed::Reserved),
                };
                Self::Finish { receiver: first, status, label }
            }
            Kind::Expose | Kind::ExposeSigned | Kind::AnnounceWrite | Kind::ClearToWrite if !crate::LENDS => {
                return Err(Malformed::Kind(header.kind as u8));
            }
            Kind::Expose => Self::Expose { sender: first, key: key(), signature: None },
            Kind::ExposeSigned => {
                Self::Expose { sender: first, key: key(), signature: Some(header.signature()) }
            }
            Kind::AnnounceWrite => Self::AnnounceWrite { sender: first },
            Kind::ClearToWrite => {
                let receiver = Handle { slot: header.context, generation: header.source };
                Self::ClearToWrite { sender: first, receiver, key: key(), late: bit }
            }
            Kind::Contact | Kind::Close if !crate::ACTIVE => {
                return Err(Malformed::Kind(header.kind as u8));
            }
            Kind::Contact => {
                let room =
                    Room { envelopes: slot as u16, blocks: (slot >> 16) as u16, block_bytes: generation };
                let order = match other_slot {
                    0 => ByteOrder::Little,
                    1 => ByteOrder::Big,
                    _ => return Err(Malformed::Reserved),
                };
                let words = match other_generation {
                    0 => WordWidth::Four,
                    1 => WordWidth::Eight,
                    _ => return Err(Malformed::Reserved),
                };
                Self::Contact { room, order, words }
            }
            Kind::Close => Self::Close,
            Kind::Credit => Self::Credit,
            Kind::Stalled => Self::Stalled,
            Kind::Seek => Self::Seek { receiver: first },
            Kind::Offer => Self::Offer { sender: first, receiver: second },
            Kind::Settle => Self::Settle { sender: first, taken: header.length == 1 },
            Kind::Recall => Self::Recall { sender: first, given: header.length == 1 },
            Kind::Nothing => Self::Nothing { receiver: first, more: header.length == 1 },
            Kind::Grant => {
                let (partitions, started) = (header.tag & !GRANT_STARTED, header.tag & GRANT_STARTED != 0);
                Self::Grant { sender: first, receiver: second, partitions, started }
            }
        })
    }
}
