//! Devices of other ecosystems as cards.

#[cfg(any(feature = "arceos", feature = "embassy", feature = "smoltcp"))]
use aldis_hal::copy::copy;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, TxFrame};
use aldis_hal::{Cause, Nic};

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

    /// Takes a frame like [`send`](Self::send), which may wait for [`flush`](Self::flush).
    fn send_more(&mut self, frame: &[u8]) {
        self.send(frame);
    }

    /// Sends what waits.
    fn flush(&mut self) {}

    /// Returns its address.
    fn mac(&self) -> Mac;

    /// Asks for the state of the link.
    fn link(&mut self) -> LinkState;

    /// Returns the checksums that it takes over.
    fn offload(&self) -> Offload;
}

#[cfg(any(feature = "arceos", feature = "embassy", feature = "smoltcp"))]
/// Copies a frame of a device to where it fits; zero if it does not.
pub(super) fn take(room: &mut [u8], frame: &[u8]) -> usize {
    match room.get_mut(..frame.len()) {
        Some(room) => {
            copy(room, frame);
            frame.len()
        }
        None => 0,
    }
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

    #[inline]
    fn send_more(self) {
        self.device.send_more(self.bytes);
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

    #[inline]
    fn flush(&mut self) {
        self.device.flush();
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
