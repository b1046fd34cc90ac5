//! # aldis-kernel: what runs
//!
//! Third floor of the house: requests, matching, communicators, progress, and [`Endpoint`], the
//! user's API. It speaks the protocols of `aldis-protocols` over any [`aldis_hal::Transport`] and
//! knows no driver. The terms are defined in `docs/glossary.md`.
//!
//! | folder | what it holds |
//! |---|---|
//! | `api` | [`Endpoint`], [`Within`], [`Scope`], futures, and the calls of each kind |
//! | `engine` | the state of an endpoint; sending, delivery, matching, rendezvous, overflow, loss |
//! | `tables` | requests, peers, communicators, groups, blocks; freelists, lists, FIFOs |
//! | [`datatype`] | types scattered in memory, packed and unpacked in any pieces |
//! | `memory` | [`storage`](mod@storage) and the rule for its [`sizing`]; the user's lent memory |
//! | [`vector`] | loops in the widest vectors that the processor is found to have |
//! | `composite` | two transports as one |
//! | `planted` | bugs for tests to find, behind a feature that no other build has |
//!
//! Invariants: no heap, no panic, bounded work in every call that does not block, no callback that
//! re-enters; memory of the user is retained only by requests that a call or a [`Scope`] is bound
//! to end. Engine code works on slices, so it is compiled once per transport and not once per
//! capacity. Limits: tags of 31 bits, 2^16 communicators, messages of 2^64 bytes, 16384 credits a
//! peer.
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(test)]
extern crate std;

mod api;
mod composite;
mod counters;
pub mod datatype;
mod engine;
mod error;
mod memory;
pub mod plane;
mod planted;
mod rank;
mod tables;
pub mod vector;

pub use aldis_hal as hal;
pub use aldis_protocols as protocols;
pub use api::buffered::SendBuffer;
pub use api::communicators::{CommMut, CommRef};
pub use api::control_slots::{ControlSlots, NotReady};
pub use api::credits::{Account, Credits};
pub use api::diagnostics::Diagnostics;
pub use api::endpoint::{Config, Endpoint};
pub use api::explain::Explanation;
pub use api::future::{Futures, Sleeper};
pub use api::locked::{Shared, SharedCore, SharedTurn};
pub use api::matched::Matched;
pub use api::partitioned::Partitions;
pub use api::pending::{Pending, Standing};
pub use api::poll_rounds::Within;
pub use api::scope::{Request, Scope};
pub use api::typed::{OfScope, Typed, TypedMut};
pub use api::view::{Elements, View};
pub use api::{future, locked};
pub use composite::{Composite, Either};
pub use counters::Counters;
pub use error::{Error, Failed, Failure};
pub use memory::buffer::{Lent, LentMut, LentRange};
pub use memory::sizes::{SizesError, StorageSizes};
pub use memory::storage::{Memory, Storage};
pub use memory::{sizing, storage};
#[cfg(feature = "planted-bugs")]
pub use planted::{Planted, plant};
pub use rank::{Rank, Source, Status, Tag, TagMatch};
pub use tables::attribute::{Attribute, AttributeCopy, AttributeDelete, Keyval};
pub use tables::blocks::Message;
pub use tables::comm::{CONTEXT_WORDS, Comm, ContextName, ContextOffer, GENERATION_MAX, Members, PREDEFINED};
pub use tables::comms::{COLLECTIVES_MAX, Tuning};
pub use tables::group::{Comparison, Group, GroupPiece, RankRange};
pub use tables::hints::Hints;
pub use tables::policy::Policy;
pub use tables::staging::StagingSizes;
