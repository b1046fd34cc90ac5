//! Jobs of more hosts than one process starts agents for: what holds of an agent of the launcher's
//! holds of one that another agent has started.

use core::time::Duration;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agents::parent;
use crate::harness::{Ended, Job, RANK, becomes, begin, behave, is_alive, program, run, start};
use crate::hosts::{fake_ssh, folder};

/// Agents three deep end one after the other, on machines that have other work.
const SOON: Duration = Duration::from_secs(3);

/// Seven hosts of a tree whose agents each start two others: the first two are the launcher's, the
/// third and fourth are below the first, the fifth and sixth below the second, and the seventh is
/// below the third.
const TREE: [&str; 4] =
    ["--host", "local:a,local:b,local:c,local:d,local:e,local:f,local:g", "--fanout", "2"];

/// The agent that has started a rank.
fn agents(pids: &[Pid]) -> Vec<Pid> {
    pids.iter().map(|pid| parent(*pid)).collect()
}

fn all_gone(pids: &[Pid]) -> bool {
    becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid)))
}

#[test]
fn agents_start_agents_and_their_ranks_exchange_messages() {
    let mut job = begin(7, &TREE, "hang");
    let pids = job.pids(7);
    let agents = agents(&pids);
    let [a, b, c, .., g] = agents[..] else { panic!("{agents:?}") };
    let starters = [job.pid(), job.pid(), a, a, b, b, c];
    assert_eq!(agents.iter().map(|agent| parent(*agent)).collect::<Vec<_>>(), starters, "{agents:?} {g}");
    job.all_wait(7);
    job.signal(Signal::SIGTERM);
    job.wait().says(143, &["ended by SIGTERM", "on local:g): "]);
    assert!(all_gone(&agents), "agents outlive their job");

    let ended = behave(14, &TREE, "rounds");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 14, "{ended:#?}");
    let ring = program("examples").join("ring");
    let ring = ring.to_str().unwrap();
    let ended = run([&["-n", "7"], &TREE[..], &[ring, "--json", "--laps", "20"]].concat());
    assert!(ended.code == Some(0) && ended.out.contains("\"verified\":true"), "{ended:#?}");
}

fn lines_of(ended: &Ended, rank: u32) -> usize {
    ended.out.lines().filter(|line| line.starts_with(&format!("[{rank}] {rank} line"))).count()
}

/// A host that is done stays until those below it are.
#[test]
fn output_from_below_arrives_whole_after_those_above_are_done() {
    // 600 KB, more than the launcher grants at once, from the lowest; the others end at once.
    let script = "[ $ALDIS_RANK = 6 ] || exit 0; sleep 0.3; i=0; \
                  while [ $i -lt 20000 ]; do echo $ALDIS_RANK line $i and more of it; i=$((i+1)); done";
    let options = ["-n", "7", "--any-program"];
    let ended = start([&options, &TREE[..], &["sh", "-c", script]].concat()).wait();
    assert_eq!((ended.code, lines_of(&ended, 6)), (Some(0), 20_000), "{}", ended.err);
}

#[test]
fn a_rank_that_fails_below_is_reported_with_its_host() {
    let mut job = begin(7, &TREE, "stream");
    let pids = job.pids(7);
    kill(pids[6], Signal::SIGKILL).unwrap();
    assert!(all_gone(&pids), "others live on for a second");
    let killed = format!("rank 6 (pid {} on local:g) was killed by SIGKILL (signal 9)", pids[6]);
    job.wait().says(137, &[&killed, "6 other ranks were ended"]);
}

#[test]
fn a_killed_agent_is_named_and_takes_all_below_it_along() {
    for (killed, host) in [(0, "a"), (2, "c"), (6, "g")] {
        let mut job = begin(7, &TREE, "hang");
        let pids = job.pids(7);
        let agents = agents(&pids);
        kill(agents[killed], Signal::SIGKILL).unwrap();
        assert!(all_gone(&pids) && all_gone(&agents), "ranks or agents outlive the agent of {host}");
        let lost = format!("host local:{host}: is lost with its ranks: ");
        job.wait().says(1, &[&lost, "was killed by SIGKILL (signal 9)"]);
    }
}

/// An agent that does not answer any more is killed by the one that has started it, before that
/// is killed itself.
#[test]
fn a_stopped_agent_below_does_not_outlive_the_job() {
    for stopped in [2, 6] {
        let mut job = begin(7, &TREE, "hang");
        let pids = job.pids(7);
        let agents = agents(&pids);
        kill(agents[stopped], Signal::SIGSTOP).unwrap();
        kill(pids[0], Signal::SIGKILL).unwrap();
        job.wait().says(137, &["rank 0 (pid ", "on local:a) was killed by SIGKILL"]);
        assert!(all_gone(&pids) && all_gone(&agents), "agent {stopped} or its rank outlives the job");
    }
}

/// The silence after which a host counts as hung here.
const SILENCE: Duration = Duration::from_secs(2);

/// A job of the tree whose ranks wait, with that silence.
fn watched() -> (Job, Vec<Pid>, Vec<Pid>) {
    let mut job = begin(7, &[&TREE[..], &["--host-timeout", "2"]].concat(), "hang");
    let pids = job.pids(7);
    job.all_wait(7);
    let agents = agents(&pids);
    (job, pids, agents)
}

