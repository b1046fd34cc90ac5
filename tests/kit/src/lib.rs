//! # aldis-kit: code that tests of several crates share
//!
//! Tests use it as a dev-dependency; nothing that ships does.
//!
//! | module | what it holds | used by tests of |
//! |---|---|---|
//! | [`datatypes`] | datatypes by their definition, and random ones | kernel, collectives |
//! | [`hub`] | Ethernet in memory: frames get lost, repeated, damaged | drivers, crates together |
//! | `model_stacks` | stacks of the threads of loom's models, used again | drivers, under loom |
//! | [`network`] | a network of a test's own: cables and bridges in a namespace | nic, launcher |
//! | [`outputs`] | standard output that cannot be written | run, sim |
//! | [`rig`] | endpoints in one process over a wire whose every limit can be tiny | kernel |
//! | [`scratch`] | folders that go when they are dropped | linux, nic, sim |
//! | [`testpmd`] | DPDK's forwarding program between two memifs | run, launcher |

pub mod datatypes;
pub mod hub;
#[cfg(loom)]
pub mod model_stacks;
pub mod network;
pub mod outputs;
pub mod rig;
pub mod scratch;
pub mod testpmd;
