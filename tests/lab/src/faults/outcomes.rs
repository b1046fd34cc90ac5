//! Outcomes of calls: the errors that their manual pages have, falling short, and coming late.

use aldis_sys::plan::Outcome;
use aldis_sys::{Call, Errno};

/// Milliseconds of a call that sleeps: longer than what a rank waits for on this machine, far below
/// any patience.
const STALL_MS: u32 = 60;

/// The errors that a call is made to fail with.
pub(super) fn errors(call: Call) -> &'static [Errno] {
    use Errno::*;
    match call {
        Call::ProcessVmReadv | Call::ProcessVmWritev => &[EPERM, ENOMEM, EFAULT],
        Call::Read | Call::Readv => &[EIO, EINTR],
        Call::Write | Call::Writev => &[ENOSPC, EIO, EPIPE, EINTR],
        Call::Recv | Call::Recvmsg => &[ECONNRESET, ENOMEM, EINTR],
        Call::Send | Call::Sendmsg => &[EPIPE, ENOBUFS, ECONNRESET, EINTR],
        Call::Getrandom => &[ENOSYS, EAGAIN],
        Call::Accept => &[EMFILE, ECONNABORTED, EINTR],
        Call::Access | Call::Stat | Call::Readlink => &[EACCES, ENOENT],
        Call::Bind => &[EADDRINUSE, EACCES],
        Call::Chdir => &[ENOENT, EACCES],
        // The system has no way to refuse these on Linux: they are late alone.
        Call::ClockGettime | Call::SchedYield | Call::Uname => &[],
        Call::Connect => &[ECONNREFUSED, ETIMEDOUT, EINTR],
        Call::Dup | Call::EpollCreate | Call::Eventfd | Call::Signalfd | Call::Socket | Call::Socketpair => {
            &[EMFILE, ENOMEM]
        }
        Call::EpollCtl => &[ENOSPC, ENOMEM],
        Call::EpollWait | Call::Poll | Call::Ppoll => &[EINTR, ENOMEM],
        Call::Pipe2 => &[EMFILE, ENFILE],
        Call::Execve => &[EACCES, ENOMEM],
        Call::Fallocate | Call::Ftruncate => &[ENOSPC, EPERM, EINTR],
        Call::Fork => &[EAGAIN, ENOMEM],
        Call::Getcwd => &[ENOENT, EACCES],
        Call::Getifaddrs => &[ENOMEM],
        Call::Getsockname => &[ENOBUFS],
        Call::Kill => &[EPERM, ESRCH],
        Call::MemfdCreate => &[ENOMEM, EMFILE],
        Call::Mkdir => &[ENOSPC, EACCES],
        Call::Mmap | Call::Mprotect => &[ENOMEM, EACCES],
        Call::Madvise | Call::Munmap | Call::Nanosleep => &[EINVAL],
        Call::Open => &[EMFILE, EACCES, ENOENT],
        Call::SchedGetaffinity | Call::SchedSetaffinity | Call::Prctl => &[EPERM, EINVAL],
        Call::Setsockopt | Call::Getsockopt => &[ENOBUFS, EINVAL],
        Call::Waitid | Call::Waitpid => &[ECHILD, EINTR],
        _ => &[EIO],
    }
}

/// All that a call is made to come to.
pub(super) fn of(call: Call) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = errors(call).iter().copied().map(Outcome::Fails).collect();
    outcomes.extend(call.moves_bytes().then_some(Outcome::Short));
    outcomes.extend([Outcome::Stalls(STALL_MS), Outcome::Late(STALL_MS), Outcome::Stops]);
    outcomes
}

/// Returns true if a job has to come to its right end whatever it is that came to this, as nothing
/// has failed.
pub(super) fn is_harmless(call: Call, outcome: Outcome) -> bool {
    match outcome {
        // These carry messages of the wire-up, which come whole or not at all.
        Outcome::Short => !matches!(call, Call::Sendmsg | Call::Recvmsg),
        Outcome::Fails(errno) => errno == Errno::EINTR,
        Outcome::Stalls(_) | Outcome::Late(_) | Outcome::Stops => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_fails_is_late_and_falls_short_if_it_moves_bytes() {
        for &call in Call::ALL {
            let outcomes = of(call);
            let fails = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Fails(_)));
            assert!(fails || [Call::ClockGettime, Call::SchedYield, Call::Uname].contains(&call), "{call}");
            assert_eq!(outcomes.contains(&Outcome::Short), call.moves_bytes(), "{call}");
            assert!(outcomes.contains(&Outcome::Stops), "{call}");
        }
    }
}
