//! Ranks on an Ethernet: a reliable, ordered transport over any device that sends and receives
//! frames.
//!
//! A [`Nic`](aldis_hal::Nic) loses, repeats, reorders and corrupts frames. [`Ethernet`] makes a
//! [`Transport`](aldis_hal::Transport) of it, by a connection to each peer: the handshake of
//! [`connect`](aldis_protocols::connect) and the selective repeat of
//! [`reliable`](aldis_protocols::reliable). Frames have an EtherType of their own or are UDP over
//! IPv4 ([`Framing`]). No ARP: the address on a rank's card is its MAC, and with UDP its IPv4
//! address too.
//!
//! # How it is put together
//!
//! Storage, device, transport; the endpoint above it is made as over any other transport. Before
//! the first message each side hands the other's card to `Endpoint::connect`, which calls
//! [`introduce`](aldis_hal::Transport::introduce).
//!
//! ```
//! use aldis_drivers::ethernet::{Config, Ethernet, EthernetStorage};
//! use aldis_hal::nic::{LinkState, Mac, Nic, RxFrame, TxFrame};
//! use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Post, Sink, Token, Transport};
//!
//! /// A cable from a device to itself.
//! struct Cable { frames: Vec<Vec<u8>> }
//! struct Received(Vec<u8>);
//! impl RxFrame for Received {
//!     fn bytes(&self) -> &[u8] { &self.0 }
//! }
//! struct Sending<'a> { cable: &'a mut Cable, bytes: Vec<u8> }
//! impl TxFrame for Sending<'_> {
//!     fn bytes(&mut self) -> &mut [u8] { &mut self.bytes }
//!     fn send(self) { self.cable.frames.push(self.bytes) }
//! }
//! impl Nic for Cable {
//!     type Rx<'a> = Received;
//!     type Tx<'a> = Sending<'a>;
//!     fn receive(&mut self) -> Option<Received> { self.frames.pop().map(Received) }
//!     fn transmit(&mut self, len: usize) -> Option<Sending<'_>> {
//!         Some(Sending { cable: self, bytes: vec![0; len] })
//!     }
//!     fn mtu(&self) -> usize { 1500 }
//!     fn mac(&self) -> Mac { Mac([2, 0, 0, 0, 0, 1]) }
//!     fn link(&self) -> LinkState { LinkState::Up }
//! }
//!
//! /// What a kernel's engine does.
//! struct NoSink;
//! impl Sink for NoSink {
//!     fn arrived(&mut self, _from: PeerId, _message: &[u8]) {}
//!     fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
//!     fn ready(&mut self, _peer: PeerId) {}
//!     fn lost(&mut self, _peer: PeerId, _cause: Cause) {}
//! }
//!
//! // One peer, 8 frames in flight, the longest message of an MTU of 1500.
//! let mut storage = EthernetStorage::<1, 8, 1464>::new();
//! // Gigabit, and a microsecond or two of processor time: what protocols are selected by.
//! let cost = Cost { overhead_ns: 1_500, latency_ns: 20_000, per_kib_ns: 8_500 };
//! let config = Config::new(PeerId(0), Epoch(71), 0xA1D1_5001, cost);
//! let mut ethernet = Ethernet::new(Cable { frames: Vec::new() }, storage.memory(), config)?;
//!
//! // `Endpoint::new(memory, ethernet, platform, ..)` takes it from here. What the endpoint does:
//! assert_eq!(ethernet.reach(PeerId(1)), Err(Cause::Unreachable));
//! ethernet.introduce(PeerId(1), Epoch(82), &[2, 0, 0, 0, 0, 2])?;
//! assert_eq!(ethernet.reach(PeerId(1))?.limits.bcopy_bytes_max, 1464);
//! let post = ethernet.short(PeerId(1), b"hello", b"");
//! assert!(matches!(post, Post::Again(_)), "the next poll connects");
//! ethernet.poll(16, Instant(0), &mut NoSink);
//! ethernet.poll(16, Instant(1), &mut NoSink);
//! assert_eq!(ethernet.counters().foreign, 1, "no rank sends to itself");
//! # Ok::<(), Cause>(())
//! ```
//!
//! A post is transmitted at once if the device has a free descriptor. Where words have 64 bits,
//! posts [leave together](aldis_hal::Extras::cork) that their caller corks. A post does not know
//! the time; its timers start with the next poll, so that a rank which computes for long between
//! two polls takes no peer for slow or dead. A peer that has keep-alives on
//! ([`silence_ns`](aldis_protocols::reliable::LinkConfig::silence_ns)) takes *it* for dead when it
//! has not polled for [`give_up_ns`](aldis_protocols::reliable::LinkConfig::give_up_ns). A program
//! that ends polls until [`is_idle`](aldis_hal::Transport::is_idle) holds: a post that is done is
//! not yet one that has arrived.
//!
//! # What is on the wire
//!
//! [16 bytes](header) with the addresses and the EtherType for local experiments, the 32 bytes of a
//! [`Frame`](aldis_protocols::reliable::Frame), the message. Padding behind it is ignored. With UDP
//! the first 16 are [48 bytes](udp), so that of an MTU of 1500 a message has 1432 instead of 1464.
//!
//! # Copies
//!
//! The kernel packs straight into the retransmission ring, from where a message is copied to a
//! transmit descriptor each time it is sent. A message that comes in order is delivered from the
//! device's own receive descriptor; one that comes early is copied to the reorder ring. Messages
//! are aligned to 8 bytes if the device's frames are.
//!
//! # What is refused
//!
//! Everything from the wire is held against what is known: addresses, lengths, checksum, version,
//! the connection's number (slot and generation) and the address behind it, then sequence numbers
//! and acknowledgements against the window. What fails the first is counted ([`EthernetCounters`])
//! and has no other effect; what fails only the last was said by the peer itself, and ends it with
//! [`Malformed`](aldis_hal::Cause::Malformed). There is no protection from a station that forges
//! the peer's address and knows the numbers.
//!
//! # Limits
//!
//! 65536 other ranks, a window of 64 frames, messages below 64 KiB and within the MTU. Memory is
//! [`BYTES_PER_KNOWN_PEER`], 32 bytes, for each peer, and [`bytes_per_link`] for each that the rank
//! can be active with at a time: with a window of 8 and an MTU of 1500 under 24 KiB, and with one
//! of 32 under 93 KiB. One poll handles as many frames as its budget, sends as many, and looks at
//! the timers of 32 links.
//!
//! # Fewer links than peers
//!
//! With [`EthernetStorage::pooled`] a job's size is no memory size. A peer has a link from the
//! first message, in either direction, until another peer wants one: then the connection that has
//! been idle longest is closed, which both sides agree on when everything in both directions has
//! arrived, and messages go on in order by the next one. A post without a link answers `Again` and
//! hears when it can go; a handshake that finds no link is answered by *busy*, and repeated. The
//! death of a peer is noticed on its link; others that are waited for
//! ([`expect`](aldis_hal::Transport::expect)), or had one before, are given one in turns, sixteen
//! within [`silence_ns`](aldis_protocols::reliable::LinkConfig::silence_ns).

