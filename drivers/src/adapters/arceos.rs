//! Network drivers of ArceOS.

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload};
use axdriver_net::{DevError, DevResult, NetDriverOps};

use super::foreign::{ForeignDevice, take};

/// The MTU of Ethernet, IEEE 802.3, 4.2.7.1. A driver of ArceOS does not tell its own, and those
/// that there are have buffers for it.
const MTU: usize = 1500;

/// A network driver of ArceOS. Its buffers are its own: a frame is copied out of one, which goes
/// straight back, and into one just before it is sent, since a buffer that is not sent cannot be
/// given back.
///
/// An error of the driver costs a frame, and is [counted](Self::errors); links send it again.
#[derive(Debug)]
pub struct ArceosDriver<D> {
    driver: D,
    mtu: usize,
    errors: u64,
    last_error: Option<DevError>,
}

impl<D: NetDriverOps> ArceosDriver<D> {
    /// The device of this driver, with an MTU of 1500.
    pub const fn new(driver: D) -> Self {
        Self { driver, mtu: MTU, errors: 0, last_error: None }
    }

    /// The device with this MTU, for a driver whose buffers hold more or less.
    #[must_use]
    pub fn with_mtu(self, mtu: usize) -> Self {
        Self { mtu, ..self }
    }

    /// The driver.
    pub const fn driver(&self) -> &D {
        &self.driver
    }

    /// Returns how many calls of the driver have failed, but for those that found nothing.
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the last error of the driver.
    pub const fn last_error(&self) -> Option<&DevError> {
        self.last_error.as_ref()
    }

    /// Returns what the driver did, if it did not fail.
    fn done<T>(&mut self, result: DevResult<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(DevError::Again) => None,
            Err(error) => {
                self.errors = self.errors.saturating_add(1);
                self.last_error = Some(error);
                None
            }
        }
    }
}

impl<D: NetDriverOps> ForeignDevice for ArceosDriver<D> {
    fn frame_bytes(&self) -> Option<usize> {
        Some(self.mtu.saturating_add(MAC_HEADER_BYTES))
    }

    fn receive(&mut self, room: &mut [u8]) -> Option<usize> {
        let received = self.driver.receive();
        let frame = self.done(received)?;
        // The length is the device's word, and no buffer is known to hold more than a frame: beyond
        // that it is not looked at.
        let is_frame = frame.packet_len() <= self.mtu.saturating_add(MAC_HEADER_BYTES);
        let len = if is_frame { take(room, frame.packet()) } else { 0 };
        let given_back = self.driver.recycle_rx_buffer(frame);
        self.done(given_back);
        Some(len)
    }

    fn has_room(&mut self) -> bool {
        let collected = self.driver.recycle_tx_buffers();
        self.done(collected);
        self.driver.can_transmit()
    }

    fn send(&mut self, frame: &[u8]) {
        let buffer = self.driver.alloc_tx_buffer(frame.len());
        let Some(mut buffer) = self.done(buffer) else { return };
        let room = buffer.packet_mut();
        let filled = take(room, frame);
        room.get_mut(filled..).unwrap_or_default().fill(0);
        let is_whole = filled == frame.len();
        // A buffer that is too short goes out as zeros, which no link takes: so the driver has it
        // back.
        let sent = self.driver.transmit(buffer).and(if is_whole { Ok(()) } else { Err(DevError::BadState) });
        self.done(sent);
    }

    fn mac(&self) -> Mac {
        Mac(self.driver.mac_address().0)
    }

    fn link(&mut self) -> LinkState {
        LinkState::Up
    }

    fn offload(&self) -> Offload {
        Offload::empty()
    }
}
