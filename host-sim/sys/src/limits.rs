//! Limits of this process, and its use of the system.

use nix::errno::Errno;
use nix::sys::resource;
pub use nix::sys::resource::{Resource, Usage, UsageWho};

use crate::call::Call;
use crate::fault::enter;

/// `getrlimit(2)`: what counts now, and what it may be raised to.
///
/// # Errors
/// The system's.
pub fn getrlimit(resource: Resource) -> Result<(u64, u64), Errno> {
    let _fault = enter(Call::Getrlimit)?;
    resource::getrlimit(resource)
}

/// `setrlimit(2)`: what counts from now on, and what it may be raised to.
///
/// # Errors
/// The system's.
pub fn setrlimit(resource: Resource, soft: u64, hard: u64) -> Result<(), Errno> {
    let _fault = enter(Call::Setrlimit)?;
    resource::setrlimit(resource, soft, hard)
}

/// `getrusage(2)`.
///
/// # Errors
/// The system's.
pub fn getrusage(who: UsageWho) -> Result<Usage, Errno> {
    let _fault = enter(Call::Getrusage)?;
    resource::getrusage(who)
}

/// `uname(2)`: the name of this machine (`gethostname(2)`).
///
/// # Errors
/// The system's.
pub fn gethostname() -> Result<std::ffi::OsString, Errno> {
    let _fault = enter(Call::Uname)?;
    nix::unistd::gethostname()
}
