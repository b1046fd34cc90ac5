//! The frame format of links that lose, reorder, duplicate or corrupt: one fixed header and a checksum.
//!
//! A frame is a [`Frame`] of 32 bytes and its payload. The header carries the sequence number of the payload, what
//! the sender has received from the other side (all below `cumulative`, and a bitmap of those after it), how far the
//! other side may send, and the epoch of the connection. [`seal`] writes it, [`open`] reads it: total on any bytes.
//!
//! Deliberately absent: windows, timers and retransmission. This module says what is on the wire and nothing else.

pub mod crc;

use aldis_hal::cause::Malformed;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use crc::{Crc32c, crc32c};

/// Bytes of the header before the payload.
pub const FRAME_BYTES: usize = 32;

/// The header of a frame, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Frame {
    /// CRC-32C of everything after this field, payload included. [`seal`] fills it in.
    pub checksum: U32,
    /// The wire format: [`crate::VERSION`].
    pub version: u8,
    /// 1: a payload follows and `sequence` numbers it. 0: acknowledgement only. All else is refused.
    pub data: u8,
    /// Bytes of payload after the header.
    pub length: U16,
    /// The epoch of the connection: frames of another are stale.
    pub epoch: U32,
    /// The number of this frame's payload.
    pub sequence: U32,
    /// All payloads below this number have arrived.
    pub cumulative: U32,
    /// The first number that the other side may not send yet.
    pub limit: U32,
    /// Bit `i`: payload `cumulative + 1 + i` has arrived as well.
    pub bitmap: U64,
}

const _: () = assert!(size_of::<Frame>() == FRAME_BYTES && align_of::<Frame>() == 1);

/// Completes `frame` for `payload` (version, length, checksum). `None`: the payload is longer than a frame can say,
/// or it is not empty on a frame without data.
#[must_use]
pub fn seal(mut frame: Frame, payload: &[u8]) -> Option<Frame> {
    frame.version = crate::VERSION;
    frame.length = U16::new(u16::try_from(payload.len()).ok()?);
    known(&frame).ok()?;
    frame.checksum = U32::new(sum(&frame, payload));
    Some(frame)
}

/// The header and the payload of `bytes`.
///
/// # Errors
/// [`Malformed`]: what is wrong with them; the checksum is judged before anything that it protects but the length.
pub fn open(bytes: &[u8]) -> Result<(&Frame, &[u8]), Malformed> {
    let (frame, payload) = Frame::ref_from_prefix(bytes).map_err(|_| Malformed::Length)?;
    if payload.len() != usize::from(frame.length.get()) {
        return Err(Malformed::Length);
    }
    if sum(frame, payload) != frame.checksum.get() {
        return Err(Malformed::Checksum);
    }
    if frame.version != crate::VERSION {
        return Err(Malformed::Version(frame.version));
    }
    known(frame)?;
    Ok((frame, payload))
}

fn known(frame: &Frame) -> Result<(), Malformed> {
    match (frame.data, frame.length.get()) {
        (1, _) | (0, 0) => Ok(()),
        (other, _) => Err(Malformed::Kind(other)),
    }
}

fn sum(frame: &Frame, payload: &[u8]) -> u32 {
    let covered = frame.as_bytes().get(size_of::<U32>()..).unwrap_or_default();
    Crc32c::new().update(covered).update(payload).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn sample() -> Frame {
        Frame {
            epoch: U32::new(0x0403_0201),
            sequence: U32::new(5),
            cumulative: U32::new(6),
            limit: U32::new(7),
            bitmap: U64::new(0x8000_0000_0000_0001),
            data: 1,
            ..Frame::read_from_bytes(&[0; FRAME_BYTES]).unwrap()
        }
    }

    fn wire(frame: Frame, payload: &[u8]) -> Vec<u8> {
        [seal(frame, payload).unwrap().as_bytes(), payload].concat()
    }

    #[test]
    fn golden_bytes() {
        let bytes = wire(sample(), b"abc");
        let golden = [
            crate::VERSION,
            1,
            3,
            0,
            1,
            2,
            3,
            4,
            5,
            0,
            0,
            0,
            6,
            0,
            0,
            0,
            7,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0x80,
            b'a',
            b'b',
            b'c',
        ];
        assert_eq!(bytes[4..], golden);
        assert_eq!(bytes[..4], crc32c(&golden).to_le_bytes());
    }

    #[test]
    fn an_acknowledgement_has_no_payload() {
        let frame = Frame { data: 0, ..sample() };
        assert!(seal(frame, b"x").is_none());
        assert!(open(&wire(frame, b"")).is_ok());
        assert!(seal(Frame { data: 2, ..frame }, b"").is_none());
        assert!(seal(sample(), &[0; 65536]).is_none());
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
