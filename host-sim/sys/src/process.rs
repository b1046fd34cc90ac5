//! This module holds `unsafe` code: it reads and writes memory of other processes. Other processes.

use nix::errno::Errno;
use nix::libc;
pub use nix::libc::{iovec, pid_t};
use nix::sys;
pub use nix::sys::signal::Signal;
pub use nix::unistd::{Pid, gettid};

use crate::call::Call;
use crate::fault::enter;

/// `process_vm_readv(2)`, of one piece: reads to `local` as many bytes as it has, at `remote` of a process; returns how many it
/// was.
///
/// # Safety
/// `local` is valid for writes of its length.
///
/// # Errors
/// The system's.
#[inline]
pub unsafe fn process_vm_readv(pid: pid_t, local: iovec, remote: iovec) -> Result<usize, Errno> {
    let fault = enter(Call::ProcessVmReadv)?;
    let local = iovec { iov_len: fault.len(local.iov_len), ..local };
    // SAFETY: the system writes `local` alone, for which the caller vouches; it checks `remote` itself.
    let moved = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    Errno::result(moved).map(isize::unsigned_abs)
}

/// `process_vm_writev(2)`, of one piece: writes `local` to as much room as `remote` says in a process; returns how many bytes it
/// was. The system reads `remote` itself, once: others may change it meanwhile.
///
/// # Safety
/// `local` is valid for reads of its length; `remote` for a read of an `iovec`.
///
/// # Errors
/// The system's.
#[inline]
pub unsafe fn process_vm_writev(pid: pid_t, local: iovec, remote: *const iovec) -> Result<usize, Errno> {
    let fault = enter(Call::ProcessVmWritev)?;
    let local = iovec { iov_len: fault.len(local.iov_len), ..local };
    // SAFETY: the system reads `local` and `remote` alone, for which the caller vouches.
    let moved = unsafe { libc::process_vm_writev(pid, &local, 1, remote, 1, 0) };
    Errno::result(moved).map(isize::unsigned_abs)
}

/// `kill(2)`.
///
/// # Errors
/// The system's.
pub fn kill(process: Pid, signal: impl Into<Option<Signal>>) -> Result<(), Errno> {
    let _fault = enter(Call::Kill)?;
    sys::signal::kill(process, signal)
}

/// `sched_yield(2)`.
///
/// # Errors
/// The system's: none on Linux.
#[inline]
pub fn sched_yield() -> Result<(), Errno> {
    let _fault = enter(Call::SchedYield)?;
    nix::sched::sched_yield()
}
