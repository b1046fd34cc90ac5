//! Processes of a job, found by a variable in their environment, which each child inherits.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use nix::unistd::Pid;

/// The time that processes have to go once their launcher has ended.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// The time between two looks at the processes.
const LOOK: Duration = Duration::from_millis(2);

/// A variable of the environment that the processes of one job have, and no others.
pub struct Mark(String);

/// A process of the job.
pub struct Process {
    /// The process id.
    pub pid: Pid,
    /// Set if it runs the program; others are agents, or not yet what they will be.
    pub is_rank: bool,
    /// Set if it is stopped.
    pub is_stopped: bool,
}

impl Mark {
    /// A mark for the job of this number; `name` is that of the chore.
    pub fn new(name: &str, number: u64) -> Self {
        Self(format!("{name}={}-{number}", std::process::id()))
    }

    /// The assignment, for `env`.
    pub fn assignment(&self) -> &str {
        &self.0
    }

    /// All processes of the job that have not ended, in the order of their ids.
    pub fn processes(&self) -> Vec<Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
        let mut found: Vec<Process> = pids.filter_map(|pid| self.process(pid)).collect();
        found.sort_by_key(|process| process.pid);
        found
    }

    /// The process, if it is one of the job's. One that has ended has no environment.
    fn process(&self, pid: Pid) -> Option<Process> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find(|variable| *variable == self.0.as_bytes())?;
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let is_rank = program.parent().is_some_and(|folder| folder.ends_with("examples"));
        Some(Process { pid, is_rank, is_stopped: state(pid) == Some('T') })
    }
}

/// The letter of proc(5) for the state of a process. Its name, which may hold anything, is in
/// parentheses before.
fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Remains of a job whose launcher has ended: processes, files, and all that was said.
pub struct Remains {
    /// By stream, line by line.
    pub said: Vec<Vec<String>>,
    /// Processes that are still there [`GONE_WITHIN`] later.
    processes: usize,
    /// Files in the folder for temporary ones.
    pub files: Vec<PathBuf>,
}

impl Remains {
    /// Waits until the processes of a job whose launcher has ended are gone, and its streams with
    /// them.
    pub fn of(mark: &Mark, streams: &[Receiver<String>], folder: &Path) -> Result<Self> {
        let until = Instant::now() + GONE_WITHIN;
        let mut processes = mark.processes().len();
        while processes > 0 && Instant::now() < until {
            thread::sleep(LOOK);
            processes = mark.processes().len();
        }
        let said = streams.iter().map(|lines| said(lines, until)).collect();
        let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        Ok(Self { said, processes, files })
    }

    /// The reason why these are too many.
    pub fn wrong(&self) -> Option<String> {
        if self.processes > 0 {
            return Some(format!("{} processes are left {} s later", self.processes, GONE_WITHIN.as_secs()));
        }
        (!self.files.is_empty()).then(|| format!("files are left: {:?}", self.files))
    }
}

/// All lines of a stream; one that is held open past the limit ends there.
fn said(lines: &Receiver<String>, until: Instant) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => said.push(line),
            Err(RecvTimeoutError::Disconnected) => return said,
            Err(RecvTimeoutError::Timeout) => {
                said.push("(the output is still held open)".into());
                return said;
            }
        }
    }
}
