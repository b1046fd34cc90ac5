//! The progress of a rank, and what is wrong with it: its node tells the launcher of these whenever
//! they change.

use core::fmt;

use aldis_sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// The progress of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum RankStage {
    /// The process was started.
    Started,
    /// The rank has sent hello.
    Greeted,
    /// Its card has come.
    Introduced,
    /// The rank knows its peers.
    Joined,
    /// The rank has sent its last message.
    Done,
}

/// A rank's last message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum LastMessage {
    /// The rank left in order; the calls that had failed for its peers, in words.
    Left { failures: String },
    /// The rank ends the job.
    Aborted { code: i32, text: String },
    /// Its program failed.
    Failed { text: String, consequence: bool },
}

/// The end of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Exit {
    /// By itself.
    Code(i32),
    /// By the signal of this number.
    Signal(i32),
    /// The process has ended, and the system does not say how: another caller was told.
    Unknown,
}

impl Exit {
    /// The shell's code for it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code & 0xFF).unwrap_or(1),
            Self::Signal(number) => u8::try_from(number).unwrap_or(0).saturating_add(128),
            Self::Unknown => 1,
        }
    }

    /// Returns true if this signal ended it.
    pub(crate) fn is_by(self, signal: Signal) -> bool {
        self == Self::Signal(signal as i32)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => match Signal::try_from(number) {
                Ok(signal) => write!(f, "was killed by {signal} (signal {number})"),
                Err(_) => write!(f, "was killed by a real-time signal ({number})"),
            },
            Self::Unknown => f.write_str("ended, and waitid does not say how (ECHILD)"),
        }
    }
}

/// The fault of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RankFault {
    /// Its process ended by a signal or with a code.
    Ended(Exit),
    /// The rank ended well, but before it had joined.
    NeverJoined(Exit),
    /// The rank ended with code 0 and without leaving.
    NeverLeft,
    /// The rank ended the job on purpose.
    Aborted { code: i32, text: String },
    /// Its program returned an error or panicked.
    Failed { text: String },
    /// The rank broke the wire-up protocol.
    Wire { text: String },
    /// Ended by itself, before it had joined or without leaving, and a call to exchange messages
    /// with it had failed.
    Cut { exit: Exit, text: String },
}

impl fmt::Display for RankFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(exit) => write!(f, "{exit}"),
            Self::NeverJoined(exit) => write!(f, "{exit} before it had joined the job"),
            Self::NeverLeft => f.write_str("exited with code 0 without leaving the job"),
            Self::Aborted { code, text } if text.is_empty() => write!(f, "aborted the job with code {code}"),
            Self::Aborted { code, text } => write!(f, "aborted the job with code {code}: {text}"),
            Self::Failed { text } => write!(f, "failed: {text}"),
            Self::Wire { text } => write!(f, "could not be brought into the job: {text}"),
            Self::Cut { exit, text } => write!(f, "{exit} after the launcher's {text}"),
        }
    }
}

/// All that the launcher knows of a rank while it runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RankState {
    /// Its progress.
    pub(crate) stage: RankStage,
    /// The process that speaks, which need not be the one that was started; 0 before there is any.
    pub(crate) pid: u32,
    /// Its last message.
    pub(crate) last: Option<LastMessage>,
    /// The error that it made in its wire-up.
    pub(crate) error: Option<String>,
    /// The call by which it was found that it neither receives nor sends any more.
    pub(crate) cut: Option<String>,
    /// The end of its process, once that has come.
    pub(crate) exit: Option<Exit>,
}

impl RankState {
    /// The state of a rank whose process is `pid`.
    pub(crate) const fn new(pid: u32) -> Self {
        Self { stage: RankStage::Started, pid, last: None, error: None, cut: None, exit: None }
    }

    /// Returns what may have cost a peer a message, of a rank that is all right itself.
    pub(crate) fn failures(&self) -> Option<&str> {
        match &self.last {
            Some(LastMessage::Left { failures }) if !failures.is_empty() => Some(failures),
            _ => None,
        }
    }

    /// Returns what had gone wrong in its wire-up before it said itself that it failed, in words.
    fn before_its_word(&self) -> String {
        match (&self.cut, &self.error) {
            (Some(cut), _) => format!("; before that the launcher's {cut}"),
            (None, Some(error)) => format!("; before that, in the launcher: {error}"),
            (None, None) => String::new(),
        }
    }

