//! # aldis-bench: the programs that are measured
//!
//! The programs in `src/bin/` are the two ends that `cargo xtask bench` measures. They are built
//! with the most costly profile, so this crate holds what they share and nothing besides.
//!
//! | module | what it holds |
//! |---|---|
//! | [`batches`] | how a measured pair of processes is driven batch by batch |
//! | [`bytes`] | buffers of a rank, from its arena if it has one |
//! | [`Still`] | a platform for programs in which nothing waits |

#[cfg(feature = "host")]
pub mod batches;
#[cfg(feature = "host")]
pub mod bytes;

use aldis_hal::{Instant, Platform};

/// A platform whose clock stands still: for programs that only call what is over at once, or never
/// wait for long.
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
