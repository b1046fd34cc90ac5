//! e1000e: Intel's gigabit controllers 82574L (e1000e) and 82540EM (e1000), as a
//! [`Nic`](aldis_hal::Nic) that is polled.
//!
//! After Intel 82574 GbE Controller Family Datasheet (revision 3.4, 2014), chapters 3, 7 and 10,
//! and PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual (revision 4.0,
//! 2009), chapters 3, 13 and 14: of both the registers that they have in common, and the legacy
//! descriptors, which both understand.
//!
//! # How a board uses it
//!
//! Find the device, and make the card with memory for its rings and frames:
//!
//! ```no_run
//! use aldis_drivers::e1000e::{self, DeviceMemory, E1000e};
//! use aldis_drivers::pci::{AddressWindow, ConfigLayout, Mapped, PciRoot};
//! use aldis_hal::Cause;
//!
//! /// Descriptors of each ring, and bytes of the largest frame.
//! const QUEUE: usize = 64;
//! const FRAME_BYTES: usize = 1514;
//! static mut MEMORY: [u8; e1000e::bytes_needed(QUEUE, FRAME_BYTES)] = [0; _];
//!
//! # fn card() -> Result<(), Cause> {
//! // QEMU's aarch64 `virt,highmem=off`: 16 buses, and 0x2EFF_0000 bytes for base addresses.
//! // SAFETY: this board has its PCI there, mapped as it is, and nothing else uses it.
//! let mut root = PciRoot::new(unsafe { Mapped::new(0x3F00_0000, ConfigLayout::Ecam, 16) });
//! let mut window = AddressWindow::new(0x1000_0000, 0x2EFF_0000);
//! // SAFETY: nothing else is at the addresses of that window, and devices reach memory where the
//! // program has it.
//! let found = unsafe { e1000e::find_pci(&mut root, 1, &mut window) }?;
//! let registers = found.ok_or(Cause::Unreachable)?;
//! // SAFETY: this is the only place that names it, and it runs once.
//! let memory = DeviceMemory::one_to_one(unsafe { &mut *(&raw mut MEMORY) });
//! let card = E1000e::<_, QUEUE>::new(registers, memory, FRAME_BYTES)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is asked of the board
//!
//! * Memory is coherent with the device, which reaches it at the program's addresses, or behind an
//!   IOMMU at those that [`DeviceMemory::translated`] is told.
//! * Interrupts need no handler: the card masks all of them, and is polled.
//!
//! # Two cores on one card
//!
//! The 82574L has two pairs of rings. [`E1000eQueues`] hands out each as a
//! [`Nic`](aldis_hal::Nic) that another core can have. Datagrams over IPv4 come by the queue of the
//! rank that they are for, by a [`Steering`](crate::steering::Steering): the device hashes the
//! addresses of IPv4 (and ports of TCP alone, which are left out). Everything else comes by the
//! first queue, from which [`handover`](crate::handover) brings it to whom it is for.
//!
//! # Copies
//!
//! None on the way in: a received frame is lent where the device has put it. On the way out a frame
//! is written once, into the buffer that the device reads.
//!
//! # What is refused
//!
//! A frame that the device says is damaged, longer than a buffer or shorter than its addresses is
//! dropped and counted ([`E1000eCounters::bad_frames`]). Descriptors are written anew each time, so
//! that one which the device has changed leads it nowhere else. A device that does not answer any
//! more has no link. What cannot be noticed is a device that writes to memory which it has given
//! back: an IOMMU alone keeps it from that.
//!
//! # Limits
//!
//! Rings of a multiple of 8 descriptors up to 4096; frames of up to 9,230 bytes; memory is
//! [`bytes_needed`], or [`queues_bytes_needed`]. No checksum offload and no VLAN tags.

mod card;
mod queues;
mod registers;
mod ring;
#[cfg(test)]
mod tests;

pub use crate::device_memory::DeviceMemory;
pub use card::{E1000e, E1000eCard, E1000eCounters, E1000eRx, E1000eTx, OwnRegisters};
pub use queues::{E1000ePair, E1000eQueues, PAIRS, SharedRegisters};
pub use registers::{CardRegisters, DEVICES, MappedRegisters, find_pci};
pub use ring::{FRAME_BYTES_MAX, bytes_needed, queues_bytes_needed};
