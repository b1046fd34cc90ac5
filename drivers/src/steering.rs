//! Receive-side scaling: by which queue of a card a frame comes, decided by the IPv4 address that
//! it is for.
//!
//! A card with several queues hashes the addresses of each IPv4 frame, by Toeplitz's function and a
//! key that the driver gives it, and looks the last seven bits of the hash up in a table of queues
//! (Microsoft, Receive Side Scaling; VIRTIO 1.2, 5.1.6.5.7; Intel 82574 datasheet, 7.1.10). That is
//! meant to spread strangers' connections; it spreads a job's by chance: of two endpoints on one
//! card, both may be dealt the same queue.
//!
//! Toeplitz's function is linear, so that a key can also be made which lets seven bits of the input
//! through and nothing else. [`KEY`] has one bit set, and the index into the table is the last
//! seven bits of the destination's address, in reverse. So a frame to an endpoint comes by that
//! endpoint's queue, whoever has sent it, and the table says which that is: [`Steering`].
//!
//! # Which frames
//!
//! Those of messages in UDP ([`Framing::Udp`](crate::ethernet::Framing)), of which each rank has an
//! address of its own. Frames without IPv4, such as those of raw Ethernet, come by queue 0. So do
//! datagrams to all, if no endpoint's address ends as theirs. An endpoint on another queue gets
//! them by [`handover`](crate::handover).

use core::fmt;

use crate::ethernet::Ipv4;

/// The number of entries in the table.
pub const ENTRIES: usize = 128;

/// Bytes of a key.
pub const KEY_BYTES: usize = 40;

/// The bit of the key, counted from the first byte's highest.
///
/// Bit `i` of the input adds bits `i` to `i + 31` of the key to the hash, the first as the highest.
/// So bit 88 of the key adds bit 88 - 31 + b of the input to bit b of the hash. The last seven are
/// bits 57 to 63 of the input, which begins with the source's and the destination's address.
const KEY_BIT: usize = 32 + 32 - 7 + 31;

/// The key under which the last seven bits of a hash are those of the destination's address, in
/// reverse.
pub const KEY: [u8; KEY_BYTES] = {
    let mut key = [0; KEY_BYTES];
    let (front, _) = key.split_at_mut(KEY_BIT / 8 + 1);
    if let Some(byte) = front.last_mut() {
        *byte = 0x80 >> (KEY_BIT % 8);
    }
    key
};

/// Toeplitz's hash of an input that a card looks at.
///
/// ```
/// use aldis_drivers::steering::{KEY, hash};
///
/// let input = [10, 0, 0, 9, 10, 161, 0, 3]; // source, destination
/// assert_eq!(hash(&KEY, &input) % 128, u32::from(3_u8.reverse_bits() >> 1));
/// ```
pub fn hash(key: &[u8; KEY_BYTES], input: &[u8]) -> u32 {
    let (first, rest) = key.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    // The 32 bits of the key that the next bit of the input adds, and those behind them.
    let mut window = u32::from_be_bytes(*first);
    let mut hash = 0;
    for (byte, behind) in input.iter().zip(rest) {
        for bit in (0..8).rev() {
            if byte >> bit & 1 != 0 {
                hash ^= window;
            }
            window = window << 1 | u32::from(behind >> bit & 1);
        }
    }
    hash
}

/// Two endpoints on different queues, whose addresses a card cannot tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SteeringConflict {
    /// The address that was there.
    pub first: Ipv4,
    /// The address that ends in the same seven bits.
    pub second: Ipv4,
}

impl fmt::Display for SteeringConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        write!(
            f,
            "{first} and {second} end in the same seven bits, by which a card tells queues apart; \
             give one of the two another address"
        )
    }
}

impl core::error::Error for SteeringConflict {}

/// The queue for each address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steering {
    /// By the last seven bits of an address.
    queues: [u8; ENTRIES],
}

impl Steering {
    /// Frames to each of these addresses come by the queue of its number; all others by queue 0. Of
    /// ranks that follow each other, as [`Udp::of_rank`](crate::ethernet::Udp::of_rank) numbers
    /// them, 128 can be told apart.
    ///
    /// # Errors
    /// [`SteeringConflict`] for two addresses that end in the same seven bits.
    ///
    /// ```
    /// use aldis_drivers::ethernet::Udp;
    /// use aldis_drivers::steering::Steering;
    ///
    /// let steering = Steering::to(&[4, 5].map(|rank| Udp::of_rank(rank).address))?;
    /// assert_eq!(steering.queue_of(Udp::of_rank(5).address), 1);
    /// # Ok::<(), aldis_drivers::steering::SteeringConflict>(())
    /// ```
    pub fn to(addresses: &[Ipv4]) -> Result<Self, SteeringConflict> {
        let mut steering = Self { queues: [0; ENTRIES] };
        for (queue, address) in addresses.iter().enumerate() {
            let earlier = addresses.get(..queue).unwrap_or_default();
            if let Some(first) = earlier.iter().find(|first| ending(**first) == ending(*address)) {
                return Err(SteeringConflict { first: *first, second: *address });
            }
            // So many addresses as a byte can count cannot all end differently.
            if let Some(entry) = steering.queues.get_mut(ending(*address)) {
                *entry = queue as u8;
            }
        }
        Ok(steering)
    }

