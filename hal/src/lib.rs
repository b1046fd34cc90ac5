//! # aldis-hal: the contracts
//!
//! The lowest floor of the house. Everything above meets here: a driver implements [`Transport`]
//! (or [`Nic`], a floor lower), a board implements [`Platform`], and the kernel is written against
//! those two alone. There is no logic in this crate beyond arithmetic on its own value types.
//! The terms are defined in `docs/glossary.md`.
//!
//! | module | what it fixes |
//! |---|---|
//! | [`transport`] | ten calls by which messages are posted, delivered and quiesced |
//! | [`remote_memory`] | the optional part for memory of peers: register, put, get, atomics |
//! | [`shared_control`] | memory through which ranks of one node carry out collectives |
//! | [`post`] | the four outcomes of a post: done, queued, again, never |
//! | [`caps`] | what a transport can do, its limits and its cost |
//! | [`nic`] | frames: the contract below an Ethernet transport |
//! | [`platform`] | clock, idle policy, entropy, and the note of what a rank is doing |
//! | [`mmio`], [`memory`] | device registers and memory that a device reads or writes |
//! | [`copy`](mod@copy) | copying bytes: no way to panic, no slow way |
//! | [`crc`] | the processor's instruction for CRC-32C, where it has one |
//! | [`id`], [`time`], [`cause`] | value types that all crates share |
//!
//! Invariants: no heap, no `std`, nothing here blocks, and no type names a driver or a protocol.
//! Deliberately absent: a registration cache (registration is explicit), dynamic dispatch on a
//! message's way (`impl Sink`, never `dyn`), and any notion of tag or communicator, which belong to
//! the kernel.
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[macro_use]
mod fmt;

pub mod caps;
pub mod cause;
pub mod copy;
pub mod crc;
pub mod id;
pub mod memory;
pub mod mmio;
pub mod nic;
pub mod platform;
pub mod post;
pub mod remote_memory;
pub mod shared_control;
pub mod time;
pub mod transport;

pub use caps::{Caps, Cost, Features, Limits};
pub use cause::{Cause, Resource};
pub use id::{Epoch, Handle, PeerId, RegionId, Token};
pub use nic::Nic;
pub use platform::{Activity, Operation, Platform};
pub use post::{Again, Post, Refusal};
pub use remote_memory::RemoteMemory;
pub use shared_control::SharedControl;
pub use time::Instant;
pub use transport::{Extras, Partial, Sink, Slot, Transport};
