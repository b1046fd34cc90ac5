//! Jobs in which calls of the system fail, fall short or stall by a plan: the result is right, or
//! the error names the call.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aldis_sys::fault::{LOG_VARIABLE, PLAN_VARIABLE};

use crate::harness::{Ended, launch, program};
use crate::hosts::folder;
use crate::slurm::in_c;

/// A job of two ranks with a plan, and the log of the calls that it makes.
struct Trial {
    command: Command,
    log: PathBuf,
}

impl Trial {
    fn new(name: &str, plan: &str, options: &[&str]) -> Self {
        let log = folder(name).join("log");
        let mut command = Command::new(program("aldis-run"));
        command.env(PLAN_VARIABLE, plan).env(LOG_VARIABLE, &log).args(["-n", "2"]).args(options);
        Self { command, log }
    }

    /// The ring, whose ranks check every token.
    fn ring(name: &str, plan: &str, options: &[&str]) -> TrialEnd {
        let mut trial = Self::new(name, plan, options);
        trial.command.arg(program("examples").join("ring")).args(["--laps", "20"]);
        trial.run()
    }

    /// Runs it; returns its end and its log.
    fn run(self) -> TrialEnd {
        let ended = launch(self.command).wait();
        TrialEnd { ended, log: fs::read_to_string(self.log).unwrap_or_default() }
    }
}

/// The end of a job with a plan, and its log.
struct TrialEnd {
    ended: Ended,
    log: String,
}

/// The plan was for something that happened, and all the same the result is right.
#[track_caller]
fn is_right(TrialEnd { ended, log }: TrialEnd, fault: &str) {
    assert!(log.contains(fault), "{fault:?} is missing in {log}");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.out.contains("every token verified"), "{ended:#?}");
}

/// The plan was for something that happened, and the job fails soon with these words.
#[track_caller]
fn says(TrialEnd { ended, log }: TrialEnd, fault: &str, words: &[&str]) {
    assert!(log.contains(fault), "{fault:?} is missing in {log}");
    ended.says(1, words);
}

#[test]
fn calls_that_fall_short_stall_or_are_interrupted_change_no_result() {
    let short = "recv@5..=short; send@5..=short; write@2..+3=short; readv@1..=short";
    is_right(Trial::ring("short-tcp", short, &["--transport", "tcp"]), " -> short");
    let files = "read@1..=short; write@1..+2=short";
    is_right(Trial::ring("short-shm", files, &["--transport", "shm"]), " -> short");
    is_right(Trial::ring("short-agents", short, &["--host", "local:a,local:b"]), "agent");
    let late = "rank1:sendmsg@2=stall:100; launcher:recvmsg@3=late:100; rank0:mmap@1=stall:50";
    is_right(Trial::ring("late", late, &["--transport", "shm"]), "-> stall:100");
    let again = "recv@2..+2=EINTR; poll@1..+2=EINTR; sendmsg@1..+2=EINTR; read@1..+2=EINTR";
    is_right(Trial::ring("again", again, &["--transport", "tcp"]), "-> EINTR");
    // The last read of a rank's socket, after its process has ended, is among them.
    let last = "launcher:recvmsg@1..+2=EINTR; launcher:read@1..+2=EINTR";
    is_right(Trial::ring("last", last, &["--transport", "shm"]), "-> EINTR");
}

#[test]
fn a_rank_that_cannot_map_says_so() {
    let ended = Trial::ring("map", "rank1:mmap@2=ENOMEM", &["--transport", "shm"]);
    says(ended, "rank1", &["rank 1 ", "cannot join the job", "mmap failed: "]);
}

/// The end of a conversation is told at once by the process that finds it out, not when the time to
/// join is up. One that is reset is read once more, for the other side's last word: so every read
/// fails here.
#[test]
fn a_broken_conversation_is_reported_at_once_with_the_call() {
    let forever = ["--transport", "shm", "--join-timeout", "600"];
    for (name, plan, call) in [
        ("launcher-sends", "launcher:sendmsg@2=EPIPE", "sendmsg failed: Broken pipe"),
        ("launcher-hears", "launcher:recvmsg@2..=ECONNRESET", "recvmsg failed: Connection reset"),
        ("rank-sends", "rank1:sendmsg@2=EPIPE", "sendmsg failed: Broken pipe"),
        ("cut-off", "launcher:sendmsg@3=short", "sendmsg failed: Message too long"),
    ] {
        let (_, call_and_use) = plan.split_once(':').unwrap();
        let fault = call_and_use.replace("..", "").replace('@', " ").replace('=', " -> ");
        says(Trial::ring(name, plan, &forever), &fault, &[call]);
    }
}

