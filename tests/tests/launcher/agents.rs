//! Jobs whose ranks are an agent's: what holds of a launcher's own ranks holds of them.

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs::read_to_string;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{RANK, becomes, begin, behave, is_alive, program, run, start};

const SOON: Duration = Duration::from_secs(1);

/// A host that is no other machine and yet the launcher's own only through an agent.
const AGENT: [&str; 2] = ["--host", "local:a"];

/// The process that started this one.
pub(crate) fn parent(pid: Pid) -> Pid {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    Pid::from_raw(rest.split_whitespace().nth(1).unwrap().parse().unwrap())
}

#[test]
fn an_agents_ranks_exchange_messages_and_print() {
    let ended = behave(3, &[&AGENT[..], &["--json"]].concat(), "greet");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.field("verdict"), "ok");
    for rank in 0..3 {
        assert!(ended.out.contains(&format!("[{rank}] rank {rank} of 3 has pid ")), "{ended:#?}");
        assert!(ended.out.contains(&format!("[{rank}] a line without an end\n")), "{ended:#?}");
        assert!(ended.err.contains(&format!("[{rank}] to the error output\n")), "{ended:#?}");
    }
    let ring = program("examples").join("ring");
    let ended = run(["-n", "2", "--host", "local:a", ring.to_str().unwrap(), "--json", "--laps", "100"]);
    assert!(ended.code == Some(0) && ended.out.contains("\"verified\":true"), "{ended:#?}");
}

#[test]
fn plain_and_grouped_output_is_an_agents_too() {
    let ended = behave(1, &[&AGENT[..], &["--output", "plain"]].concat(), "greet");
    assert!(
        ended.out.starts_with("rank 0 of 1") && ended.out.ends_with("a line without an end"),
        "{ended:#?}"
    );
    let ended = behave(2, &[&AGENT[..], &["--output", "group"]].concat(), "greet");
    assert!(ended.out.starts_with("==> rank 0 <==\nrank 0 of 2"), "{ended:#?}");
}

#[test]
fn more_output_than_the_window_arrives_whole() {
    // 600 KB a rank: more than the launcher grants at once.
    let script =
        "i=0; while [ $i -lt 20000 ]; do echo $ALDIS_RANK line $i and more of it; i=$((i+1)); done; exit 9";
    let ended = start(["-n", "2", "--host", "local:a,local:b", "sh", "-c", script]).wait();
    assert_eq!(ended.code, Some(9));
    let lines: BTreeSet<&str> = ended.out.lines().filter(|line| line.ends_with("and more of it")).collect();
    let first = lines.iter().filter(|line| line.starts_with("[0] 0 line")).count();
    let second = lines.iter().filter(|line| line.starts_with("[1] 1 line")).count();
    assert!(first.max(second) == 20_000 && first + second == lines.len(), "{first} and {second} lines");
}

#[test]
fn an_output_whose_reader_is_gone_ends_an_agents_ranks() {
    let launcher = program("aldis-run");
    let script =
        format!("{} -n 2 --host local:a sh -c 'while :; do echo more; done' | head -1", launcher.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("] more\n"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("was killed by SIGPIPE"), "{output:?}");
}

#[test]
fn a_rank_killed_under_an_agent_is_reported_within_a_second_with_its_host() {
    let mut job = begin(3, &AGENT, "stream");
    let pids = job.pids(3);
    kill(pids[1], Signal::SIGKILL).unwrap();
    assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "others live on for a second");
    let killed = format!("rank 1 (pid {} on local:a) was killed by SIGKILL (signal 9)", pids[1]);
    job.wait().says(137, &[&killed, "it was: ", "2 other ranks were ended", "(pid "]);
}

/// A program may tell a peer's death in words of its own, which do not blame it for them.
#[test]
fn a_rank_that_rewords_what_it_was_told_is_not_blamed_for_it() {
    for _ in 0..6 {
        let mut job = begin(2, &["--host", "local:a,local:b"], "reword");
        let pids = job.pids(2);
        job.all_wait(2);
        kill(pids[1], Signal::SIGKILL).unwrap();
        job.wait().says(137, &[&format!("rank 1 (pid {} on local:b) was killed by SIGKILL", pids[1])]);
    }
}

