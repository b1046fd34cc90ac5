//! Drivers of embassy-net, both ways.

use core::task::{Context, Waker};

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, Mac, Offload};
use embassy_net_driver::{Capabilities, Checksum, Driver, HardwareAddress, RxToken, TxToken};

use super::foreign::{ForeignDevice, take};
use super::nic_device::{ChecksumsDone, NicDevice, NicReceived, NicSend, offload};

/// A driver of embassy-net. It is polled, and wakes nobody.
#[derive(Debug)]
pub struct EmbassyDriver<D>(D);

impl<D: Driver> EmbassyDriver<D> {
    /// The device of this driver.
    pub const fn new(driver: D) -> Self {
        Self(driver)
    }

    /// The driver.
    pub const fn driver(&self) -> &D {
        &self.0
    }
}

/// The task that a driver would wake.
const fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl<D: Driver> ForeignDevice for EmbassyDriver<D> {
    fn frame_bytes(&self) -> Option<usize> {
        let is_ethernet = matches!(self.0.hardware_address(), HardwareAddress::Ethernet(_));
        is_ethernet.then(|| self.0.capabilities().max_transmission_unit)
    }

    fn receive(&mut self, room: &mut [u8]) -> Option<usize> {
        self.0.receive(&mut nobody()).map(|(frame, _)| frame.consume(|bytes| take(room, bytes)))
    }

    fn has_room(&mut self) -> bool {
        self.0.transmit(&mut nobody()).is_some()
    }

    fn send(&mut self, frame: &[u8]) {
        if let Some(token) = self.0.transmit(&mut nobody()) {
            token.consume(frame.len(), |room| take(room, frame));
        }
    }

    fn mac(&self) -> Mac {
        match self.0.hardware_address() {
            HardwareAddress::Ethernet(address) => Mac(address),
            _ => Mac([0; 6]),
        }
    }

    fn link(&mut self) -> LinkState {
        match self.0.link_state(&mut nobody()) {
            embassy_net_driver::LinkState::Down => LinkState::Down,
            embassy_net_driver::LinkState::Up => LinkState::Up,
        }
    }

    fn offload(&self) -> Offload {
        let checksum = self.0.capabilities().checksum;
        let does = |of: Checksum| match of {
            Checksum::Both => ChecksumsDone::NONE,
            Checksum::Rx => ChecksumsDone { on_transmit: true, on_receive: false },
            Checksum::Tx => ChecksumsDone { on_transmit: false, on_receive: true },
            Checksum::None => ChecksumsDone { on_transmit: true, on_receive: true },
        };
        offload(does(checksum.ipv4), does(checksum.udp))
    }
}

impl<N: Nic> Driver for NicDevice<'_, N> {
    type RxToken<'a>
        = NicReceived<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = NicSend<'a, N>
    where
        Self: 'a;

    fn receive(&mut self, context: &mut Context<'_>) -> Option<(NicReceived<'_>, NicSend<'_, N>)> {
        let pair = self.take_pair();
        if pair.is_none() {
            context.waker().wake_by_ref();
        }
        pair
    }

    fn transmit(&mut self, context: &mut Context<'_>) -> Option<NicSend<'_, N>> {
        let single = self.take_single();
        if single.is_none() {
            context.waker().wake_by_ref();
        }
        single
    }

    fn link_state(&mut self, _context: &mut Context<'_>) -> embassy_net_driver::LinkState {
        match self.nic.link() {
            LinkState::Down => embassy_net_driver::LinkState::Down,
            LinkState::Up => embassy_net_driver::LinkState::Up,
        }
    }

    fn capabilities(&self) -> Capabilities {
        let offload = self.left_by_stack();
        let stack = |tx, rx| match (offload.contains(tx), offload.contains(rx)) {
            (false, false) => Checksum::Both,
            (true, false) => Checksum::Rx,
            (false, true) => Checksum::Tx,
            (true, true) => Checksum::None,
        };
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = self.frame_bytes();
        capabilities.checksum.ipv4 = stack(Offload::IPV4_TX, Offload::IPV4_RX);
        capabilities.checksum.udp = stack(Offload::UDP_TX, Offload::UDP_RX);
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet(self.nic.mac().0)
    }
}

impl RxToken for NicReceived<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl<N: Nic> TxToken for NicSend<'_, N> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.send(len, fill)
    }
}
