//! How a job ended, in words and in JSON.

use core::fmt;
use core::time::Duration;

use aldis_host_sim::board::State;
use aldis_host_sim::wireup::WireError;
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::wire::Stage;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal; `None` for one without a name (a real-time signal).
    Signal(Option<Signal>),
}

impl Exit {
    /// The shell's code for it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code & 0xFF).unwrap_or(1),
            Self::Signal(signal) => 128 + signal.map_or(34, |signal| signal as i32 as u8),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(Some(signal)) => write!(f, "was killed by {signal} (signal {})", *signal as i32),
            Self::Signal(None) => f.write_str("was killed by a real-time signal"),
        }
    }
}

/// What a rank did wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Its process ended by a signal or with a code.
    Ended(Exit),
    /// It ended well, but before it had joined.
    NeverJoined(Exit),
    /// It ended with code 0 and without leaving.
    NeverLeft,
    /// It ended the job on purpose.
    Aborted { code: i32, text: String },
    /// Its program returned an error or panicked.
    Failed { text: String },
    /// It broke the wire-up protocol.
    Wire(WireError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(exit) => write!(f, "{exit}"),
            Self::NeverJoined(exit) => write!(f, "{exit} before it had joined the job"),
            Self::NeverLeft => f.write_str("exited with code 0 without leaving the job"),
            Self::Aborted { code, text } if text.is_empty() => write!(f, "aborted the job with code {code}"),
            Self::Aborted { code, text } => write!(f, "aborted the job with code {code}: {text}"),
            Self::Failed { text } => write!(f, "failed: {text}"),
            Self::Wire(error) => write!(f, "could not be brought into the job: {error}"),
        }
    }
}

/// Why the job was ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// This rank was the first to fail.
    Rank { rank: u32, fault: Fault },
    /// These ranks did not join in time.
    JoinTimeout { missing: Vec<(u32, Stage)>, after: Duration },
    /// `--timeout`.
    Timeout { after: Duration },
    /// The user's signal, passed on to the ranks.
    Interrupted(Signal),
}

/// What a rank was doing when the job was ended.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) rank: u32,
    pub(crate) pid: u32,
    /// What its board said; a rank that had left is not asked.
    pub(crate) state: State,
    /// How its process had ended by then.
    pub(crate) exit: Option<Exit>,
    /// What was wrong with it by then.
    pub(crate) fault: Option<String>,
}

impl Snapshot {
    /// Whether there is something to tell of it.
    const fn is_notable(&self) -> bool {
        self.exit.is_none() || self.fault.is_some()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (pid {}): ", self.rank, self.pid)?;
        match &self.fault {
            Some(fault) => write!(f, "{fault}; it was: {}", self.state),
            None => self.state.fmt(f),
        }
    }
}

/// The end of a job that did not end well.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) cause: Cause,
    /// Since the start.
    pub(crate) after: Duration,
    /// Every rank, when the cause was noticed and before anyone was ended for it.
    pub(crate) ranks: Vec<Snapshot>,
}

