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
//! # Several pairs of queues
//!
//! [`VirtioQueues`] starts a device with several pairs, where it has them, and hands out each as a
//! [`Nic`](aldis_hal::Nic) that another core can have:
//!
//! ```no_run
//! use aldis_drivers::ethernet::Udp;
//! use aldis_drivers::handover::{HandoverNic, HandoverStorage};
//! use aldis_drivers::steering::Steering;
//! use aldis_drivers::virtio::{PciTransport, QueueChoice, VirtioQueues, VirtioSetup};
//!
//! const FRAME_BYTES: usize = 1514;
//! static HANDOVER: HandoverStorage<2, 32, FRAME_BYTES> = HandoverStorage::new();
//!
//! # fn cards(transport: PciTransport) -> Result<(), Box<dyn core::error::Error>> {
//! // Ranks 4 and 5 of a job are the two cores of this board.
//! let steering = Steering::to(&[4, 5].map(|rank| Udp::of_rank(rank).address))?;
//! let setup =
//!     VirtioSetup { frame_bytes: FRAME_BYTES, checksums: false, steering: Some(&steering) };
//! let queues = VirtioQueues::<_, 2, 64>::new(transport, setup)?;
//! for core in 0..queues.count() {
//!     let pair = queues.pair(core).ok_or("taken")?;
//!     let nic = HandoverNic::new(pair, core.into(), &HANDOVER).ok_or("no mailbox")?;
//!     // .. which goes to that core, to make its endpoint of.
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Which frames come by which queue is a matter of what the device offers
//! ([`VirtioQueues::choice`]):
//!
//! | device | a datagram to a rank (IPv4) | all other frames |
//! |---|---|---|
//! | hashes (`VIRTIO_NET_F_RSS`) | by the queue of its rank | by queue 0 |
//! | has queues (`VIRTIO_NET_F_MQ`) | where the rank last sent to that peer from | by any |
//! | has neither | by the only pair | by it too |
//!
//! [`handover`](crate::handover) brings what has come by another queue to the endpoint that it is
//! for. Frames of raw Ethernet have nothing that a device hashes: there several queues let cores
//! send each by its own, and one core takes in for all.
//!
//! # Checksums
//!
//! With [`VirtioNet::with_checksums`] or [`VirtioSetup::checksums`], and messages in UDP, UDP's
//! checksum of a frame that is sent is left to the device, and that of a received frame is not
//! computed if the device vouches for it. A device in software computes none: it says to the
//! receiver that the frame has not been on a wire. Such a frame the driver completes, so that it is
//! whole for whoever reads it. That costs what checking it would have: between machines of one host
//! the sender alone is spared a pass over each frame, and on hardware both are. A short frame costs
//! as much as without. It is off unless it is asked for, because a process of Linux
//! that listens on the host of an emulator by `AF_PACKET` or `AF_XDP` gets such frames with their
//! checksums unfinished, and takes them for damaged.
//!
//! # What is refused
//!
//! A device that says it has written more than the buffer holds, or less than a header, loses that
//! frame ([`VirtioCounters::bad_lengths`]); so does one whose header names bytes outside of the
//! frame ([`VirtioCounters::bad_headers`]). Limits that cannot be, and commands that are refused or
//! not answered, end the start. One that gives back what it was not given is left alone
//! from then on: no link, no frames ([`VirtioCounters::bad_tokens`]). What cannot be noticed is a
//! device that writes to memory which it has given back. `virtio-drivers` panics where the
//! registers of a PCI device contradict themselves.
//!
//! A card that is dropped resets its device, and waits no longer than a moment for it: one that is
//! gone is given up. Not so a [`PciTransport`] that is dropped before a card was made of it.
//!
//! # Limits
//!
//! A power of two of descriptors, the same number for both directions, one for each frame; frames
//! of up to 64 KiB. Memory is [`bytes_needed`], or [`queues_bytes_needed`]. No segments, no merged
//! buffers. The memory of a card that is dropped does not come back.

mod arena;
mod checksum;
mod control;
mod find;
mod frames;
mod negotiation;
mod pair;
mod queues;
mod reset;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use crate::device_memory::DeviceMemory;
pub use arena::{LentFrame, is_lent, lend, lend_device_memory, lent_bytes_left};
pub use find::{DEVICES, VirtioSlots, find_mmio, find_pci};
pub use pair::{
    FRAME_BYTES_MAX, OwnRegisters, PairRegisters, VirtioCard, VirtioCounters, VirtioNet, VirtioRx, VirtioTx,
    bytes_needed,
};
pub use queues::{QueueChoice, SharedRegisters, VirtioPair, VirtioQueues, VirtioSetup, queues_bytes_needed};
pub use virtio_drivers::transport::pci::PciTransport;
