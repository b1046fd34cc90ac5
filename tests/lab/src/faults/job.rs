//! A job whose calls fail by a plan, and the judgement of its end.

use core::time::Duration;
use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use aldis_shell::children::{Child, Folder, lines_of};
use aldis_shell::marked::{Mark, Remains};
use aldis_sys::fault::{LOG_VARIABLE, PLAN_VARIABLE};
use aldis_sys::plan::{CallPlan, Outcome, PlannedProcess, Rule};
use aldis_sys::{Call, Errno};
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::outcomes;
use super::programs::FaultPrograms;
use super::scenario::Scenario;

/// The time that a job may take: many times what it needs on two cores that others use too.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// The time that a process stays stopped.
const STOPPED_FOR: Duration = Duration::from_millis(300);
/// The time between two looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
/// Words of a program for a wrong result, of Rust for a bug, and of the launcher for a crash.
const WRONG: [&str; 8] =
    ["differs", "is wrong", "checks failed", "panicked", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL"];
/// The launcher's exit code when its output is not read.
const UNREAD: i32 = 128 + Signal::SIGPIPE as i32;
/// The variable by which the processes of a job are found.
const MARK: &str = "ALDIS_FAULTS_JOB";

/// A use of a call by a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Use {
    pub(super) process: PlannedProcess,
    pub(super) call: Call,
    pub(super) number: u32,
}

/// The end of a job.
#[derive(Debug)]
pub(super) struct JobEnd {
    /// The uses that were noted.
    pub(super) uses: Vec<Use>,
    /// Set if a call came to what the plan has.
    pub(super) is_hit: bool,
    /// Set if it ended with the right result.
    pub(super) is_right: bool,
    /// Lines that the program has printed.
    pub(super) lines: usize,
    /// The reason why it must not have ended so.
    pub(super) wrong: Option<String>,
}

/// Runs a job as planned.
/// `lines` are those that the program prints if nothing fails.
pub(super) fn run(
    programs: &FaultPrograms,
    scenario: &Scenario,
    plan: &CallPlan,
    lines: Option<usize>,
) -> Result<JobEnd> {
    let (folder, notes) = (Folder::new()?, Folder::new()?);
    let log = notes.path().join("log");
    let mark = Mark::new(MARK, 0);
    let mut command = Command::new("env");
    command.arg(mark.assignment()).arg(format!("TMPDIR={}", folder.path().display()));
    command.arg(format!("{PLAN_VARIABLE}={plan}")).arg(format!("{LOG_VARIABLE}={}", log.display()));
    if !scenario.options.is_empty() {
        command.arg(programs.debug.join("aldis-run")).args(scenario.options);
    }
    command.arg(programs.path(scenario)).args(&scenario.program[1..]);
    let mut launcher = Child::start(&command)?;
    let streams: Vec<Receiver<String>> = launcher.streams().map(lines_of).collect();
    let stops = plan.rules.iter().any(|rule| rule.outcome == Outcome::Stops);
    let status = if stops { wait(&mut launcher, &mark) } else { launcher.wait(Instant::now() + ENDS_WITHIN) };
    let Some(status) = status else {
        let wrong = Some(format!("not over after {} s", ENDS_WITHIN.as_secs()));
        return Ok(JobEnd { uses: Vec::new(), is_hit: true, is_right: false, lines: 0, wrong });
    };
    let mut remains = Remains::of(&mark, &streams, folder.path())?;
    let (printed, said) = (remains.said.first().map_or(0, Vec::len), remains.said.concat());
    if plan.rules.iter().any(|rule| rule.call == Call::Unlink) {
        remains.files.clear();
    }
    // There is none where no call was made.
    let (uses, is_hit) = read(&fs::read_to_string(&log).unwrap_or_default())?;
    let is_lost = status.success() && lines.is_some_and(|lines| lines != printed);
    let lost = is_lost.then(|| format!("{printed} lines of output, and exit code 0"));
    let wrong = remains.wrong().or(lost).or_else(|| judge(plan, status, &said));
    let wrong = wrong.map(|wrong| format!("{wrong}\n{}", said.join("\n")));
    Ok(JobEnd { uses, is_hit, is_right: status.success(), lines: printed, wrong })
}

/// Waits for the launcher's end, and continues each process some time after it has stopped itself.
fn wait(launcher: &mut Child, mark: &Mark) -> Option<ExitStatus> {
    let until = Instant::now() + ENDS_WITHIN;
    let mut stopped = HashMap::<Pid, Instant>::new();
    loop {
        let now = Instant::now();
        if let Some(status) = launcher.wait(now + LOOK) {
            return Some(status);
        }
        if now >= until {
            return None;
        }
        for process in mark.processes().into_iter().filter(|process| process.is_stopped) {
            if now.duration_since(*stopped.entry(process.pid).or_insert(now)) >= STOPPED_FOR {
                // One that has ended meanwhile needs no more.
                let _ = kill(process.pid, Signal::SIGCONT);
                stopped.remove(&process.pid);
            }
        }
    }
}