    /// The queue by which frames to an address come.
    pub fn queue_of(&self, address: Ipv4) -> u8 {
        self.queues.get(ending(address)).copied().unwrap_or_default()
    }

    /// The highest queue that is named.
    pub fn last_queue(&self) -> u8 {
        self.queues.iter().copied().max().unwrap_or_default()
    }

    /// The table in the order in which a card with the [key](KEY) looks it up.
    pub fn table(&self) -> [u8; ENTRIES] {
        core::array::from_fn(|index| {
            let ending = usize::from((index as u8).reverse_bits() >> 1);
            self.queues.get(ending).copied().unwrap_or_default()
        })
    }
}

/// The last seven bits of an address.
const fn ending(Ipv4([_, _, _, last]): Ipv4) -> usize {
    (last & 0x7F) as usize
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::ethernet::Udp;

    /// The key of Microsoft's "Verifying the RSS Hash Calculation".
    const VERIFICATION_KEY: [u8; KEY_BYTES] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn the_published_vectors() {
        // Source, destination, their ports; hash of the addresses, and with the ports.
        let vectors = [
            ([66, 9, 149, 187], [161, 142, 100, 80], [2794, 1766], [0x323e_8fc2, 0x51cc_c178]),
            ([199, 92, 111, 2], [65, 69, 140, 83], [14230, 4739], [0xd718_262a, 0xc626_b0ea]),
            ([24, 19, 198, 95], [12, 22, 207, 184], [12898, 38024], [0xd2d0_a5de, 0x5c2b_394a]),
            ([38, 27, 205, 30], [209, 142, 163, 6], [48228, 2217], [0x8298_9176, 0xafc7_327f]),
            ([153, 39, 163, 191], [202, 188, 127, 2], [44251, 1303], [0x5d18_09c5, 0x10e8_28a2]),
        ];
        for (source, destination, ports, hashes) in vectors {
            let addresses = [source, destination].concat();
            let ports: Vec<u8> = ports.iter().flat_map(|port: &u16| port.to_be_bytes()).collect();
            let whole = [&addresses[..], &ports].concat();
            let hashed = [&addresses, &whole].map(|input| hash(&VERIFICATION_KEY, input));
            assert_eq!(hashed, hashes, "from {source:?} to {destination:?}");
        }
    }

    #[test]
    fn ranks_that_follow_each_other_have_a_queue_each() {
        for first in [0, 100, 250] {
            let addresses: Vec<Ipv4> = (first..first + 128).map(|rank| Udp::of_rank(rank).address).collect();
            let steering = Steering::to(&addresses).unwrap();
            assert!(addresses.iter().zip(0..).all(|(address, queue)| steering.queue_of(*address) == queue));
            assert_eq!(steering.last_queue(), 127);
        }
    }

    #[test]
    fn addresses_that_a_card_cannot_tell_apart_are_named() {
        let [first, second] = [Ipv4([10, 0, 0, 3]), Ipv4([10, 9, 9, 131])];
        let conflict = Steering::to(&[Ipv4([10, 0, 0, 1]), first, second]).unwrap_err();
        assert_eq!(conflict, SteeringConflict { first, second });
        assert!(conflict.to_string().contains("10.0.0.3 and 10.9.9.131 end in the same seven bits"));
    }

    proptest! {
        /// A card that computes as is written finds the endpoint's queue, whoever sends and
        /// whatever the ports, and whether it looks at ports or not.
        #[test]
        fn a_frame_comes_by_the_queue_of_its_destination(
            source: [u8; 4], network: [u8; 3], endings in proptest::collection::hash_set(0..128_u8, 1..8),
            high: bool, ports: [u8; 4],
        ) {
            let high = u8::from(high) << 7;
            let addresses: Vec<Ipv4> =
                endings.iter().map(|last| Ipv4([network[0], network[1], network[2], last | high])).collect();
            let steering = Steering::to(&addresses).unwrap();
            let table = steering.table();
            for (queue, address) in addresses.iter().enumerate() {
                let short = [source, address.0].concat();
                let long = [&short[..], &ports].concat();
                for input in [short, long] {
                    let index = hash(&KEY, &input) as usize % ENTRIES;
                    prop_assert_eq!(usize::from(table[index]), queue);
                }
            }
        }
    }
}