/// A machine that freezes ends no connection: neither an end nor an error is seen.
#[test]
fn a_host_that_hangs_is_named_and_ends_the_job_in_time() {
    for (stopped, host, starter) in [(0, "a", "the launcher"), (2, "c", "local:a"), (6, "g", "local:c")] {
        let (job, pids, agents) = watched();
        kill(agents[stopped], Signal::SIGSTOP).unwrap();
        let before = Instant::now();
        let named = format!("host local:{host}: hangs with its ranks: {starter} has heard nothing from it");
        job.wait().says(1, &[&named, "(--host-timeout)"]);
        let took = before.elapsed();
        assert!(took >= SILENCE / 2 && took < SILENCE + 2 * SOON, "{host}: {took:?}");
        assert!(all_gone(&pids) && all_gone(&agents), "{host}: ranks or agents outlive the job");
    }
}

/// Ranks that lose their peers on a host that hangs tell of it before its silence is long enough.
#[test]
fn a_host_that_hangs_is_named_and_not_those_that_miss_its_ranks() {
    let (job, pids, agents) = watched();
    kill(agents[0], Signal::SIGSTOP).unwrap();
    // Of signs of life it has missed two then.
    std::thread::sleep(SILENCE * 6 / 10);
    kill(pids[0], Signal::SIGKILL).unwrap();
    job.wait().says(1, &["host local:a: hangs with its ranks: the launcher has heard nothing from it"]);
    assert!(all_gone(&pids) && all_gone(&agents), "ranks or agents outlive the job");
}

/// Hosts below one that hangs end by themselves: the end of the launcher's ssh closes none of the
/// pipes that a frozen machine holds.
#[test]
fn hosts_below_one_that_hangs_end_though_nothing_is_closed() {
    let (job, pids, agents) = watched();
    let hung = [job.pid(), agents[0], agents[2]];
    hung.iter().rev().for_each(|pid| kill(*pid, Signal::SIGSTOP).unwrap());
    let is_below = |place: &usize| ![0, 2].contains(place);
    let of = |all: &[Pid]| -> Vec<Pid> { (0..7).filter(is_below).map(|place| all[place]).collect() };
    let (ranks, own) = (of(&pids), of(&agents));
    let is_over = || !ranks.iter().chain(&own).any(|pid| is_alive(*pid));
    assert!(becomes(2 * SILENCE + SOON, is_over), "hosts outlive those that have started them");
    assert!(hung.iter().all(|pid| is_alive(*pid)), "a stopped process was killed");
    hung.iter().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
    assert!(all_gone(&pids) && all_gone(&agents));
}

/// A process that did not run itself has no word about the silence of others: a machine that was
/// suspended with all of them goes on.
#[test]
fn a_job_all_of_whose_processes_stood_still_goes_on() {
    let (mut job, pids, agents) = watched();
    let all: Vec<Pid> = pids.iter().chain(&agents).copied().chain([job.pid()]).collect();
    all.iter().for_each(|pid| kill(*pid, Signal::SIGSTOP).unwrap());
    std::thread::sleep(3 * SILENCE);
    all.iter().for_each(|pid| kill(*pid, Signal::SIGCONT).unwrap());
    std::thread::sleep(3 * SILENCE);
    assert!(!job.has_ended() && all.iter().all(|pid| is_alive(*pid)));
    job.signal(Signal::SIGTERM);
    job.wait().says(143, &["ended by SIGTERM"]);
}

#[test]
fn a_job_that_is_stopped_as_one_does_not_hang() {
    let (mut job, pids, agents) = watched();
    job.signal(Signal::SIGTSTP);
    std::thread::sleep(3 * SILENCE);
    assert!(pids.iter().chain(&agents).all(|pid| is_alive(*pid)), "the launcher's silence was announced");
    job.signal(Signal::SIGCONT);
    std::thread::sleep(3 * SILENCE);
    assert!(!job.has_ended() && pids.iter().chain(&agents).all(|pid| is_alive(*pid)));
    job.signal(Signal::SIGTERM);
    job.wait().says(143, &["ended by SIGTERM"]);
}

#[test]
fn a_killed_launcher_takes_the_whole_tree_along() {
    let mut job = begin(7, &TREE, "hang");
    let pids = job.pids(7);
    let agents = agents(&pids);
    job.signal(Signal::SIGKILL);
    assert!(all_gone(&pids) && all_gone(&agents), "something outlives the launcher");
}

#[test]
fn a_host_that_cannot_be_reached_from_another_is_named_with_the_remedy() {
    let folder = folder("tree-unreachable");
    let refusal = "if [ $host = c ]; then echo 'Permission denied' >&2; exit 255; fi";
    let ssh = fake_ssh(&folder, refusal);
    let tree = ["-n", "4", "--host", "a,b,c,d", "--fanout", "1", "--ssh", &ssh];
    let remedy = "tried from b; with --fanout 4 the launcher starts all";
    run([&tree[..], &[RANK, "hang"]].concat())
        .says(1, &["host c: cannot be reached: ", "exited with code 255", "Permission denied", remedy]);
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(!log.contains(" d "), "d is below c: {log}");
}

#[test]
fn a_host_below_that_says_nothing_is_named() {
    let folder = folder("tree-silent");
    let ssh = fake_ssh(&folder, "[ $host = c ] && exec sleep 60");
    let tree = ["-n", "4", "--host", "a,b,c,d", "--fanout", "1", "--join-timeout", "1.5", "--ssh", &ssh];
    run([&tree[..], &[RANK, "hang"]].concat())
        .says(1, &["host c: did not answer within 1.5 s (--join-timeout)"]);
}
