//! # aldis-sys: the calls of the system
//!
//! Every call of the system that the crates for Linux make goes through a function of this crate, which has the name, the
//! arguments and the answer of the function in `nix` or `std` that it stands in front of, and the call's [name](Call) as the
//! kernel has it. Nothing is added to what those crates give but this: with the feature `faults`, each call first asks the
//! [plan](plan) in the variable `ALDIS_FAULTS` whether it is to fail, to fall short, to stall or to stop, and is
//! noted in the file that `ALDIS_FAULTS_LOG` names. Without the feature, [`fault`] is empty and nothing is read.
//!
//! | module | what it holds |
//! |---|---|
//! | [`call`] | the names |
//! | [`plan`] | the grammar of a plan |
//! | [`fault`] | what a call asks before it happens |
//! | [`file`] | files by their paths, reading and writing |
//! | [`memory`] | shared memory and mappings |
//! | [`process`] | other processes: their memory, signals, ends |
//!
//! Not here: `close`, since descriptors are closed by a drop, which has nobody to tell and on Linux frees the number whatever
//! it answers; questions that cannot fail (`getpid`); what the allocator and the loader ask for.

pub mod call;
pub mod fault;
pub mod file;
pub mod memory;
pub mod plan;
pub mod process;

pub use call::Call;
pub use nix::errno::Errno;
