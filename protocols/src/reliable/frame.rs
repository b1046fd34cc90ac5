//! The frame: 32 bytes of header in front of every payload, and a checksum over both.

use aldis_hal::cause::Malformed;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::crc::Crc32c;

/// Bytes of the header before the payload.
pub const FRAME_BYTES: usize = 32;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum FrameKind {
    /// Acknowledgement and limit only; no payload.
    Ack = 0,
    /// A payload, numbered by `sequence`; acknowledgement and limit as well.
    Data = 1,
    /// Like [`Ack`](Self::Ack), and the receiver is to answer at once: is it alive, how far may be
    /// sent?
    Probe = 2,
    /// The payload is a message of [`connect`](crate::connect); no other field counts.
    Handshake = 3,
}

/// The header of a frame, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Frame {
    /// CRC-32C of everything after this field, payload included. [`seal`] fills it in.
    pub checksum: U32,
    /// The wire format: [`crate::VERSION`].
    pub version: u8,
    /// The kind of the frame: a [`FrameKind`] as its number.
    pub kind: u8,
    /// Bytes of payload after the header.
    pub length: U16,
    /// The number that the receiver of the frame chose for this connection; zero on handshake
    /// frames. Frames of another connection, and so those of an earlier life, are stale.
    pub connection: U32,
    /// The number of this frame's payload, if it is data.
    pub sequence: U32,
    /// All payloads below this number have arrived.
    pub cumulative: U32,
    /// The first number that the other side may not send yet.
    pub limit: U32,
    /// Bit `i`: payload `cumulative + 1 + i` has arrived as well.
    pub bitmap: U64,
}

const _: () = assert!(size_of::<Frame>() == FRAME_BYTES && align_of::<Frame>() == 1);

impl Frame {
    /// A header of this kind with nothing in it.
    #[must_use]
    pub const fn new(kind: FrameKind) -> Self {
        Self {
            checksum: U32::ZERO,
            version: crate::VERSION,
            kind: kind as u8,
            length: U16::ZERO,
            connection: U32::ZERO,
            sequence: U32::ZERO,
            cumulative: U32::ZERO,
            limit: U32::ZERO,
            bitmap: U64::ZERO,
        }
    }

    /// Returns the kind of the frame.
    ///
    /// # Errors
    /// [`Malformed::Kind`] for a number that is none, or for a payload on a kind that has none.
    #[inline]
    pub const fn kind(&self) -> Result<FrameKind, Malformed> {
        match (self.kind, self.length.get()) {
            (0, 0) => Ok(FrameKind::Ack),
            (1, _) => Ok(FrameKind::Data),
            (2, 0) => Ok(FrameKind::Probe),
            (3, _) => Ok(FrameKind::Handshake),
            (other, _) => Err(Malformed::Kind(other)),
        }
    }
}

/// Completes `frame` for `payload` (version, length, checksum). `None`: the payload is longer than
/// a frame can say, or it is not empty on a kind that has none.
#[must_use]
pub fn seal(mut frame: Frame, payload: &[u8]) -> Option<Frame> {
    frame.version = crate::VERSION;
    frame.length = U16::new(u16::try_from(payload.len()).ok()?);
    frame.kind().ok()?;
    frame.checksum = U32::new(sum(&frame, payload));
    Some(frame)
}

/// The header and the payload at the front of `bytes`. What follows them is ignored: an Ethernet
/// frame is padded to 60 bytes.
///
/// # Errors
/// [`Malformed`]: what is wrong with them; the checksum is judged before anything that it protects
/// but the length.
pub fn open(bytes: &[u8]) -> Result<(&Frame, &[u8]), Malformed> {
    let (frame, rest) = Frame::ref_from_prefix(bytes).map_err(|_| Malformed::Length)?;
    let payload = rest.get(..usize::from(frame.length.get())).ok_or(Malformed::Length)?;
    if sum(frame, payload) != frame.checksum.get() {
        return Err(Malformed::Checksum);
    }
    if frame.version != crate::VERSION {
        return Err(Malformed::Version(frame.version));
    }
    frame.kind()?;
    Ok((frame, payload))
}

fn sum(frame: &Frame, payload: &[u8]) -> u32 {
    let covered = frame.as_bytes().get(size_of::<U32>()..).unwrap_or_default();
    Crc32c::new().update(covered).update(payload).finish()
}

#[cfg(test)]
mod tests {
    use super::super::crc::crc32c;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn sample() -> Frame {
        Frame {
            connection: U32::new(0x0403_0201),
            sequence: U32::new(5),
            cumulative: U32::new(6),
            limit: U32::new(7),
            bitmap: U64::new(0x8000_0000_0000_0001),
            ..Frame::new(FrameKind::Data)
        }
    }

    fn wire(frame: Frame, payload: &[u8]) -> Vec<u8> {
        [seal(frame, payload).unwrap().as_bytes(), payload].concat()
    }

    #[test]
    fn golden_bytes() {
        let bytes = wire(sample(), b"abc");
        let mut golden = std::vec![crate::VERSION, 1, 3, 0, 1, 2, 3, 4];
        golden.extend([5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0]);
        golden.extend([1, 0, 0, 0, 0, 0, 0, 0x80, b'a', b'b', b'c']);
        assert_eq!(bytes[4..], golden);
        assert_eq!(bytes[..4], crc32c(&golden).to_le_bytes());
    }

    #[test]
    fn acknowledgements_and_probes_have_no_payload() {
        for kind in [FrameKind::Ack, FrameKind::Probe] {
            assert!(seal(Frame::new(kind), b"x").is_none());
            assert_eq!(open(&wire(Frame::new(kind), b"")).unwrap().0.kind(), Ok(kind));
        }
        assert!(seal(Frame { kind: 4, ..sample() }, b"").is_none());
        assert!(seal(sample(), &[0; 65536]).is_none());
    }

    #[test]
    fn padding_is_ignored_and_a_cut_is_not() {
        let mut bytes = wire(sample(), b"abc");
        assert_eq!(open(&bytes[..bytes.len() - 1]), Err(Malformed::Length));
        bytes.resize(60, 0xEE);
        assert_eq!(open(&bytes).unwrap().1, b"abc");
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = wire(sample(), b"abc");
        bytes[4] = 9;
        assert_eq!(open(&bytes), Err(Malformed::Checksum));
        let sum = crc32c(&bytes[4..]).to_le_bytes();
        bytes[..4].copy_from_slice(&sum);
        assert_eq!(open(&bytes), Err(Malformed::Version(9)));
    }

    proptest! {
        #[test]
        fn total_on_any_bytes(bytes: Vec<u8>) {
            let _ = open(&bytes);
        }

        #[test]
        fn what_is_sealed_opens_and_one_flipped_bit_does_not(payload: Vec<u8>, at: prop::sample::Index, bit in 0..8) {
            let mut bytes = wire(sample(), &payload);
            let (frame, body) = open(&bytes).unwrap();
            prop_assert_eq!((frame.sequence.get(), body), (5, payload.as_slice()));
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert!(open(&bytes).is_err());
        }
    }
}
