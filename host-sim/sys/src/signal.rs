//! This module holds `unsafe` code: a mask that nix sets without a look at the answer. Signals of
//! this process and to others.

use core::ptr;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal;
pub use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal};

use crate::call::Call;
use crate::fault::enter;
use crate::process::Pid;

/// The first of the real-time signals.
pub fn sigrtmin() -> libc::c_int {
    libc::SIGRTMIN()
}

/// `kill(2)`.
///
/// # Errors
/// The system's.
pub fn kill(process: Pid, signal: impl Into<Option<Signal>>) -> Result<(), Errno> {
    let _fault = enter(Call::Kill)?;
    signal::kill(process, signal)
}

/// `kill(2)`, of a process group.
///
/// # Errors
/// The system's.
pub fn killpg(group: Pid, signal: impl Into<Option<Signal>>) -> Result<(), Errno> {
    let _fault = enter(Call::Kill)?;
    signal::killpg(group, signal)
}

/// `kill(2)`, of this thread (`raise(3)`).
///
/// # Errors
/// The system's.
pub fn raise(own: Signal) -> Result<(), Errno> {
    let _fault = enter(Call::Kill)?;
    signal::raise(own)
}

/// `sigaction(2)`, as by `signal(2)`.
///
/// # Safety
/// As of [`nix::sys::signal::signal`].
///
/// # Errors
/// The system's.
pub unsafe fn signal(number: Signal, handler: SigHandler) -> Result<SigHandler, Errno> {
    let _fault = enter(Call::Sigaction)?;
    // SAFETY: as the caller promises.
    unsafe { signal::signal(number, handler) }
}

/// `sigprocmask(2)`, of this thread (`pthread_sigmask(3)`).
///
/// # Errors
/// The system's.
pub fn pthread_sigmask(how: SigmaskHow, mask: &SigSet) -> Result<(), Errno> {
    let _fault = enter(Call::Sigprocmask)?;
    // SAFETY: reads the mask alone.
    answer(unsafe { libc::pthread_sigmask(how as libc::c_int, mask.as_ref(), ptr::null_mut()) })
}

/// The answer of a function of POSIX threads: the number of the error, which nix takes for a
/// success.
fn answer(error: libc::c_int) -> Result<(), Errno> {
    if error == 0 { Ok(()) } else { Err(Errno::from_raw(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_of_this_thread_and_its_error_is_returned() {
        let mask: SigSet = [Signal::SIGUSR2].into_iter().collect();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, &mask).unwrap();
        assert!(SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR2));
        pthread_sigmask(SigmaskHow::SIG_SETMASK, &SigSet::empty()).unwrap();
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR2));
        assert_eq!(answer(libc::EINVAL), Err(Errno::EINVAL));
    }
}
