//! The objects that a program has handles of, and what they keep.

pub(crate) mod attributes;
pub(crate) mod communicators;
pub(crate) mod contents;
pub(crate) mod datatypes;
pub(crate) mod elements;
pub(crate) mod errors;
pub(crate) mod freed_comms;
pub(crate) mod groups;
pub(crate) mod info;
mod located;
#[cfg(target_arch = "x86_64")]
mod long_double;
pub(crate) mod operations;
pub(crate) mod predefined;
pub(crate) mod sessions;
pub(crate) mod topologies;
pub(crate) mod used_types;
