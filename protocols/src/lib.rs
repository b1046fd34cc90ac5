//! # aldis-protocols: wire formats and sans-IO state machines
//!
//! Second floor of the house, above `hal`. Nothing here performs I/O, reads a clock or owns a
//! message: bytes and facts come in, typed actions go out, so the same code runs on the wire, in
//! the simulator and under exhaustive exploration. The terms are defined in `docs/glossary.md`.
//!
//! | module | what it fixes |
//! |---|---|
//! | [`header`] | the fixed little-endian headers of every message, their golden bytes and checks |
//! | [`credit`] | how many messages a sender may inject: the receiver's bound, kept by both sides |
//! | [`reliable`] | links over a wire that loses, reorders, repeats and corrupts |
//! | [`connect`] | how two ends find together: lives, crossing attempts, refusals by name |
//! | [`stream`] | connections that are ordered streams: proof of both ends, crossing, farewell |
//! | [`contact`] | the state of two ranks for each other: made at first contact, closed by both |
//! | [`rendezvous`] | announce, clear to send, data fragments, finish; deferral is the same |
//! | [`partitioned`] | messages sent in parts as they get ready, over a channel matched once |
//! | [`overflow`] | messages without an envelope, matched at their sender: no bound is a deadlock |
//! | [`select`] | which protocol a message takes, by capabilities and cost, and why not another |
//! | [`discovery`] | the exchange of a job's cards on a wire, bounded in time and sends |
//! | [`card`] | what a rank tells its peers before the first message (`postcard`) |
//! | [`control`] | rare messages between kernels: abort, goodbye (`postcard`) |
//!
//! Invariants: `forbid(unsafe_code)`, no heap, no panic, no arithmetic that can overflow on values
//! from the wire; a decoder never trusts a length. Deliberately absent: matching and requests,
//! which are the kernel's.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(test)]
extern crate std;

pub mod card;
pub mod connect;
pub mod contact;
pub mod control;
pub mod credit;
pub mod discovery;
#[cfg(test)]
mod explore;
pub mod header;
pub mod overflow;
pub mod partitioned;
pub mod reliable;
pub mod rendezvous;
mod sabotage;
pub mod select;
pub mod stream;
mod timer;

pub use card::Card;
pub use control::Control;
pub use credit::{CreditWindow, Grant};
pub use header::{Body, Header, Kind, Packet};
pub use select::{Protocol, Thresholds};

/// The version of the wire format. Peers of another version are refused by name at connect, and
/// their messages are discarded and counted.
pub const VERSION: u8 = 1;

/// True if data can be read from the sender's memory, or sent from it while the sender goes on.
pub const LENDS: bool = cfg!(feature = "remote-memory");

/// True if a rank may hold rows for fewer peers than its job has ranks: see [`contact`].
pub const ACTIVE: bool = cfg!(feature = "active-peers");

/// True if an announced message can be recalled, by this rank or by its sender. Without, this rank
/// recalls none, and says nothing to one who does: a message stays where it is until it is
/// received.
pub const RECALLS: bool = cfg!(feature = "active-peers");

/// Largest payload that an envelope slot holds by itself: messages up to here need an envelope
/// credit and no block. 24 bytes, so that header and payload fill the first line of a shared-memory
/// slot.
pub const INLINE_BYTES: usize = 24;
