//! This module holds `unsafe` code: it reads and writes memory of other processes. Other processes,
//! and where this one runs.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
pub use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::libc;
pub use nix::libc::{iovec, pid_t};
pub use nix::sched::CpuSet;
use nix::sys::wait as ends;
pub use nix::sys::wait::{Id, WaitPidFlag, WaitStatus};
pub use nix::unistd::{Pid, getpid, getppid, gettid};

use crate::call::Call;
use crate::fault::enter;

/// `process_vm_readv(2)`, of one piece: reads to `local` as many bytes as it has, at `remote` of a
/// process; returns how many it was.
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
    // SAFETY: the system writes `local` alone, for which the caller vouches; it checks `remote`
    // itself.
    let moved = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    Errno::result(moved).map(isize::unsigned_abs)
}

/// `process_vm_writev(2)`, of one piece: writes `local` to as much room as `remote` says in a
/// process; returns how many bytes it was. The system reads `remote` itself, once: others may
/// change it meanwhile.
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

/// `fork(2)` and, in the child, `execve(2)`.
///
/// # Errors
/// The system's, of either.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _fork = enter(Call::Fork)?;
    let _execve = enter(Call::Execve)?;
    command.spawn()
}

/// `atexit(3)`: has a function called when the process exits, in the thread that exits, whose
/// thread-local values are gone by then.
///
/// # Errors
/// No memory to note it.
pub fn atexit(function: extern "C" fn()) -> Result<(), Errno> {
    // SAFETY: a function without arguments, which stays as long as the program or library that it
    // is of; the C library calls it before it unloads that.
    match unsafe { libc::atexit(function) } {
        0 => Ok(()),
        _ => Err(Errno::ENOMEM),
    }
}

/// `execve(2)`: returns only if it fails.
pub fn exec(command: &mut Command) -> io::Error {
    match enter(Call::Execve) {
        Ok(_fault) => command.exec(),
        Err(errno) => errno.into(),
    }
}

/// `waitpid(2)`.
///
/// # Errors
/// The system's.
pub fn waitpid(process: Pid, flags: Option<WaitPidFlag>) -> Result<WaitStatus, Errno> {
    let _fault = enter(Call::Waitpid)?;
    ends::waitpid(process, flags)
}

/// `waitid(2)`.
///
/// # Errors
/// The system's.
pub fn waitid(id: Id<'_>, flags: WaitPidFlag) -> Result<WaitStatus, Errno> {
    let _fault = enter(Call::Waitid)?;
    ends::waitid(id, flags)
}

/// `waitpid(2)`, `WNOHANG`, of a child.
///
/// # Errors
/// The system's.
pub fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let _fault = enter(Call::Waitpid)?;
    child.try_wait()
}

/// `waitpid(2)`, of a child.
///
/// # Errors
/// The system's.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let _fault = enter(Call::Waitpid)?;
    child.wait()
}

/// `kill(2)`, `SIGKILL`, of a child.
///
/// # Errors
/// The system's.
pub fn kill_child(child: &mut Child) -> io::Result<()> {
    let _fault = enter(Call::Kill)?;
    child.kill()
}

/// `readlink(2)`: the path of this program.
///
/// # Errors
/// The system's.
pub fn current_exe() -> io::Result<PathBuf> {
    let _fault = enter(Call::Readlink)?;
    std::env::current_exe()
}

/// `getcwd(2)`.
///
/// # Errors
/// The system's.
pub fn current_dir() -> io::Result<PathBuf> {
    let _fault = enter(Call::Getcwd)?;
    std::env::current_dir()
}

/// `prctl(2)`, `PR_SET_PDEATHSIG`.
///
/// # Errors
/// The system's.
pub fn set_pdeathsig(signal: crate::signal::Signal) -> Result<(), Errno> {
    let _fault = enter(Call::Prctl)?;
    nix::sys::prctl::set_pdeathsig(signal)
}

/// `sched_getaffinity(2)`.
///
/// # Errors
/// The system's.
pub fn sched_getaffinity(process: Pid) -> Result<CpuSet, Errno> {
    let _fault = enter(Call::SchedGetaffinity)?;
    nix::sched::sched_getaffinity(process)
}

/// `sched_setaffinity(2)`.
///
/// # Errors
/// The system's.
pub fn sched_setaffinity(process: Pid, cores: &CpuSet) -> Result<(), Errno> {
    let _fault = enter(Call::SchedSetaffinity)?;
    nix::sched::sched_setaffinity(process, cores)
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
