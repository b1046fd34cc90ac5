//! # aldis-tests: what crosses crates
//!
//! The integration tests in `tests/` drive the crates together; the programs in `src/bin/` are
//! ranks that they start. This library holds what those and the conformance suite share.
//!
//! | module | what it holds |
//! |---|---|
//! | [`aliased`] | address space without memory, for messages of any length |
//! | [`jobs`] | jobs of `aldis-run` as tests start them and read their reports |
//! | [`own_memory`] | memory of another rank of the same process, read by the system |
//! | [`storage`] | storages of three sizes, the least that is legal among them |
//! | [`thread_jobs`] | jobs as threads of one process, with small storages |
//! | [`threads`] | ranks as threads over shared memory, and their clock |
//! | [`watch`] | who of a job in one process is over, has failed or hangs |
//! | [`draw`] | numbers for programs whose ranks all draw the same ones |

pub mod aliased;
pub mod jobs;
pub mod own_memory;
pub mod storage;
pub mod thread_jobs;
pub mod threads;
pub mod watch;

/// The next number of the stream that `seed` stands in: splitmix64 (Steele, Lea, Flood: Fast
/// splittable pseudorandom number generators, OOPSLA 2014).
pub const fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
