//! The report of how a job ended, in words and in JSON.

use core::fmt;
use core::time::Duration;

use aldis_run::command_line::{MPIEXEC, own_name};
use aldis_sys::signal::Signal;
use serde::Serialize;

use crate::host_fault::HostFault;
use crate::messages::RankNote;
use crate::rank_state::{Exit, RankFault, RankStage};

/// The reason why the job was ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// This rank was the first to fail.
    Rank { rank: u32, fault: RankFault },
    /// This host, by place, was the first to fail.
    Host { host: usize, fault: HostFault },
    /// These ranks did not join in time.
    JoinTimeout { missing: Vec<(u32, RankStage)>, after: Duration },
    /// `--timeout`.
    Timeout { after: Duration },
    /// The user's signal, passed on to the ranks.
    Interrupted(Signal),
}

/// The activity of a rank when the job was ended.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) rank: u32,
    pub(crate) pid: u32,
    /// The host on which it ran, if there are several hosts.
    pub(crate) host: Option<String>,
    /// The content of its board.
    pub(crate) note: RankNote,
    /// The end of its process, if that had come by then.
    pub(crate) exit: Option<Exit>,
    /// The fault that was found with it by then.
    pub(crate) fault: Option<String>,
}

impl Snapshot {
    /// Returns true if there is something to tell of it.
    const fn is_notable(&self) -> bool {
        self.exit.is_none() || self.fault.is_some()
    }

    /// Its process, and where that ran.
    fn process(&self) -> String {
        match &self.host {
            Some(host) => format!("(pid {} on {host})", self.pid),
            None => format!("(pid {})", self.pid),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} {}: ", self.rank, self.process())?;
        match &self.fault {
            Some(fault) => write!(f, "{fault}; it was: {}", self.note.doing),
            None => f.write_str(&self.note.doing),
        }
    }
}

/// The end of a job that did not end well.
#[derive(Debug)]
pub(crate) struct JobVerdict {
    pub(crate) cause: Cause,
    /// Since the start.
    pub(crate) after: Duration,
}

/// A verdict with all there is to tell about it.
#[derive(Debug)]
pub(crate) struct FailureReport<'a> {
    pub(crate) verdict: &'a JobVerdict,
    /// The hosts' names, if they are worth telling.
    pub(crate) hosts: &'a [Option<String>],
    /// Every rank, when the cause was noticed and before any rank was ended for it.
    pub(crate) ranks: &'a [Snapshot],
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
            Self::Rank { fault: RankFault::Ended(Exit::Signal(_)), .. } => "killed",
            Self::Rank { fault: RankFault::Ended(Exit::Code(_) | Exit::Unknown), .. } => "exited",
            Self::Rank { fault: RankFault::NeverJoined(_), .. } => "never-joined",
            Self::Rank { fault: RankFault::NeverLeft, .. } => "never-left",
            Self::Rank { fault: RankFault::Aborted { .. }, .. } => "aborted",
            Self::Rank { fault: RankFault::Failed { .. }, .. } => "failed",
            Self::Rank { fault: RankFault::Wire { .. } | RankFault::Cut { .. }, .. } => "wire-up",
            Self::Host { fault: HostFault::Refused(_), .. } => "not-started",
            Self::Host { fault: HostFault::Lost { .. }, .. } => "host-lost",
            Self::Host { fault: HostFault::Hung { .. }, .. } => "host-hung",
            Self::Host { .. } => "host-unreachable",
            Self::JoinTimeout { .. } => "join-timeout",
            Self::Timeout { .. } => "timeout",
            Self::Interrupted(_) => "interrupted",
        }
    }
}

/// The calls by which a program takes part in its job, as its writer knows them.
fn taking_part() -> &'static str {
    if own_name() == MPIEXEC { "MPI_Init (or MPI_Session_init)" } else { "aldis_linux::run (or Job::join)" }
}

