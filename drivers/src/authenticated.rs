//! Frames with a message authentication code: what nobody without the job's key can make.
//!
//! Ethernet trusts whoever is on the wire. An [`AuthenticatedNic`] between a device and what uses
//! it puts a tag of 16 bytes behind each frame and hands up no frame without the right one, so that
//! discovery, handshake and messages alike are those of ranks that have the key. It is a [`Nic`]
//! itself: [`Discovery`](crate::Discovery) and [`Ethernet`](crate::Ethernet) stand on it as they
//! do on a device.
//!
//! ```
//! use aldis_drivers::authenticated::{AuthKey, AuthenticatedNic};
//! use aldis_hal::Nic;
//!
//! # fn wrapped<N: Nic>(card: N) -> impl Nic {
//! let key = AuthKey::new(*b"of one job alone");
//! AuthenticatedNic::new(card, Some(key))
//! # }
//! ```
//!
//! The tag is SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, SipHash: a fast
//! short-input PRF, INDOCRYPT 2012, and its reference code) over the whole frame, addresses and
//! padding included: a frame that was meant for one rank is none for another.
//!
//! # What it keeps out, and what it does not
//!
//! * Made-up frames and changed ones are refused, each at the price of one tag; they are counted
//!   ([`AuthenticatedNic::forged`]), and look like empty frames to what is above, which counts them
//!   as truncated and takes one turn for each.
//! * Frames of the same job that are sent again are duplicates, which the reliable protocol drops.
//!   Those of an earlier job with the same key are not told apart by the tag: epochs refuse what
//!   they can, but **a key is for one job**.
//! * Nothing is secret: payloads go as they are. Frames can still be dropped, and a wire flooded.
//! * Any rank that has the key can speak for any other.
//!
//! Switches that change frames (VLAN tags, NAT) make them wrong. Checksums of UDP are not left to
//! the device on the way out, since it would write them into a frame that has its tag.

use core::fmt;

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, RxFrame, TxFrame};
use siphasher::sip128::SipHasher24;

/// Bytes of a frame's tag, by which the MTU is less.
pub const TAG_BYTES: usize = 16;
/// The least length of a frame without its check sequence. A shorter one would be padded by the
/// device, behind its tag.
const FRAME_BYTES_MIN: usize = 60;

/// The key that all ranks of a job have, and nobody else.
#[derive(Clone, Copy)]
pub struct AuthKey([u8; 16]);

impl AuthKey {
    /// The key of these bytes: drawn at random, for one job.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The tag of a frame.
    fn tag(self, frame: &[u8]) -> [u8; TAG_BYTES] {
        SipHasher24::new_with_key(&self.0).hash(frame).as_bytes()
    }
}

/// Says nothing of the key.
impl fmt::Debug for AuthKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthKey(..)")
    }
}

/// A device whose frames have tags, as the [module](self) says.
#[derive(Debug)]
pub struct AuthenticatedNic<N> {
    nic: N,
    key: Option<AuthKey>,
    forged: u64,
}

impl<N> AuthenticatedNic<N> {
    /// Tags frames by `key`; without one, frames go as they are.
    pub const fn new(nic: N, key: Option<AuthKey>) -> Self {
        Self { nic, key, forged: 0 }
    }

    /// Frames that were refused: without a tag, or with a wrong one.
    pub const fn forged(&self) -> u64 {
        self.forged
    }

    /// The device.
    pub const fn nic(&self) -> &N {
        &self.nic
    }

    /// The device, for what it needs besides frames.
    pub const fn nic_mut(&mut self) -> &mut N {
        &mut self.nic
    }

    const fn tag_bytes(&self) -> usize {
        if self.key.is_some() { TAG_BYTES } else { 0 }
    }
}

/// The frame in front of its tag, if that is right.
fn verified(bytes: &[u8], key: AuthKey) -> Option<usize> {
    let (frame, tag) = bytes.split_last_chunk::<TAG_BYTES>()?;
    // All bits at once, so that it takes as long wherever they differ.
    let wrong = u128::from_le_bytes(*tag) ^ u128::from_le_bytes(key.tag(frame));
    (wrong == 0).then_some(frame.len())
}

impl<N: Nic> Nic for AuthenticatedNic<N> {
    type Rx<'a>
        = AuthenticatedRx<N::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = AuthenticatedTx<N::Tx<'a>>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<AuthenticatedRx<N::Rx<'_>>> {
        let Self { nic, key, forged } = self;
        let frame = nic.receive()?;
        let len = match key {
            None => frame.bytes().len(),
            Some(key) => verified(frame.bytes(), *key).unwrap_or_else(|| {
                *forged = forged.wrapping_add(1);
                0
            }),
        };
        Some(AuthenticatedRx { frame, len })
    }

