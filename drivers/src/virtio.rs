//! virtio-net: the network card of emulators, hypervisors and some data cards, as a
//! [`Nic`](aldis_hal::Nic).
//!
//! After Virtual I/O Device (VIRTIO) Version 1.2 (OASIS, 2022), section 5.1, and its legacy
//! interface; queues and transports are those of crate `virtio-drivers`. Its own network device is
//! not used: it leaves the MTU and the state of the link alone, and takes no receive buffer below
//! 1,526 bytes.
//!
//! # How a board uses it
//!
//! Lend memory, find the device, make the card:
//!
//! ```no_run
//! use aldis_drivers::virtio::{self, VirtioSlots, VirtioNet};
//! use aldis_hal::Cause;
//!
//! /// Descriptors of each queue, and bytes of the largest frame.
//! const QUEUE: usize = 16;
//! const FRAME_BYTES: usize = 1514;
//! static mut MEMORY: [u8; virtio::bytes_needed(QUEUE, FRAME_BYTES)] = [0; _];
//!
//! # fn card() -> Result<(), Cause> {
//! // SAFETY: this is the only place that names it, and it runs once.
//! virtio::lend(unsafe { &mut *(&raw mut MEMORY) })?;
//! // QEMU's aarch64 `virt`: 32 slots of 512 bytes; riscv64 `virt`: 8 of 4096 at 0x1000_1000.
//! // SAFETY: this board has such slots there, mapped as they are, and nothing else uses them.
//! let slots = VirtioSlots { base: 0x0A00_0000, stride: 0x200, count: 32 };
//! let found = unsafe { virtio::find_mmio(slots) };
//! let transport = found.ok_or(Cause::Unreachable)?;
//! let card = VirtioNet::<_, QUEUE>::new(transport, FRAME_BYTES)?;
//! # Ok(())
//! # }
//! ```
//!
//! or, behind PCI, [`find_pci`] on a [`PciRoot`](crate::pci::PciRoot).
//!
//! # What is asked of the board
//!
//! * A device is given the very addresses that the program uses, or those of the [`DeviceMemory`]
//!   that was lent, of the bus or of an IOMMU that the board has programmed; a device that does not
//!   say that it minds an IOMMU is refused behind one. Registers are found where PCI says they are.
//! * Memory is coherent with devices: they see what the processor has written, and the other way
//!   round, with no more than barriers. That holds for emulators, and for PCI on all machines in
//!   use.
//! * Interrupts of the device are off, or ignored: the card is polled, and asks the device for
//!   none.
//!
//! # Copies
//!
//! None on the way in: a received frame is lent where the device has put it, so placed that what
//! follows the 48 bytes of headers of [`ethernet`](crate::ethernet) is aligned to 8 bytes. On the
//! way out a frame is written once, into the buffer that the device reads.
//!
//! # What is refused
//!
//! A device that says it has written more than the buffer holds, or less than a header, loses that
//! frame ([`VirtioCounters::bad_lengths`]). One that gives back what it was not given is left alone
//! from then on: no link, no frames ([`VirtioCounters::bad_tokens`]). What cannot be noticed is a
//! device that writes to memory which it has given back. `virtio-drivers` panics where the
//! registers of a PCI device contradict themselves.
//!
//! # Limits
//!
//! A power of two of descriptors, the same number for both directions, one for each frame; frames
//! of up to 64 KiB. Memory is [`bytes_needed`]. No checksum offload, no merged buffers, one pair of
//! queues. The memory of a card that is dropped does not come back.

mod arena;
mod find;
mod frames;
mod net;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use crate::device_memory::DeviceMemory;
pub use arena::{LentFrame, is_lent, lend, lend_device_memory, lent_bytes_left};
pub use find::{DEVICES, VirtioSlots, find_mmio, find_pci};
pub use net::{FRAME_BYTES_MAX, VirtioCounters, VirtioNet, VirtioRx, VirtioTx, bytes_needed};
pub use virtio_drivers::transport::pci::PciTransport;
