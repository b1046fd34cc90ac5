//! Messages over verbs: a rank's reliable connections (RC queue pairs) through an RDMA device,
//! InfiniBand or RoCE.
//!
//! Feature `verbs`, which needs libibverbs and librdmacm; without it nothing of this is built. It
//! stands beside [`tcp`](crate::tcp) and keeps the same contract.
//!
//! | module | what it holds |
//! |---|---|
//! | `choice` | which device, port and address of it; why each other one is none |
//! | `here` | the device and the port that were chosen |
//! | `address` | what a rank's card says of it |
//! | `watch` | when the device is to wake who sleeps |
//! | `wire`, `nic` | datagrams between ranks, made reliable |
//! | `engine` | peers, credits, how connections are made, and what a poll does |
//! | `regions` | the user's memory that is registered |
//! | `sys` | the library's objects, each freed after those that use it: the only unsafe code |
//!
//! # How ranks connect
//!
//! Two ranks say to each other what a connection needs, when it is needed: see
//! `engine::connection`. A [manager](Manager) carries that: the system's rdma_cm, or, out of band,
//! datagrams to the queue pair that each rank's card tells, one for all peers. These are of
//! [`Ethernet`](aldis_drivers::ethernet), repeated until they are answered, so that each life of a
//! rank is told from another. In the [mode](Mode::Datagrams) of their name all messages go that
//! way, and there are no connections.
//!
//! # How a message travels over a connection
//!
//! It is put together in a slot of registered memory and sent from there; a small one is copied
//! into the device's queue (inline). It arrives in a slot of the receives that all peers share,
//! from where the sink takes it. The immediate value of each message tells the
//! [limit](aldis_protocols::credit) up to which the reader may send. So a sender never finds the
//! receives used up: each peer may have so many messages under way, and there are receives for all
//! of them, and for the few that tell limits alone.
//!
//! # How memory is reached
//!
//! The device reads and writes registered memory of peers by keys, without their help. What a key
//! does not allow is refused there and breaks the connection, so there is a second one for that
//! alone: see `engine::direct`.
//!
//! # Bounds
//!
//! A peer that is connected to has 16 slots of 16 KiB to send from and 19 to receive into: 560 KiB
//! of locked memory; one that is not has a kilobyte. 16 reads, writes and atomics with a peer can
//! be under way, and a rank can have 1024 regions registered. As datagrams, messages are as long as
//! a packet, and a peer has 32 of them, in memory that is not locked.
//!
//! # Deaths
//!
//! A peer's device answers for it as long as its process lives, also while that computes. What is
//! sent to one that has died, and a question that is asked of those from which something is
//! [expected](aldis_hal::Transport::expect), finds no answer. Datagrams are answered by polls
//! alone, so that a peer which owes an answer is given [time](Config::patience_s).
//!
//! # Deliberately absent
//!
//! Gathered sends, a cache of registrations.

mod address;
mod choice;
mod engine;
mod error;
mod nic;
mod open_device;
mod regions;
mod sys;
mod transport;
mod watch;
mod wire;

use std::os::fd::OwnedFd;

use aldis_hal::{Cause, Cost, Epoch, PeerId};

use self::engine::VerbsEngine;
use self::open_device::OpenDevice;
use self::wire::{Identity, Wire};

pub use self::choice::{Manager, Mode, RoceVersion, VARIABLE, VerbsConfig};
pub use self::error::VerbsError;
pub use self::transport::VerbsSlot;

/// The cost of RoCE on an adapter of 100 Gbit/s: one way 1 us, 11 GB/s (Kalia, Kaminsky, Andersen:
/// Design Guidelines for High Performance RDMA Systems, USENIX ATC 2016). Soft RoCE is slower than
/// that by a factor of fifty.
const COST: Cost = Cost { overhead_ns: 200, latency_ns: 800, per_kib_ns: 93 };

