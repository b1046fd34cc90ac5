//! Jobs on several nodes: shared memory within a node, TCP between nodes, and deaths that are told
//! across.

use core::time::Duration;
use std::collections::BTreeSet;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};

use crate::harness::{Ended, becomes, begin, behave, is_alive, program, run};
use crate::hosts::folder;
use crate::leftovers::{holders, job_key};

const SOON: Duration = Duration::from_secs(1);

/// Two nodes of two ranks, both on this machine.
const TWO: [&str; 2] = ["--host", "local:a,local:b"];

#[track_caller]
fn came_back(ended: &Ended, ranks: usize) {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), ranks, "{ended:#?}");
}

#[test]
fn messages_of_all_sizes_pass_between_nodes_and_within() {
    came_back(&behave(4, &TWO, "rounds"), 4);
    // The launcher's own node and an agent's.
    came_back(&behave(3, &["--host", "localhost,local:b"], "rounds"), 3);
}

#[test]
fn tcp_alone_serves_one_host() {
    came_back(&behave(3, &["--transport", "tcp"], "rounds"), 3);
    let ring = program("examples").join("ring");
    for options in
        [&["--tcp-links", "2"][..], &["--tcp-family", "4", "--tcp-buffers", "64K"], &["--tcp-include", "lo"]]
    {
        let mut line = vec!["-n", "2", "--transport", "tcp"];
        line.extend(options);
        line.extend([ring.to_str().unwrap(), "--json", "--laps", "20", "--words", "40000"]);
        let ended = run(line);
        assert!(ended.code == Some(0) && ended.out.contains("\"verified\":true"), "{options:?}: {ended:#?}");
    }
}

/// An attempt to connect to a rank that has left is no reason to stay.
#[test]
fn a_refused_connection_does_not_delay_leaving() {
    let before = Instant::now();
    let ended = behave(3, &["--transport", "tcp"], "leave early");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
}

/// Ranks that never had a connection with one that has left know of it as soon as they wait.
#[test]
fn a_wait_for_a_rank_that_left_unmet_ends_at_once() {
    let chain = ["--host", "local:a,local:b,local:c", "--transport", "tcp", "--fanout", "1"];
    for options in [&["--transport", "tcp"][..], &["--host", "local:a,local:b,local:c"], &chain] {
        let before = Instant::now();
        let ended = behave(3, options, "leave unmet");
        assert_eq!(ended.code, Some(1), "{options:?}: {ended:#?}");
        assert!(ended.err.contains("the peer has left the job"), "{options:?}: {ended:#?}");
        assert!(before.elapsed() < Duration::from_secs(10), "{options:?}: {:?}", before.elapsed());
    }
}

/// A receive from any rank is no receive from one that has left unmet.
#[test]
fn a_receive_from_any_rank_waits_for_those_that_are_left() {
    let chain = ["--host", "local:a,local:b,local:c", "--transport", "tcp", "--fanout", "1"];
    for options in
        [&["--transport", "tcp", "--tcp-links", "2"][..], &["--host", "local:a,local:b,local:c"], &chain]
    {
        let ended = behave(3, options, "leave early");
        assert_eq!(ended.code, Some(0), "{options:?}: {ended:#?}");
    }
}

/// Where nodes have equally many ranks, collectives are in two levels: also those of a part of the
/// ranks that has equally many on each, and where a rule names two levels.
#[test]
fn collectives_between_alike_nodes_are_in_two_levels() {
    const TWO_LEVELS: &str = "two_level";
    let told = |ended: &Ended, name: &str| {
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let lines = ended.out.lines().filter_map(|line| line.split_once(&format!("{name}: ")));
        let named: Vec<bool> = lines.map(|(_, algorithm)| algorithm == TWO_LEVELS).collect();
        assert_eq!(named.len(), 1, "{ended:#?}");
        named[0]
    };
    let alike = behave(8, &TWO, "levels");
    assert_eq!(["all", "even", "later"].map(|name| told(&alike, name)), [true, true, false]);
    let fewer_on_the_last = behave(7, &["--host", "local:a:4,local:b:4"], "levels");
    assert_eq!(["all", "even", "later"].map(|name| told(&fewer_on_the_last, name)), [true, true, false]);
    let unlike = behave(8, &["--host", "local:a:3,local:b:5"], "levels");
    assert!(!told(&unlike, "all"));
    let by_tcp = ["--host", "local:a,local:b", "--transport", "tcp"];
    assert!(!told(&behave(8, &by_tcp, "levels"), "all"));
    let rules = folder("levels").join("two.rules");
    std::fs::write(&rules, "allreduce * * two_level\n").unwrap();
    let by_rule = ["--host", "local:a,local:b", "--coll-rules", rules.to_str().unwrap()];
    assert!(told(&behave(4, &by_rule, "levels"), "all"));
}

