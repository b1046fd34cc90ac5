//! # aldis-tests: what crosses crates
//!
//! The integration tests in `tests/` drive the crates together; the programs in `src/bin/` are the two ends that
//! `cargo xtask bench` measures, and what `cargo xtask conformance` runs. This library holds what those share.
//!
//! | module | what it holds |
//! |---|---|
//! | [`bench`](mod@bench) | how a measured pair of processes is driven batch by batch |
//! | [`conformance`] | what MPI says of every call, as rank programs for every transport |
//! | [`Still`] | a platform for programs in which nothing waits |

pub mod bench;
pub mod conformance;

use aldis_hal::{Instant, Platform};

/// A platform whose clock stands still: for programs that only call what is over at once, or never wait for long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Still;

impl Platform for Still {
    fn now(&self) -> Instant {
        Instant(0)
    }
    fn relax(&mut self, _: u32) {}
    fn entropy(&mut self) -> u64 {
        1
    }
}
