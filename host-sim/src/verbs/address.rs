//! What a rank's card says of how to connect to it.

use aldis_protocols::card::ADDRESS_BYTES_MAX;

/// The first byte, so that it is never taken for another transport's.
const MARK: u8 = 0xB1;
/// Bytes before the numbers: mark, GID, LID and MTU.
const HEAD: usize = 1 + 16 + 2 + 2;
/// Bytes of the number of a queue pair.
const NUMBER: usize = 3;

/// Ranks that a job over verbs can have: a card has room for the numbers of so many queue pairs.
pub const RANKS_MAX: u32 = ((ADDRESS_BYTES_MAX - HEAD) / NUMBER) as u32;

/// A port, and the queue pair there for each rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u16,
    /// By rank; zero for its own.
    pub(super) pairs: Vec<u32>,
}

impl Address {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![MARK];
        bytes.extend_from_slice(&self.gid);
        bytes.extend_from_slice(&self.lid.to_le_bytes());
        bytes.extend_from_slice(&self.mtu.to_le_bytes());
        for number in &self.pairs {
            bytes.extend_from_slice(&number.to_le_bytes()[..NUMBER]);
        }
        bytes
    }

    /// `None` for what is no address of a job of so many ranks.
    pub(super) fn decode(bytes: &[u8], ranks: usize) -> Option<Self> {
        let (head, numbers) = bytes.split_at_checked(HEAD)?;
        let (mark, rest) = head.split_first()?;
        let (gid, rest) = rest.split_first_chunk::<16>()?;
        let (lid, rest) = rest.split_first_chunk::<2>()?;
        let mtu = u16::from_le_bytes(rest.try_into().ok()?);
        if *mark != MARK
            || numbers.len() != ranks * NUMBER
            || !(256..=4096).contains(&mtu)
            || !mtu.is_power_of_two()
        {
            return None;
        }
        let number = |bytes: &[u8; NUMBER]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        let pairs = numbers.as_chunks::<NUMBER>().0.iter().map(number).collect();
        Some(Self { gid: *gid, lid: u16::from_le_bytes(*lid), mtu, pairs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fits_a_card_and_comes_back() {
        let pairs = (0..RANKS_MAX).map(|rank| 0xFF_FFF0 + rank).collect();
        let address = Address { gid: [9; 16], lid: 0x1234, mtu: 4096, pairs };
        let bytes = address.encode();
        assert!(bytes.len() <= ADDRESS_BYTES_MAX);
        assert_eq!(RANKS_MAX, 14, "docs say so");
        assert_eq!(Address::decode(&bytes, RANKS_MAX as usize), Some(address));
    }

    #[test]
    fn what_is_none_is_refused() {
        let bytes = Address { gid: [9; 16], lid: 0, mtu: 1024, pairs: vec![0, 17] }.encode();
        assert!(Address::decode(&bytes, 2).is_some());
        assert_eq!(Address::decode(&bytes, 3), None);
        assert_eq!(Address::decode(&bytes[..20], 2), None);
        for (at, value) in [(0, 0), (19, 1), (20, 0xFF)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert_eq!(Address::decode(&wrong, 2), None, "byte {at}");
        }
    }
}
