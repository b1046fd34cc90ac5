//! Machines that have too little of something, and ranks that stand still for a while. Segments are
//! anonymous memory (`leftovers` shows that they have no name), so there are no stale ones to be
//! found and no /dev/shm to be full: what can run out is memory, and it is counted and taken before
//! the first rank starts.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use aldis_linux::shape::NodePlan;
use nix::sys::signal::{Signal, kill};

use crate::harness::{RANK, begin, launch, program};
use crate::hosts::folder;

/// Runs a shell script in which `$RUN` is the launcher and `$RANK` the rank program.
fn shell(script: &str) -> Output {
    command(script).output().unwrap()
}

/// The shell that runs it.
fn command(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("RUN", program("aldis-run")).env("RANK", RANK);
    shell
}

#[track_caller]
fn says(output: &Output, code: i32, texts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is missing in {said}");
    }
}

#[test]
fn a_limit_of_files_is_told_with_need_and_have() {
    // In units of 512 bytes or of 1 KiB, by the shell: both are too little for two ranks.
    let bytes = NodePlan::of(2).unwrap().segment_bytes;
    let need = format!("no segments of {bytes} bytes for 2 ranks: not enough memory: ");
    says(&shell("ulimit -f 100; exec $RUN -n 2 $RANK greet"), 1, &[&need, "ulimit -f"]);
    let output = shell("ulimit -f 100; exec $RUN -n 2 --host local:a $RANK greet");
    says(&output, 1, &["host local:a: ", &need]);
}

#[test]
fn too_few_descriptors_are_told() {
    let output = shell("ulimit -n 20; exec $RUN -n 30 $RANK greet");
    says(&output, 1, &["Too many open files", "try ulimit -n 1024"]);
    // Whatever it is that there is none for.
    for most in [8, 9, 11, 14, 18, 24] {
        let output = shell(&format!("ulimit -n {most}; exec $RUN -n 4 $RANK greet"));
        says(&output, 1, &["Too many open files", "ulimit -n 1024"]);
    }
    // The soft limit alone is raised.
    let output = shell("ulimit -Sn 64; exec $RUN -n 24 $RANK greet");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = shell("ulimit -n 1024; exec $RUN -n 1024 $RANK greet");
    says(&output, 1, &["1024 ranks need 3089 descriptors, 1024 are allowed", "try ulimit -n 4096"]);
}

/// A start that waits for its ranks to join outlives the test's watchdog.
#[test]
fn a_start_that_is_refused_here_is_told_without_waiting_for_ranks() {
    for (script, texts) in [
        ("ulimit -n 20; exec $RUN --join-timeout 600 -n 30 $RANK greet", "Too many open files"),
        ("exec $RUN --join-timeout 600 -n 4 --arena 1000G $RANK greet", "a smaller --arena"),
        ("ulimit -f 100; exec $RUN --join-timeout 600 -n 2 $RANK greet", "not enough memory"),
    ] {
        launch(command(script)).wait().says(1, &[texts]);
    }
}

#[test]
fn a_rank_without_room_for_its_peers_segments_is_named() {
    // The program fits, 16 segments of 3.8 MiB do not.
    let output = shell("exec $RUN -n 16 sh -c 'ulimit -v 60000; exec $RANK greet'");
    let told = [
        "failed: cannot join the job: segment of rank ",
        "mmap failed: Out of memory",
        "bytes of addresses needed",
    ];
    says(&output, 1, &told);
}

/// Memory that does not fit is told with need and have, whatever it is for; no rank is ended by a
/// signal.
#[test]
fn a_rank_without_addresses_says_how_many_it_needs() {
    // Each rank wants its own first, and the first to fail is told of.
    let [tables, segment] = ["no memory for this rank's tables: ", "cannot join the job: segment of rank "];
    for (ranks, kib, what) in [(2, 14_000, segment), (2, 20_000, segment), (40, 16_000, tables)] {
        let output = shell(&format!("exec $RUN -n {ranks} sh -c 'ulimit -v {kib}; exec $RANK greet'"));
        let told = ["cannot join the job: ", what, ": mmap failed: ", " needed, ", " left (ulimit -v)"];
        says(&output, 1, &told);
    }
}

/// A library that stands in front of the system's `getrandom`, which has nothing to give; made by
/// the compiler that links Rust programs.
fn without_entropy() -> PathBuf {
    let folder = folder("entropy");
    let (source, library) = (folder.join("none.c"), folder.join("none.so"));
    let text = "#include <errno.h>\n#include <stddef.h>\n\
                long getrandom(void *to, size_t bytes, unsigned flags)\n\
                { (void)to, (void)bytes, (void)flags; errno = EAGAIN; return -1; }\n";
    fs::write(&source, text).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(made.unwrap().success());
    library
}

#[test]
fn no_job_begins_without_random_numbers() {
    let library = without_entropy();
    let told = "the system has no random numbers: getrandom is not ready";
    let preloaded = |script: &str| {
        let mut command = command(script);
        command.env("NONE", &library);
        launch(command).wait()
    };
    preloaded("export LD_PRELOAD=$NONE; exec $RUN -n 2 $RANK greet").says(1, &["aldis-run: ", told]);
    preloaded("export LD_PRELOAD=$NONE; exec $RANK greet").says(1, &["cannot join the job: ", told]);
    // One rank alone, which is told by the launcher.
    let script = "exec $RUN -n 2 sh -c '[ $ALDIS_RANK = 1 ] && export LD_PRELOAD=$NONE; exec $RANK greet'";
    preloaded(script).says(1, &["rank 1 ", "cannot join the job: ", told]);
}

/// A control group for one job, with a limit of memory; removed on drop.
struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// `None` where there can be none, with the reason on standard error.
    fn new(limit: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = |prefix: &str| {
            own.lines().find_map(|line| line.split_once(prefix)).map(|(_, path)| path.to_owned())
        };
        let name = format!("aldis-test-{}", std::process::id());
        let (folder, file) = match path(":memory:") {
            Some(path) => (format!("/sys/fs/cgroup/memory{path}/{name}"), "memory.limit_in_bytes"),
            None => (format!("/sys/fs/cgroup{}/{name}", path("0::")?), "memory.max"),
        };
        let made = fs::create_dir(&folder).and_then(|()| {
            let group = Self { folder: folder.clone().into() };
            fs::write(group.folder.join(file), limit).map(|()| group)
        });
        made.inspect_err(|error| eprintln!("skipped: no control group can be made here: {folder}: {error}"))
            .ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_control_group_that_is_too_small_is_told_before_anything_is_taken() {
    let Some(group) = ControlGroup::new("67108864") else { return };
    let enter = format!("echo $$ > '{}/cgroup.procs'; exec $RUN -n 64 $RANK greet", group.folder.display());
    // 64 ranks take 287 MiB.
    let output = shell(&enter);
    says(&output, 1, &["no segments of ", " bytes for 64 ranks: not enough memory: ", "control group"]);
}

#[test]
fn a_rank_that_stands_still_for_a_while_is_waited_for() {
    let mut job = begin(3, &[], "rounds");
    let pids = job.pids(3);
    job.line("a third is done");
    kill(pids[1], Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    kill(pids[1], Signal::SIGCONT).unwrap();
    let ended = job.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 3, "{ended:#?}");
}
