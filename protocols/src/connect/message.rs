//! The messages of the handshake, `postcard`-encoded as the payload of a frame.

use aldis_hal::Epoch;
use aldis_hal::cause::Malformed;
use serde::{Deserialize, Serialize};

use crate::VERSION;

/// The longest encoded message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 64;

/// The first bytes of every message.
const MAGIC: [u8; 4] = *b"Ald1";

/// The reason why a peer is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum HandshakeRefusal {
    /// Another version of the wire format.
    Version,
    /// Another job.
    Job,
    /// Not the rank that is expected behind this address.
    Rank,
    /// A window or a frame length that cannot work.
    Limits,
    /// A life of the peer that has not been introduced (yet): it may ask again.
    Unknown,
    /// An attempt or a connection that this side does not hold any more: it may ask again.
    Stale,
    /// This side has no room for a connection now: it may ask again.
    Busy,
}

impl core::fmt::Display for HandshakeRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Version => "another version of the wire format",
            Self::Job => "another job",
            Self::Rank => "not the rank that was expected",
            Self::Limits => "a window or a frame length that cannot work",
            Self::Unknown => "a life that has not been introduced",
            Self::Stale => "an attempt that has been abandoned",
            Self::Busy => "no room for a connection now",
        })
    }
}

/// The kind of a message. Its numbers begin with one, so that "none" is zero and a machine that has
/// nothing to say is all zero; on the wire they begin with zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum HandshakeKind {
    /// Shall we?
    Hello = 1,
    /// Yes, and are you there?
    Welcome,
    /// I am.
    Confirm,
    /// No.
    Refuse(HandshakeRefusal),
    /// I have said all, and you have got it.
    Close,
}

/// The limits of what a side can take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinkOffer {
    /// Frames that it takes ahead of what it has.
    pub window: u8,
    /// Bytes of the largest payload of a frame that it takes.
    pub frame_bytes: u16,
}

/// The numbers of a connection, as a message's sender knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionNumbers {
    /// The number that the sender has chosen.
    pub own: u32,
    /// The receiver's; zero: not known.
    pub echo: u32,
}

/// The two ends of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageEnds {
    /// The job.
    pub job: u64,
    /// The sender.
    pub rank: u32,
    /// The sender's life.
    pub epoch: Epoch,
    /// The rank that the sender believes the receiver to be.
    pub to: u32,
}

/// A message of the handshake. The fields down to `epoch` are the same in every version of the wire
/// format, so that a refusal for its version can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Message {
    magic: [u8; 4],
    /// The sender's version of the wire format.
    pub version: u8,
    /// The kind of the message.
    pub kind: HandshakeKind,
    /// The number that the sender has chosen for the connection: it is on every frame to the
    /// sender.
    pub number: u32,
    /// The receiver's number as the sender knows it; zero: not at all.
    pub echo: u32,
    /// The job.
    pub job: u64,
    /// The sender.
    pub rank: u32,
    /// The rank that the sender believes the receiver to be.
    pub to: u32,
    epoch: u32,
    /// The limits of what the sender can take; nothing if it speaks another version.
    #[serde(skip)]
    pub offer: LinkOffer,
}

impl Message {
    /// A message of this build's version.
    #[must_use]
    pub const fn new(
        kind: HandshakeKind,
        numbers: ConnectionNumbers,
        ends: MessageEnds,
        offer: LinkOffer,
    ) -> Self {
        let ConnectionNumbers { own: number, echo } = numbers;
        let MessageEnds { job, rank, epoch, to } = ends;
        Self { magic: MAGIC, version: VERSION, kind, number, echo, job, rank, to, epoch: epoch.0, offer }
    }

    /// The sender's life.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Writes the message; [`MESSAGE_BYTES_MAX`] bytes are always enough. `None`: the buffer is too
    /// short.
    #[must_use]
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = postcard::to_slice(&(self, self.offer), buffer).ok()?.len();
        buffer.get(..length)
    }

    /// Reads a message of any version.
    ///
    /// # Errors
    /// [`Malformed::Control`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (message, rest) = postcard::take_from_bytes::<Self>(bytes).map_err(|_| Malformed::Control)?;
        if message.magic != MAGIC || message.epoch == 0 {
            return Err(Malformed::Control);
        }
        if message.version != VERSION {
            return Ok(message);
        }
        match postcard::take_from_bytes(rest) {
            Ok((offer, [])) => Ok(Self { offer, ..message }),
            _ => Err(Malformed::Control),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(kind: HandshakeKind) -> Message {
        let offer = LinkOffer { window: 32, frame_bytes: 1468 };
        let ends = MessageEnds { job: 300, rank: 3, epoch: Epoch(9), to: 2 };
        Message::new(kind, ConnectionNumbers { own: 0x0005_0003, echo: 7 }, ends, offer)
    }

    #[test]
    fn golden_bytes() {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let bytes = sample(HandshakeKind::Refuse(HandshakeRefusal::Limits)).encode(&mut buffer).unwrap();
        let golden =
            [b'A', b'l', b'd', b'1', VERSION, 3, 3, 0x83, 0x80, 0x14, 7, 0xAC, 2, 3, 2, 9, 32, 0xBC, 0x0B];
        assert_eq!(bytes, golden);
    }

    #[test]
    fn the_largest_fits_and_a_short_buffer_is_refused() {
        let offer = LinkOffer { window: u8::MAX, frame_bytes: u16::MAX };
        let max = u32::MAX;
        let numbers = ConnectionNumbers { own: max, echo: max };
        let ends = MessageEnds { job: u64::MAX, rank: max, epoch: Epoch(max), to: max };
        let message = Message::new(HandshakeKind::Refuse(HandshakeRefusal::Stale), numbers, ends, offer);
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        assert_eq!(Message::decode(message.encode(&mut buffer).unwrap()), Ok(message));
        assert_eq!(message.encode(&mut [0; 9]), None);
    }

    #[test]
    fn another_version_is_read_as_far_as_all_versions_agree() {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let foreign = Message { version: 200, ..sample(HandshakeKind::Hello) };
        let length = foreign.encode(&mut buffer).unwrap().len();
        buffer[length] = 0xEE;
        let read = Message::decode(&buffer[..=length]).unwrap();
        assert_eq!(read, Message { offer: LinkOffer::default(), ..foreign });
        buffer[0] = b'B';
        assert_eq!(Message::decode(&buffer[..length]), Err(Malformed::Control));
    }

    proptest! {
        #[test]
        fn decoding_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Message::decode(&bytes);
            let _ = Message::decode(&[&MAGIC[..], &bytes].concat());
        }
    }
}