/// The uses that a log notes, and whether it notes a fault.
fn read(log: &str) -> Result<(Vec<Use>, bool)> {
    let mut is_hit = false;
    let uses = log.lines().map(|line| {
        let (noted, outcome) = line.split_once(" -> ").map_or((line, None), |(noted, of)| (noted, Some(of)));
        is_hit |= outcome.is_some();
        let words: Vec<&str> = noted.split_whitespace().collect();
        let [process, _, call, number] = words[..] else { anyhow::bail!("the log of calls has {line:?}") };
        let call = Call::named(call).with_context(|| format!("the log of calls has {line:?}"))?;
        Ok(Use { process: process.parse()?, call, number: number.parse()? })
    });
    let uses = uses.collect::<Result<Vec<_>>>()?;
    Ok((uses, is_hit))
}

/// Returns the reason why the launcher must not have ended so, or not with these words.
fn judge(plan: &CallPlan, status: ExitStatus, said: &[String]) -> Option<String> {
    let says = |words: &str| said.iter().any(|line| line.contains(words));
    // Once no process reads what it prints, a program in Rust panics, as one in C is ended by
    // SIGPIPE.
    let is_unread = says("failed printing to std");
    let mut wrong = WRONG.iter().filter(|words| !(is_unread && **words == "panicked"));
    if let Some(words) = wrong.find(|words| says(words)) {
        return Some(format!("something says {words:?}"));
    }
    // No process reads the output: ended in silence, as by SIGPIPE.
    let is_unread = |rule: &Rule| rule.outcome == Outcome::Fails(Errno::EPIPE) && rule.call == Call::Write;
    if status.success() || status.code() == Some(UNREAD) && plan.rules.iter().any(is_unread) {
        return None;
    }
    if let Some(signal) = status.signal() {
        return Some(format!("the launcher was ended by signal {signal}"));
    }
    if plan.rules.iter().all(|rule| outcomes::is_harmless(rule.call, rule.outcome)) {
        return Some(format!("nothing has failed, and the launcher ended with {status}"));
    }
    // The system cuts no message of the wire-up; one that the plan has cut is refused by its
    // reader.
    let is_cut = |rule: &Rule| rule.call == Call::Sendmsg && rule.outcome == Outcome::Short;
    let is_named = plan.rules.iter().any(|rule| {
        said.iter().any(|line| names(line, rule.call.name())) || is_cut(rule) && says("a wire-up message of")
    });
    let calls = plan.rules.iter().map(|rule| rule.call.name()).collect::<Vec<_>>().join(", ");
    (!is_named).then(|| format!("the launcher ended with {status}, and no line names {calls}"))
}

/// Returns true if the call's name is a word of the line, also with the number that a later form of
/// it has.
fn names(line: &str, call: &str) -> bool {
    let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.any(|word| word.strip_suffix('1').unwrap_or(word) == call)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statuses as wait(2) tells them.
    const KILLED: i32 = Signal::SIGKILL as i32;
    const FAILED: i32 = 1 << 8;

    fn judged(plan: &str, status: i32, said: &str) -> Option<String> {
        judge(&plan.parse().unwrap(), ExitStatus::from_raw(status), &[said.to_owned()])
    }

    #[test]
    fn each_wrong_end_is_reported() {
        let fails = "rank1:mmap@2=ENOMEM";
        assert_eq!(judged(fails, 0, ""), None, "it has gone another way");
        assert_eq!(judged(fails, FAILED, "mapping 4 MiB: mmap: out of memory"), None);
        assert!(judged(fails, FAILED, "mapping 4 MiB: out of memory").is_some(), "no call is named");
        assert!(judged(fails, FAILED, "mmaps: out of memory").is_some(), "another word");
        assert!(judged(fails, KILLED, "mmap: out of memory").is_some());
        assert!(judged(fails, 0, "digest 1 differs from 2").is_some());
        assert!(judged(fails, FAILED, "mmap: rank 1 was killed by SIGSEGV").is_some());
        for harmless in ["rank0:read@1=short", "rank0:read@1=EINTR", "read@1=stop", "read@1=late:5"] {
            assert!(judged(harmless, FAILED, "read: failed").is_some(), "{harmless} fails nothing");
        }
    }

    #[test]
    fn a_log_is_read_with_its_faults() {
        let (uses, is_hit) = read("rank1 77 recv 3  \nlauncher 78 poll 1\n").unwrap();
        let expected = Use { process: PlannedProcess::Rank(1), call: Call::Recv, number: 3 };
        assert!(uses.len() == 2 && uses[0] == expected && !is_hit);
        assert!(read("rank1 77 recv 3 -> short\n").unwrap().1);
        assert!(read("rank1 77 recv").is_err() && read("rank1 77 no_call 3").is_err());
    }
}