impl FailureReport<'_> {
    /// The other ranks that there is something to tell of.
    fn others(&self) -> impl Iterator<Item = &Snapshot> {
        let culprit = self.verdict.cause.culprit();
        self.ranks.iter().filter(move |one| Some(one.rank) != culprit && one.is_notable())
    }

    fn headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self.verdict.after.as_secs_f64();
        match &self.verdict.cause {
            Cause::Rank { rank, fault } => {
                let culprit = self.ranks.iter().find(|one| one.rank == *rank);
                let process = culprit.map(Snapshot::process).unwrap_or_default();
                write!(f, "rank {rank} {process} {fault}, {after:.3} s after the start")?;
                if let Some(culprit) =
                    culprit.filter(|_| !matches!(fault, RankFault::Wire { .. } | RankFault::NeverJoined(_)))
                {
                    write!(f, "\n  it was: {}", culprit.note.doing)?;
                }
                if let RankFault::NeverJoined(_) = fault {
                    write!(f, "\n  a program takes part by calling {} in its main", taking_part())?;
                }
                Ok(())
            }
            Cause::Host { host, fault } => {
                if let Some(Some(name)) = self.hosts.get(*host) {
                    write!(f, "host {name}: ")?;
                }
                write!(f, "{fault}")
            }
            Cause::JoinTimeout { missing, after } => {
                write!(f, "not all ranks joined within {:.1} s (--join-timeout)", after.as_secs_f64())?;
                for (rank, stage) in missing {
                    let what = match stage {
                        RankStage::Started => format_args!("never called {}", taking_part()),
                        RankStage::Greeted => format_args!("did not get its inbox ready"),
                        _ => format_args!("did not get to know its peers"),
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

impl fmt::Display for FailureReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", own_name())?;
        self.headline(f)?;
        let count = self.others().count();
        if count > 0 {
            let noun = if count == 1 { "rank was" } else { "ranks were" };
            let word = if self.verdict.cause.culprit().is_some() { "other " } else { "" };
            write!(f, "\n  {count} {word}{noun} ended; what they were doing:")?;
        }
        self.others().try_for_each(|one| write!(f, "\n    {one}"))
    }
}

/// The report as one JSON object.
#[derive(Serialize)]
struct JobRecord<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    doing: String,
    waits: u64,
    yields: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// A job that is over.
pub(crate) struct FinishedJob {
    pub(crate) job: u64,
    pub(crate) exit_code: u8,
    /// The time since its start.
    pub(crate) after: Duration,
}

impl FinishedJob {
    /// The closing line for machines. `snapshots` are of the verdict's moment if there is one, of
    /// the end otherwise.
    pub(crate) fn json(&self, told: Option<&FailureReport<'_>>, snapshots: &[Snapshot]) -> String {
        let ranks = snapshots.iter().map(|one| RankRecord {
            rank: one.rank,
            pid: one.pid,
            host: one.host.clone(),
            doing: one.note.doing.clone(),
            waits: one.note.waits,
            yields: one.note.yields,
            exit: one.exit.map(|exit| exit.to_string()),
            fault: one.fault.clone(),
        });
        let verdict = told.map(|told| told.verdict);
        let text = |told: &FailureReport<'_>| told.to_string().lines().next().unwrap_or_default().to_owned();
        let record = JobRecord {
            job: format!("{:016x}", self.job),
            verdict: verdict.map_or("ok", |verdict| verdict.cause.word()),
            exit_code: self.exit_code,
            seconds: verdict.map_or(self.after, |verdict| verdict.after).as_secs_f64(),
            rank: verdict.and_then(|verdict| verdict.cause.culprit()),
            text: told.map(text),
            ranks: ranks.collect(),
        };
        serde_json::to_string(&record).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn finished(exit_code: u8, after: Duration) -> FinishedJob {
        FinishedJob { job: 7, exit_code, after }
    }

    fn snapshots(host: Option<&str>) -> Vec<Snapshot> {
        let note = |doing: &str| RankNote { doing: doing.into(), waits: 1, yields: 0 };
        let host = host.map(str::to_owned);
        let waits = note("recv of 8 bytes from rank 1, tag 7, communicator 0, waiting 1.5 s");
        let killed = Some(Exit::Signal(9));
        vec![
            Snapshot { rank: 0, pid: 10, host: host.clone(), note: waits, exit: None, fault: None },
            Snapshot { rank: 1, pid: 11, host, note: note("computing"), exit: killed, fault: None },
        ]
    }

    #[test]
    fn a_death_names_rank_signal_and_what_everybody_did() {
        let cause = Cause::Rank { rank: 1, fault: RankFault::Ended(Exit::Signal(9)) };
        let verdict = JobVerdict { cause, after: Duration::from_millis(250) };
        let ranks = snapshots(None);
        let told = FailureReport { verdict: &verdict, hosts: &[None], ranks: &ranks };
        assert_eq!(
            told.to_string(),
            "aldis-run: rank 1 (pid 11) was killed by SIGKILL (signal 9), 0.250 s after the start\n  \
             it was: computing\n  1 other rank was ended; what they were doing:\n    \
             rank 0 (pid 10): recv of 8 bytes from rank 1, tag 7, communicator 0, waiting 1.5 s"
        );
        let json = finished(137, verdict.after).json(Some(&told), &ranks);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["verdict"], "killed");
        assert_eq!(value["rank"], 1);
        assert_eq!(value["exit_code"], 137);
        assert_eq!(value["ranks"][1]["exit"], "was killed by SIGKILL (signal 9)");
    }

    #[test]
    fn a_host_that_fails_is_named_and_so_are_the_hosts_of_the_others() {
        let fault = HostFault::Lost { why: "ssh was killed by SIGKILL (signal 9)".into() };
        let verdict = JobVerdict { cause: Cause::Host { host: 1, fault }, after: Duration::from_secs(1) };
        let ranks = snapshots(Some("a"));
        let told =
            FailureReport { verdict: &verdict, hosts: &[Some("a".into()), Some("b".into())], ranks: &ranks };
        let text = told.to_string();
        assert!(
            text.starts_with("aldis-run: host b: is lost with its ranks: ssh was killed by SIGKILL"),
            "{text}"
        );
        assert!(
            text.contains("\n  1 rank was ended; what they were doing:\n    rank 0 (pid 10 on a): recv"),
            "{text}"
        );
        let json = finished(1, verdict.after).json(Some(&told), &ranks);
        assert!(json.contains(r#""verdict":"host-lost""#) && json.contains(r#""host":"a""#), "{json}");
    }

    #[test]
    fn a_good_end_is_told_too() {
        let line = finished(0, Duration::from_secs(1)).json(None, &[]);
        assert_eq!(
            line,
            r#"{"job":"0000000000000007","verdict":"ok","exit_code":0,"seconds":1.0,"ranks":[]}"#
        );
    }
}
