//! Headers in front of the reliable protocol's frame: an EtherType of its own, or UDP over IPv4.

use core::fmt;
use core::ops::Deref;

use aldis_hal::nic::{MAC_HEADER_BYTES, Mac, Offload};
use aldis_protocols::reliable::FRAME_BYTES;
use zerocopy::IntoBytes;

use super::header::{EthernetHeader, Foreign, HEADER_BYTES};
use super::udp::{Datagram, UDP_HEADER_BYTES};

/// An IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ipv4(pub [u8; 4]);

impl fmt::Display for Ipv4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

/// The use of UDP for messages: where this rank is, and the port that all ranks of a job use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Udp {
    /// This rank's address.
    pub address: Ipv4,
    /// The port of every rank, source and destination.
    pub port: u16,
}

impl Udp {
    /// The port, unless another is chosen: of those that are assigned to no service (RFC 6335, 6).
    pub const PORT: u16 = 53_665;

    /// The address of a rank by rule: 10.161.0.0 and the rank, counted from one; unique below
    /// 65,535 ranks.
    ///
    /// ```
    /// use aldis_drivers::ethernet::{Ipv4, Udp};
    ///
    /// assert_eq!(Udp::of_rank(256).address, Ipv4([10, 161, 1, 1]));
    /// ```
    pub const fn of_rank(rank: u32) -> Self {
        let [_, _, high, low] = rank.wrapping_add(1).to_be_bytes();
        Self { address: Ipv4([10, 161, high, low]), port: Self::PORT }
    }
}

/// The framing of messages. All ranks of a job choose the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Framing {
    /// The [EtherType for local experiments](super::header): shortest, on one Ethernet.
    #[default]
    Ethernet,
    /// [UDP over IPv4](super::udp): where a network passes or counts nothing else. No ARP: a card
    /// tells MAC and IPv4 address, so that ranks are still on one Ethernet.
    Udp(Udp),
}

impl Framing {
    /// Bytes in front of the reliable protocol's frame: 16, or 48 with UDP.
    pub const fn header_bytes(&self) -> usize {
        match self {
            Self::Ethernet => HEADER_BYTES,
            Self::Udp(_) => UDP_HEADER_BYTES,
        }
    }

    /// Bytes of a frame in front of the message: 48, or 80 with UDP.
    pub const fn headers_bytes(&self) -> usize {
        self.header_bytes() + FRAME_BYTES
    }

    /// The header bytes that an MTU counts: 34, or 66 with UDP. A message takes a device whose MTU
    /// is this much longer.
    pub const fn mtu_overhead_bytes(&self) -> usize {
        self.headers_bytes() - MAC_HEADER_BYTES
    }

    /// The station of a device with this framing.
    pub(crate) fn station(&self, mac: Mac) -> Station {
        let ip = match self {
            Self::Ethernet => Ipv4::default(),
            Self::Udp(Udp { address, .. }) => *address,
        };
        Station { mac, ip }
    }

    /// The station that an address on a card names; `None` for an address of another form.
    pub(super) fn locate(&self, address: &[u8]) -> Option<Station> {
        let (mac, ip) = address.split_first_chunk()?;
        let ip = match self {
            Self::Ethernet if ip.is_empty() => Ipv4::default(),
            Self::Udp(_) => Ipv4(ip.try_into().ok().filter(|ip| is_host(*ip))?),
            Self::Ethernet => return None,
        };
        Some(Station { mac: Mac(*mac), ip })
    }

    /// The address that is put on a card: the other way round.
    pub(super) fn address(&self, Station { mac, ip }: Station) -> CardAddress {
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        let (front, back) = bytes.split_at_mut(mac.0.len());
        front.copy_from_slice(&mac.0);
        back.copy_from_slice(&ip.0);
        let len = match self {
            Self::Ethernet => mac.0.len(),
            Self::Udp(_) => ADDRESS_BYTES_MAX,
        };
        CardAddress { bytes, len }
    }

    /// Returns the headers in front of `parts`, in a frame of this subtype from this port to a
    /// station.
    #[inline]
    pub(crate) fn heading(&self, subtype: u8, to: Station, port: Port, parts: [&[u8]; 2]) -> Heading {
        let Port { station: from, offload } = port;
        let mut heading = Heading { bytes: [0; UDP_HEADER_BYTES], len: self.header_bytes() };
        match self {
            Self::Ethernet => {
                let header = EthernetHeader::new(to.mac, from.mac, subtype);
                let _ = header.write_to_prefix(&mut heading.bytes);
            }
            Self::Udp(udp) => {
                heading.bytes = Datagram { subtype, port: udp.port, to, from }.write(parts, offload);
            }
        }
        heading
    }

