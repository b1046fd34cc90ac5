//! Jobs of more hosts than one process starts agents for: what holds of an agent of the launcher's
//! holds of one that another agent has started.

use core::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agents::parent;
use crate::harness::{Ended, RANK, becomes, begin, behave, is_alive, program, run, start};
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
