//! # aldis-kernel: what runs
//!
//! Third floor of the house: requests, matching, communicators, progress, and [`Endpoint`], the
//! user's API. It speaks the protocols of `aldis-protocols` over any [`aldis_hal::Transport`] and
//! knows no driver. The terms are defined in `docs/glossary.md`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`storage`](mod@storage), [`sizing`] | all memory, sized by the user, static or borrowed; the rule for its sizes |
//! | `endpoint`, `blocking`, `scope`, `lasting` | the API: blocking calls, deadlines, nonblocking scopes, also without an end |
//! | `engine`, `arrival`, `injection` | the state of an endpoint, its ear and its mouth |
//! | `matching` | posted receives and unexpected messages, O(1) for exact matches |
//! | `probe`, `matched`, `overflow` | probes; messages taken out by one; messages matched at their sender for want of envelopes |
//! | `request`, `peer`, `comm`, `blocks` | the tables: requests, peers, communicators, eager blocks |
//! | `group` | ordered sets of processes: strides, ranges, bitmaps |
//! | `pool`, `list`, `fifo`, `buffer` | freelists with generations, intrusive lists, bounded FIFOs, lent memory |
//! | `typed` | messages of datatypes: packed, unpacked, turned into this machine's byte order, checked |
//! | `policy`, `hints`, `attributes` | what is said of each communicator: what errors lead to, promises, values kept with it |
//! | `composite` | two transports as one |
//! | `lines` | the control slots of a communicator, for collectives among ranks that share memory |
//! | [`future`](mod@future) | sends, receives and probes as futures, on any executor or none |
//! | `view` | receives that copy nothing, where the sender's memory is mapped |
//! | [`shared`] | an endpoint behind a spin lock, for several cores that are one rank |
//! | [`datatype`] | types scattered in memory, packed and unpacked in any pieces |
//! | [`vector`] | loops in the widest vectors that the processor is found to have |
//! | `credits` | what two ranks owe each other |
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

mod arrival;
mod at_once;
mod attributes;
mod blocking;
mod blocks;
mod buffer;
mod buffered;
mod call;
mod comm;
mod completion;
mod composite;
mod counters;
mod credits;
pub mod datatype;
mod direct;
mod endpoint;
mod engine;
mod error;
mod explain;
mod fifo;
pub mod future;
mod group;
mod hints;
mod injection;
#[cfg(not(feature = "compact"))]
mod lasting;
mod lines;
mod list;
mod loss;
mod matched;
mod matching;
mod modes;
mod overflow;
mod partitioned;
mod peer;
mod pending;
mod persistent;
mod planted;
mod policy;
mod pool;
mod pooled;
mod probe;
mod rank;
mod reception;
mod rendezvous;
mod request;
mod scope;
pub mod shared;
pub mod sizing;
pub mod storage;
#[cfg(not(feature = "compact"))]
mod strays;
#[cfg(not(feature = "compact"))]
mod tuning;
mod turns;
mod typed;
pub mod vector;
mod view;

pub use aldis_hal as hal;
pub use aldis_protocols as protocols;
pub use attributes::{Attribute, AttributeCopy, AttributeDelete, Keyval};
pub use blocking::Within;
pub use blocks::Message;
pub use buffer::{Loan, Sample};
pub use comm::{
    COLLECTIVES_MAX, CONTEXT_WORDS, Comm, ContextName, ContextOffer, GENERATION_MAX, Members, PREDEFINED,
};
pub use composite::{Composite, Either};
pub use counters::Counters;
pub use credits::{Account, Credits};
pub use endpoint::{Config, Endpoint};
pub use error::{Error, Failed, Failure};
pub use explain::Explanation;
pub use future::{Futures, Sleeper};
pub use group::{Comparison, Group, Piece, RankRange};
pub use hints::Hints;
pub use lines::{Lines, Withheld};
pub use matched::Matched;
pub use pending::{Pending, Standing};
#[cfg(feature = "planted-bugs")]
pub use planted::{Planted, plant};
pub use policy::Policy;
pub use rank::{Rank, Source, Status, Tag, TagMatch};
pub use scope::{Request, Scope};
pub use shared::{Shared, SharedWithin};
pub use storage::{Memory, Storage};
#[cfg(not(feature = "compact"))]
pub use tuning::Tuning;
pub use typed::{OfScope, Typed, TypedMut};
pub use view::{Elements, View};