#[test]
fn examples_verify_themselves_across_nodes() {
    for (name, arguments) in [
        ("allreduce", &["--calls", "2", "--max-bytes", "16384"][..]),
        ("heat", &["--width", "50", "--height", "61", "--steps", "40"]),
        ("transpose", &["--rows", "90", "--rounds", "3"]),
    ] {
        let path = program("examples").join(name);
        let mut line = vec![
            "-n",
            "4",
            "--host",
            "local:a,local:b",
            "--output",
            "plain",
            path.to_str().unwrap(),
            "--json",
        ];
        line.extend(arguments);
        let ended = run(line);
        assert_eq!(ended.code, Some(0), "{name}: {ended:#?}");
        assert!(
            !ended.out.is_empty() && ended.out.lines().all(|line| line.contains("\"verified\":true")),
            "{ended:#?}"
        );
    }
}

#[test]
fn a_rank_without_an_interface_or_a_port_says_so() {
    behave(2, &["--transport", "tcp", "--tcp-include", "nosuch0"], "greet")
        .says(1, &["cannot join the job: rank ", "over TCP: no address is left", "(not included)"]);
    // Two ports of which one is taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ports = format!("{port}-{port}");
    behave(
        1,
        &["--transport", "tcp", "--tcp-include", "lo", "--tcp-family", "4", "--tcp-ports", &ports],
        "greet",
    )
    .says(1, &["over TCP: bind: no port from ", &format!("{port} is free at 127.0.0.1")]);
}

#[test]
fn a_rank_killed_on_one_node_is_reported_within_a_second_and_ends_the_other() {
    for victim in [0, 3] {
        let mut job = begin(4, &TWO, "stream");
        let pids = job.pids(4);
        std::thread::sleep(Duration::from_millis(200));
        kill(pids[victim], Signal::SIGKILL).unwrap();
        assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "others live on for a second");
        let host = if victim < 2 { "local:a" } else { "local:b" };
        let killed = format!("rank {victim} (pid {} on {host}) was killed by SIGKILL", pids[victim]);
        job.wait().says(137, &[&killed, "3 other ranks were ended", "on local:a): ", "on local:b): "]);
    }
}

#[test]
fn a_rank_that_stands_still_is_waited_for_across_nodes() {
    let mut job = begin(4, &TWO, "rounds");
    let pids = job.pids(4);
    job.line("a third is done");
    kill(pids[2], Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    kill(pids[2], Signal::SIGCONT).unwrap();
    came_back(&job.wait(), 4);
}

#[test]
fn a_killed_agent_ends_the_job_everywhere() {
    let mut job = begin(4, &TWO, "hang");
    let pids = job.pids(4);
    job.all_wait(4);
    let agent = crate::agents::parent(pids[3]);
    kill(agent, Signal::SIGKILL).unwrap();
    assert!(becomes(2 * SOON, || !pids.iter().any(|pid| is_alive(*pid))), "ranks outlive their agent");
    job.wait().says(
        1,
        &["host local:b: is lost with its ranks: ", "was killed by SIGKILL", "on local:a): recv of 4096"],
    );
}

#[test]
fn nothing_is_left_of_two_nodes_when_the_launcher_is_killed() {
    let mut job = begin(4, &TWO, "hang");
    let pids = job.pids(4);
    let keys: BTreeSet<String> = pids.iter().map(|pid| job_key(*pid)).collect();
    assert_eq!(keys.len(), 1, "one job");
    job.signal(Signal::SIGKILL);
    assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "ranks outlive their launcher");
    for key in keys {
        assert!(becomes(SOON, || holders(&key).is_empty()), "held by {:?}", holders(&key));
    }
}
