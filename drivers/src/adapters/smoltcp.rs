//! Devices of smoltcp, both ways.

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, Mac, Offload};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use super::foreign::{ForeignDevice, take};
use super::nic_device::{ChecksumsDone, NicDevice, NicReceived, NicSend, offload};

/// The time that devices are told: those that write captures alone look at it.
const NOW: Instant = Instant::ZERO;

/// A device of smoltcp, with the address that its frames are to have: it tells none, and nothing of
/// its link either.
#[derive(Debug)]
pub struct SmoltcpDevice<D> {
    device: D,
    mac: Mac,
}

impl<D: Device> SmoltcpDevice<D> {
    /// The device with this address.
    pub const fn new(device: D, mac: Mac) -> Self {
        Self { device, mac }
    }

    /// The device.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }
}

impl<D: Device> ForeignDevice for SmoltcpDevice<D> {
    fn frame_bytes(&self) -> Option<usize> {
        let DeviceCapabilities { medium, max_transmission_unit, .. } = self.device.capabilities();
        (medium == Medium::Ethernet).then_some(max_transmission_unit)
    }

    fn receive(&mut self, room: &mut [u8]) -> Option<usize> {
        self.device.receive(NOW).map(|(frame, _)| frame.consume(|bytes| take(room, bytes)))
    }

    fn has_room(&mut self) -> bool {
        self.device.transmit(NOW).is_some()
    }

    fn send(&mut self, frame: &[u8]) {
        if let Some(token) = self.device.transmit(NOW) {
            token.consume(frame.len(), |room| take(room, frame));
        }
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&mut self) -> LinkState {
        LinkState::Up
    }

    fn offload(&self) -> Offload {
        let checksum = self.device.capabilities().checksum;
        let does = |of: Checksum| match of {
            Checksum::Both => ChecksumsDone::NONE,
            Checksum::Rx => ChecksumsDone { on_transmit: true, on_receive: false },
            Checksum::Tx => ChecksumsDone { on_transmit: false, on_receive: true },
            Checksum::None => ChecksumsDone { on_transmit: true, on_receive: true },
        };
        offload(does(checksum.ipv4), does(checksum.udp))
    }
}

impl<N: Nic> Device for NicDevice<'_, N> {
    type RxToken<'a>
        = NicReceived<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = NicSend<'a, N>
    where
        Self: 'a;

    fn receive(&mut self, _timestamp: Instant) -> Option<(NicReceived<'_>, NicSend<'_, N>)> {
        self.take_pair()
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<NicSend<'_, N>> {
        self.take_single()
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let offload = self.left_by_stack();
        let stack = |tx, rx| match (offload.contains(tx), offload.contains(rx)) {
            (false, false) => Checksum::Both,
            (true, false) => Checksum::Rx,
            (false, true) => Checksum::Tx,
            (true, true) => Checksum::None,
        };
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.frame_bytes();
        capabilities.checksum.ipv4 = stack(Offload::IPV4_TX, Offload::IPV4_RX);
        capabilities.checksum.udp = stack(Offload::UDP_TX, Offload::UDP_RX);
        capabilities
    }
}

impl RxToken for NicReceived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl<N: Nic> TxToken for NicSend<'_, N> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.send(len, fill)
    }
}
