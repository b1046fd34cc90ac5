//! The API: [`Endpoint`](endpoint::Endpoint), its blocking calls with and without a deadline,
//! scopes for nonblocking ones, and the calls of each kind: typed, persistent, partitioned,
//! matched.

pub(crate) mod attributes;
pub(crate) mod buffered;
pub(crate) mod call;
pub(crate) mod communicators;
pub(crate) mod completion;
pub(crate) mod control_slots;
pub(crate) mod credits;
pub(crate) mod deadlines;
pub(crate) mod diagnostics;
pub(crate) mod endpoint;
pub(crate) mod explain;
pub mod future;
pub(crate) mod hints;
pub mod locked;
pub(crate) mod matched;
pub(crate) mod modes;
pub(crate) mod partitioned;
pub(crate) mod pending;
pub(crate) mod persistent;
pub(crate) mod policy;
pub(crate) mod poll_rounds;
pub(crate) mod pooled;
pub(crate) mod probe;
pub(crate) mod scope;
pub(crate) mod static_scope;
pub(crate) mod tuning;
pub(crate) mod typed;
pub(crate) mod unexpected;
pub(crate) mod view;
