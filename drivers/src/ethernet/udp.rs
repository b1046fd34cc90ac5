//! The headers of a datagram: Ethernet, IPv4 (RFC 791), UDP (RFC 768) and six bytes of this
//! protocol's own, 48 in all.
//!
//! ```text
//!  0  destination (6)      6  source (6)      12  EtherType 0x0800
//! 14  version and length 0x45, service 0, total length (2)
//! 18  identification 0 (2), do not fragment (2)
//! 22  time to live 64, protocol 17, checksum (2)      26  source (4)      30  destination (4)
//! 34  source port (2), destination port (2)      38  length (2), checksum (2)
//! 42  "Aldi"      46  subtype      47  version
//! ```
//!
//! The last six say that a datagram on this port is meant, so that a stranger's is counted as
//! foreign and not as damaged; and they make the headers 48 bytes long, so that a message is
//! aligned as in a frame without IP. A datagram fits into one frame: nothing is fragmented and
//! fragments are not put together (RFC 6864, 4.1, lets the identification be anything then).
//! Options of IPv4 are not expected.

use aldis_hal::nic::{MAC_HEADER_BYTES, Mac, Offload};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::framing::{Ipv4, Station};
use super::header::{Foreign, HEADER_VERSION};

/// Bytes in front of the reliable protocol's frame.
pub const UDP_HEADER_BYTES: usize = 48;

