//! Jobs leave nothing behind, whatever was killed.

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{RANK, becomes, begin, is_alive, start};

const SOON: Duration = Duration::from_secs(1);

/// Files and sockets with a name that one of these words of a job is in: its key, or one of its
/// processes. Other tests, which run meanwhile, have files of their own.
fn named(words: &[String]) -> BTreeSet<PathBuf> {
    let entries = ["/dev/shm", "/tmp"].into_iter().flat_map(read_dir).flatten().flatten();
    let is_of_job = |path: &PathBuf| words.iter().any(|word| path.to_string_lossy().contains(word));
    entries.map(|entry| entry.path()).filter(is_of_job).collect()
}

/// The job key in the names of the segments that a process has mapped: `/memfd:aldis-<key>-<rank>`.
pub(crate) fn job_key(pid: Pid) -> String {
    let maps = read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let name = maps.split("memfd:aldis-").nth(1).expect("a mapped segment");
    name.split('-').next().unwrap().to_owned()
}

/// Processes that have a segment of the job open or mapped.
pub(crate) fn holders(key: &str) -> Vec<PathBuf> {
    let holds = |process: &Path| {
        let open = read_dir(process.join("fd")).into_iter().flatten().flatten();
        let open = open.filter_map(|entry| read_link(entry.path()).ok());
        let maps = read_to_string(process.join("maps")).unwrap_or_default();
        maps.contains(key) || open.into_iter().any(|target| target.to_string_lossy().contains(key))
    };
    let processes = read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| holds(process)).collect()
}

#[test]
fn segments_have_no_name_and_go_with_the_last_rank() {
    let mut job = begin(3, &[], "stream");
    let pids = job.pids(3);
    let key = job_key(pids[1]);
    assert!(holders(&key).len() >= 4, "three ranks and the launcher's boards");
    let launcher = job.pid();
    let processes = pids.iter().chain([&launcher]).map(|pid| format!("aldis-{pid}"));
    let words: Vec<String> = processes.chain([key.clone()]).collect();
    assert_eq!(named(&words), BTreeSet::new(), "no file and no socket has a name");
    kill(pids[1], Signal::SIGKILL).unwrap();
    job.wait().says(137, &["rank 1 (pid"]);
    assert_eq!(holders(&key), Vec::<PathBuf>::new());
    assert_eq!(named(&words), BTreeSet::new());
}

#[test]
fn a_killed_launcher_takes_its_ranks_along() {
    let mut job = begin(3, &[], "hang");
    let pids = job.pids(3);
    let key = job_key(pids[0]);
    job.signal(Signal::SIGKILL);
    assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "ranks outlive their launcher");
    assert!(becomes(SOON, || holders(&key).is_empty()), "held by {:?}", holders(&key));
    assert_eq!(job.wait().code, None);
}

#[test]
fn ranks_behind_a_script_die_with_the_launcher_too() {
    // Not `exec`: the shell stands between the launcher and the rank.
    let script = format!("{RANK} hang; exit $?");
    let mut job = start(["-n", "2", "sh", "-c", &script]);
    let pids = job.pids(2);
    job.signal(Signal::SIGKILL);
    assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "ranks outlive their launcher");
}

#[test]
fn what_a_rank_has_started_ends_with_the_job() {
    let script = format!("sleep 1000 & echo rank $ALDIS_RANK has pid $!; exec {RANK} exit");
    let mut job = start(["-n", "2", "sh", "-c", &script]);
    let children = job.pids(2);
    job.wait().says(3, &["exited with code 3"]);
    assert!(becomes(SOON, || !children.iter().any(|pid| is_alive(*pid))), "background processes live on");
}