/// The cost of reading a peer's memory there. Most of it is the registration of the memory on both
/// sides, some microseconds (Mietke et al.: Analysis of the Memory Registration Process in the
/// Mellanox InfiniBand Software Stack, Euro-Par 2006); the bytes are not copied, as those of
/// messages are.
const READ_COST: Cost = Cost { overhead_ns: 2000, latency_ns: 1600, per_kib_ns: 90 };

/// The cost of writing there until the bytes can be seen: the same, and a read behind it.
const WRITE_COST: Cost = Cost { latency_ns: READ_COST.latency_ns + COST.latency_ns, ..READ_COST };

/// Datagrams to each peer that can be under way.
const WINDOW: usize = 16;

/// The transport over verbs of one rank. See the [module](self).
#[derive(Debug)]
pub struct Verbs(MessagePath);

/// The way in which its messages travel.
#[derive(Debug)]
enum MessagePath {
    /// Not at all.
    None,
    Connected(Box<VerbsEngine>),
    Datagrams(Box<Wire>),
}

impl Verbs {
    /// A transport that reaches no peer and opens no device: of a job that goes other ways.
    pub const fn vacant() -> Self {
        Self(MessagePath::None)
    }

    /// The transport of rank `me` of so many, in this life. Peers can be reached once they are
    /// [introduced](aldis_hal::Transport::introduce), in the same mode.
    ///
    /// # Errors
    /// What [`VerbsError`] names; [`VerbsError::NoDevice`] on a machine without RDMA.
    pub fn open(me: PeerId, epoch: Epoch, ranks: u32, config: &VerbsConfig) -> Result<Self, VerbsError> {
        if me.0 >= ranks || epoch == Epoch(0) {
            return Err(VerbsError::Identity);
        }
        let (here, who) = (OpenDevice::open(config)?, Identity { me, epoch, ranks });
        Ok(Self(match config.mode {
            Mode::Connected(manager) => {
                MessagePath::Connected(Box::new(VerbsEngine::open(&here, who, manager)?))
            }
            Mode::Datagrams => {
                let message_bytes = wire::message_bytes(here.choice.mtu);
                let shape = wire::WireShape { mode: config.mode, window: WINDOW, message_bytes, cost: COST };
                MessagePath::Datagrams(Box::new(Wire::open(&here, who, shape)?))
            }
        }))
    }

    /// Returns the address at which it can be connected to, as its card tells
    /// ([`Card::address`](aldis_protocols::card::Card)); nothing if it is vacant.
    pub fn address(&self) -> Vec<u8> {
        match &self.0 {
            MessagePath::None => Vec::new(),
            MessagePath::Connected(engine) => engine.address().encode().into(),
            MessagePath::Datagrams(wire) => wire.address().encode().into(),
        }
    }

    /// Device, port and index of the address that were chosen; `None` if it is vacant.
    pub fn place(&self) -> Option<(&str, u8, u32)> {
        match &self.0 {
            MessagePath::None => None,
            MessagePath::Connected(engine) => Some(engine.here().place()),
            MessagePath::Datagrams(wire) => Some(wire.here().place()),
        }
    }

    /// A file that can be read when something has happened, once polls have found nothing for a
    /// while: a rank that sleeps waits on it. `None` if it is vacant, or the process can have no
    /// more files.
    pub fn bell(&self) -> Option<OwnedFd> {
        match &self.0 {
            MessagePath::None => None,
            MessagePath::Connected(engine) => engine.bell(),
            MessagePath::Datagrams(wire) => wire.here().channel.bell().ok(),
        }
    }

    /// Puts the queue pair that messages with `peer` go by into its error state, as a device does
    /// when it fails: what is under way is flushed, and both sides lose each other. For tests of
    /// what stands above.
    ///
    /// # Errors
    /// [`Cause::Stale`] if there is none.
    pub fn fail(&mut self, peer: PeerId) -> Result<(), Cause> {
        match &self.0 {
            MessagePath::Connected(engine) => engine.stop(peer),
            MessagePath::None | MessagePath::Datagrams(_) => Err(Cause::Stale),
        }
    }
}
