//! Checksums that the device computes or vouches for, by the header in front of a frame (VIRTIO
//! 1.2, 5.1.6.2 and 5.1.6.4).

use aldis_hal::nic::{MAC_HEADER_BYTES, Offload};

use crate::ethernet::InternetSum;

/// The header's flags: the checksum is to be completed, the checksum is right.
const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// The offset of UDP's header behind one of IPv4 without options, and of the checksum in it.
const UDP_AT: usize = MAC_HEADER_BYTES + 20;
const CHECKSUM_AT: usize = 6;

/// The header in front of a frame, without the count of its buffers.
pub(super) type FrameHeader = [u8; 10];

/// A header that says nothing: no checksum, no segments.
pub(super) const PLAIN: FrameHeader = [0; 10];

/// The header for a frame that is sent. A UDP datagram over IPv4 whose checksum was left zero gets
/// the beginning of one, and the device is to complete it.
pub(super) fn leave(frame: &mut [u8]) -> FrameHeader {
    let Some(begun) = begun(frame) else { return PLAIN };
    if let Some(place) = frame.get_mut(UDP_AT + CHECKSUM_AT..UDP_AT + CHECKSUM_AT + 2) {
        place.copy_from_slice(&begun.to_be_bytes());
    }
    let ([start, _], [offset, _]) = ((UDP_AT as u16).to_le_bytes(), (CHECKSUM_AT as u16).to_le_bytes());
    [NEEDS_CHECKSUM, 0, 0, 0, 0, 0, start, 0, offset, 0]
}

/// The part of the checksum that is not of the datagram, if the frame is one that waits for it.
fn begun(frame: &[u8]) -> Option<u16> {
    let (ipv4, udp) = frame.get(MAC_HEADER_BYTES..)?.split_first_chunk::<20>()?;
    let &[version_and_length, _, _, _, _, _, high, low, _, protocol, _, _, ..] = ipv4;
    // All of a datagram, by UDP, over IPv4 without options.
    let is_whole = u16::from_be_bytes([high, low]) & 0x3FFF == 0;
    if frame.get(12..14) != Some(&[8, 0]) || version_and_length != 0x45 || protocol != 17 || !is_whole {
        return None;
    }
    let (&[_, _, _, _, length_high, length_low, 0, 0], body) = udp.split_first_chunk::<8>()? else {
        return None;
    };
    // A device sums to the end of the frame: padding behind the datagram would count too.
    let is_all = usize::from(u16::from_be_bytes([length_high, length_low])) == 8 + body.len();
    let addresses = ipv4.get(12..)?;
    let sum = InternetSum::default().add(addresses).add(&[0, protocol, length_high, length_low]);
    is_all.then(|| sum.fold())
}

/// A header that makes no sense for its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadHeader;

