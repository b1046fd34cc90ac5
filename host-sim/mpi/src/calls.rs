//! The functions of MPI, by chapters of the standard: each reads its arguments and calls what is
//! below.

pub(crate) mod attributes;
pub(crate) mod binary;
pub(crate) mod buffers;
pub(crate) mod collectives;
pub(crate) mod communicators;
pub(crate) mod completion;
pub(crate) mod constructors;
pub(crate) mod datatypes;
pub(crate) mod environment;
pub(crate) mod errors;
pub(crate) mod from_groups;
pub(crate) mod groups;
pub(crate) mod info;
pub(crate) mod messages;
pub(crate) mod operations;
pub(crate) mod packing;
pub(crate) mod partitioned;
pub(crate) mod predefined;
pub(crate) mod removed;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod topologies;
pub(crate) mod unsupported;
