//! The header of a block.

use aldis_protocols::reliable::Crc32c;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use aldis_hal::copy::copy;

/// Bytes of a block in front of the piece.
pub const HEADER_BYTES: usize = size_of::<BlockHeader>();

const _: () = assert!(HEADER_BYTES == 8);

/// The header in front of the piece in a block; little-endian. Behind the piece a block is filled
/// with anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockHeader {
    /// Bytes of the piece.
    pub len: U16,
    /// [`FIRST`](Self::FIRST), [`LAST`](Self::LAST), [`ROOM`](Self::ROOM); the others are zero.
    pub flags: u8,
    /// Counts the blocks of its sender, and wraps.
    pub sequence: u8,
    /// CRC-32C of the four bytes above and the piece.
    pub crc: U32,
}

impl BlockHeader {
    /// The piece begins a frame.
    pub const FIRST: u8 = 1 << 0;
    /// The piece ends a frame.
    pub const LAST: u8 = 1 << 1;
    /// The sender has room for a frame's piece in the next block.
    pub const ROOM: u8 = 1 << 2;
    const KNOWN: u8 = Self::FIRST | Self::LAST | Self::ROOM;

    fn checksum(&self, piece: &[u8]) -> u32 {
        let [low, high] = self.len.to_bytes();
        Crc32c::new().update(&[low, high, self.flags, self.sequence]).update(piece).finish()
    }

    /// Writes a block. What of the piece is beyond the block is cut off.
    pub(super) fn write(flags: u8, sequence: u8, piece: &[u8], block: &mut [u8]) {
        let Some((head, room)) = block.split_at_mut_checked(HEADER_BYTES) else { return };
        let piece = piece.get(..room.len()).unwrap_or(piece);
        let header = Self { len: U16::new(piece.len() as u16), flags, sequence, crc: U32::new(0) };
        let header = Self { crc: U32::new(header.checksum(piece)), ..header };
        copy(head, header.as_bytes());
        copy(room, piece);
    }

    /// The header and the piece of a block that is whole.
    pub(super) fn read(block: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = Self::read_from_prefix(block).ok()?;
        let piece = rest.get(..usize::from(header.len.get()))?;
        let whole = header.flags & !Self::KNOWN == 0 && header.crc.get() == header.checksum(piece);
        whole.then_some((header, piece))
    }

    /// Returns true if the piece has this mark.
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
