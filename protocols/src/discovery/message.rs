//! The messages of discovery: 48 bytes, little-endian, and the sender's card.
//!
//! ```text
//!  0  CRC-32C of all that follows (4)     4  version     5  kind     6  bytes of the card (2)
//!  8  job (8)      16  size (4)      20  rank (4)      24  epoch (4)      28  number (4)
//! 32  first rank asked (4)      36  zero (4)      40  ranks asked, bit i: first + i (8)
//! 48  card
//! ```

use aldis_hal::Epoch;
use aldis_hal::cause::Malformed;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::VERSION;
use crate::card::CARD_BYTES_MAX;
use crate::reliable::Crc32c;

/// Bytes of a message in front of the card.
pub const HEADER_BYTES: usize = 48;
/// The longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + CARD_BYTES_MAX;

const HELLO: u8 = 1;
const HERE: u8 = 2;

/// The message in front of the card, as it is on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DiscoveryHeader {
    checksum: U32,
    version: u8,
    kind: u8,
    length: U16,
    job: U64,
    size: U32,
    rank: U32,
    epoch: U32,
    number: U32,
    first: U32,
    reserved: U32,
    asked: U64,
}

const _: () = assert!(size_of::<DiscoveryHeader>() == HEADER_BYTES && align_of::<DiscoveryHeader>() == 1);

/// The ranks that a hello asks for their cards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Asked {
    /// The first of 64 ranks.
    pub first: u32,
    /// Bit `i`: rank `first + i` is asked.
    pub ranks: u64,
}

impl Asked {
    /// Returns true if `rank` is asked.
    #[must_use]
    pub const fn includes(&self, rank: u32) -> bool {
        match rank.checked_sub(self.first) {
            Some(bit @ 0..64) => self.ranks >> bit & 1 == 1,
            _ => false,
        }
    }
}

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DiscoveryKind {
    /// Here is my card; where is yours?
    Hello(Asked),
    /// Here is my card, since you asked.
    Here,
}

/// A message and the card in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'c> {
    /// The kind of the message.
    pub kind: DiscoveryKind,
    /// The job.
    pub job: u64,
    /// Ranks of the job.
    pub size: u32,
    /// The sender.
    pub rank: u32,
    /// The sender's life.
    pub epoch: Epoch,
    /// A hello's own number, or that of the hello that is answered.
    pub number: u32,
    /// The sender's card.
    pub card: &'c [u8],
}

impl<'c> Message<'c> {
    /// Writes the message. `None`: the card is longer than [`CARD_BYTES_MAX`], or the buffer too
    /// short; [`MESSAGE_BYTES_MAX`] bytes are always enough.
    #[must_use]
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = self.card.len();
        let (head, rest) = buffer.get_mut(..HEADER_BYTES + length)?.split_at_mut_checked(HEADER_BYTES)?;
        rest.copy_from_slice(self.card);
        let (kind, asked) = match self.kind {
            DiscoveryKind::Hello(asked) => (HELLO, asked),
            DiscoveryKind::Here => (HERE, Asked::default()),
        };
        let mut header = DiscoveryHeader {
            checksum: U32::ZERO,
            version: VERSION,
            kind,
            length: U16::new(u16::try_from(length).ok().filter(|_| length <= CARD_BYTES_MAX)?),
            job: U64::new(self.job),
            size: U32::new(self.size),
            rank: U32::new(self.rank),
            epoch: U32::new(self.epoch.0),
            number: U32::new(self.number),
            first: U32::new(asked.first),
            reserved: U32::ZERO,
            asked: U64::new(asked.ranks),
        };
        header.checksum = U32::new(sum(&header, self.card));
        head.copy_from_slice(header.as_bytes());
        buffer.get(..HEADER_BYTES + length)
    }

    /// Reads the message at the front of `bytes`. What follows it is ignored: an Ethernet frame is
    /// padded.
    ///
    /// # Errors
    /// [`Malformed`]: what is wrong with it; the checksum is judged before anything that it
    /// protects but the length.
    pub fn decode(bytes: &'c [u8]) -> Result<Self, Malformed> {
        let (header, rest) = DiscoveryHeader::ref_from_prefix(bytes).map_err(|_| Malformed::Length)?;
        let card = rest.get(..usize::from(header.length.get())).ok_or(Malformed::Length)?;
        if sum(header, card) != header.checksum.get() {
            return Err(Malformed::Checksum);
        }
        if header.version != VERSION {
            return Err(Malformed::Version(header.version));
        }
        let asked = Asked { first: header.first.get(), ranks: header.asked.get() };
        let kind = match header.kind {
            HELLO => DiscoveryKind::Hello(asked),
            HERE if asked == Asked::default() => DiscoveryKind::Here,
            HERE => return Err(Malformed::Reserved),
            other => return Err(Malformed::Kind(other)),
        };
        if header.reserved != U32::ZERO {
            return Err(Malformed::Reserved);
        }
        let (rank, size, epoch) = (header.rank.get(), header.size.get(), Epoch(header.epoch.get()));
        if card.len() > CARD_BYTES_MAX || rank >= size || epoch == Epoch(0) {
            return Err(Malformed::Envelope);
        }
        Ok(Self { kind, job: header.job.get(), size, rank, epoch, number: header.number.get(), card })
    }
}

fn sum(header: &DiscoveryHeader, card: &[u8]) -> u32 {
    let covered = header.as_bytes().get(size_of::<U32>()..).unwrap_or_default();
    Crc32c::new().update(covered).update(card).finish()
}
