//! An SPI bus as a network card: Ethernet frames in blocks that both sides exchange at once.
//!
//! A controller clocks blocks of a fixed length; with each bit it sends, one of the peripheral
//! comes back. [`SpiNic`] makes a [`Nic`](aldis_hal::Nic) of either side, so that
//! [`ethernet`](crate::ethernet) and all that stands on it join a microcontroller to its host
//! processor or to another one.
//!
//! | side | what the board gives it |
//! |---|---|
//! | [`Controller`] | an [`SpiDevice`](embedded_hal::spi::SpiDevice), and any attention pin |
//! | [`Peripheral`] | a [`BlockPort`]: load a block, learn that it was exchanged |
//!
//! # What is on the wire
//!
//! A block is a [header](BlockHeader) of 8 bytes and a piece of a frame, or none: {bytes of the
//! piece, first and last piece, room, number of the block, CRC-32C}. A side sends a piece only if
//! the other had room when it wrote its last block, and not right behind a frame's last piece,
//! which may take that room. As blocks begin with the select line, a shifted one does not shift the
//! next.
//!
//! A controller that gets no new block sends its own again: the peripheral had none loaded, and has
//! missed it. A block that came twice is taken once. That is all: a frame of which a block was
//! damaged is lost, which the reliable link above repairs.
//!
//! # Progress
//!
//! [`receive`](aldis_hal::Nic::receive) exchanges blocks until a frame is whole, nothing is left to
//! be exchanged, the other side is not ready, or as many are that the longest frame takes, and two
//! more. The peripheral's pin saves the exchanges that find nothing; without it a controller makes
//! one each time that it is asked for a frame, so the caller's polls are their rate. A peripheral
//! loads its next block when it is polled, and what the controller clocks before that is in vain.
//!
//! # Limits
//!
//! Frames as long as the lent memory, blocks of 16 bytes to 64 KiB, as long on both sides. One
//! frame a direction at a time.
//!
//! ```
//! use aldis_drivers::spi::{BlockPort, Controller, NoPin, Peripheral, SpiNic, SpiStorage};
//! use aldis_hal::nic::{Mac, Nic, RxFrame, TxFrame};
//! use core::{cell::RefCell, convert::Infallible};
//! use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
//!
//! /// A bus in memory: what the peripheral has loaded, and what came for it.
//! #[derive(Default)]
//! struct Bus { loaded: Vec<u8>, came: Option<Vec<u8>> }
//!
//! struct Device<'a>(&'a RefCell<Bus>);
//! impl ErrorType for Device<'_> { type Error = Infallible; }
//! impl SpiDevice for Device<'_> {
//!     fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
//!         let [Operation::TransferInPlace(block)] = operations else { unreachable!() };
//!         let mut bus = self.0.borrow_mut();
//!         bus.came = Some(block.to_vec());
//!         block.copy_from_slice(&bus.loaded);
//!         Ok(())
//!     }
//! }
//! struct Port<'a>(&'a RefCell<Bus>);
//! impl BlockPort for Port<'_> {
//!     fn take(&mut self, block: &mut [u8]) -> bool {
//!         self.0.borrow_mut().came.take().inspect(|came| block.copy_from_slice(came)).is_some()
//!     }
//!     fn load(&mut self, block: &[u8]) { self.0.borrow_mut().loaded = block.to_vec(); }
//! }
//!
//! let bus = RefCell::new(Bus { loaded: vec![0; 32], came: None });
//! // Frames of 128 bytes in blocks of 32.
//! let (mut one, mut other) = (SpiStorage::<128, 32>::new(), SpiStorage::<128, 32>::new());
//! let controller = Controller::new(Device(&bus), NoPin);
//! let mut controller = SpiNic::new(controller, one.memory(), Mac([2, 0, 0, 0, 0, 1]))?;
//! let peripheral = Peripheral::new(Port(&bus), NoPin);
//! let mut peripheral = SpiNic::new(peripheral, other.memory(), Mac([2, 0, 0, 0, 0, 2]))?;
//!
//! let mut frame = controller.transmit(100).unwrap();
//! frame.bytes().fill(0x2A);
//! frame.send();
//! let received = loop {
//!     controller.step();
//!     if let Some(frame) = peripheral.receive() {
//!         break frame.bytes().to_vec();
//!     }
//! };
//! assert_eq!(received, [0x2A; 100]);
//! # Ok::<(), aldis_hal::Cause>(())
//! ```

mod block;
mod exchange;
mod nic;
mod side;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use block::{BlockHeader, HEADER_BYTES};
pub use exchange::{FrameExchange, SpiCounters};
pub use nic::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, SpiMemory, SpiNic, SpiStorage, SpiTx};
pub use side::{BlockPort, Controller, NoPin, Peripheral, Side};