    fn transmit(&mut self, len: usize) -> Option<AuthenticatedTx<N::Tx<'_>>> {
        if len > self.mtu() + MAC_HEADER_BYTES {
            return None;
        }
        let key = self.key;
        let tagged = if key.is_some() { (len + TAG_BYTES).max(FRAME_BYTES_MIN) } else { len };
        Some(AuthenticatedTx { frame: self.nic.transmit(tagged)?, len, key })
    }

    #[inline]
    fn flush(&mut self) {
        self.nic.flush();
    }

    fn mtu(&self) -> usize {
        self.nic.mtu().saturating_sub(self.tag_bytes())
    }

    fn mac(&self) -> Mac {
        self.nic.mac()
    }

    fn link(&self) -> LinkState {
        self.nic.link()
    }

    fn offload(&self) -> Offload {
        let checked = Offload::IPV4_RX | Offload::UDP_RX;
        let usable = if self.key.is_some() { checked } else { Offload::all() };
        self.nic.offload() & usable
    }
}

/// A received frame without its tag; empty if that was wrong.
#[derive(Debug)]
pub struct AuthenticatedRx<F> {
    frame: F,
    len: usize,
}

impl<F: RxFrame> RxFrame for AuthenticatedRx<F> {
    fn bytes(&self) -> &[u8] {
        self.frame.bytes().get(..self.len).unwrap_or_default()
    }

    fn checked(&self) -> Offload {
        self.frame.checked()
    }
}

/// A frame to be filled, which gets its tag when it is sent.
#[derive(Debug)]
pub struct AuthenticatedTx<F> {
    frame: F,
    len: usize,
    key: Option<AuthKey>,
}

impl<F: TxFrame> TxFrame for AuthenticatedTx<F> {
    fn bytes(&mut self) -> &mut [u8] {
        self.frame.bytes().get_mut(..self.len).unwrap_or_default()
    }

    fn send(mut self) {
        self.tag();
        self.frame.send();
    }

    #[inline]
    fn send_more(mut self) {
        self.tag();
        self.frame.send_more();
    }
}

