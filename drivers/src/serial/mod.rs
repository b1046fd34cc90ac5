//! A serial line as a network card: Ethernet frames over any stream of bytes.
//!
//! [`SerialNic`] makes a [`Nic`](aldis_hal::Nic) of a UART, a USB serial port or a pipe that
//! implements the four traits of `embedded-io`, so that [`ethernet`](crate::ethernet) and all that
//! stands on it run over two wires unchanged. Frames are stuffed by [`cobs`] with a zero between
//! them; nothing else is on the line. Lines damage and lose bytes: a frame that does not decode is
//! counted and gone, one that decodes to something else fails the checksum of the reliable frame.
//!
//! ```
//! use aldis_drivers::serial::{SerialNic, SerialStorage};
//! use aldis_hal::nic::{Mac, Nic, RxFrame, TxFrame};
//! use core::convert::Infallible;
//! use std::collections::VecDeque;
//!
//! /// A line back to itself.
//! struct Plug(VecDeque<u8>);
//! impl embedded_io::ErrorType for Plug { type Error = Infallible; }
//! impl embedded_io::Read for Plug {
//!     fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
//!         let len = bytes.len().min(self.0.len());
//!         bytes[..len].fill_with(|| self.0.pop_front().unwrap());
//!         Ok(len)
//!     }
//! }
//! impl embedded_io::ReadReady for Plug {
//!     fn read_ready(&mut self) -> Result<bool, Infallible> { Ok(!self.0.is_empty()) }
//! }
//! impl embedded_io::Write for Plug {
//!     fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
//!         self.0.extend(bytes);
//!         Ok(bytes.len())
//!     }
//!     fn flush(&mut self) -> Result<(), Infallible> { Ok(()) }
//! }
//! impl embedded_io::WriteReady for Plug {
//!     fn write_ready(&mut self) -> Result<bool, Infallible> { Ok(true) }
//! }
//!
//! // Frames of an MTU of 114 bytes, both ways. A board has it in a `static`.
//! let mut storage = SerialStorage::<128>::new();
//! let mut nic = SerialNic::new(Plug(VecDeque::new()), storage.memory(), Mac([2, 0, 0, 0, 0, 1]));
//! assert_eq!(nic.mtu(), 114);
//! let mut frame = nic.transmit(20).unwrap();
//! frame.bytes().fill(0x2A);
//! frame.send();
//! assert_eq!(nic.receive().unwrap().bytes(), [0x2A; 20]);
//! ```
//!
//! # Progress
//!
//! Nothing blocks: a call takes what has come and gives what fits, and the stream keeps the rest.
//! One frame is on its way out at a time; until it is out, [`transmit`](aldis_hal::Nic::transmit)
//! has no descriptor. Both calls go on with it, so a line moves whenever the transport above is
//! polled. A UART without a deep queue or DMA is polled at least once for each byte, or loses some.
//!
//! # Limits
//!
//! Frames as long as the lent memory; one call of [`receive`](aldis_hal::Nic::receive) takes at
//! most as many bytes as the longest frame has on the line, and one more chunk. Both directions are
//! one stream: halves of a UART are put in a struct.

use aldis_hal::Cost;
use aldis_protocols::reliable::LinkConfig;

pub mod cobs;
mod nic;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use nic::{SerialCounters, SerialMemory, SerialNic, SerialStorage, SerialTx};

/// The cost of messages over a serial line, on which a long frame alone takes a tenth of a second.
pub const COST: Cost = Cost { overhead_ns: 100_000, latency_ns: 5_000_000, per_kib_ns: 90_000_000 };

/// Time-outs of the link by which a frame on such a line is missed.
pub const LINK: LinkConfig = LinkConfig {
    rto_first_ns: 400_000_000,
    rto_min_ns: 50_000_000,
    rto_max_ns: 2_000_000_000,
    ack_delay_ns: 2_000_000,
    ..LinkConfig::DEFAULT
};
