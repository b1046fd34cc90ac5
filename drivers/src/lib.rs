//! # aldis-drivers: transports that need no operating system
//!
//! The floor between the contracts ([`aldis_hal`]) and the program that maps memory and owns
//! devices. A driver turns memory or a device that it is handed into a
//! [`Transport`](aldis_hal::Transport): bytes to a peer, in order, each once, with backpressure. It
//! knows nothing of ranks' tags, of matching or of protocols, and the kernel knows nothing of it
//! but the trait.
//! The terms are defined in `docs/glossary.md`.
//!
//! | module | what it is |
//! |---|---|
//! | [`loopback`] | a rank to itself: fixed frames in lent memory |
//! | [`shm`] | ranks that map each other's memory: rings of lines, credit, blocks, doorbells |
//! | `direct` | around another: long messages within a node are read from the sender's memory |
//! | [`extents`] | what is free of a stretch of memory: blocks to send from, mapped by peers |
//! | [`ethernet`] | ranks on a wire that loses, repeats and corrupts, over any [`Nic`] |
//! | [`discovery`] | below it, without a launcher: each rank finds the others' cards on the wire |
//! | [`bonded`] | a [`Nic`] of two cards, which share the frames, and of which one can fail |
//! | `authenticated` | with feature `auth`: a [`Nic`] whose frames only ranks with a key can make |
//! | `virtio` | with feature `virtio`: a [`Nic`] of emulators and hypervisors |
//! | `handover`, `steering` | with feature `virtio`: endpoints on queues of one card |
//! | `ivshmem`, `pci` | with feature `virtio`: their shared memory, and their bus |
//! | `e1000e` | with feature `e1000e`: a [`Nic`] of Intel's gigabit controllers |
//! | `memif` | with feature `memif`: a [`Nic`] in memory shared with DPDK or VPP, either end |
//! | `xdp` | with feature `xdp`: the memory of a [`Nic`] by Linux's AF_XDP |
//! | [`serial`] | a [`Nic`] on any stream of bytes: Ethernet frames over a UART, in COBS |
//! | [`spi`] | a [`Nic`] on an SPI bus: blocks exchanged both ways at a time, for either side |
//! | `adapters` | features `smoltcp`, `embassy`, `arceos`: their cards as a [`Nic`], and back |
//! | [`platform`] | time without an operating system: x86_64, aarch64, riscv64 and Cortex-M |
//!
//! [`Nic`]: aldis_hal::Nic
//!
//! # Invariants
//!
//! * No heap and no `std`: all memory is the caller's, and what is there at the start is all there
//!   will ever be.
//! * A full ring is an answer ([`Again`](aldis_hal::Again)), never a loss, and the sink is notified
//!   when it is over.
//! * `poll` takes turns: no peer is starved by another, and no more events are delivered than the
//!   budget allows.
//! * Shared memory: a single writer for every word, plain loads and stores of 32 bits only: no
//!   locked operations, so the same code runs on cores without compare-and-swap. Ranks that sleep,
//!   of systems that can wake them, are counted by such an operation.
//! * What a peer says is held against what was granted before it is acted upon.
//! * `unsafe` only in modules that say so in their first line; the lock-free code has loom models
//!   (`shm/models.rs`).
//!
//! # Deliberately absent
//!
//! Mapping memory, sockets, a host's clock: the host's or the board's. The machines of handshake
//! and retransmission: the protocols', which [`ethernet`] only drives. Fragmentation: the kernel's.
//! Zero-copy and one-sided classes: these transports copy once in and once out.
//!
//! # Limits
//!
//! See [`shm::Geometry`]: 2^16 ranks, 2^15 slots, 32 blocks of up to 32 MiB a sender; and
//! [`ethernet`]: 2^16 peers, 64 frames in flight. A reservation is one message; there is one at a
//! time.
//!
//! # How to add a transport
//!
//! `docs/adding-a-transport.md` is the guide, [`loopback`] its example. What every driver keeps: a
//! post answered `Again` changed nothing, and `ready` follows; a dropped slot has taken nothing;
//! messages are delivered from `poll` only, 8-byte aligned where the memory is the driver's to
//! choose; after `quiesce` the memory is not touched; every value that comes from the other side is
//! checked, and a peer that sends what cannot be is `lost` once.
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(loom, allow(dead_code, missing_docs, unused_imports))]

#[cfg(test)]
extern crate std;

#[cfg(any(feature = "arceos", feature = "embassy", feature = "memif", feature = "smoltcp"))]
pub mod adapters;
mod aligned;
#[cfg(all(feature = "auth", not(loom)))]
pub mod authenticated;
pub mod bonded;
#[cfg(any(feature = "virtio", loom))]
mod card_slot;
#[cfg(feature = "virtio")]
mod device_memory;
#[cfg(target_has_atomic = "32")]
pub mod direct;
pub mod discovery;
#[cfg(all(feature = "e1000e", not(loom)))]
pub mod e1000e;
pub mod ethernet;
pub mod extents;
#[cfg(feature = "virtio")]
pub mod handover;
#[cfg(all(feature = "virtio", not(loom)))]
pub mod ivshmem;
pub mod loopback;
#[cfg(any(feature = "memif", loom))]
pub mod memif;
#[cfg(feature = "virtio")]
pub mod pci;
pub mod platform;
#[cfg(all(any(feature = "memif", feature = "xdp"), not(loom)))]
mod region_memory;
pub mod serial;
pub mod shm;
pub mod spi;
#[cfg(feature = "virtio")]
pub mod steering;
mod sync;
#[cfg(feature = "virtio")]
pub mod virtio;
#[cfg(any(feature = "xdp", loom))]
pub mod xdp;

#[cfg(all(feature = "auth", not(loom)))]
pub use authenticated::AuthenticatedNic;
pub use bonded::BondedNic;
pub use discovery::Discovery;
#[cfg(all(feature = "e1000e", not(loom)))]
pub use e1000e::E1000e;
pub use ethernet::Ethernet;
pub use loopback::Loopback;
#[cfg(all(feature = "memif", not(loom)))]
pub use memif::Memif;
pub use serial::SerialNic;
#[cfg(not(loom))]
pub use shm::Shm;
pub use spi::SpiNic;
#[cfg(feature = "virtio")]
pub use virtio::VirtioNet;
