//! One rank as the launcher sees it: its process, its status board, its conversation.

use aldis_host_sim::platform::monotonic_ns;
use aldis_host_sim::segment::BoardView;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::report::{Exit, Fault, Snapshot};
use crate::wire::{Conversation, LastWord, Stage};

/// A rank. When dropped, whatever is left of its process group is killed and its process taken off the table.
#[derive(Debug)]
pub(crate) struct Rank {
    number: u32,
    board: BoardView,
    /// Leads a process group of its own. Stays a zombie until the drop, so that the number cannot be another's.
    pid: Pid,
    /// The wire-up.
    pub(crate) talk: Conversation,
    /// How its process ended.
    pub(crate) exit: Option<Exit>,
}

impl Rank {
    /// A rank that has just been started.
    pub(crate) const fn new(number: u32, board: BoardView, pid: Pid, talk: Conversation) -> Self {
        Self { number, board, pid, talk, exit: None }
    }

    /// Its number.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Sends a signal to the rank and to whatever it has started.
    pub(crate) fn signal(&self, signal: Signal) {
        // A group that is gone needs no signal.
        let _ = killpg(self.pid, signal);
    }

    /// Asks whether the process has ended, leaving it on the process table.
    pub(crate) fn look_after(&mut self) {
        if self.exit.is_some() {
            return;
        }
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.exit = match waitid(Id::Pid(self.pid), flags) {
            Ok(WaitStatus::Exited(_, code)) => Some(Exit::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(Exit::Signal(Some(signal))),
            // The library has no name for real-time signals.
            Err(Errno::EINVAL) => Some(Exit::Signal(None)),
            _ => None,
        };
    }

    /// What is wrong with it, and whether that only came of another rank's failure.
    pub(crate) fn fault(&self) -> Option<(Fault, bool)> {
        let primary = |fault| Some((fault, false));
        match &self.talk.word {
            Some(LastWord::Aborted { code, text }) => {
                return primary(Fault::Aborted { code: *code, text: text.clone() });
            }
            Some(LastWord::Failed { text, consequence }) => {
                return Some((Fault::Failed { text: text.clone() }, *consequence));
            }
            Some(LastWord::Left) | None => {}
        }
        if let Some(error) = self.talk.error {
            return primary(Fault::Wire(error));
        }
        match self.exit? {
            exit @ Exit::Code(_) if self.talk.stage < Stage::Joined => primary(Fault::NeverJoined(exit)),
            Exit::Code(0) if self.talk.stage < Stage::Done => primary(Fault::NeverLeft),
            Exit::Code(0) => None,
            exit => primary(Fault::Ended(exit)),
        }
    }

    /// What it is doing now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let pid = self.talk.pid.unwrap_or_else(|| self.pid.as_raw().unsigned_abs());
        let state = self.board.board().read(monotonic_ns());
        let fault = self.fault().map(|(fault, _)| fault.to_string());
        Snapshot { rank: self.number, pid, state, exit: self.exit, fault }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}