const ETHERTYPE_IPV4: u16 = 0x0800;
/// Version 4, five words of header.
const VERSION_AND_LENGTH: u8 = 0x45;
const IPV4_BYTES: usize = 20;
const DO_NOT_FRAGMENT: u16 = 1 << 14;
const TIME_TO_LIVE: u8 = 64;
const PROTOCOL_UDP: u8 = 17;
/// UDP's header, and this protocol's own bytes.
const UDP_BYTES: usize = 8;
const MAGIC: [u8; 4] = *b"Aldi";

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Headers {
    destination: [u8; 6],
    source: [u8; 6],
    ethertype: U16,
    ipv4: Ipv4Header,
    udp: UdpHeader,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Ipv4Header {
    version_and_length: u8,
    service: u8,
    total: U16,
    identification: U16,
    fragment: U16,
    time_to_live: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct UdpHeader {
    source: U16,
    destination: U16,
    length: U16,
    checksum: U16,
    magic: [u8; 4],
    subtype: u8,
    version: u8,
}

const _: () = assert!(size_of::<Headers>() == UDP_HEADER_BYTES && align_of::<Headers>() == 1);
const _: () = assert!(size_of::<Ipv4Header>() == IPV4_BYTES);

/// The contents of the headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Datagram {
    pub(super) subtype: u8,
    /// Source and destination.
    pub(super) port: u16,
    pub(super) to: Station,
    pub(super) from: Station,
}

impl Datagram {
    /// The headers in front of `parts`. Checksums that the device computes are left zero. Longer
    /// than IPv4 can say, the parts are cut by every receiver: no device has such an MTU.
    pub(super) fn write(&self, parts: [&[u8]; 2], offload: Offload) -> [u8; UDP_HEADER_BYTES] {
        let [first, second] = parts;
        let behind = UDP_HEADER_BYTES - MAC_HEADER_BYTES - IPV4_BYTES + first.len() + second.len();
        let length = U16::new(u16::try_from(behind).unwrap_or(u16::MAX));
        let total = U16::new(u16::try_from(behind + IPV4_BYTES).unwrap_or(u16::MAX));
        let mut ipv4 = Ipv4Header {
            version_and_length: VERSION_AND_LENGTH,
            service: 0,
            total,
            identification: U16::ZERO,
            fragment: U16::new(DO_NOT_FRAGMENT),
            time_to_live: TIME_TO_LIVE,
            protocol: PROTOCOL_UDP,
            checksum: U16::ZERO,
            source: self.from.ip.0,
            destination: self.to.ip.0,
        };
        if !offload.contains(Offload::IPV4_TX) {
            ipv4.checksum = U16::new(!InternetSum::default().add(ipv4.as_bytes()).fold());
        }
        let port = U16::new(self.port);
        let (subtype, version) = (self.subtype, HEADER_VERSION);
        let checksum = U16::ZERO;
        let mut udp =
            UdpHeader { source: port, destination: port, length, checksum, magic: MAGIC, subtype, version };
        if !offload.contains(Offload::UDP_TX) {
            let sum = pseudo(&ipv4, length).add(udp.as_bytes()).add(first).add(second);
            // All zero means that there is none (RFC 768).
            udp.checksum = U16::new(match !sum.fold() {
                0 => u16::MAX,
                sum => sum,
            });
        }
        let (destination, source) = (self.to.mac.0, self.from.mac.0);
        let headers = Headers { destination, source, ethertype: U16::new(ETHERTYPE_IPV4), ipv4, udp };
        zerocopy::transmute!(headers)
    }

    /// The headers of a frame and what is behind them; padding is cut off. Only checksums are
    /// judged that the device has not judged, and a datagram may have none.
    pub(super) fn parse(bytes: &[u8], offload: Offload) -> Result<(Self, &[u8]), Foreign> {
        let ethertype = bytes.get(12..MAC_HEADER_BYTES).ok_or(Foreign::Short)?;
        if ethertype != ETHERTYPE_IPV4.to_be_bytes() {
            return Err(Foreign::Protocol);
        }
        let packet = bytes.get(MAC_HEADER_BYTES..).unwrap_or_default();
        let (ipv4, rest) = Ipv4Header::ref_from_prefix(packet).map_err(|_| Foreign::Short)?;
        let plain = ipv4.version_and_length == VERSION_AND_LENGTH && ipv4.protocol == PROTOCOL_UDP;
        if !plain || ipv4.fragment.get() & !DO_NOT_FRAGMENT != 0 {
            return Err(Foreign::Protocol);
        }
        if !offload.contains(Offload::IPV4_RX)
            && InternetSum::default().add(ipv4.as_bytes()).fold() != u16::MAX
        {
            return Err(Foreign::Checksum);
        }
        let datagram = usize::from(ipv4.total.get()).checked_sub(IPV4_BYTES).and_then(|len| rest.get(..len));
        let datagram = datagram.ok_or(Foreign::Short)?;
        let (udp, body) = UdpHeader::ref_from_prefix(datagram).map_err(|_| Foreign::Short)?;
        let (headers, _) = Headers::ref_from_prefix(bytes).map_err(|_| Foreign::Short)?;
        if udp.magic != MAGIC || udp.source != udp.destination {
            return Err(Foreign::Protocol);
        }
        let end = usize::from(udp.length.get()).checked_sub(size_of::<UdpHeader>());
        let body = end.and_then(|end| body.get(..end)).ok_or(Foreign::Short)?;
        if !offload.contains(Offload::UDP_RX) && udp.checksum != U16::ZERO {
            let sum = pseudo(ipv4, udp.length).add(udp.as_bytes()).add(body);
            if sum.fold() != u16::MAX {
                return Err(Foreign::Checksum);
            }
        }
        if udp.version != HEADER_VERSION {
            return Err(Foreign::Version);
        }
        let to = Station { mac: Mac(headers.destination), ip: Ipv4(ipv4.destination) };
        let from = Station { mac: Mac(headers.source), ip: Ipv4(ipv4.source) };
        Ok((Self { subtype: udp.subtype, port: udp.destination.get(), to, from }, body))
    }
}

/// The start of a UDP checksum: what of IPv4's header it protects.
fn pseudo(ipv4: &Ipv4Header, length: U16) -> InternetSum {
    let sum = InternetSum::default().add(&ipv4.source).add(&ipv4.destination);
    sum.add(&u16::from(PROTOCOL_UDP).to_be_bytes()).add(length.as_bytes())
}

/// The sum of the Internet's checksums (RFC 1071): of 16-bit words, with the carries added in.
/// Every part but the last has an even number of bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct InternetSum(u64);

impl InternetSum {
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let (pairs, last) = bytes.as_chunks::<2>();
        let words = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair)));
        let last = last.first().map_or(0, |byte| u64::from(*byte) << 8);
        Self(words.fold(self.0, u64::wrapping_add).wrapping_add(last))
    }

    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.0;
        while let high @ 1.. = sum >> 16 {
            sum = (sum & 0xFFFF) + high;
        }
        sum as u16
    }
}

const _: () = assert!(size_of::<UdpHeader>() == UDP_BYTES + 6);

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
