//! Cards of other ecosystems as a [`Nic`], and a `Nic` as a card of theirs: `smoltcp::phy::Device`
//! (feature `smoltcp`) and `embassy_net_driver::Driver` (feature `embassy`).
//!
//! | from | to | by |
//! |---|---|---|
//! | `smoltcp::phy::Device` | [`Nic`] | [`ForeignNic`] over `SmoltcpDevice` |
//! | `embassy_net_driver::Driver` | [`Nic`] | [`ForeignNic`] over `EmbassyDriver` |
//! | [`Nic`] | both | [`NicDevice`] |
//!
//! Their devices lend a frame for the time of a call, and a `Nic` for as long as its token lives;
//! theirs hand out a token to answer with each frame that comes, and a `Nic` has one token at a
//! time. So a frame is copied once on its way, into memory that the caller lends: room for one
//! frame of each direction.
//!
//! # Deliberately absent
//!
//! Wake-ups. A `Nic` is polled: [`NicDevice`] has an executor's task wake at once when there is
//! nothing, and [`ForeignNic`] takes no wake-up from a driver.

use aldis_hal::copy::copy;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic};

#[cfg(feature = "embassy")]
mod embassy;
#[cfg(feature = "smoltcp")]
mod smoltcp;

#[cfg(test)]
#[cfg(all(not(loom), feature = "embassy", feature = "smoltcp"))]
mod tests;

#[cfg(feature = "embassy")]
pub use embassy::EmbassyDriver;
#[cfg(feature = "smoltcp")]
pub use smoltcp::SmoltcpDevice;

/// A device of another ecosystem, as [`ForeignNic`] uses it.
pub trait ForeignDevice {
    /// Returns the bytes of its longest frame, addresses and EtherType included; `None` if it
    /// carries no frames of Ethernet.
    fn frame_bytes(&self) -> Option<usize>;

    /// Copies the next frame to `room`, and returns its bytes: [`None`] if there is none, and zero
    /// for one that is longer than the room and is dropped.
    fn receive(&mut self, room: &mut [u8]) -> Option<usize>;

    /// Returns true if it can take a frame now.
    fn has_room(&mut self) -> bool;

    /// Takes a frame; one for which it has no room is lost.
    fn send(&mut self, frame: &[u8]);

    /// Returns its address.
    fn mac(&self) -> Mac;

    /// Asks for the state of the link.
    fn link(&mut self) -> LinkState;

    /// Returns the checksums that it takes over.
    fn offload(&self) -> Offload;
}

/// A device of another ecosystem as a card.
#[derive(Debug)]
pub struct ForeignNic<'m, D> {
    device: D,
    received: &'m mut [u8],
    /// The only transmit descriptor.
    transmit: &'m mut [u8],
    mtu: usize,
    link: LinkState,
}

impl<'m, D: ForeignDevice> ForeignNic<'m, D> {
    /// The card of a device, with memory for a frame of each direction. Its MTU is the device's, or
    /// what the memory holds.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for a device that carries no frames of Ethernet, and
    /// [`Cause::TooBig`] for memory that holds no frame.
    pub fn new(mut device: D, received: &'m mut [u8], transmit: &'m mut [u8]) -> Result<Self, Cause> {
        let longest = device.frame_bytes().ok_or(Cause::Unsupported)?;
        let have = longest.min(received.len()).min(transmit.len());
        let need = MAC_HEADER_BYTES as u64 + 1;
        let mtu = have.checked_sub(MAC_HEADER_BYTES).filter(|mtu| *mtu > 0);
        let mtu = mtu.ok_or(Cause::TooBig { len: need, max: have as u64 })?;
        let link = device.link();
        Ok(Self { device, received, transmit, mtu, link })
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The device, for what it needs besides frames.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }
}

/// A frame to be copied to a device.
#[derive(Debug)]
pub struct ForeignSend<'a, D> {
    device: &'a mut D,
    bytes: &'a mut [u8],
}

impl<D: ForeignDevice> TxFrame for ForeignSend<'_, D> {
    fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    fn send(self) {
        self.device.send(self.bytes);
    }
}

impl<D: ForeignDevice> Nic for ForeignNic<'_, D> {
    type Rx<'a>
        = &'a [u8]
    where
        Self: 'a;
    type Tx<'a>
        = ForeignSend<'a, D>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<&[u8]> {
        match self.device.receive(self.received) {
            None => {
                self.link = self.device.link();
                None
            }
            Some(len) => self.received.get(..len),
        }
    }

    fn transmit(&mut self, len: usize) -> Option<ForeignSend<'_, D>> {
        let bytes = self.transmit.get_mut(..len).filter(|_| len <= self.mtu + MAC_HEADER_BYTES)?;
        self.device.has_room().then_some(ForeignSend { device: &mut self.device, bytes })
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.device.mac()
    }

    fn link(&self) -> LinkState {
        self.link
    }

    fn offload(&self) -> Offload {
        self.device.offload()
    }
}

/// The directions in which a device takes over a checksum: in those a stack is to do nothing.
#[derive(Clone, Copy)]
struct ChecksumsDone {
    on_transmit: bool,
    on_receive: bool,
}

impl ChecksumsDone {
    const NONE: Self = Self { on_transmit: false, on_receive: false };
}

/// Returns the checksums that a device takes over.
fn offload(ipv4: ChecksumsDone, udp: ChecksumsDone) -> Offload {
    let mut offload = Offload::empty();
    offload.set(Offload::IPV4_TX, ipv4.on_transmit);
    offload.set(Offload::IPV4_RX, ipv4.on_receive);
    offload.set(Offload::UDP_TX, udp.on_transmit);
    offload.set(Offload::UDP_RX, udp.on_receive);
    offload
}

/// Copies a frame of a device to where it fits; zero if it does not.
fn take(room: &mut [u8], frame: &[u8]) -> usize {
    match room.get_mut(..frame.len()) {
        Some(room) => {
            copy(room, frame);
            frame.len()
        }
        None => 0,
    }
}

/// A card as a device of other ecosystems.
#[derive(Debug)]
pub struct NicDevice<'m, N> {
    nic: N,
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

    /// Returns the bytes of the longest frame.
    fn frame_bytes(&self) -> usize {
        self.nic.mtu() + MAC_HEADER_BYTES
    }

    /// The next frame, and a token to answer it; `None` while the card has no room for an answer.
    fn take_pair(&mut self) -> Option<(NicReceived<'_>, NicSend<'_, N>)> {
        if !self.has_room() {
            return None;
        }
        let len = take(self.received, self.nic.receive()?.bytes());
        let bytes = self.received.get_mut(..len).filter(|bytes| !bytes.is_empty())?;
        Some((NicReceived(bytes), NicSend { nic: &mut self.nic, spare: self.spare }))
    }

    /// A token to send, if the card has room.
    fn take_single(&mut self) -> Option<NicSend<'_, N>> {
        self.has_room().then_some(NicSend { nic: &mut self.nic, spare: self.spare })
    }

    fn has_room(&mut self) -> bool {
        let len = self.frame_bytes();
        self.nic.transmit(len).is_some()
    }
}

/// A frame that was copied from a card.
#[derive(Debug)]
pub struct NicReceived<'a>(&'a mut [u8]);

/// A frame that a card is to send.
#[derive(Debug)]
pub struct NicSend<'a, N> {
    nic: &'a mut N,
    spare: &'a mut [u8],
}

impl<N: Nic> NicSend<'_, N> {
    /// Has `fill` write a frame of `len` bytes, and sends it.
    fn send<R>(self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
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
