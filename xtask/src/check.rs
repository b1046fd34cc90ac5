//! `cargo xtask check`: a quick verdict on a change. What it touches is formatted, linted and
//! tested, then what stands above it, nearest first, for as long as there is time.

mod change;
mod clock;
mod plan;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::workspace::{self, Workspace};
use aldis_shell::{limit, shell};
use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use self::change::ChangeSet;
use self::clock::TaskTimes;
use self::plan::{CheckTask, TaskKind};
use crate::{arrows, fences};

/// Seconds within which there is a verdict: of a change, and of one of schedules or drivers alone.
const SECONDS: f64 = 60.0;
const SECONDS_OF_PART: f64 = 20.0;
/// The least time that a task gets that has begun.
const LEAST_S: f64 = 1.0;
/// The time that it takes to end what is not done in time.
const ENDING_S: f64 = 1.0;

/// Formats, lints and tests what a change touches, then what stands above it, and says what it left
/// out.
///
/// The change is what differs from the upstream branch, committed or not, or what is named. Tasks
/// run nearest first, within a minute; of schedules alone, or of drivers alone, first those tests
/// that are theirs by name, within 20 s. One that took longer the last time than there is time left
/// is left out, one that does not end in time is ended, and the commands that run them are printed.
/// What was changed is linted and its tests are built however long that takes, which is long in a
/// tree where nothing is built yet. Before a merge, `cargo xtask test` proves everything.
#[derive(Args)]
pub(crate) struct Check {
    /// Only these files or folders instead of what git tells
    paths: Vec<PathBuf>,
    /// All that differs from this commit [default: the upstream branch, or HEAD where there is
    /// none]
    #[arg(long, value_name = "REV", conflicts_with = "paths")]
    since: Option<String>,
    /// Begin no task that would end later than this [default: 60; for schedules or drivers alone
    /// 20]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Leave nothing out
    #[arg(long, conflicts_with = "seconds")]
    all: bool,
    /// Print the tasks and what each took the last time, and end
    #[arg(long)]
    list: bool,
    /// Print one JSON object a task, and a verdict as the last
    #[arg(long)]
    json: bool,
}

/// The report of a task.
struct TaskReport {
    name: String,
    seconds: f64,
    /// `None` if it was left out.
    error: Option<Option<String>>,
    /// The command that repeats it.
    command: String,
}

/// A check under way.
struct CheckSession<'a> {
    options: &'a Check,
    workspace: &'a Workspace,
    clock: TaskTimes,
    start: Instant,
    /// Seconds within which there is a verdict.
    seconds: f64,
    went: Vec<TaskReport>,
}

impl Check {
    pub(crate) fn run(self) -> Result<()> {
        let start = Instant::now();
        let workspace = Workspace::members()?;
        let change = match &self.paths[..] {
            [] => ChangeSet::of_git(self.since.as_deref(), &workspace)?,
            paths => ChangeSet::of_paths(paths, &workspace)?,
        };
        eprintln!("{change}");
        let tasks = plan::tasks(&change, &workspace);
        let mut session = CheckSession {
            options: &self,
            workspace: &workspace,
            clock: TaskTimes::load(&workspace.target),
            start,
            seconds: self.seconds.unwrap_or(if change.part().is_some() { SECONDS_OF_PART } else { SECONDS }),
            went: Vec::new(),
        };
        if self.list {
            session.list(&tasks);
            return Ok(());
        }
        tasks.iter().for_each(|task| session.go(task));
        session.clock.save()?;
        session.tell();
        session.judge()
    }
}

