//! Signals as file events: children's ends and what the user sends to the launcher.

use std::os::fd::{AsFd, BorrowedFd};

use aldis_sys::Errno;
use aldis_sys::event::{SfdFlags, SignalFd};
use aldis_sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};

use crate::error::{LaunchError, system};
use crate::spawn;

/// Signals that are passed on to the ranks as they are.
const FORWARDED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// Signals that stop and continue the job as a whole.
const JOB_CONTROL: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGCONT];

/// Signals that ask for the job's end.
pub(crate) const fn ends_a_job(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

/// The launcher's signals, blocked and read one by one.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: SignalFd,
}

impl Signals {
    /// Takes over the signals of this process. Children must clear their mask (they do, in
    /// `spawn`).
    pub(crate) fn take_over() -> Result<Self, LaunchError> {
        spawn::keep_ends().map_err(system("sigaction"))?;
        let mask: SigSet = FORWARDED.into_iter().chain(JOB_CONTROL).chain([Signal::SIGCHLD]).collect();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, &mask).map_err(system("sigprocmask"))?;
        let queue = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let queue = queue.map_err(system("signalfd"))?;
        Ok(Self { queue })
    }

    /// The next signal, if there is one. A child's end is `SIGCHLD`; which child it was is asked of
    /// each child.
    ///
    /// # Errors
    /// The system's, of `read`.
    pub(crate) fn next(&self) -> Result<Option<Signal>, Errno> {
        let info = match self.queue.read_signal() {
            Err(Errno::EINTR) => None,
            info => info?,
        };
        let number = info.and_then(|info| i32::try_from(info.ssi_signo).ok());
        Ok(number.and_then(|number| Signal::try_from(number).ok()))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
