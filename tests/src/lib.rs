//! # aldis-tests: what crosses crates
//!
//! The integration tests in `tests/` drive the crates together; the programs in `src/bin/` are the two ends that
//! `cargo xtask bench` measures. This library holds only what those share.
//!
//! | module | what it holds |
//! |---|---|
//! | [`bench`](mod@bench) | how a measured pair of processes is driven batch by batch |

pub mod bench;
