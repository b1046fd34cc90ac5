//! Steps that run beside the others: processes of their own at low priority, which tell at their
//! end.

use core::time::Duration;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use aldis_shell::steps::{Done, Run, Verdict};
use aldis_shell::{compiles, shell};
use anyhow::{Context, Result};

/// The steps that run beside the others: in processes of their own, so that a step that is ended
/// takes none of theirs with it. There are two: while the others wait, there is work for both
/// cores.
pub(crate) struct Background {
    lanes: Vec<Lane>,
}

/// A process that does one of the steps after the other that no other lane has begun.
struct Lane {
    process: Child,
    log: PathBuf,
    report: PathBuf,
    /// Bytes of the log that have been shown.
    shown: usize,
}

/// The time between two looks for a step's end.
const LOOK: Duration = Duration::from_millis(200);
/// Their niceness, the utmost: the steps beside which they run have deadlines.
const PRIORITY: &str = "19";

impl Background {
    /// Starts the steps of these names at low priority.
    pub(crate) fn start(target: &Path, names: &[&'static str], full: bool) -> Result<Self> {
        let folder = target.join("background");
        // What an earlier run has left says nothing about this one.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let lanes = ["one", "other"].map(|lane| Lane::start(&folder, lane, names, full));
        Ok(Self { lanes: lanes.into_iter().collect::<Result<_>>()? })
    }

    /// Waits for the end of one of them, shows what its lane has said meanwhile, and notes how it
    /// went.
    pub(crate) fn join(&mut self, name: &str, run: &mut Run) -> Result<()> {
        loop {
            // Before the look: what they have noted at their end is there then.
            let mut ended = Vec::new();
            for lane in &mut self.lanes {
                ended.extend(lane.process.try_wait()?);
            }
            if let Some((lane, done)) =
                self.lanes.iter_mut().find_map(|lane| lane.outcome(name).map(|done| (lane, done)))
            {
                lane.show()?;
                run.note(done);
                return Ok(());
            }
            if ended.len() == self.lanes.len() {
                self.lanes.iter_mut().try_for_each(Lane::show)?;
                run.note(lost(name, &ended));
                return Ok(());
            }
            thread::sleep(LOOK);
        }
    }
}

/// A step that no lane has told the end of, although all have ended.
fn lost(name: &str, ended: &[ExitStatus]) -> Done {
    let how: Vec<String> = ended.iter().map(ExitStatus::to_string).collect();
    Done {
        step: name.into(),
        seconds: 0.0,
        processor: 0.0,
        verdict: Verdict::Failed,
        outcome: format!("FAILED: what ran it ended before, {}", how.join("; ")),
    }
}

impl Lane {
    fn start(folder: &Path, lane: &str, names: &[&str], full: bool) -> Result<Self> {
        let [log, report] = ["log", "report"].map(|kind| folder.join(format!("{lane}.{kind}")));
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new("nice");
        command.args(["-n", PRIORITY]).arg(env::current_exe()?).args(["test", "--report"]).arg(&report);
        command.arg("--claims").arg(folder);
        command.args(names.iter().flat_map(|name| ["--step", name]));
        command.args(full.then_some("--full"));
        command.envs(compiles::log().map(|log| (compiles::LOG, log)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("starting `{}`", shell::spell(&command)))?;
        Ok(Self { process, log, report, shown: 0 })
    }

    /// Returns the report of a step that this lane has done.
    fn outcome(&self, name: &str) -> Option<Done> {
        let said = fs::read_to_string(&self.report).unwrap_or_default();
        let mut outcomes = said.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
        outcomes.find(|done| done.step == name)
    }

    /// Shows what it has said since.
    fn show(&mut self) -> Result<()> {
        let log = fs::read(&self.log)?;
        eprint!("{}", String::from_utf8_lossy(log.get(self.shown..).unwrap_or_default()));
        self.shown = log.len();
        Ok(())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Claims a step for this process: true if no other one that uses the folder has.
pub(crate) fn claim(folder: &Path, step: &str) -> bool {
    File::create_new(folder.join(format!("{step}.claim"))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_claimed_once() {
        let folder = env::temp_dir().join(format!("aldis-claims-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(claim(&folder, "loom") && claim(&folder, "miri"));
        assert!(!claim(&folder, "loom"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
