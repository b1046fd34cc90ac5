//! The tables that an engine works on: requests, peers, communicators, groups, blocks; and the
//! freelists, lists and FIFOs that they are made of.

pub(crate) mod active;
pub(crate) mod attribute;
pub(crate) mod blocks;
pub(crate) mod comm;
pub(crate) mod comms;
pub(crate) mod elements;
pub(crate) mod fifo;
pub(crate) mod group;
pub(crate) mod hints;
pub(crate) mod list;
pub(crate) mod peer;
pub(crate) mod peers;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod staging;
