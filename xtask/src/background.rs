//! Steps that run beside the others: a process of its own at low priority, which tells at its end.

use core::time::Duration;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use aldis_shell::steps::{Done, Run, Verdict};
use aldis_shell::{compiles, shell};
use anyhow::{Context, Result};

/// The steps that run beside the others: a process of its own, so that a step that is ended takes
/// none of theirs with it.
pub(crate) struct Background {
    process: Child,
    log: PathBuf,
    report: PathBuf,
    /// Bytes of the log that have been shown.
    shown: usize,
}

/// The time between two looks for a step's end.
const LOOK: Duration = Duration::from_millis(200);

impl Background {
    /// Starts the steps of these names at low priority.
    pub(crate) fn start(target: &Path, names: &[&'static str], full: bool) -> Result<Self> {
        let [log, report] = ["log", "report"].map(|kind| target.join(format!("background.{kind}")));
        // One of an earlier run says nothing about these.
        let _ = fs::remove_file(&report);
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new("nice");
        command.args(["-n", "15"]).arg(env::current_exe()?).args(["test", "--report"]).arg(&report);
        command.args(names.iter().flat_map(|name| ["--step", name]));
        command.args(full.then_some("--full"));
        command.envs(compiles::log().map(|log| (compiles::LOG, log)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("starting `{}`", shell::spell(&command)))?;
        Ok(Self { process, log, report, shown: 0 })
    }

    /// Waits for the end of one of them, shows what they have said meanwhile, and notes how it
    /// went.
    pub(crate) fn join(&mut self, name: &str, run: &mut Run) -> Result<()> {
        let done = loop {
            // Before the look: what it has noted at its end is there then.
            let ended = self.process.try_wait()?;
            let said = fs::read_to_string(&self.report).unwrap_or_default();
            let mut outcomes = said.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
            match (outcomes.find(|done| done.step == name), ended) {
                (Some(done), _) => break done,
                (None, Some(status)) => {
                    break Done {
                        step: name.into(),
                        seconds: 0.0,
                        verdict: Verdict::Failed,
                        outcome: format!("FAILED: what ran it ended before, {status}"),
                    };
                }
                (None, None) => thread::sleep(LOOK),
            }
        };
        let log = fs::read(&self.log)?;
        eprint!("{}", String::from_utf8_lossy(log.get(self.shown..).unwrap_or_default()));
        self.shown = log.len();
        run.note(done);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
