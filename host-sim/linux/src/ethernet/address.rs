//! The part of a rank's card that says where it is on the wire.

/// The first byte, by which an address is never taken for another transport's.
const MARK: u8 = 0xE1;

/// The bits of the second byte.
const UDP: u8 = 1 << 0;
const AUTHENTICATED: u8 = 1 << 1;

/// A rank on an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WiredAddress {
    /// True if its messages go in UDP.
    pub(super) is_udp: bool,
    /// True if its frames have tags, and it takes no others.
    pub(super) is_authenticated: bool,
    /// Bytes of its longest message.
    pub(super) message_bytes: u16,
    /// A number that those on the same interface of the same machine have in common.
    pub(super) place: u64,
    /// Its station, as the transport over frames writes it.
    pub(super) station: Vec<u8>,
}

impl WiredAddress {
    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let head = [MARK, flag(self.is_udp, UDP) | flag(self.is_authenticated, AUTHENTICATED)];
        [&head[..], &self.message_bytes.to_le_bytes(), &self.place.to_le_bytes(), &self.station].concat()
    }

    /// `None` for what is no such address.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[mark, flags], rest) = bytes.split_first_chunk()?;
        let (message_bytes, rest) = rest.split_first_chunk()?;
        let (place, station) = rest.split_first_chunk()?;
        let (message_bytes, place) = (u16::from_le_bytes(*message_bytes), u64::from_le_bytes(*place));
        let is_one = mark == MARK && flags & !(UDP | AUTHENTICATED) == 0;
        let (is_udp, is_authenticated) = (flags & UDP != 0, flags & AUTHENTICATED != 0);
        is_one.then(|| Self { is_udp, is_authenticated, message_bytes, place, station: station.into() })
    }

    /// The reason why the two cannot exchange messages, if they cannot.
    pub(super) fn contradiction(&self, other: &Self) -> Option<String> {
        if self.is_udp != other.is_udp {
            return Some("one of the two has its messages in UDP; give all ranks the same ALDIS_NIC".into());
        }
        if self.is_authenticated != other.is_authenticated {
            return Some(
                "one of the two has tags on its frames (auth); give all ranks the same ALDIS_NIC".into(),
            );
        }
        let (ours, theirs) = (self.message_bytes, other.message_bytes);
        if ours != theirs {
            return Some(format!(
                "its interface carries messages of {theirs} bytes and this rank's those of {ours}; \
                 give both the same MTU: ip link set IF mtu BYTES"
            ));
        }
        (self.station == other.station).then(|| {
            "it has the same address on the wire; leave mac=interface out, so that each rank has its own"
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> WiredAddress {
        WiredAddress {
            is_udp: false,
            is_authenticated: true,
            message_bytes: 1464,
            place: 0x0102_0304_0506_0708,
            station: vec![2, 0, 0, 0, 0, 9],
        }
    }

    #[test]
    fn it_comes_back_and_what_is_none_is_refused() {
        let bytes = address().encode();
        assert!(bytes.len() + 4 <= aldis_protocols::card::ADDRESS_BYTES_MAX);
        assert_eq!(WiredAddress::decode(&bytes), Some(address()));
        assert_eq!(WiredAddress::decode(&bytes[..11]), None);
        for (at, value) in [(0, 0xB1), (1, 4)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert_eq!(WiredAddress::decode(&wrong), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let other = WiredAddress { station: vec![2, 0, 0, 0, 0, 8], ..address() };
        assert_eq!(address().contradiction(&other), None);
        for (other, answer) in [
            (WiredAddress { is_udp: true, ..other.clone() }, "in UDP"),
            (WiredAddress { is_authenticated: false, ..other.clone() }, "tags on its frames (auth)"),
            (WiredAddress { message_bytes: 8928, ..other }, "8928 bytes and this rank's those of 1464"),
            (address(), "leave mac=interface out"),
        ] {
            assert!(address().contradiction(&other).unwrap().contains(answer));
        }
    }
}
