//! A received message, checked: its header and what follows by its kind.

use aldis_hal::Handle;
use aldis_hal::cause::Malformed;
use zerocopy::FromBytes;

use super::{
    Finish, GRANT_STARTED, Header, Kind, Label, RawClearToSend, RawData, RawFinish, RawLabel, RawPair,
    exactly, handle, short,
};

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
        /// Whether it was deferred for want of a block, not for its size.
        deferred: bool,
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
        /// It will ask for another piece after this one.
        more: bool,
    },
    /// A fragment.
    Data {
        /// The request it is for.
        receiver: Handle,
        /// Its place in the message.
        offset: u64,
        /// Its bytes.
        payload: &'a [u8],
        /// They are of a typed message: in the byte order of the sender.
        typed: bool,
        /// The finish will have a checksum of them.
        checked: bool,
    },
    /// The end of a rendezvous.
    Finish {
        /// The request it is for.
        receiver: Handle,
        /// How it ended.
        status: Finish,
        /// What is said about the data.
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
    /// What becomes of an offer.
    Settle {
        /// The request that was offered.
        sender: Handle,
        /// It is matched, and waits to be asked; if not, it stays where it is.
        taken: bool,
    },
    /// The receiver of a partitioned message has matched it. The header's length is that of the receiver.
    Grant {
        /// The request that sends it.
        sender: Handle,
        /// The request that takes the data.
        receiver: Handle,
        /// How the receiver cuts it.
        partitions: u32,
        /// A round has been started.
        started: bool,
    },
    /// A control message, still encoded.
    Control(&'a [u8]),
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

impl<'a> Body<'a> {
    /// Reads what follows a header.
    ///
    /// # Errors
    /// What is wrong with it, in itself or by the header.
    pub fn parse(header: &Header, rest: &'a [u8]) -> Result<Self, Malformed> {
        let (has_source, has_tag) = match header.kind {
            Kind::Seek | Kind::ClearToSend | Kind::Data | Kind::Grant => (false, true),
            kind => (kind.is_matchable() || kind == Kind::Offer, kind.is_matchable() || kind == Kind::Offer),
        };
        let stray = (!has_source && header.source != 0) || (!has_tag && header.tag != 0);
        if stray || (!header.kind.is_matchable() && header.sequence != 0) {
            return Err(Malformed::Reserved);
        }
        Ok(match header.kind {
            Kind::Eager => Self::Eager(header.payload(rest)?),
            Kind::Announce | Kind::Defer => {
                Self::Announce { sender: handle(rest)?, deferred: header.kind == Kind::Defer }
            }
            Kind::ClearToSend => {
                let raw: RawClearToSend = exactly(rest)?;
                let offset = raw.offset.get();
                if offset > header.length {
                    return Err(Malformed::Length);
                }
                if header.tag > 3 {
                    return Err(Malformed::Reserved);
                }
                let (sender, receiver) = (raw.sender.into(), raw.receiver.into());
                let (late, more) = (header.tag & 1 != 0, header.tag & 2 != 0);
                Self::ClearToSend { sender, receiver, offset, late, more }
            }
            Kind::Data => {
                let Ok((raw, payload)) = RawData::read_from_prefix(rest) else {
                    return Err(short(rest.len(), size_of::<RawData>()));
                };
                let offset = raw.offset.get();
                if header.length != payload.len() as u64 || offset.checked_add(header.length).is_none() {
                    return Err(Malformed::Length);
                }
                if header.tag > 3 {
                    return Err(Malformed::Reserved);
                }
                let (typed, checked) = (header.tag & 1 != 0, header.tag & 2 != 0);
                Self::Data { receiver: raw.receiver.into(), offset, payload, typed, checked }
            }
            Kind::Finish => {
                let raw: RawFinish = exactly(rest)?;
                let status = match raw.status.get() {
                    0 => Finish::Complete,
                    1 => Finish::Withdrawn,
                    _ => return Err(Malformed::Reserved),
                };
                let label = Label::from_raw(&RawLabel { flags: raw.label, values: header.length.into() })?;
                if status == Finish::Withdrawn && label != Label::NONE {
                    return Err(Malformed::Reserved);
                }
                Self::Finish { receiver: raw.receiver.into(), status, label }
            }
            Kind::Labelled => {
                let (label, payload) = Label::split(rest)?;
                Self::Labelled(label, header.payload(payload)?)
            }
            Kind::Credit | Kind::Stalled if !rest.is_empty() || header.length != 0 => {
                return Err(Malformed::Length);
            }
            Kind::Credit => Self::Credit,
            Kind::Stalled => Self::Stalled,
            Kind::Seek if header.length != 0 => return Err(Malformed::Length),
            Kind::Seek => Self::Seek { receiver: handle(rest)? },
            Kind::Offer => {
                let raw: RawPair = exactly(rest)?;
                Self::Offer { sender: raw.sender.into(), receiver: raw.receiver.into() }
            }
            Kind::Nothing | Kind::Settle if header.length > 1 => return Err(Malformed::Length),
            Kind::Settle => Self::Settle { sender: handle(rest)?, taken: header.length == 1 },
            Kind::Nothing => Self::Nothing { receiver: handle(rest)?, more: header.length == 1 },
            Kind::Grant => {
                let raw: RawPair = exactly(rest)?;
                let (partitions, started) = (header.tag & !GRANT_STARTED, header.tag & GRANT_STARTED != 0);
                let (sender, receiver) = (raw.sender.into(), raw.receiver.into());
                Self::Grant { sender, receiver, partitions, started }
            }
            Kind::Control => Self::Control(header.payload(rest)?),
        })
    }
}