#[test]
fn the_last_word_of_an_agents_rank_is_heard() {
    behave(2, &AGENT, "fail").says(1, &["rank 1 (pid", "on local:a) failed: the input makes no sense"]);
    behave(2, &AGENT, "abort").says(42, &["aborted the job with code 42: nothing to be done"]);
    behave(2, &AGENT, "exit-early").says(5, &["exited with code 5 before it had joined the job"]);
}

#[test]
fn a_timeout_says_what_an_agents_ranks_were_doing() {
    let mut job = begin(2, &["--host", "local:a", "--timeout", "2.5"], "hang");
    let pids = job.pids(2);
    job.wait().says(124, &["timed out after 2.5 s", "on local:a): recv of 4096 bytes from rank 1, tag 7"]);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_killed_launcher_takes_its_agents_and_their_ranks_along() {
    let script = format!("sleep 1000 & echo sleeper $!; {RANK} hang; exit $?");
    let mut job = start(["-n", "2", "--host", "local:a", "sh", "-c", &script]);
    let pids = job.pids(2);
    let agent = parent(parent(pids[0]));
    assert_eq!(parent(agent), job.pid(), "launcher, agent, shell, rank");
    let sleepers = [job.line("sleeper"), job.line("sleeper")];
    let sleepers =
        sleepers.map(|line| Pid::from_raw(line.split_whitespace().last().unwrap().parse().unwrap()));
    job.signal(Signal::SIGKILL);
    assert!(becomes(SOON, || !is_alive(agent)), "the agent outlives its launcher");
    assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "ranks outlive their launcher");
    assert!(becomes(SOON, || !sleepers.iter().any(|pid| is_alive(*pid))), "what a rank started lives on");
}

#[test]
fn a_killed_agent_is_named_and_takes_its_ranks_along() {
    let mut job = begin(2, &AGENT, "hang");
    let pids = job.pids(2);
    kill(parent(pids[0]), Signal::SIGKILL).unwrap();
    assert!(becomes(SOON, || !pids.iter().any(|pid| is_alive(*pid))), "ranks outlive their agent");
    let ended = job.wait();
    ended.says(1, &["host local:a: is lost with its ranks: ", "was killed by SIGKILL (signal 9)"]);
    assert!(ended.err.contains("rank 1 (pid"), "{ended:#?}");
}

#[test]
fn signals_reach_an_agents_ranks() {
    let script = "trap 'echo usr1 came' USR1; trap 'echo term came; exit 7' TERM; echo rank $ALDIS_RANK has pid $$; \
                  while :; do sleep 0.02; done";
    let mut job = start(["-n", "2", "--host", "local:a", "sh", "-c", script]);
    job.pids(2);
    job.signal(Signal::SIGUSR1);
    let mut lines = [job.line("usr1 came"), job.line("usr1 came")];
    lines.sort();
    assert_eq!(lines, ["[0] usr1 came\n", "[1] usr1 came\n"]);
    job.signal(Signal::SIGTERM);
    job.wait().says(7, &["exited with code 7"]);
}

#[test]
fn an_interrupt_tells_what_an_agents_ranks_were_doing() {
    let mut job = begin(2, &AGENT, "hang");
    let pids = job.pids(2);
    job.all_wait(2);
    job.signal(Signal::SIGINT);
    job.wait().says(130, &["ended by SIGINT", "recv of 4096 bytes from rank 1, tag 7"]);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn an_agent_that_hears_nonsense_says_so() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut agent = Command::new(program("aldis-run"));
    agent.arg("--agent-of-aldis-run").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut agent = agent.spawn().unwrap();
    agent.stdin.take().unwrap().write_all(&[0xFF; 64]).unwrap();
    let output = agent.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("are both of one build?"), "{text}");
}
