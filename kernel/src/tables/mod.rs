//! The tables that an engine works on: requests, peers, communicators, groups, blocks; and the
//! freelists, lists and FIFOs that they are made of.

pub(crate) mod blocks;
pub(crate) mod comm;
pub(crate) mod fifo;
pub(crate) mod group;
pub(crate) mod list;
pub(crate) mod peer;
pub(crate) mod pool;
pub(crate) mod request;