impl Cause {
    fn culprit(&self) -> Option<u32> {
        match self {
            Self::Rank { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    /// A word for machines.
    const fn word(&self) -> &'static str {
        match self {
            Self::Rank { fault: Fault::Ended(Exit::Signal(_)), .. } => "killed",
            Self::Rank { fault: Fault::Ended(Exit::Code(_)), .. } => "exited",
            Self::Rank { fault: Fault::NeverJoined(_), .. } => "never-joined",
            Self::Rank { fault: Fault::NeverLeft, .. } => "never-left",
            Self::Rank { fault: Fault::Aborted { .. }, .. } => "aborted",
            Self::Rank { fault: Fault::Failed { .. }, .. } => "failed",
            Self::Rank { fault: Fault::Wire(_), .. } => "wire-up",
            Self::JoinTimeout { .. } => "join-timeout",
            Self::Timeout { .. } => "timeout",
            Self::Interrupted(_) => "interrupted",
        }
    }
}

impl Verdict {
    /// The other ranks that there is something to tell of.
    fn others(&self) -> impl Iterator<Item = &Snapshot> {
        let culprit = self.cause.culprit();
        self.ranks.iter().filter(move |one| Some(one.rank) != culprit && one.is_notable())
    }

    fn headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self.after.as_secs_f64();
        match &self.cause {
            Cause::Rank { rank, fault } => {
                let culprit = self.ranks.iter().find(|one| one.rank == *rank);
                let pid = culprit.map_or(0, |one| one.pid);
                write!(f, "rank {rank} (pid {pid}) {fault}, {after:.3} s after the start")?;
                if let Some(culprit) =
                    culprit.filter(|_| !matches!(fault, Fault::Wire(_) | Fault::NeverJoined(_)))
                {
                    write!(f, "\n  it was: {}", culprit.state)?;
                }
                if let Fault::NeverJoined(_) = fault {
                    f.write_str(
                        "\n  a program takes part by calling aldis_host_sim::run (or Job::join) in its main",
                    )?;
                }
                Ok(())
            }
            Cause::JoinTimeout { missing, after } => {
                write!(f, "not all ranks joined within {:.1} s (--join-timeout)", after.as_secs_f64())?;
                for (rank, stage) in missing {
                    let what = match stage {
                        Stage::Started => "never called aldis_host_sim::run (or Job::join)",
                        Stage::Greeted => "did not get its inbox ready",
                        _ => "did not get to know its peers",
                    };
                    write!(f, "\n  rank {rank} {what}")?;
                }
                Ok(())
            }
            Cause::Timeout { after } => write!(f, "timed out after {:.1} s (--timeout)", after.as_secs_f64()),
            Cause::Interrupted(signal) => write!(f, "ended by {signal}, {after:.3} s after the start"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("aldis-run: ")?;
        self.headline(f)?;
        let count = self.others().count();
        if count > 0 {
            let noun = if count == 1 { "rank was" } else { "ranks were" };
            let word = if self.cause.culprit().is_some() { "other " } else { "" };
            write!(f, "\n  {count} {word}{noun} ended; what they were doing:")?;
        }
        self.others().try_for_each(|one| write!(f, "\n    {one}"))
    }
}

/// The report as one JSON object.
#[derive(Serialize)]
struct Record<'a> {
    job: String,
    verdict: &'a str,
    exit_code: u8,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    ranks: Vec<RankRecord>,
}

#[derive(Serialize)]
struct RankRecord {
    rank: u32,
    pid: u32,
    doing: String,
    waits: u64,
    yields: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// The closing line for machines. `snapshots` are those of the verdict if there is one, of the end otherwise.
pub(crate) fn json(
    job: u64,
    verdict: Option<&Verdict>,
    snapshots: &[Snapshot],
    exit_code: u8,
    after: Duration,
) -> String {
    let ranks = snapshots.iter().map(|one| RankRecord {
        rank: one.rank,
        pid: one.pid,
        doing: one.state.to_string(),
        waits: one.state.waits,
        yields: one.state.yields,
        exit: one.exit.map(|exit| exit.to_string()),
        fault: one.fault.clone(),
    });
    let text = |verdict: &Verdict| verdict.to_string().lines().next().unwrap_or_default().to_owned();
    let record = Record {
        job: format!("{job:016x}"),
        verdict: verdict.map_or("ok", |verdict| verdict.cause.word()),
        exit_code,
        seconds: verdict.map_or(after, |verdict| verdict.after).as_secs_f64(),
        rank: verdict.and_then(|verdict| verdict.cause.culprit()),
        text: verdict.map(text),
        ranks: ranks.collect(),
    };
    serde_json::to_string(&record).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

#[cfg(test)]
mod tests {
    use aldis_hal::{Activity, Operation, PeerId};
    use aldis_host_sim::board::{Board, Phase};

    use super::*;

    fn snapshots() -> Vec<Snapshot> {
        let board = Board::default();
        board.enter(Phase::Running);
        let idle = board.read(0);
        board.note(
            Activity {
                operation: Operation::Recv,
                peer: Some(PeerId(1)),
                tag: Some(7),
                context: 0,
                bytes: 8,
            },
            0,
        );
        let state = board.read(1_500_000_000);
        vec![
            Snapshot { rank: 0, pid: 10, state, exit: None, fault: None },
            Snapshot {
                rank: 1,
                pid: 11,
                state: idle,
                exit: Some(Exit::Signal(Some(Signal::SIGKILL))),
                fault: None,
            },
        ]
    }

    #[test]
    fn a_death_names_rank_signal_and_what_everybody_did() {
        let fault = Fault::Ended(Exit::Signal(Some(Signal::SIGKILL)));
        let verdict = Verdict {
            cause: Cause::Rank { rank: 1, fault },
            after: Duration::from_millis(250),
            ranks: snapshots(),
        };
        assert_eq!(
            verdict.to_string(),
            "aldis-run: rank 1 (pid 11) was killed by SIGKILL (signal 9), 0.250 s after the start\n  \
             it was: computing\n  1 other rank was ended; what they were doing:\n    \
             rank 0 (pid 10): recv of 8 bytes from rank 1, tag 7, communicator 0, waiting 1.5 s"
        );
        let json = json(7, Some(&verdict), &verdict.ranks, 137, verdict.after);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["verdict"], "killed");
        assert_eq!(value["rank"], 1);
        assert_eq!(value["exit_code"], 137);
        assert_eq!(value["ranks"][1]["exit"], "was killed by SIGKILL (signal 9)");
    }

    #[test]
    fn ends_have_the_shells_codes() {
        assert_eq!(Exit::Code(3).code(), 3);
        assert_eq!(Exit::Signal(Some(Signal::SIGKILL)).code(), 137);
        assert_eq!(Exit::Signal(None).code(), 162);
    }

    #[test]
    fn a_good_end_is_told_too() {
        let line = json(7, None, &[], 0, Duration::from_secs(1));
        assert_eq!(
            line,
            r#"{"job":"0000000000000007","verdict":"ok","exit_code":0,"seconds":1.0,"ranks":[]}"#
        );
    }
}