/// Looks at the header of a received frame: returns the checksums that the device vouches for, and
/// completes one that it has left to be completed, so that the frame is whole for whoever reads it.
pub(super) fn take(header: FrameHeader, frame: &mut [u8]) -> Result<Offload, BadHeader> {
    let [flags, segments, _, _, _, _, start_low, start_high, offset_low, offset_high] = header;
    if segments != 0 {
        return Err(BadHeader);
    }
    if flags & NEEDS_CHECKSUM == 0 {
        return Ok(if flags & DATA_VALID != 0 { Offload::UDP_RX } else { Offload::empty() });
    }
    let start = usize::from(u16::from_le_bytes([start_low, start_high]));
    let offset = usize::from(u16::from_le_bytes([offset_low, offset_high]));
    let covered = frame.get_mut(start..).filter(|_| start >= MAC_HEADER_BYTES).ok_or(BadHeader)?;
    let sum = !InternetSum::default().add(covered).fold();
    let place = covered.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()).ok_or(BadHeader)?;
    let is_udp = (start, offset) == (UDP_AT, CHECKSUM_AT);
    // Zero is UDP's word for none (RFC 768).
    *place = if sum == 0 && is_udp { u16::MAX } else { sum }.to_be_bytes();
    Ok(if is_udp { Offload::UDP_RX } else { Offload::empty() })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use aldis_hal::nic::Mac;
    use proptest::prelude::*;

    use super::*;
    use crate::ethernet::{Framing, Port, Udp};

    /// A datagram of the transport's, whose checksum the device may compute or not.
    fn datagram(offload: Offload, body: &[u8]) -> Vec<u8> {
        let framing = Framing::Udp(Udp::of_rank(1));
        let port = Port { station: framing.station(Mac([2, 0, 0, 0, 0, 1])), offload };
        let to = Framing::Udp(Udp::of_rank(2)).station(Mac([2, 0, 0, 0, 0, 2]));
        [&framing.heading(7, to, port, [body, &[]])[..], body].concat()
    }

    proptest! {
        /// Whoever completes the checksum, it is that which the transport computes itself.
        #[test]
        fn what_is_left_is_completed(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let whole = datagram(Offload::empty(), &body);
            let mut left = datagram(Offload::UDP_TX, &body);
            let header = leave(&mut left);
            prop_assert_eq!((header[0], header[6], header[8]), (1, 34, 6));
            prop_assert_ne!(&left, &whole);
            prop_assert_eq!(take(header, &mut left), Ok(Offload::UDP_RX));
            prop_assert_eq!(left, whole);
        }

        /// Whatever a header says, nothing outside of the frame is touched, and nothing panics.
        #[test]
        fn any_header_is_harmless(header: FrameHeader, mut frame: Vec<u8>) {
            let front: Vec<u8> = frame.iter().copied().take(MAC_HEADER_BYTES).collect();
            let _ = take(header, &mut frame);
            prop_assert_eq!(&frame[..front.len()], &front[..]);
            leave(&mut frame);
        }
    }

    #[test]
    fn other_frames_go_as_they_are() {
        let good = datagram(Offload::UDP_TX, b"body");
        assert_ne!(leave(&mut good.clone()), PLAIN);
        let changed = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            let before = frame.clone();
            assert_eq!((leave(&mut frame), &frame), (PLAIN, &before), "byte {at} is {value}");
        };
        changed(13, 6); // another EtherType
        changed(14, 0x46); // options
        changed(20, 0x20); // a fragment
        changed(23, 6); // TCP
        changed(41, 1); // it has a checksum
        changed(39, 9); // a datagram that ends before the frame does
        for len in 0..42 {
            assert_eq!(leave(&mut good[..len].to_vec()), PLAIN);
        }
    }

    #[test]
    fn the_device_is_believed_what_can_be() {
        let frame = &mut datagram(Offload::empty(), b"body");
        let header = |flags, segments, start, offset| [flags, segments, 0, 0, 0, 0, start, 0, offset, 0];
        assert_eq!(take(PLAIN, frame), Ok(Offload::empty()));
        assert_eq!(take(header(2, 0, 0, 0), frame), Ok(Offload::UDP_RX));
        assert_eq!(take(header(2, 1, 0, 0), frame), Err(BadHeader), "segments were not agreed upon");
        assert_eq!(take(header(1, 0, 13, 6), frame), Err(BadHeader), "addresses have no checksum");
        assert_eq!(take(header(1, 0, 200, 6), frame), Err(BadHeader), "behind the frame");
        assert_eq!(take(header(1, 0, 34, frame.len() as u8 - 35), frame), Err(BadHeader));
        let far = [1, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(take(far, frame), Err(BadHeader));
        // Of another protocol's checksum nothing follows for UDP's.
        let mut other = vec![0; 60];
        assert_eq!(take(header(1, 0, 34, 16), &mut other), Ok(Offload::empty()));
        assert_eq!(other[50..52], [0xFF, 0xFF]);
    }
}
