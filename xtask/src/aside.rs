//! Steps that run beside the others: a process of its own at low priority, which tells at its end.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::shell;
use crate::steps::{Done, Run, Verdict};

/// The steps that run beside the others: a process of its own, so that a step that is ended takes none of theirs with it.
pub(crate) struct Aside {
    process: Child,
    log: PathBuf,
    report: PathBuf,
    names: Vec<&'static str>,
    is_over: bool,
}

impl Aside {
    /// Starts the steps of these names at low priority.
    pub(crate) fn start(target: &Path, names: &[&'static str]) -> Result<Self> {
        let [log, report] = ["log", "report"].map(|kind| target.join(format!("aside.{kind}")));
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new("nice");
        command.args(["-n", "15"]).arg(env::current_exe()?).args(["test", "--report"]).arg(&report);
        command.args(names.iter().flat_map(|name| ["--step", name]));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("starting `{}`", shell::spell(&command)))?;
        Ok(Self { process, log, report, names: names.to_vec(), is_over: false })
    }

    /// Waits for their end once, shows what they said, and notes how each went.
    pub(crate) fn join(&mut self, run: &mut Run) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        self.is_over = true;
        let status = self.process.wait()?;
        eprint!("{}", String::from_utf8_lossy(&fs::read(&self.log)?));
        let said = fs::read_to_string(&self.report).unwrap_or_default();
        for name in &self.names {
            let mut outcomes = said.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
            let done = outcomes.find(|done| done.step == *name);
            run.note(done.unwrap_or_else(|| Done {
                step: (*name).into(),
                seconds: 0.0,
                verdict: Verdict::Failed,
                outcome: format!("FAILED: what ran it ended before, {status}"),
            }));
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