impl CheckSession<'_> {
    fn list(&self, tasks: &[CheckTask]) {
        let mut table = Table::new(["task", "seconds the last time", "command"]);
        for task in tasks {
            let seconds = self.clock.last(&task.name);
            let seconds = seconds.map_or_else(|| "-".into(), |seconds| format!("{seconds:.1}"));
            table.row([task.name.clone(), seconds, task.command()]);
        }
        println!("{table}");
    }

    /// Returns true if a task that took so long the last time would end too late.
    fn is_late(&self, last: Option<f64>) -> bool {
        let spent = self.start.elapsed().as_secs_f64();
        !self.options.all && spent + last.unwrap_or_default() + ENDING_S > self.seconds
    }

    fn go(&mut self, task: &CheckTask) {
        // What was changed is always looked at: a verdict that leaves it out would be none.
        if !task.is_near && self.is_late(self.clock.last(&task.name)) {
            self.leave_out(&task.name, task.command());
            return;
        }
        let limit = if task.is_near { None } else { self.left() };
        match &task.work {
            TaskKind::Tests { .. } => self.tests(task, limit),
            _ => {
                let outcome = |work: &TaskKind| match work {
                    TaskKind::Arrows => arrows::check(),
                    TaskKind::Fences => fences::check(),
                    _ => shell::run(&mut work.cargo()).map(|()| Outcome::Passed(String::new())),
                };
                self.timed(&task.name, task.command(), limit, || outcome(&task.work).map(drop));
            }
        }
    }

    /// Builds the tests of packages and runs their programs, those that end soon first.
    fn tests(&mut self, task: &CheckTask, limit: Option<Duration>) {
        let (mut programs, workspace) = (Vec::new(), self.workspace);
        self.timed(&task.name, task.command(), limit, || {
            programs = plan::programs(&task.work, workspace)?;
            Ok(())
        });
        let mut known: Vec<(f64, plan::TestProgram)> = programs
            .into_iter()
            .map(|program| (self.clock.last(&program.title()).unwrap_or_default(), program))
            .collect();
        known.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (last, program) in known {
            let command = program.command();
            if self.is_late(Some(last)) {
                self.leave_out(&program.title(), command);
            } else {
                self.timed(&program.title(), command, self.left(), || program.run());
            }
        }
    }

    /// The time that is left; `None` if there is no bound.
    fn left(&self) -> Option<Duration> {
        let left = self.seconds - ENDING_S - self.start.elapsed().as_secs_f64();
        (!self.options.all).then(|| Duration::from_secs_f64(left.max(LEAST_S)))
    }

    fn leave_out(&mut self, name: &str, command: String) {
        self.clock.pass_over(name);
        self.note(TaskReport { name: name.into(), seconds: 0.0, error: None, command });
    }

    /// Does a task. One that is not done within the limit is ended and counts as left out: what it
    /// has built stays for the next time.
    fn timed(
        &mut self,
        name: &str,
        command: String,
        limit: Option<Duration>,
        work: impl FnOnce() -> Result<()>,
    ) {
        let start = Instant::now();
        let result = match limit {
            Some(limit) => limit::within(limit, work),
            None => work(),
        };
        let took = start.elapsed();
        let seconds = took.as_secs_f64();
        let error = result.err().map(|error| format!("{error:#}"));
        let is_ended = error.is_some() && limit.is_some_and(|limit| took >= limit);
        if error.is_none() || is_ended {
            self.clock.note(name, seconds);
        }
        let error = if is_ended { None } else { Some(error) };
        self.note(TaskReport { name: name.into(), seconds, error, command });
    }

    fn note(&mut self, went: TaskReport) {
        if self.options.json {
            let TaskReport { name, seconds, error, command } = &went;
            let outcome = match error {
                None => "left out",
                Some(None) => "good",
                Some(Some(_)) => "failed",
            };
            println!("{}", json!({"task": name, "outcome": outcome, "seconds": seconds, "command": command}));
        } else if let Some(error) = &went.error {
            let word = if error.is_some() { "FAILED" } else { "good" };
            eprintln!(
                "{:6.1} s  {:5.1} s  {word}  {}",
                self.start.elapsed().as_secs_f64(),
                went.seconds,
                went.name
            );
        }
        if let Some(Some(error)) = &went.error {
            eprintln!("{error}\nrepeat it with\n  {}", went.command);
        }
        self.went.push(went);
    }

    fn count(&self, is: impl Fn(&TaskReport) -> bool) -> usize {
        self.went.iter().filter(|went| is(went)).count()
    }

    /// Says what was left out.
    fn tell(&self) {
        let mut left = BTreeMap::<&str, Vec<&str>>::new();
        for went in self.went.iter().filter(|went| went.error.is_none()) {
            left.entry(&went.command).or_default().push(&went.name);
        }
        if self.options.json || left.is_empty() {
            return;
        }
        eprintln!("left out for want of time; run");
        for (command, names) in left {
            eprintln!("  {command}    # {}", names.join(", "));
        }
    }

    fn judge(&self) -> Result<()> {
        let failed = self.count(|went| matches!(went.error, Some(Some(_))));
        let left = self.count(|went| went.error.is_none());
        let (tasks, seconds) = (self.went.len(), self.start.elapsed().as_secs_f64());
        if self.options.json {
            println!("{}", json!({"tasks": tasks, "failed": failed, "left_out": left, "seconds": seconds}));
        }
        if failed > 0 {
            bail!("verdict: {failed} of {tasks} tasks failed, after {seconds:.0} s");
        }
        if !self.options.json {
            println!(
                "verdict: {} of {tasks} tasks are good, {left} left out, after {seconds:.0} s",
                tasks - left
            );
        }
        Ok(())
    }
}

/// Cargo in this checkout.
fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(arguments);
    cargo
}
