//! # aldis-features: one set of features for other people's crates
//!
//! No code. `Cargo.toml` names the features of other people's crates that the workspace as a whole
//! turns on. A package of the core that `cargo xtask test` lints or tests by itself is built beside
//! this one: it has its own features and those of no other package of ours, but uses what was built
//! for all. Without it, `serde`, `zerocopy`, `syn` and what stands on them are built again for each
//! set of packages. Nothing but xtask depends on it, and firmware is built without.

#![no_std]
#![forbid(unsafe_code)]
