//! This module holds `unsafe` code: calls that `nix` has no function for. Sleeping on a word of
//! memory that processes share, and barriers in their streams of instructions.

use core::ffi::{c_int, c_long};
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::time::TimeSpec;

use crate::call::Call;
use crate::fault::enter;

/// `futex(2)`, `FUTEX_WAIT`: sleeps while the word has this value, until a process wakes those that
/// sleep on it, but no longer than this.
///
/// # Errors
/// The system's: `EAGAIN` for another value, `ETIMEDOUT`, `EINTR`.
pub fn futex_wait(word: &AtomicU32, value: u32, limit: Duration) -> Result<(), Errno> {
    let _fault = enter(Call::Futex)?;
    let limit = TimeSpec::from_duration(limit);
    // SAFETY: the system reads the word, an atomic, and the time, both borrowed for the call.
    let waited = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, ptr::from_ref(limit.as_ref()))
    };
    Errno::result(waited).map(drop)
}

/// `futex(2)`, `FUTEX_WAKE`: wakes all that sleep on the word, in whatever process; returns how
/// many it was.
///
/// # Errors
/// The system's.
pub fn futex_wake(word: &AtomicU32) -> Result<c_long, Errno> {
    let _fault = enter(Call::Futex)?;
    // SAFETY: the system takes the address of the word for a name.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
    Errno::result(woken)
}

/// A command of `membarrier(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Membarrier {
    /// `MEMBARRIER_CMD_GLOBAL_EXPEDITED`: a barrier in the stream of instructions of every thread
    /// of processes that have registered for it.
    GlobalExpedited = libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED,
    /// `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED`: registers this process.
    RegisterGlobalExpedited = libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
}

/// `membarrier(2)`.
///
/// # Errors
/// The system's: `ENOSYS` where it has none, `EPERM` where a filter refuses it.
pub fn membarrier(command: Membarrier) -> Result<(), Errno> {
    let _fault = enter(Call::Membarrier)?;
    // SAFETY: it touches no memory.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, command as c_int, 0, 0) };
    Errno::result(done).map(drop)
}
