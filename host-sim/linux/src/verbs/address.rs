//! The part of a rank's card that says how to connect to it.

use core::net::IpAddr;

use super::choice::{Manager, Mode, ip};
use super::sys::FlushKey;

/// Bytes of it: a mark, the GID, the LID, the MTU, a number, and the key of a word.
const BYTES: usize = 1 + 16 + 2 + 2 + 4 + 4 + 2;

/// A port, and the queue pair for datagrams there; or what rdma_cm calls a port, where that
/// connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) mode: Mode,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u16,
    pub(super) number: u32,
    /// Of a word that can be read to see that what was written before is there. Zeros where nothing
    /// is written.
    pub(super) flush: FlushKey,
}

/// The first byte, by which an address is never taken for another transport's.
const fn mark(mode: Mode) -> u8 {
    match mode {
        Mode::Connected(Manager::OutOfBand) => 0xB1,
        Mode::Datagrams => 0xB2,
        Mode::Connected(Manager::Rdma) => 0xB3,
    }
}

impl Address {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = mark(self.mode);
        bytes[1..17].copy_from_slice(&self.gid);
        bytes[17..19].copy_from_slice(&self.lid.to_le_bytes());
        bytes[19..21].copy_from_slice(&self.mtu.to_le_bytes());
        bytes[21..25].copy_from_slice(&self.number.to_le_bytes());
        bytes[25..29].copy_from_slice(&self.flush.key.to_le_bytes());
        bytes[29..].copy_from_slice(&self.flush.base.to_le_bytes());
        bytes
    }

    /// Its address of the Internet Protocol, if it has one.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        ip(self.gid)
    }

    /// `None` for what is no address of a rank that sends in this `mode`.
    pub(super) fn decode(bytes: &[u8], mode: Mode) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (head, rest) = bytes.split_first()?;
        let (gid, rest) = rest.split_first_chunk::<16>()?;
        let (lid, rest) = rest.split_first_chunk::<2>()?;
        let (mtu, rest) = rest.split_first_chunk::<2>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (key, base) = rest.split_first_chunk::<4>()?;
        let (mtu, number) = (u16::from_le_bytes(*mtu), u32::from_le_bytes(*number));
        let flush =
            FlushKey { key: u32::from_le_bytes(*key), base: u16::from_le_bytes(base.try_into().ok()?) };
        let is_one =
            *head == mark(mode) && (256..=4096).contains(&mtu) && mtu.is_power_of_two() && number >> 24 == 0;
        is_one.then_some(Self { mode, gid: *gid, lid: u16::from_le_bytes(*lid), mtu, number, flush })
    }
}

#[cfg(test)]
mod tests {
    use aldis_protocols::card::ADDRESS_BYTES_MAX;

    use super::*;

    const ADDRESS: Address = Address {
        mode: Mode::Datagrams,
        gid: [9; 16],
        lid: 0x1234,
        mtu: 4096,
        number: 0xFF_FFF0,
        flush: FlushKey { key: 0x0102_0304, base: 0x0506 },
    };

    #[test]
    fn it_fits_a_card_and_comes_back() {
        let bytes = ADDRESS.encode();
        assert!(bytes.len() <= ADDRESS_BYTES_MAX);
        assert_eq!(Address::decode(&bytes, Mode::Datagrams), Some(ADDRESS));
        for mode in [Manager::OutOfBand, Manager::Rdma].map(Mode::Connected) {
            assert_eq!(Address::decode(&bytes, mode), None);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let bytes = ADDRESS.encode();
        assert_eq!(Address::decode(&bytes[..20], Mode::Datagrams), None);
        for (at, value) in [(0, 0), (19, 1), (20, 0xFF), (24, 1)] {
            let mut wrong = bytes;
            wrong[at] = value;
            assert_eq!(Address::decode(&wrong, Mode::Datagrams), None, "byte {at}");
        }
    }
}
