//! A rank as its node sees it: its process, its status board, its conversation.

use aldis_linux::platform::monotonic_ns;
use aldis_linux::segment::BoardView;
use aldis_sys::Errno;
use aldis_sys::process::{Id, Pid, WaitPidFlag, WaitStatus, waitid, waitpid};
use aldis_sys::signal::{Signal, killpg, sigrtmin};

use crate::messages::RankNote;
use crate::rank_state::{Exit, RankState};
use crate::wire::{Conversation, WireUpJob};

/// A rank. When dropped, whatever is left of its process group is killed and its process taken off
/// the table.
#[derive(Debug)]
pub(crate) struct Rank {
    number: u32,
    board: BoardView,
    /// Leads a process group of its own. Stays a zombie until the drop, so that the number cannot
    /// be another's.
    pid: Pid,
    /// The wire-up.
    pub(crate) conversation: Conversation,
    /// Its progress.
    pub(crate) state: RankState,
    /// True if its socket has something for it to be listened to.
    pub(crate) is_ready: bool,
    /// Its progress as the launcher knows it.
    told: Option<RankState>,
}

impl Rank {
    /// A rank that has just been started.
    pub(crate) const fn new(number: u32, board: BoardView, pid: Pid, conversation: Conversation) -> Self {
        let state = RankState::new(pid.as_raw().unsigned_abs());
        Self { number, board, pid, conversation, state, is_ready: false, told: None }
    }

    /// Its number.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Receives its messages.
    pub(crate) fn listen(&mut self) {
        self.conversation.listen(&mut self.state);
    }

    /// Sends it what it is to be told.
    pub(crate) fn speak(&mut self, job: &WireUpJob) {
        self.conversation.speak(&mut self.state, job);
    }

    /// Sends a signal to the rank and to whatever it has started, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.state.exit.is_none() {
            // A group that is gone needs no signal.
            let _ = killpg(self.pid, signal);
        }
    }

    /// Asks whether the process has ended, leaving it on the process table.
    pub(crate) fn look_after(&mut self) {
        if self.state.exit.is_some() {
            return;
        }
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.state.exit = match waitid(Id::Pid(self.pid), flags) {
            Ok(WaitStatus::Exited(_, code)) => Some(Exit::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(Exit::Signal(signal as i32)),
            // The library has no name for real-time signals.
            Err(Errno::EINVAL) => Some(Exit::Signal(sigrtmin())),
            Err(Errno::ECHILD) => Some(Exit::Unknown),
            _ => None,
        };
    }

    /// Returns its progress, if that has not been told yet.
    pub(crate) fn news(&mut self) -> Option<RankState> {
        if self.told.as_ref() == Some(&self.state) {
            return None;
        }
        self.told = Some(self.state.clone());
        self.told.clone()
    }

    /// Returns what it is doing now.
    pub(crate) fn note(&self) -> RankNote {
        let state = self.board.board().read(monotonic_ns());
        RankNote { doing: state.to_string(), waits: state.waits, yields: state.yields }
    }

    /// Ends the process and its group without waiting for that.
    pub(crate) fn kill(&self) {
        // The group outlives its leader as long as something in it runs.
        let _ = killpg(self.pid, Signal::SIGKILL);
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.kill();
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}
