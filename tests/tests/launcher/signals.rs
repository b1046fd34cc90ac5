//! Signals to the launcher reach the ranks.

use core::time::Duration;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::{RANK, becomes, begin, is_alive, launch, program, start};

#[test]
fn a_user_signal_is_forwarded_to_every_rank() {
    let script = "trap 'echo usr1 came' USR1; trap 'echo term came; exit 7' TERM; echo rank $ALDIS_RANK has pid $$; \
                  while :; do sleep 0.02; done";
    let mut job = start(["-n", "3", "sh", "-c", script]);
    job.pids(3);
    job.signal(Signal::SIGUSR1);
    let mut lines = [job.line("usr1 came"), job.line("usr1 came"), job.line("usr1 came")];
    lines.sort();
    assert_eq!(lines, ["[0] usr1 came\n", "[1] usr1 came\n", "[2] usr1 came\n"]);
    job.signal(Signal::SIGTERM);
    let ended = job.wait();
    // A rank that is still at it when the first has ended is told once more, by the launcher that
    // ends the job.
    let told = |rank| ended.out.contains(&format!("[{rank}] term came\n"));
    assert!((0..3).all(told), "{ended:#?}");
    ended.says(7, &["exited with code 7"]);
}

#[test]
fn an_interrupt_ends_the_job_and_says_what_everybody_was_doing() {
    for (signal, name, code) in [(Signal::SIGINT, "SIGINT", 130), (Signal::SIGHUP, "SIGHUP", 129)] {
        let mut job = begin(2, &[], "hang");
        let pids = job.pids(2);
        job.all_wait(2);
        job.signal(signal);
        let ended = job.wait();
        ended.says(code, &[&format!("ended by {name}"), "recv of 4096 bytes from rank 1, tag 7"]);
        assert!(!pids.iter().any(|pid| is_alive(*pid)));
    }
}

/// A parent that ignores the signal of a child's end hands that down, and then the system says
/// nothing of how children end.
#[test]
fn a_parent_that_ignores_childrens_ends_is_not_inherited_from() {
    for hosts in [&[][..], &["--host", "local:a,local:b"]] {
        let mut command = Command::new("env");
        command.arg("--ignore-signal=CHLD").arg(program("aldis-run")).args(["-n", "2"]).args(hosts);
        command.args(["--timeout", "20", RANK, "rounds"]);
        let ended = launch(command).wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
    }
}

#[test]
fn a_second_interrupt_kills() {
    let script = "trap '' INT; echo rank $ALDIS_RANK has pid $$; while :; do sleep 0.02; done";
    let mut job = start(["-n", "2", "sh", "-c", script]);
    let pids = job.pids(2);
    job.signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "the first interrupt is the ranks' to answer");
    job.signal(Signal::SIGINT);
    job.wait().says(130, &["ended by SIGINT"]);
    assert!(becomes(Duration::from_secs(1), || !pids.iter().any(|pid| is_alive(*pid))));
}

#[test]
fn ranks_that_ignore_the_end_are_ended() {
    // The second ignores SIGTERM too, by which they are asked once more.
    for (signal, ignored, code) in
        [(Signal::SIGINT, "INT", 130), (Signal::SIGTERM, "TERM", 143), (Signal::SIGINT, "INT TERM HUP", 130)]
    {
        let script =
            format!("trap '' {ignored}; echo rank $ALDIS_RANK has pid $$; while :; do sleep 0.02; done");
        for host in ["localhost", "local:a"] {
            let mut job =
                start(["-n", "2", "--kill-after", "0.3", "--host", host, "sh", "-c", script.as_str()]);
            let pids = job.pids(2);
            job.signal(signal);
            job.wait().says(code, &[&format!("ended by {signal}")]);
            assert!(becomes(Duration::from_secs(1), || !pids.iter().any(|pid| is_alive(*pid))));
        }
    }
}

#[test]
fn a_job_of_a_scripts_background_can_be_interrupted() {
    // A shell without job control has SIGINT and SIGQUIT ignored in what it starts by `&`.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' INT QUIT; exec \"$0\" -n 2 --kill-after 50 \"$1\" hang"]);
    command.arg(program("aldis-run")).arg(RANK);
    let mut job = launch(command);
    let pids = job.pids(2);
    job.all_wait(2);
    job.signal(Signal::SIGINT);
    let ended = job.wait();
    ended.says(130, &["ended by SIGINT"]);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    // The ranks' own signal ended them, not the launcher's patience.
    assert!(ended.took < Duration::from_secs(50), "{ended:#?}");
}

#[test]
fn a_job_stops_and_continues_as_one() {
    let mut job = begin(2, &["--timeout", "20"], "hang");
    let pids = job.pids(2);
    let state = |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stopped = |pid| state(pid).contains(") T ");
    job.signal(Signal::SIGTSTP);
    let everybody = [job.pid(), pids[0], pids[1]];
    assert!(becomes(Duration::from_secs(2), || everybody.iter().all(|pid| stopped(*pid))));
    job.signal(Signal::SIGCONT);
    assert!(becomes(Duration::from_secs(2), || !everybody.iter().any(|pid| stopped(*pid))));
    job.signal(Signal::SIGTERM);
    job.wait().says(143, &["ended by SIGTERM"]);
}