#[test]
fn a_broken_connection_is_reported_with_the_call() {
    for (name, plan, call) in [
        ("received", "rank1:recv@20=ECONNRESET", "for rank 0, recv failed: Connection reset by peer"),
        ("option", "rank1:setsockopt@1..=ENOBUFS", "setsockopt: ENOBUFS"),
        ("name", "rank1:getsockname@1=ENOBUFS", "getsockname: ENOBUFS"),
    ] {
        let (_, call_and_use) = plan.split_once(':').unwrap();
        let (first, _) = call_and_use.split_once('@').unwrap();
        says(Trial::ring(name, plan, &["--transport", "tcp"]), first, &[call]);
    }
}

#[test]
fn a_start_that_fails_names_the_call() {
    let ended = Trial::ring("fork", "launcher:fork@2=EAGAIN", &["--transport", "shm"]);
    says(ended, "fork 2 -> EAGAIN", &["cannot start ", "fork or execve failed: Resource temporarily"]);
    let ended = Trial::ring("mask", "launcher:sigprocmask@1=EINVAL", &["--transport", "shm"]);
    says(ended, "sigprocmask 1 -> EINVAL", &["sigprocmask failed: Invalid argument"]);
}

/// Containers may forbid a process to choose its cores.
#[test]
fn a_system_that_binds_no_rank_is_told_of_only_if_binding_was_asked_for() {
    let plan = "launcher:sched_setaffinity@1..=EPERM";
    let TrialEnd { ended, .. } = Trial::ring("unbound", plan, &["--transport", "shm"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let bound = Trial::ring("bound", plan, &["--transport", "shm", "--bind", "core"]);
    says(bound, "sched_setaffinity 1 -> EPERM", &["sched_setaffinity failed: Operation not permitted"]);
}

/// Programs in C make their calls through the same layer.
#[test]
fn a_program_in_c_is_right_or_names_the_call() {
    let Some((program, libraries)) = in_c(&folder("plans-in-c")) else { return };
    let run = |name: &str, plan: &str| {
        let mut trial = Trial::new(name, plan, &["--transport", "tcp"]);
        trial.command.env("LD_LIBRARY_PATH", &libraries).arg(&program);
        trial.run()
    };
    let TrialEnd { ended, log } = run("c-short", "recv@5..=short; send@3..+2=short; sendmsg@9..+5=stall:1");
    if !log.contains("rank0 ") {
        eprintln!(
            "skipped: libmpi_abi.so is built without the feature faults, as cargo test --workspace has it"
        );
        return;
    }
    assert!(log.contains(" -> short"), "{log}");
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "[0] ok\n"), "{ended:#?}");
    let TrialEnd { ended, log } = run("c-received", "rank1:recv@20=ECONNRESET");
    assert!(log.contains(" -> ECONNRESET") && ended.code.is_some_and(|code| code != 0), "{ended:#?}");
    assert!(ended.err.contains("for rank 0, recv failed: Connection reset by peer"), "{ended:#?}");
    says(run("c-maps", "rank1:mmap@2=ENOMEM"), "rank1", &["MPI_Init: cannot join the job", "mmap failed: "]);
}

/// The start of many ranks keeps a process from all else, which it has told those that it is linked
/// with: it is not taken for hung.
#[test]
fn a_start_that_takes_longer_than_hosts_may_be_silent_is_waited_for() {
    let chain = ["--host", "local:a,local:b", "--fanout", "1", "--host-timeout", "1"];
    is_right(Trial::ring("slow-agents", "agent:fallocate@1=stall:2500", &chain), "-> stall:2500");
    for (name, hosts) in [("slow-launcher", "localhost,local:b"), ("slow-last", "local:b,localhost")] {
        let own = ["--host", hosts, "--host-timeout", "1"];
        is_right(Trial::ring(name, "launcher:fallocate@1=stall:2500", &own), "-> stall:2500");
    }
}
