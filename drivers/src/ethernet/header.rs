//! The header in front of every frame of the reliable protocol on an Ethernet: 16 bytes, network
//! byte order.
//!
//! ```text
//!  0  destination (6)      6  source (6)
//! 12  EtherType 0x88B5    14  subtype 0xA1      15  version
//! ```
//!
//! 0x88B5 is the first of the two EtherTypes for local experiments, and IEEE Std 802a-2003, 3.2,
//! wants a subtype and a version behind it, so that two experiments on one network do not take each
//! other's frames. The two bytes also make the header 16 bytes long: where a device puts frames at
//! aligned addresses, the message behind the 32 bytes of
//! [`Frame`](aldis_protocols::reliable::Frame) is aligned as well.

use aldis_hal::nic::Mac;
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The EtherType of local experiments, IEEE Std 802a-2003, 3.2.
pub const ETHERTYPE: u16 = 0x88B5;
/// Tells these frames from those of other experiments.
pub const SUBTYPE: u8 = 0xA1;
/// Tells the frames of [`discovery`](crate::discovery) from those of other experiments.
pub const DISCOVERY_SUBTYPE: u8 = 0xA2;
/// The version of this header.
pub const HEADER_VERSION: u8 = 1;

/// Bytes in front of the reliable protocol's frame.
pub const HEADER_BYTES: usize = 16;

/// The header as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct EthernetHeader {
    pub(crate) destination: [u8; 6],
    pub(crate) source: [u8; 6],
    ethertype: U16,
    subtype: u8,
    version: u8,
}

const _: () = assert!(size_of::<EthernetHeader>() == HEADER_BYTES && align_of::<EthernetHeader>() == 1);

/// The reason why a frame is none of ours, by its header alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// Shorter than the header.
    Short,
    /// Another EtherType or another experiment.
    Protocol,
    /// Another version of this one.
    Version,
    /// For another station, or for all.
    Destination,
    /// A checksum of IPv4 or UDP that is not that of the bytes.
    Checksum,
}

impl EthernetHeader {
    pub(crate) const fn new(destination: Mac, source: Mac, subtype: u8) -> Self {
        Self {
            destination: destination.0,
            source: source.0,
            ethertype: U16::new(ETHERTYPE),
            subtype,
            version: HEADER_VERSION,
        }
    }

    /// Returns the sender of the frame of this subtype to a station that `takes` its destination,
    /// and what is behind the header.
    pub(crate) fn parse(
        wanted: u8,
        bytes: &[u8],
        takes: impl FnOnce(Mac) -> bool,
    ) -> Result<(Mac, &[u8]), Foreign> {
        let (header, body) = Self::ref_from_prefix(bytes).map_err(|_| Foreign::Short)?;
        match *header {
            Self { ethertype, subtype, .. } if ethertype.get() != ETHERTYPE || subtype != wanted => {
                Err(Foreign::Protocol)
            }
            Self { version, .. } if version != HEADER_VERSION => Err(Foreign::Version),
            Self { destination, .. } if !takes(Mac(destination)) => Err(Foreign::Destination),
            Self { source, .. } => Ok((Mac(source), body)),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    const A: Mac = Mac([2, 0, 0, 0, 0, 0xA]);
    const B: Mac = Mac([2, 0, 0, 0, 0, 0xB]);

    fn parse(bytes: &[u8]) -> Result<(Mac, &[u8]), Foreign> {
        EthernetHeader::parse(SUBTYPE, bytes, |to| to == B)
    }

    #[test]
    fn golden_bytes() {
        let golden = [2, 0, 0, 0, 0, 0xB, 2, 0, 0, 0, 0, 0xA, 0x88, 0xB5, 0xA1, 1];
        assert_eq!(EthernetHeader::new(B, A, SUBTYPE).as_bytes(), golden);
        assert_eq!(parse(&[golden.as_slice(), b"body"].concat()), Ok((A, b"body".as_slice())));
    }

    #[test]
    fn what_is_not_ours_is_named() {
        let ours = EthernetHeader::new(B, A, SUBTYPE);
        let wrong = |change: fn(&mut EthernetHeader)| {
            let mut header = ours;
            change(&mut header);
            parse(header.as_bytes()).unwrap_err()
        };
        assert_eq!(wrong(|header| header.ethertype = U16::new(0x0800)), Foreign::Protocol);
        assert_eq!(wrong(|header| header.subtype = 0), Foreign::Protocol);
        assert_eq!(wrong(|header| header.version = 2), Foreign::Version);
        assert_eq!(wrong(|header| header.destination = [0xFF; 6]), Foreign::Destination);
        assert_eq!(parse(&ours.as_bytes()[..15]), Err(Foreign::Short));
    }

    proptest! {
        #[test]
        fn total_on_any_bytes(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
