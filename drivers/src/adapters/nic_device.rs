//! Cards as devices of other ecosystems.

use aldis_hal::nic::{MAC_HEADER_BYTES, Offload, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic};

use super::foreign::take;

/// The directions in which a device takes over a checksum: in those a stack is to do nothing.
#[derive(Clone, Copy)]
pub(super) struct ChecksumsDone {
    pub(super) on_transmit: bool,
    pub(super) on_receive: bool,
}

impl ChecksumsDone {
    pub(super) const NONE: Self = Self { on_transmit: false, on_receive: false };
}

/// Returns the checksums that a device takes over.
pub(super) fn offload(ipv4: ChecksumsDone, udp: ChecksumsDone) -> Offload {
    let mut offload = Offload::empty();
    offload.set(Offload::IPV4_TX, ipv4.on_transmit);
    offload.set(Offload::IPV4_RX, ipv4.on_receive);
    offload.set(Offload::UDP_TX, udp.on_transmit);
    offload.set(Offload::UDP_RX, udp.on_receive);
    offload
}

/// A card as a device of other ecosystems. A stack on it computes UDP's checksum of what it sends
/// itself, also where the card would over IPv4: over IPv6 it may not be left to that.
#[derive(Debug)]
pub struct NicDevice<'m, N> {
    pub(super) nic: N,
    received: &'m mut [u8],
    /// Frames for which the card had no room after all are written here, and lost.
    spare: &'m mut [u8],
}

impl<'m, N: Nic> NicDevice<'m, N> {
    /// The device of a card, with memory for a frame of each direction: the MTU and 14 bytes.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for less memory.
    pub fn new(nic: N, received: &'m mut [u8], spare: &'m mut [u8]) -> Result<Self, Cause> {
        let (need, have) = (nic.mtu() + MAC_HEADER_BYTES, received.len().min(spare.len()));
        if have < need {
            return Err(Cause::TooBig { len: need as u64, max: have as u64 });
        }
        Ok(Self { nic, received, spare })
    }

    /// The card.
    pub const fn nic(&self) -> &N {
        &self.nic
    }

    /// The card, for what it needs besides frames.
    pub const fn nic_mut(&mut self) -> &mut N {
        &mut self.nic
    }

    /// Returns the checksums that a stack may leave to the card. UDP's is not one of them when it
    /// sends: stacks tell no IPv4 from IPv6 there, and cards compute that of IPv4 alone. Zero over
    /// IPv6 is for receivers to discard (RFC 8200, 8.1).
    pub(super) fn left_by_stack(&self) -> Offload {
        self.nic.offload() - Offload::UDP_TX
    }

    /// Returns the bytes of the longest frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.nic.mtu() + MAC_HEADER_BYTES
    }

    /// The next frame, and a token to answer it; `None` while the card has no room for an answer.
    pub(super) fn take_pair(&mut self) -> Option<(NicReceived<'_>, NicSend<'_, N>)> {
        if !self.has_room() {
            return None;
        }
        let len = take(self.received, self.nic.receive()?.bytes());
        let bytes = self.received.get_mut(..len).filter(|bytes| !bytes.is_empty())?;
        Some((NicReceived(bytes), NicSend { nic: &mut self.nic, spare: self.spare }))
    }

    /// A token to send, if the card has room.
    pub(super) fn take_single(&mut self) -> Option<NicSend<'_, N>> {
        self.has_room().then_some(NicSend { nic: &mut self.nic, spare: self.spare })
    }

    fn has_room(&mut self) -> bool {
        let len = self.frame_bytes();
        self.nic.transmit(len).is_some()
    }
}

/// A frame that was copied from a card.
#[derive(Debug)]
pub struct NicReceived<'a>(pub(super) &'a mut [u8]);

/// A frame that a card is to send.
#[derive(Debug)]
pub struct NicSend<'a, N> {
    nic: &'a mut N,
    spare: &'a mut [u8],
}

impl<N: Nic> NicSend<'_, N> {
    /// Has `fill` write a frame of `len` bytes, and sends it.
    pub(super) fn send<R>(self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        match self.nic.transmit(len) {
            Some(mut token) => {
                let filled = fill(token.bytes());
                token.send();
                filled
            }
            None => fill(self.spare.get_mut(..len).unwrap_or_default()),
        }
    }
}
