//! The memory of a network card by Linux's AF_XDP: an area for frames and four rings, which a
//! program and the system share.
//!
//! After the kernel's `Documentation/networking/af_xdp.rst` and `include/uapi/linux/if_xdp.h`. The
//! program lends the system chunks of the area for frames that come (*fill*), and gets them back
//! with a frame in each (*receive*); it hands over chunks with frames to be sent (*transmit*), and
//! gets them back when they were (*completion*). No frame is copied here: each is read and written
//! in its chunk.
//!
//! | part | what it is |
//! |---|---|
//! | [`XdpRings`] | the rings and the area, with a frame lent to the program for each direction |
//! | [`XdpArea`], [`XdpRingSet`] | memory that the program has mapped |
//! | [`XdpFault`] | what the system cannot say |
//!
//! The calls of the system are the program's: to set the socket up, and to wake the system where a
//! ring says that it sleeps ([`XdpRings::must_wake_to_send`]).
//!
//! # What is refused
//!
//! The system is trusted with the area while a chunk is its own; its numbers are not. Each chunk
//! has an owner: an address that was not lent for this purpose, a length that leads out of its
//! chunk, an index that runs ahead or back is a fault, and the card is left alone from then on
//! ([`XdpRings::fault`]).
//!
//! # Limits
//!
//! A frame lies in one chunk: 4,096 bytes less [`HEADROOM_BYTES`] at most. Indices and chunks are
//! published in batches where frames come one behind the other.

#[cfg(not(loom))]
mod chunks;
#[cfg(not(loom))]
mod device;
mod error;
#[cfg(not(loom))]
mod mapped;
#[cfg(test)]
#[cfg(loom)]
mod models;
mod ring;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(not(loom))]
pub use device::{XdpCounters, XdpRings};
pub use error::{XdpFault, XdpRing};

#[cfg(not(loom))]
pub use crate::region_memory::RegionMemory;

/// Bytes that the system keeps in front of each frame that comes (`XDP_PACKET_HEADROOM`).
pub const HEADROOM_BYTES: u32 = 256;

/// The places of a ring's parts in its memory, as the system tells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XdpRingLayout {
    /// The producer's index.
    pub producer_at: usize,
    /// The consumer's index.
    pub consumer_at: usize,
    /// The flags.
    pub flags_at: usize,
    /// The first entry.
    pub entries_at: usize,
}

/// The memory of a ring.
#[derive(Debug)]
pub struct XdpRingMemory<M> {
    /// The memory.
    pub memory: M,
    /// The places in it.
    pub layout: XdpRingLayout,
    /// The number of entries: a power of two.
    pub entries: u32,
}

/// The rings of a socket.
#[derive(Debug)]
pub struct XdpRingSet<M> {
    /// Frames that came.
    pub receive: XdpRingMemory<M>,
    /// Frames to be sent.
    pub transmit: XdpRingMemory<M>,
    /// Room for frames that come.
    pub fill: XdpRingMemory<M>,
    /// Frames that were sent.
    pub completion: XdpRingMemory<M>,
}

/// The memory for frames (UMEM).
#[derive(Debug)]
pub struct XdpArea<M> {
    /// The memory.
    pub memory: M,
    /// The bytes of a chunk.
    pub chunk_bytes: u32,
}

impl<M> XdpArea<M> {
    /// The bytes of the longest frame, either way.
    pub const fn frame_bytes(&self) -> usize {
        self.chunk_bytes.saturating_sub(HEADROOM_BYTES) as usize
    }
}
