//! Messages over verbs: a rank's reliable connections (RC queue pairs) through an RDMA device, InfiniBand or RoCE.
//!
//! Feature `verbs`, which needs libibverbs; without it nothing of this is built. It stands beside
//! [`tcp`](crate::tcp) and keeps the same contract.
//!
//! | module | what it holds |
//! |---|---|
//! | `choice` | which device, port and address of it; why each other one is none |
//! | `address` | what a rank's card says of it |
//! | `engine` | peers, credits, and what a poll does |
//! | `regions` | the user's memory that is registered |
//! | `sys` | the library's objects, each freed after those that use it: the only unsafe code |
//!
//! # How a message travels
//!
//! It is put together in a slot of registered memory and sent from there; a small one is copied into the device's queue
//! (inline). It arrives in a slot of the receives that all peers share, from where the sink takes it. The immediate value
//! of each message tells the [limit](aldis_protocols::credit) up to which the reader may send. So a sender never finds
//! the receives used up: each peer may have so many messages under way, and there are receives for all of them, and for
//! the few that tell limits alone.
//!
//! # How memory is reached
//!
//! The device reads and writes registered memory of peers by keys, without their help. What a key does not allow is refused
//! there and breaks the connection, so there is a second one for that alone: see `engine::direct`.
//!
//! # Bounds
//!
//! A peer has 17 slots of 16 KiB to send from and 23 to receive into: 640 KiB of locked memory. 16 reads, writes and atomics
//! with it can be under way, and a rank can have 1024 regions registered. A job has 14 ranks at most,
//! because a card has room for the numbers of so many queue pairs.
//!
//! # Deliberately absent
//!
//! Gathered sends, unreliable datagrams, a cache of registrations. A peer that comes back in another
//! life: its queue pair is of the first one. Who only waits does not notice that a peer died; who sends to it does.

mod address;
mod choice;
mod engine;
mod error;
mod regions;
mod sys;
mod transport;

use aldis_hal::{Cost, Epoch, PeerId};

use self::engine::Engine;

pub use self::address::RANKS_MAX;
pub use self::choice::{Config, RoceVersion, VARIABLE};
pub use self::error::VerbsError;
pub use self::transport::VerbsSlot;

/// What RoCE costs on an adapter of 100 Gbit/s: one way 1 us, 11 GB/s (Kalia, Kaminsky, Andersen: Design Guidelines for High
/// Performance RDMA Systems, USENIX ATC 2016). Soft RoCE is slower than that by a factor of fifty.
const COST: Cost = Cost { overhead_ns: 200, latency_ns: 800, per_kib_ns: 93 };

/// What reading a peer's memory costs there. Most of it is the registration of the memory on both sides, some microseconds
/// (Mietke et al.: Analysis of the Memory Registration Process in the Mellanox InfiniBand Software Stack, Euro-Par 2006); the
/// bytes are not copied, as those of messages are.
const READ_COST: Cost = Cost { overhead_ns: 2000, latency_ns: 1600, per_kib_ns: 90 };

/// The transport over verbs of one rank. See the [module](self).
#[derive(Debug)]
pub struct Verbs {
    engine: Option<Box<Engine>>,
}

impl Verbs {
    /// A transport that reaches nobody and opens no device: of a job that goes other ways.
    pub const fn vacant() -> Self {
        Self { engine: None }
    }

    /// The transport of rank `me` of so many, in this life. Peers can be reached once they are
    /// [introduced](aldis_hal::Transport::introduce).
    ///
    /// # Errors
    /// What [`VerbsError`] names; [`VerbsError::NoDevice`] on a machine without RDMA.
    pub fn open(me: PeerId, epoch: Epoch, ranks: u32, config: &Config) -> Result<Self, VerbsError> {
        Engine::open(me, epoch, ranks, config).map(|engine| Self { engine: Some(Box::new(engine)) })
    }

    /// Where it can be connected to, as its card tells ([`Card::address`](aldis_protocols::card::Card)); nothing if it is
    /// vacant.
    pub fn address(&self) -> Vec<u8> {
        self.engine.as_ref().map(|engine| engine.address().encode()).unwrap_or_default()
    }

    /// Device, port and index of the address that were chosen; `None` if it is vacant.
    pub fn place(&self) -> Option<(&str, u8, u32)> {
        self.engine.as_ref().map(|engine| engine.place())
    }
}