impl<F: TxFrame> AuthenticatedTx<F> {
    /// Writes the tag, if frames have one.
    #[inline]
    fn tag(&mut self) {
        if let Some(key) = self.key
            && let Some((frame, tag)) = self.frame.bytes().split_last_chunk_mut::<TAG_BYTES>()
        {
            if let Some(padding) = frame.get_mut(self.len..) {
                padding.fill(0);
            }
            *tag = key.tag(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use aldis_kit::hub::{Hub, HubNic};
    use proptest::prelude::*;

    use super::*;

    const KEY: AuthKey = AuthKey::new(*b"0123456789abcdef");
    const OTHER: AuthKey = AuthKey::new(*b"0123456789abcdeF");
    const MTU: usize = 1500;

    fn nic(hub: &Hub, number: u8, key: Option<AuthKey>) -> AuthenticatedNic<HubNic> {
        AuthenticatedNic::new(hub.nic(number, MTU), key)
    }

    /// A frame of `len` bytes from station 1 to station 2.
    fn frame(len: usize) -> Vec<u8> {
        let mut bytes = vec![7; len];
        for (at, byte) in [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1].into_iter().enumerate() {
            bytes[at] = byte;
        }
        bytes
    }

    fn send(nic: &mut AuthenticatedNic<HubNic>, bytes: &[u8]) {
        let mut token = nic.transmit(bytes.len()).unwrap();
        token.bytes().copy_from_slice(bytes);
        token.send();
    }

    fn received(hub: &Hub, nic: &mut AuthenticatedNic<HubNic>) -> Option<Vec<u8>> {
        hub.advance(1_000_000);
        nic.receive().map(|frame| frame.bytes().to_vec())
    }

    #[test]
    fn frames_of_every_length_pass_with_the_key_and_without_any() {
        for (key, longest) in [(Some(KEY), MTU - TAG_BYTES + 14), (None, MTU + 14)] {
            let hub = Hub::new(1);
            let [mut one, mut two] = [1, 2].map(|number| nic(&hub, number, key));
            assert_eq!(one.mtu() + 14, longest);
            assert!(one.transmit(longest + 1).is_none());
            for len in (14..80).chain([longest - 1, longest]) {
                send(&mut one, &frame(len));
                let got = received(&hub, &mut two).unwrap();
                assert_eq!((&got[..len], received(&hub, &mut two)), (&*frame(len), None), "{len}");
                let is_padded = key.is_some() && len + TAG_BYTES < FRAME_BYTES_MIN;
                assert!(!is_padded || got[len..].iter().all(|byte| *byte == 0));
            }
            assert_eq!(two.forged(), 0);
        }
    }

    #[test]
    fn frames_without_the_key_are_refused_and_counted() {
        let hub = Hub::new(1);
        let mut me = nic(&hub, 2, Some(KEY));
        for (number, key) in [(3, None), (4, Some(OTHER))] {
            send(&mut nic(&hub, number, key), &frame(200));
            assert_eq!(received(&hub, &mut me), Some(Vec::new()));
        }
        for short in [14, 15, 16, 30] {
            hub.inject(2, &frame(short));
            assert_eq!(received(&hub, &mut me), Some(Vec::new()));
        }
        assert_eq!(me.forged(), 6);
    }

    #[test]
    fn a_frame_that_was_meant_for_another_is_refused() {
        let hub = Hub::new(1);
        let [mut one, mut two] = [1, 2].map(|number| nic(&hub, number, Some(KEY)));
        let mut three = nic(&hub, 3, Some(KEY));
        send(&mut one, &frame(100));
        let mut stolen = hub.waiting(2).pop().unwrap();
        assert!(received(&hub, &mut two).is_some_and(|got| got.len() == 100));
        stolen[5] = 3;
        hub.inject(3, &stolen);
        assert_eq!((received(&hub, &mut three), three.forged()), (Some(Vec::new()), 1));
    }

    #[test]
    fn the_key_is_told_to_nobody() {
        let told = std::format!("{:?}", AuthenticatedNic::new((), Some(KEY)));
        assert!(told.contains("AuthKey(..)") && !told.contains("48"), "{told}");
    }

    #[test]
    fn checksums_on_the_way_out_are_not_left_to_the_device() {
        struct Offloading;
        struct Nothing;
        impl RxFrame for Nothing {
            fn bytes(&self) -> &[u8] {
                &[]
            }
        }
        impl TxFrame for Nothing {
            fn bytes(&mut self) -> &mut [u8] {
                &mut []
            }
            fn send(self) {}
        }
        impl Nic for Offloading {
            type Rx<'a> = Nothing;
            type Tx<'a> = Nothing;
            fn receive(&mut self) -> Option<Nothing> {
                None
            }
            fn transmit(&mut self, _: usize) -> Option<Nothing> {
                Some(Nothing)
            }
            fn mtu(&self) -> usize {
                4
            }
            fn mac(&self) -> Mac {
                Mac([0; 6])
            }
            fn link(&self) -> LinkState {
                LinkState::Up
            }
            fn offload(&self) -> Offload {
                Offload::all()
            }
        }
        let mut nic = AuthenticatedNic::new(Offloading, Some(KEY));
        assert_eq!(nic.offload(), Offload::IPV4_RX | Offload::UDP_RX);
        assert_eq!(AuthenticatedNic::new(Offloading, None).offload(), Offload::all());
        // A device whose frames have no room for a tag, and one that lends none.
        assert_eq!(nic.mtu(), 0);
        nic.transmit(14).unwrap().send();
    }

    proptest! {
        #[test]
        fn no_bit_can_be_changed_unseen(len in 14_usize..200, bit in 0_usize..2048) {
            let hub = Hub::new(1);
            let [mut one, mut two] = [1, 2].map(|number| nic(&hub, number, Some(KEY)));
            send(&mut one, &frame(len));
            let mut changed = hub.waiting(2).pop().unwrap();
            received(&hub, &mut two);
            let bit = bit % (8 * changed.len());
            changed[bit / 8] ^= 1 << (bit % 8);
            hub.inject(2, &changed);
            prop_assert_eq!((received(&hub, &mut two), two.forged()), (Some(Vec::new()), 1));
        }
    }

    #[test]
    fn tags_are_those_of_the_reference_code() {
        // The key 00 01 .. 0f, as in the test vectors of SipHash-2-4-128: of no bytes, and of 63.
        let key = AuthKey::new(core::array::from_fn(|at| at as u8));
        let bytes: Vec<u8> = (0..63).collect();
        let none = 0xA381_7F04_BA25_A8E6_6DF6_7214_C755_0293_u128;
        let many = 0x5150_D177_2F50_834A_503E_069A_973F_BD7C_u128;
        assert_eq!([key.tag(&[]), key.tag(&bytes)], [none, many].map(u128::to_be_bytes));
    }
}
