//! The addresses at which a rank can be reached, as its card tells them.
//!
//! One byte for the number of addresses, then each: a byte 4 or 6, the port (little-endian), and
//! the 4 or 16 bytes of the address. As many as the card has room for, the preferred one first.

use core::net::{IpAddr, SocketAddr};

use aldis_protocols::card::ADDRESS_BYTES_MAX;

/// Bytes of an address at most.
pub(super) const BYTES_MAX: usize = 3 + 16;

/// Returns the number of addresses that bytes hold which [`encode`] has written.
pub(super) fn count(bytes: &[u8]) -> u8 {
    bytes.first().copied().unwrap_or(0)
}

/// Writes as many addresses as fit.
pub(super) fn encode(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut bytes = vec![0];
    for address in addresses {
        let (family, octets) = match address.ip() {
            IpAddr::V4(ip) => (4, ip.octets().to_vec()),
            IpAddr::V6(ip) => (6, ip.octets().to_vec()),
        };
        if bytes.len() + 3 + octets.len() > ADDRESS_BYTES_MAX {
            continue;
        }
        bytes.push(family);
        bytes.extend_from_slice(&address.port().to_le_bytes());
        bytes.extend_from_slice(&octets);
        bytes[0] += 1;
    }
    bytes
}

/// Reads what [`encode`] has written; `None` for anything else, and for no address at all.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let (count, mut rest) = bytes.split_first()?;
    let mut addresses = Vec::new();
    for _ in 0..*count {
        let (head, body) = rest.split_first_chunk::<3>()?;
        let port = u16::from_le_bytes([head[1], head[2]]);
        let ip = match head[0] {
            4 => {
                let (ip, after) = body.split_first_chunk::<4>()?;
                rest = after;
                IpAddr::from(*ip)
            }
            6 => {
                let (ip, after) = body.split_first_chunk::<16>()?;
                rest = after;
                IpAddr::from(*ip)
            }
            _ => return None,
        };
        if port == 0 || ip.is_unspecified() || ip.is_multicast() {
            return None;
        }
        addresses.push(SocketAddr::new(ip, port));
    }
    (rest.is_empty() && !addresses.is_empty()).then_some(addresses)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let addresses = ["127.0.0.1:4660".parse().unwrap(), "[::1]:7".parse().unwrap()];
        let mut expected = vec![2, 4, 0x34, 0x12, 127, 0, 0, 1, 6, 7, 0];
        expected.extend([0; 15].into_iter().chain([1]));
        assert_eq!(encode(&addresses), expected);
        assert_eq!(decode(&expected), Some(addresses.to_vec()));
    }

    #[test]
    fn what_is_no_address_is_none() {
        let good = encode(&["10.0.0.1:9".parse().unwrap()]);
        for cut in 0..good.len() {
            assert_eq!(decode(&good[..cut]), None, "{cut}");
        }
        assert_eq!(decode(&[&good[..], &[0]].concat()), None, "more than it says");
        assert_eq!(decode(&encode(&["10.0.0.1:0".parse().unwrap()])), None, "no port");
        assert_eq!(decode(&encode(&["0.0.0.0:9".parse().unwrap()])), None, "nowhere");
        assert_eq!(decode(&[1, 5, 1, 1, 1, 2, 3, 4]), None, "no family");
    }

    proptest! {
        #[test]
        fn those_that_fit_come_back(addresses in prop::collection::vec(any::<(IpAddr, u16)>(), 1..9)) {
            let addresses: Vec<_> = addresses
                .into_iter()
                .map(|(ip, port)| SocketAddr::new(ip, port.max(1)))
                .filter(|address| !address.ip().is_unspecified() && !address.ip().is_multicast())
                .collect();
            let bytes = encode(&addresses);
            prop_assert!(bytes.len() <= ADDRESS_BYTES_MAX);
            if let Some(back) = decode(&bytes) {
                prop_assert_eq!(back[0], addresses[0]);
                prop_assert!(back.iter().all(|address| addresses.contains(address)));
            } else {
                prop_assert!(addresses.is_empty());
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
        }
    }
}
