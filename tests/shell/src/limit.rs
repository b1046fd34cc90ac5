//! A limit of time for what runs other programs: when it is used up, all that was started is told
//! and ended.

use core::time::Duration;
use std::collections::HashMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use anyhow::{Result, anyhow};

/// Between two looks at what a step starts although its time is up.
const AGAIN: Duration = Duration::from_secs(1);

/// Does `work`, and ends the programs that it runs when it takes longer than `limit`: then it
/// fails, and the error names them.
pub fn within<R>(limit: Duration, work: impl FnOnce() -> Result<R>) -> Result<R> {
    within_of(|all| descendants(all, std::process::id()), limit, work)
}

/// Like [`within`], where `own` picks the processes that belong to the work.
fn within_of<R>(
    own: impl Fn(&[MachineProcess]) -> Vec<MachineProcess> + Send,
    limit: Duration,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let (done, watched) = mpsc::channel();
    thread::scope(|scope| {
        let watch = scope.spawn(move || watch(own, limit, &watched));
        let result = work();
        drop(done);
        let ran = watch.join().unwrap_or_default();
        if ran.is_empty() {
            return result;
        }
        let why = result.err().map_or_else(String::new, |error| format!("\n{error:#}"));
        Err(anyhow!("no end after {} s; what ran then was ended:\n{}{why}", limit.as_secs(), ran.join("\n")))
    })
}

/// Waits for the end of the work. What ran when that did not come in time, a line each.
fn watch(
    own: impl Fn(&[MachineProcess]) -> Vec<MachineProcess>,
    limit: Duration,
    done: &Receiver<()>,
) -> Vec<String> {
    let (mut wait, mut ran) = (limit, Vec::new());
    while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(wait) {
        let ended = end(&own);
        ran.extend(ended.iter().map(|process| format!("  {} {}", process.id, process.line)));
        if ran.is_empty() {
            ran.push("  nothing but this program itself".into());
        }
        wait = AGAIN;
    }
    ran
}

/// Ends all processes that `own` picks: each is stopped before any is ended, so that none that
/// starts another gets away.
fn end(own: impl Fn(&[MachineProcess]) -> Vec<MachineProcess>) -> Vec<MachineProcess> {
    let mut stopped: Vec<MachineProcess> = Vec::new();
    loop {
        let mut new = own(&processes());
        new.retain(|process| stopped.iter().all(|other| other.id != process.id));
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|process| signal("-STOP", process));
        stopped.extend(new);
    }
    stopped.iter().for_each(|process| signal("-KILL", process));
    stopped
}

/// Sends a signal to a process; one that has ended by itself meanwhile is no failure.
fn signal(signal: &str, process: &MachineProcess) {
    let _ = Command::new("kill").args([signal, &process.id.to_string()]).stderr(Stdio::null()).status();
}

/// A process of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
struct MachineProcess {
    id: u32,
    parent: u32,
    /// Its command line.
    line: String,
}

/// All processes, from proc(5); none where there is no such thing.
fn processes() -> Vec<MachineProcess> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let process = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned();
        Some(MachineProcess { id, parent: parent(&stat)?, line })
    };
    ids.filter_map(process).collect()
}

/// The parent in a line of /proc/PID/stat: the second word behind the program's name, which may
/// hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The children of a process and theirs, parents first.
fn descendants(all: &[MachineProcess], root: u32) -> Vec<MachineProcess> {
    let mut children: HashMap<u32, Vec<&MachineProcess>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut next): (Vec<MachineProcess>, u32) = (Vec::new(), root);
    for index in 0.. {
        found.extend(children.remove(&next).into_iter().flatten().cloned());
        match found.get(index) {
            Some(process) => next = process.id,
            None => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    #[test]
    fn what_takes_too_long_is_ended_and_named() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 8123 & sleep 8124"]);
        let own = |all: &[MachineProcess]| {
            let all = descendants(all, std::process::id());
            let is_there = |line: &str| all.iter().any(|process| process.line == line);
            // Other tests of this process have children too.
            let own = all.iter().filter(|process| process.line.contains("sleep 812"));
            if is_there("sleep 8123") && is_there("sleep 8124") { own.cloned().collect() } else { Vec::new() }
        };
        let error =
            within_of(own, Duration::from_millis(1), || shell::run(&mut command)).unwrap_err().to_string();
        assert!(error.contains("no end after") && error.contains("`sh -c"), "{error}");
        assert!(error.contains(" sleep 8123\n") && error.contains(" sleep 8124\n"), "{error}");
        // They are about to be gone.
        while processes().iter().any(|process| process.line.starts_with("sleep 812")) {
            thread::yield_now();
        }
    }

    #[test]
    fn what_ends_in_time_is_left_alone() {
        let result = within(Duration::from_secs(600), || shell::output(Command::new("echo").arg("7")));
        assert_eq!(result.unwrap().trim(), "7");
        let failed = within(Duration::from_secs(600), || shell::run(&mut Command::new("false"))).unwrap_err();
        assert!(failed.to_string().starts_with("`false` failed"), "{failed}");
    }

    #[test]
    fn families_are_found_parents_first() {
        let process = |id, parent| MachineProcess { id, parent, line: String::new() };
        let all = [process(5, 3), process(2, 1), process(3, 2), process(4, 9), process(6, 2)];
        let found: Vec<u32> = descendants(&all, 1).iter().map(|process| process.id).collect();
        assert_eq!(found, [2, 3, 6, 5]);
        assert_eq!(parent("17 (a) b (c) S 4 17 0"), Some(4));
    }
}
