//! Bytes of datagrams, and what becomes of others.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const NO_OFFLOAD: Offload = Offload::empty();

fn sample() -> Datagram {
    let from = Station { mac: Mac([2, 0xA1, 0xD1, 0, 0, 0]), ip: Ipv4([10, 161, 0, 1]) };
    let to = Station { mac: Mac([2, 0xA1, 0xD1, 0, 0, 1]), ip: Ipv4([10, 161, 0, 2]) };
    Datagram { subtype: 0xA1, port: 53_665, to, from }
}

fn wire(datagram: Datagram, parts: [&[u8]; 2]) -> Vec<u8> {
    [&datagram.write(parts, NO_OFFLOAD)[..], parts[0], parts[1]].concat()
}

#[test]
fn golden_bytes() {
    // The checksums were worked out by an independent program.
    let golden = [
        2, 0xA1, 0xD1, 0, 0, 1, 2, 0xA1, 0xD1, 0, 0, 0, 0x08, 0, // Ethernet
        0x45, 0, 0, 39, 0, 0, 0x40, 0, 64, 17, 0x25, 0x82, 10, 161, 0, 1, 10, 161, 0, 2, // IPv4
        0xD1, 0xA1, 0xD1, 0xA1, 0, 19, 0xD3, 0x88, // UDP
        b'A', b'l', b'd', b'i', 0xA1, 1, b'f', b'r', b'a', b'm', b'e',
    ];
    let bytes = wire(sample(), [b"fram", b"e"]);
    assert_eq!(bytes, golden);
    assert_eq!(Datagram::parse(&bytes, NO_OFFLOAD), Ok((sample(), &b"frame"[..])));
}

#[test]
fn what_the_device_computes_is_left_to_it() {
    let bytes = sample().write([b"frame", b""], Offload::IPV4_TX | Offload::UDP_TX);
    assert_eq!((&bytes[24..26], &bytes[40..42]), (&[0, 0][..], &[0, 0][..]));
    let frame = [&bytes[..], b"frame"].concat();
    assert_eq!(Datagram::parse(&frame, NO_OFFLOAD), Err(Foreign::Checksum));
    assert!(Datagram::parse(&frame, Offload::IPV4_RX).is_ok(), "a datagram may have no checksum of its own");
    let mut bytes = wire(sample(), [b"frame", b""]);
    bytes[50] ^= 1;
    assert_eq!(Datagram::parse(&bytes, NO_OFFLOAD), Err(Foreign::Checksum));
    assert!(Datagram::parse(&bytes, Offload::UDP_RX).is_ok(), "the device has judged it");
}

#[test]
fn what_is_not_ours_is_named() {
    let frame = wire(sample(), [b"frame", b""]);
    // With both checksums judged by the device.
    let wrong = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        Datagram::parse(&frame, Offload::IPV4_RX | Offload::UDP_RX).unwrap_err()
    };
    assert_eq!(wrong(13, 6), Foreign::Protocol, "another EtherType");
    assert_eq!(wrong(14, 0x65), Foreign::Protocol, "another version of IP");
    assert_eq!(wrong(14, 0x46), Foreign::Protocol, "options");
    assert_eq!(wrong(20, 0x20), Foreign::Protocol, "a fragment that others follow");
    assert_eq!(wrong(21, 1), Foreign::Protocol, "a fragment that follows others");
    assert_eq!(wrong(23, 6), Foreign::Protocol, "TCP");
    assert_eq!(wrong(35, 0), Foreign::Protocol, "from another port");
    assert_eq!(wrong(42, 0), Foreign::Protocol, "another user of the port");
    assert_eq!(wrong(47, 2), Foreign::Version);
    for (at, value) in [(16, 1), (17, 0), (17, 19), (17, 33), (38, 1), (39, 20), (39, 13)] {
        assert_eq!(wrong(at, value), Foreign::Short, "byte {at} is {value}");
    }
    for len in [0, 13, 14, 33, 47, frame.len() - 1] {
        assert_eq!(Datagram::parse(&frame[..len], NO_OFFLOAD), Err(Foreign::Short), "{len} bytes");
    }
}

proptest! {
    #[test]
    fn total_on_any_bytes(bytes: Vec<u8>, ours: bool) {
        let mut bytes = bytes;
        if ours && bytes.len() > 24 {
            bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
            bytes[23] = 17;
        }
        let _ = Datagram::parse(&bytes, NO_OFFLOAD);
        let _ = Datagram::parse(&bytes, Offload::all());
    }

    #[test]
    fn what_is_written_is_read_and_one_flipped_bit_behind_the_addresses_is_noticed(
        front in proptest::collection::vec(any::<u8>(), 0..40), payload: Vec<u8>, padding in 0..20_usize,
        ips: ([u8; 4], [u8; 4]), port: u16, at: prop::sample::Index, bit in 0..8,
    ) {
        let front = [&front[..], &front[..]].concat();
        let mut datagram = sample();
        (datagram.from.ip, datagram.to.ip, datagram.port) = (Ipv4(ips.0), Ipv4(ips.1), port);
        let mut bytes = wire(datagram, [&front, &payload]);
        let end = bytes.len();
        bytes.resize(end + padding, 0xEE);
        let body = [&front[..], &payload].concat();
        prop_assert_eq!(Datagram::parse(&bytes, NO_OFFLOAD), Ok((datagram, &body[..])));
        let at = 14 + at.index(end - 14);
        bytes[at] ^= 1_u8 << bit;
        // Without its checksum a datagram says nothing of itself: the one change that may pass.
        let none = matches!(at, 40 | 41) && bytes[40..42] == [0, 0];
        prop_assert!(Datagram::parse(&bytes, NO_OFFLOAD).is_err() || none);
    }
}