    /// Returns what is wrong with it, and true if that only came of another rank's failure.
    pub(crate) fn fault(&self) -> Option<(RankFault, bool)> {
        let primary = |fault| Some((fault, false));
        match &self.last {
            Some(LastMessage::Aborted { code, text }) => {
                return primary(RankFault::Aborted { code: *code, text: text.clone() });
            }
            Some(LastMessage::Failed { text, consequence }) => {
                let text = text.clone() + &self.before_its_word();
                return Some((RankFault::Failed { text }, *consequence));
            }
            Some(LastMessage::Left { .. }) | None => {}
        }
        if let Some(text) = &self.error {
            return primary(RankFault::Wire { text: text.clone() });
        }
        if let (Some(exit @ Exit::Code(code)), Some(text)) = (self.exit, &self.cut)
            && (self.stage < RankStage::Joined || code == 0 && self.stage < RankStage::Done)
        {
            return primary(RankFault::Cut { exit, text: text.clone() });
        }
        match self.exit? {
            exit @ Exit::Code(_) if self.stage < RankStage::Joined => primary(RankFault::NeverJoined(exit)),
            Exit::Code(0) if self.stage < RankStage::Done => primary(RankFault::NeverLeft),
            Exit::Code(0) => None,
            // It has said itself that all was well.
            Exit::Unknown if self.stage >= RankStage::Done => None,
            exit => primary(RankFault::Ended(exit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_the_shells_codes_and_names() {
        assert_eq!(Exit::Code(3).code(), 3);
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Signal(9).to_string(), "was killed by SIGKILL (signal 9)");
        assert_eq!(Exit::Unknown.code(), 1);
        assert_eq!(Exit::Signal(40).code(), 168);
        assert_eq!(Exit::Signal(40).to_string(), "was killed by a real-time signal (40)");
    }

    #[test]
    fn a_call_that_cut_a_rank_off_is_named() {
        let text = "sendmsg failed: Broken pipe".to_owned();
        let mut rank = RankState { stage: RankStage::Greeted, cut: Some(text.clone()), ..RankState::new(7) };
        assert_eq!(rank.fault(), None, "it may still say why");
        let exit = Exit::Code(1);
        rank.exit = Some(exit);
        assert_eq!(rank.fault(), Some((RankFault::Cut { exit, text: text.clone() }, false)));
        rank.last = Some(LastMessage::Failed { text: "no rank speaks".into(), consequence: true });
        let Some((RankFault::Failed { text: told }, true)) = rank.fault() else {
            panic!("its own word counts")
        };
        assert_eq!(told, format!("no rank speaks; before that the launcher's {text}"));
        // The launcher's own call failed, and the rank tells that no launcher speaks.
        (rank.cut, rank.error) = (None, Some("sendmsg failed: No buffer space available".into()));
        let Some((RankFault::Failed { text: told }, true)) = rank.fault() else {
            panic!("its own word counts")
        };
        assert!(told.ends_with("; before that, in the launcher: sendmsg failed: No buffer space available"));
        (rank.cut, rank.error) = (Some(text), None);
        (rank.last, rank.exit) = (None, Some(Exit::Signal(9)));
        assert_eq!(rank.fault(), Some((RankFault::Ended(Exit::Signal(9)), false)), "that is why it is gone");
        (rank.stage, rank.exit) = (RankStage::Done, Some(Exit::Code(0)));
        assert_eq!(rank.fault(), None);
    }

    #[test]
    fn a_last_word_weighs_more_than_the_end_after_it() {
        let mut rank = RankState { stage: RankStage::Joined, ..RankState::new(7) };
        assert_eq!(rank.fault(), None);
        rank.exit = Some(Exit::Code(0));
        assert_eq!(rank.fault(), Some((RankFault::NeverLeft, false)));
        rank.last = Some(LastMessage::Failed { text: "no".into(), consequence: true });
        assert_eq!(rank.fault(), Some((RankFault::Failed { text: "no".into() }, true)));
        rank.last = Some(LastMessage::Left { failures: String::new() });
        rank.exit = Some(Exit::Unknown);
        assert_eq!(rank.fault(), Some((RankFault::Ended(Exit::Unknown), false)));
        assert_eq!(rank.failures(), None);
        rank.last = Some(LastMessage::Left { failures: "; for rank 2, send failed".into() });
        assert_eq!(rank.failures(), Some("; for rank 2, send failed"));
        rank.stage = RankStage::Done;
        assert_eq!(rank.fault(), None);
    }
}