    /// Returns the sender of the frame of this subtype to this port, or to all if `all` are meant
    /// too, and what is behind the headers.
    #[inline]
    pub(crate) fn parse<'b>(
        &self,
        subtype: u8,
        bytes: &'b [u8],
        port: Port,
        all: bool,
    ) -> Result<(Station, &'b [u8]), Foreign> {
        let Port { station: me, offload } = port;
        let takes = |to: Mac| to == me.mac || (all && to == Station::ALL.mac);
        match self {
            Self::Ethernet => {
                let (mac, body) = EthernetHeader::parse(subtype, bytes, takes)?;
                Ok((self.station(mac), body))
            }
            Self::Udp(udp) => {
                let (datagram, body) = Datagram::parse(bytes, offload)?;
                let meant = takes(datagram.to.mac)
                    && (datagram.to.ip == me.ip || (all && datagram.to.ip == Station::ALL.ip));
                if datagram.port != udp.port || datagram.subtype != subtype {
                    return Err(Foreign::Protocol);
                }
                if meant { Ok((datagram.from, body)) } else { Err(Foreign::Destination) }
            }
        }
    }
}

/// Returns true if it is the address of one host: not the unspecified one, not a group, not all.
const fn is_host(ip: [u8; 4]) -> bool {
    let [first, ..] = ip;
    u32::from_be_bytes(ip) != 0 && first < 224
}

/// The addresses of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Station {
    pub(crate) mac: Mac,
    /// All zero without IPv4.
    pub(crate) ip: Ipv4,
}

impl Station {
    /// No station.
    pub(super) const NONE: Self = Self { mac: Mac([0; 6]), ip: Ipv4([0; 4]) };
    /// All stations of the Ethernet.
    pub(crate) const ALL: Self = Self { mac: Mac([0xFF; 6]), ip: Ipv4([0xFF; 4]) };
}

/// This side's end of the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// The station of this rank.
    pub(crate) station: Station,
    /// Checksums that the device takes over.
    pub(crate) offload: Offload,
}

/// The headers in front of the reliable protocol's frame.
pub(crate) struct Heading {
    bytes: [u8; UDP_HEADER_BYTES],
    len: usize,
}

impl Deref for Heading {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A MAC and an IPv4 address.
const ADDRESS_BYTES_MAX: usize = 10;

/// The part of a rank's card that says where it is: the MAC, and with UDP the IPv4 address behind
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardAddress {
    bytes: [u8; ADDRESS_BYTES_MAX],
    len: usize,
}

impl Deref for CardAddress {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const UDP: Framing = Framing::Udp(Udp::of_rank(4));

    #[test]
    fn a_card_tells_what_the_framing_needs() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let plain = Framing::Ethernet.address(Framing::Ethernet.station(mac));
        let udp = UDP.address(UDP.station(mac));
        assert_eq!((&plain[..], &udp[..]), (&[2, 0, 0, 0, 0, 9][..], &[2, 0, 0, 0, 0, 9, 10, 161, 0, 5][..]));
        assert_eq!(Framing::Ethernet.locate(&plain), Some(Framing::Ethernet.station(mac)));
        assert_eq!(UDP.locate(&udp), Some(UDP.station(mac)));
        assert_eq!(Framing::Ethernet.locate(&udp), None);
        assert_eq!(UDP.locate(&plain), None);
        assert_eq!(Framing::Ethernet.locate(&plain[..5]), None);
        for ip in [[0; 4], [224, 0, 0, 1], [255; 4]] {
            assert_eq!(UDP.locate(&[&mac.0[..], &ip].concat()), None, "no host has {ip:?}");
        }
    }

    #[test]
    fn what_headers_cost() {
        assert_eq!((Framing::Ethernet.headers_bytes(), UDP.headers_bytes()), (48, 80));
        assert_eq!((Framing::Ethernet.mtu_overhead_bytes(), UDP.mtu_overhead_bytes()), (34, 66));
        assert_eq!(Udp::of_rank(65_533).address, Ipv4([10, 161, 255, 254]));
        assert_eq!(std::format!("{}", Udp::of_rank(0).address), "10.161.0.1");
    }
}
