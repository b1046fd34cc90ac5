//! memif: DPDK's and VPP's network card in memory that two processes share, as a
//! [`Nic`](aldis_hal::Nic) that is polled; for either end of it.
//!
//! After the layouts of libmemif (FD.io VPP, `extras/libmemif`) and of DPDK's driver for it
//! (`drivers/net/memif`), protocol version 2.0. A *client* makes the memory, with a ring for each
//! direction and buffers, and hands it to a *server* over a socket on which each message is
//! answered. From there on frames go through the memory alone.
//!
//! | part | what it is |
//! |---|---|
//! | [`ControlMessage`] | a message of the socket, 128 bytes |
//! | [`ClientHandshake`], [`ServerHandshake`] | the order of the messages, from either end |
//! | [`Memif`] | the rings and buffers, as a device of [`ForeignNic`], which makes a card of it |
//! | [`RegionMemory`] | memory that the program has mapped |
//!
//! # How a program uses it
//!
//! ```text
//! client                                           server
//! connect the socket                               accept; Memif needs no memory yet
//! ClientHandshake::new(setup)                      ServerHandshake::new(setup); send its hello
//! for each message: receive() says what to send    for each message: receive() says what to map,
//!   and which descriptor goes with it                and what to answer
//! Memif::client(memory, ..) before the first       Memif::server(regions, rings, ..) before the
//! Connected: memif.start()                           last is answered: connected
//! ForeignNic::new(memif, ..): a card               the same
//! ```
//!
//! # Copies
//!
//! A frame is copied once each way, within [`Memif`]: the peer can write to a buffer at any time,
//! so that it is taken out before anybody looks at it.
//!
//! # What is refused
//!
//! Whatever a peer says is held against the memory that was agreed upon: messages out of order, a
//! version, an id, regions and rings that are not there ([`MemifError`]); an index that runs ahead
//! or back, a descriptor that leads out of its region, a chain without an end. A peer that says so
//! is left alone from then on: no link, no frames, and [`Memif::fault`] tells why. A frame that is
//! longer than the card's or shorter than its addresses is dropped and counted.
//!
//! # Limits
//!
//! A ring of up to 2^14 descriptors each way; buffers of 2,048 bytes, several for a longer frame; a
//! server takes as many regions as its program says. Mode Ethernet. A peer that sleeps is rung for
//! ([`Memif::must_ring`]); this end never asks for it.
//!
//! [`ForeignNic`]: crate::adapters::ForeignNic

#[cfg(not(loom))]
mod device;
mod error;
#[cfg(not(loom))]
mod handshake;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod message;
#[cfg(test)]
#[cfg(loom)]
mod models;
mod ring;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(not(loom))]
pub use device::{Memif, MemifCounters};
pub use error::{MemifError, MemifText};
#[cfg(not(loom))]
pub use handshake::{
    ClientHandshake, ClientSetup, ClientStep, ServerHandshake, ServerSetup, ServerStep, ServerWork,
};
#[cfg(not(loom))]
pub use memory::MemifLayout;
#[cfg(not(loom))]
pub use message::{
    CONTROL_BYTES, ControlMessage, DescriptorKind, HelloLimits, InitRequest, RingDirection, RingPlacement,
};

#[cfg(not(loom))]
pub use crate::region_memory::RegionMemory;