mod config;
mod counters;
mod engine;
mod framing;
pub mod header;
mod peer;
mod pool;
mod queue;
mod receive;
mod storage;
mod timers;
pub(crate) mod transmit;
mod transport;
pub mod udp;

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;

use aldis_protocols::reliable::FRAME_BYTES;

pub use config::Config;
pub use counters::EthernetCounters;
pub use framing::{CardAddress, Framing, Ipv4, Udp};
pub(crate) use framing::{Port, Station};
pub use peer::{PeerLink, PeerRow};
pub use storage::{
    BYTES_PER_KNOWN_PEER, EthernetMemory, EthernetStorage, LINKS_MIN, PEERS_MAX, are_sizes, bytes_per_link,
    bytes_per_peer,
};
pub use transport::{Ethernet, EthernetSlot};
#[cfg(feature = "virtio")]
pub(crate) use udp::InternetSum;

/// Bytes of a frame in front of the message, with an EtherType of its own; see
/// [`Framing::headers_bytes`].
pub const HEADERS_BYTES: usize = header::HEADER_BYTES + FRAME_BYTES;

/// The header bytes that an MTU counts: a message takes a device whose MTU is this much longer. See
/// [`Framing::mtu_overhead_bytes`].
pub const MTU_OVERHEAD_BYTES: usize = HEADERS_BYTES - aldis_hal::nic::MAC_HEADER_BYTES;
