//! The wire-up card: what a rank tells each peer before the first message, over whatever brings
//! them together.

use aldis_hal::{Cause, Epoch, PeerId};
use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::VERSION;
use crate::credit::WINDOW_MAX;

/// Longest transport address on a card, bytes.
pub const ADDRESS_BYTES_MAX: usize = 64;
/// Longest encoded card, bytes: every field at its largest.
pub const CARD_BYTES_MAX: usize = 128;

/// The room that a rank sets aside for each peer: the bound on what that peer can make it hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Room {
    /// Messages that have arrived and are not matched.
    pub envelopes: u16,
    /// Eager payloads among them that need a block.
    pub blocks: u16,
    /// Bytes of a block: the largest eager message.
    pub block_bytes: u32,
}

/// The order of the bytes of a number in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ByteOrder {
    /// The lowest byte first.
    #[default]
    Little,
    /// The highest byte first.
    Big,
}

impl ByteOrder {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// The width of an address, and so of `usize` and `isize`: of what differs between machines besides
/// the order of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WordWidth {
    /// Four bytes.
    #[default]
    Four,
    /// Eight bytes.
    Eight,
}

impl WordWidth {
    /// This machine's.
    pub const NATIVE: Self = if size_of::<usize>() == 8 { Self::Eight } else { Self::Four };
}

const _: () =
    assert!(size_of::<usize>() == 4 || size_of::<usize>() == 8, "no machine of another width is known");

/// A rank's introduction: who it is, and how much it can take from one peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Card {
    version: u8,
    rank: u32,
    epoch: u32,
    /// The room that it has set aside for the reader.
    pub room: Room,
    /// The byte order of its typed messages: who receives them converts.
    pub order: ByteOrder,
    /// The width of its words: who has wider ones converts those of typed messages, both ways.
    pub words: WordWidth,
    /// The address of its transport, in that transport's own form; empty where the transport needs
    /// none.
    pub address: Vec<u8, ADDRESS_BYTES_MAX>,
}

impl Card {
    /// A card of this build's version.
    pub const fn new(peer: PeerId, epoch: Epoch, room: Room) -> Self {
        let (order, words) = (ByteOrder::NATIVE, WordWidth::NATIVE);
        Self { version: VERSION, rank: peer.0, epoch: epoch.0, room, order, words, address: Vec::new() }
    }

    /// The peer whose card this is.
    pub const fn peer(&self) -> PeerId {
        PeerId(self.rank)
    }

    /// The boot id of the process.
    pub const fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Writes the card.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if `buffer` is shorter than it needs; [`CARD_BYTES_MAX`] is always enough.
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Cause> {
        let max = buffer.len() as u64;
        match postcard::to_slice(self, buffer) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(Cause::TooBig { len: CARD_BYTES_MAX as u64, max }),
        }
    }

    /// Reads a card.
    ///
    /// # Errors
    /// [`Cause::Malformed`] for bytes that are no card or more than a card, [`Cause::Incompatible`]
    /// for another version or impossible limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, Cause> {
        let malformed = Cause::Malformed(aldis_hal::cause::Malformed::Control);
        let (card, rest) = postcard::take_from_bytes::<Self>(bytes).map_err(|_| malformed)?;
        if !rest.is_empty() || card.epoch == 0 {
            return Err(malformed);
        }
        card.check()?;
        Ok(card)
    }

    /// Checks what `decode` cannot see by the encoding alone.
    ///
    /// # Errors
    /// [`Cause::Incompatible`] for another version, no envelopes, or more credits than counters can
    /// tell apart.
    pub fn check(&self) -> Result<(), Cause> {
        let sound = self.version == VERSION
            && self.room.envelopes > 0
            && self.room.envelopes <= WINDOW_MAX
            && self.room.blocks <= WINDOW_MAX;
        if sound { Ok(()) } else { Err(Cause::Incompatible) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn card() -> Card {
        Card::new(PeerId(3), Epoch(9), Room { envelopes: 8, blocks: 2, block_bytes: 256 })
    }

    #[test]
    fn golden_bytes() {
        let mut buffer = [0; CARD_BYTES_MAX];
        let little = Card { order: ByteOrder::Little, words: WordWidth::Eight, ..card() };
        assert_eq!(little.encode(&mut buffer).unwrap(), [1, 3, 9, 8, 2, 0x80, 2, 0, 1, 0]);
        let big = Card { order: ByteOrder::Big, words: WordWidth::Four, ..card() };
        assert_eq!(big.encode(&mut buffer).unwrap(), [1, 3, 9, 8, 2, 0x80, 2, 1, 0, 0]);
        assert_eq!(Card::decode(&[1, 3, 9, 8, 2, 0x80, 2, 1, 0, 0]), Ok(big));
        assert!(Card::decode(&[1, 3, 9, 8, 2, 0x80, 2, 2, 0, 0]).is_err(), "there is no third order");
        assert!(Card::decode(&[1, 3, 9, 8, 2, 0x80, 2, 0, 2, 0]).is_err(), "nor a third width");
    }

    #[test]
    fn the_largest_card_fits_and_a_short_buffer_is_refused() {
        let room = Room { envelopes: WINDOW_MAX, blocks: WINDOW_MAX, block_bytes: u32::MAX };
        let mut card = Card::new(PeerId(u32::MAX), Epoch(u32::MAX), room);
        card.address.resize(ADDRESS_BYTES_MAX, 7).unwrap();
        let mut buffer = [0; CARD_BYTES_MAX];
        let bytes = card.encode(&mut buffer).unwrap();
        assert_eq!(Card::decode(bytes), Ok(card.clone()));
        assert!(matches!(card.encode(&mut [0; 9]), Err(Cause::TooBig { max: 9, .. })));
    }

    #[test]
    fn another_version_and_no_envelopes_are_incompatible() {
        let mut buffer = [0; CARD_BYTES_MAX];
        let foreign = Card { version: 200, ..card() };
        assert_eq!(Card::decode(foreign.encode(&mut buffer).unwrap()), Err(Cause::Incompatible));
        let mute = Card { room: Room::default(), ..card() };
        assert_eq!(Card::decode(mute.encode(&mut buffer).unwrap()), Err(Cause::Incompatible));
    }

    proptest! {
        #[test]
        fn decoding_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(card) = Card::decode(&bytes) {
                prop_assert!(card.check().is_ok());
            }
        }
    }
}
