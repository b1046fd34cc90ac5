//! # aldis-shell: running commands
//!
//! The pieces that `cargo xtask` and the laboratory (`aldis-lab`) share: they run programs, bound
//! them in time, and say in tables what came of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`shell`] | commands, with errors that say what was run and what it said |
//! | [`children`], [`marked`] | processes that end with this one; those of a job, known by a mark |
//! | [`limit`] | a bound in time, at which all that was started is ended |
//! | [`workspace`], [`artifact`] | what cargo and git say of the checkout, and of what is built |
//! | [`steps`], [`table`] | steps of a longer chore and their outcomes; tables |
//! | [`harness`] | tests that cargo runs, and that there are such |
//! | [`compiles`] | the compilations of a run |
//! | [`host_units`] | macros and build scripts, compiled once for all folders |
//! | [`baselines`] | exact costs beside the values that no change may exceed |
//! | [`toolchain`], [`provision`] | where the core of a bare-metal target comes from |
//! | [`wild`], [`dice`] | seeds drawn from the commit, and numbers drawn from a seed |

pub mod artifact;
pub mod baselines;
pub mod children;
pub mod compiles;
pub mod dice;
pub mod harness;
pub mod host_units;
pub mod limit;
pub mod marked;
pub mod provision;
pub mod shell;
pub mod steps;
pub mod table;
pub mod toolchain;
pub mod wild;
pub mod workspace;
