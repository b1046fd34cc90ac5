//! # aldis-kit: code that tests of several crates share
//!
//! Tests use it as a dev-dependency; nothing that ships does.
//!
//! | module | what it holds | used by tests of |
//! |---|---|---|
//! | [`datatypes`] | datatypes by their definition, and random ones | kernel, collectives |
//! | [`hub`] | Ethernet in memory: frames get lost, repeated, damaged | drivers, crates together |
//! | [`rig`] | endpoints in one process over a wire whose every limit can be tiny | kernel |

pub mod datatypes;
pub mod hub;
pub mod rig;
