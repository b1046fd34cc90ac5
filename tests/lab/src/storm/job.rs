//! A job of a storm: its processes, what is done to them, and whether it ends as it must.

use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use aldis_shell::children::{Child, Folder, lines_of};
use aldis_shell::marked::{Mark, Process, Remains};
use anyhow::Result;
use nix::sys::signal::{Signal, kill};

use super::plan::{KINDS, Pause, StormPlan, Victim};

/// The time that a job may go on after the last signal: many times what it needs on two cores that
/// others use too.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// The time between two looks at the processes.
const LOOK: Duration = Duration::from_millis(2);
/// The words of a program on a result that is wrong, or of Rust on a bug.
const WRONG: [&str; 4] = ["differs", "is wrong", "panicked", "instead of"];
/// The variable by which the processes of a job are found.
const MARK: &str = "ALDIS_STORM";

/// A job that is under way.
struct Job {
    launcher: Child,
    mark: Mark,
}

/// Runs a job as planned; what was wrong with its end.
pub(super) fn run(programs: &Path, plan: &StormPlan) -> Result<Option<String>> {
    let folder = Folder::new()?;
    let mark = Mark::new(MARK, plan.seed);
    let mut command = Command::new("env");
    command.arg(mark.assignment()).arg(format!("TMPDIR={}", folder.path().display()));
    command.arg(programs.join("aldis-run")).args(["-n", &plan.ranks.to_string()]);
    command.args(KINDS[plan.kind].options);
    command.arg(programs.join("examples").join(plan.program[0])).args(&plan.program[1..]);
    let mut launcher = Child::start(&command)?;
    let streams: Vec<Receiver<String>> = launcher.streams().map(lines_of).collect();
    let mut job = Job { launcher, mark };
    for pause in &plan.pauses {
        job.pause(pause);
    }
    let hit = plan.kills.and_then(|(after, victim)| {
        thread::sleep(after);
        let hit = job.find(victim)?;
        kill(hit.pid, Signal::SIGKILL).ok().map(|()| hit)
    });
    let Some(status) = job.launcher.wait(Instant::now() + ENDS_WITHIN) else {
        return Ok(Some(format!("not over {} s after the last signal", ENDS_WITHIN.as_secs())));
    };
    let remains = Remains::of(&job.mark, &streams, folder.path())?;
    let said = remains.said.concat();
    let wrong = remains.wrong().or_else(|| judge(plan, hit.as_ref(), status, &said));
    Ok(wrong.map(|wrong| format!("{wrong}\n{}", said.join("\n"))))
}

/// Returns what is wrong with how the launcher ended and what it and the ranks said.
fn judge(plan: &StormPlan, hit: Option<&Process>, status: ExitStatus, said: &[String]) -> Option<String> {
    let says = |words: &str| said.iter().any(|line| line.contains(words));
    if let Some(words) = WRONG.iter().find(|words| says(words)) {
        return Some(format!("something says {words:?}"));
    }
    let fails = |what: &str| Some(format!("{what}, and the launcher ended with {status}"));
    match (plan.kills, hit) {
        (None, _) if status.success() => None,
        (None, _) => fails("no process was killed"),
        (Some(_), None) => fails("the job was over before anybody was killed"),
        (Some((_, Victim::Launcher)), _) if status.signal() == Some(Signal::SIGKILL as i32) => None,
        (Some((_, Victim::Launcher)), _) => fails("the launcher was killed"),
        (Some(_), Some(_)) if status.code().is_none_or(|code| code == 0) => fails("a process was killed"),
        (Some(_), Some(hit)) if hit.is_rank && !says(&format!("(pid {}", hit.pid)) => {
            Some(format!("the rank of process {} was killed, and the report does not name it", hit.pid))
        }
        (Some(_), Some(_)) if !says("SIGKILL") => Some("no report tells of SIGKILL".into()),
        _ => None,
    }
}

impl Job {
    /// Stops a process for a time. One that has ended meanwhile needs no more.
    fn pause(&mut self, pause: &Pause) {
        thread::sleep(pause.after);
        if let Some(process) = self.find(pause.victim)
            && kill(process.pid, Signal::SIGSTOP).is_ok()
        {
            thread::sleep(pause.time);
            let _ = kill(process.pid, Signal::SIGCONT);
        }
    }

    /// The launcher.
    fn itself(&self) -> Process {
        Process { pid: self.launcher.pid(), is_rank: false, is_stopped: false }
    }

    /// The victim, once there is one; `None` if the job is over.
    fn find(&mut self, victim: Victim) -> Option<Process> {
        let until = Instant::now() + ENDS_WITHIN;
        loop {
            if self.launcher.wait(Instant::now()).is_some() || Instant::now() >= until {
                return None;
            }
            match victim {
                Victim::Launcher => return Some(self.itself()),
                Victim::Other(number) => {
                    let mut others = self.mark.processes();
                    others.retain(|process| process.pid != self.launcher.pid());
                    if !others.is_empty() {
                        let index = (number % others.len() as u64) as usize;
                        return Some(others.swap_remove(index));
                    }
                }
            }
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;

    /// A status as wait(2) tells it.
    const KILLED: i32 = Signal::SIGKILL as i32;
    const FAILED: i32 = 1 << 8;

    fn judged(victim: Option<Victim>, is_rank: bool, status: i32, said: &str) -> Option<String> {
        let mut plan = StormPlan::draw(0, None);
        plan.kills = victim.map(|victim| (Duration::ZERO, victim));
        let hit = Process { pid: Pid::from_raw(77), is_rank, is_stopped: false };
        judge(&plan, victim.map(|_| &hit), ExitStatus::from_raw(status), &[said.to_owned()])
    }

    #[test]
    fn each_wrong_end_is_reported() {
        let (launcher, other) = (Some(Victim::Launcher), Some(Victim::Other(0)));
        let report = "rank 1 (pid 77) was killed by SIGKILL (signal 9)";
        assert_eq!(judged(None, false, 0, ""), None);
        assert_eq!(judged(launcher, false, KILLED, ""), None);
        assert_eq!(judged(other, true, FAILED, report), None);
        assert_eq!(judged(other, false, FAILED, report), None);
        assert!(judged(None, false, FAILED, "").is_some(), "no process was killed");
        assert!(judged(None, false, 0, "digest 1 differs from 2").is_some());
        assert!(judged(launcher, false, 0, "").is_some());
        assert!(judged(other, true, 0, report).is_some(), "a kill is no success");
        assert!(judged(other, true, KILLED, report).is_some(), "only the rank was killed");
        assert!(judged(other, true, FAILED, &report.replace("77", "78")).is_some(), "another is blamed");
        assert!(judged(other, false, FAILED, "").is_some());
    }
}
