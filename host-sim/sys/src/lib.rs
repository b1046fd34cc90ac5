//! # aldis-sys: the calls of the system
//!
//! Every call of the system that the crates for Linux make goes through a function of this crate,
//! which has the name, the arguments and the answer of the function in `nix` or `std` that it
//! stands in front of, and the call's [name](Call) as the kernel has it. Nothing is added to what
//! those crates give but this: with the feature `faults`, each call first asks the [plan] in the
//! variable `ALDIS_FAULTS` whether it is to fail, to fall short, to stall or to stop, and is noted
//! in the file that `ALDIS_FAULTS_LOG` names. Without the feature, [`fault`] is empty and nothing
//! is read.
//!
//! | module | what it holds |
//! |---|---|
//! | [`call`] | the names, and failures by them |
//! | [`plan`] | the grammar of a plan |
//! | [`fault`] | what a call asks before it happens |
//! | [`mod@file`] | files by their paths, reading and writing |
//! | [`memory`] | shared memory and mappings |
//! | [`socket`] | sockets |
//! | [`interface`] | network interfaces, and sockets and devices of their frames |
//! | [`xdp`], [`bpf`] | sockets whose frames are in shared memory, and programs that choose them |
//! | [`vfio`] | PCI devices in the hands of a process |
//! | [`event`] | waiting for files and signals |
//! | [`futex`] | sleeping on words of shared memory, and barriers |
//! | [`signal`] | signals, to this process and to others |
//! | [`process`] | other processes: their memory, starts and ends; where this one runs |
//! | [`clock`] | time |
//! | [`random`] | random numbers |
//! | [`limits`] | what the system lets a process have |
//!
//! Not here: `close`, since descriptors are closed by a drop, which has no caller to tell and on
//! Linux frees the number whatever it answers; questions that cannot fail (`getpid`, `std`'s
//! clocks); what the allocator and the loader ask for; a last message on standard error, whose loss
//! cannot be reported; the calls of `libibverbs` and `librdmacm`, which have a fence of their own
//! (`verbs/sys` of `aldis-linux`); the tools that make no part of a job: the files that the
//! simulator's `aldis-sim`, `aldis-whatif` and `aldis-schedule` write their reports to.

pub mod bpf;
pub mod call;
pub mod clock;
pub mod event;
pub mod fault;
pub mod file;
pub mod futex;
pub mod interface;
pub mod limits;
pub mod memory;
pub mod plan;
pub mod process;
pub mod random;
pub mod signal;
pub mod socket;
pub mod vfio;
pub mod xdp;

pub use call::{Call, CallFailure};
pub use nix::errno::Errno;

/// Calls that are made before an interruption is told.
const ATTEMPTS: u32 = 16;

/// An error that may say that a signal has interrupted a call, which says nothing of what it was
/// for.
pub trait Interruption {
    /// Returns true if it says so.
    fn is_interruption(&self) -> bool;
}

impl Interruption for Errno {
    fn is_interruption(&self) -> bool {
        *self == Self::EINTR
    }
}

impl Interruption for std::io::Error {
    fn is_interruption(&self) -> bool {
        self.kind() == std::io::ErrorKind::Interrupted
    }
}

/// Makes a call of the system again, to a bound, if a signal has interrupted it.
///
/// # Errors
/// The last call's.
#[inline]
pub fn uninterrupted<T, E: Interruption>(mut call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        match call() {
            Err(error) if error.is_interruption() => {}
            result => return result,
        }
    }
    call()
}

/// The number of an error of the system, as `std` has it; `EIO` if it is none of the system's.
pub fn errno_of(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
