//! Tests of how jobs end, and what the report says.

use core::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::harness::{RANK, becomes, begin, behave, is_alive, run};

/// From the first failure to the last rank's end.
const END_LIMIT: Duration = Duration::from_secs(1);

#[test]
fn a_good_job_ends_well() {
    let ended = behave(3, &["--json"], "greet");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.field("verdict"), "ok");
}

#[test]
fn a_program_started_by_itself_is_a_job_of_one() {
    let output = std::process::Command::new(RANK).arg("greet").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("rank 0 of 1"));
    let output = std::process::Command::new(RANK).arg("fail").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: the input makes no sense\n", "said once");
}

#[test]
fn a_rank_that_exits_early_is_told_what_it_lacks() {
    behave(2, &[], "exit-early")
        .says(5, &["exited with code 5 before it had joined the job", "aldis_linux::run", "not joined yet"]);
    run(["-n", "2", "true"]).says(1, &["exited with code 0 before it had joined the job"]);
}

/// A job may be of any program as long as no rank joins; once a rank has sent a message, all are
/// waited for.
#[test]
fn any_program_may_be_run_that_knows_nothing_of_jobs() {
    let any = |script| run(["-n", "2", "--any-program", "--join-timeout", "0.3", "sh", "-c", script]);
    any("sleep 1; echo $ALDIS_RANK").says(0, &[]);
    any("exit $((3 * ALDIS_RANK))").says(3, &["rank 1 (pid", "exited with code 3 before it had joined"]);
    let mixed = format!("[ $ALDIS_RANK = 0 ] || exec {RANK} greet");
    any(&mixed).says(1, &["rank 0 (pid", "exited with code 0 before it had joined the job"]);
}

#[test]
fn a_rank_that_never_joins_is_not_waited_for_for_ever() {
    behave(2, &["--join-timeout", "0.3"], "never-join").says(
        1,
        &["not all ranks joined within 0.3 s (--join-timeout)", "rank 1 never called aldis_linux::run"],
    );
}

#[test]
fn a_rank_that_exits_ends_the_job_with_its_code() {
    let ended = behave(3, &[], "exit");
    ended.says(3, &["rank 2 (pid", "exited with code 3", "2 other ranks were ended"]);
    assert!(ended.took < END_LIMIT + Duration::from_secs(4), "{ended:#?}");
}

#[test]
fn a_rank_that_exits_well_without_leaving_ends_the_job() {
    behave(3, &[], "quit").says(1, &["rank 2 (pid", "exited with code 0 without leaving the job"]);
}

#[test]
fn an_error_is_reported_once_by_the_launcher() {
    let ended = behave(3, &[], "fail");
    ended.says(1, &["rank 2 (pid", "failed: the input makes no sense"]);
    assert_eq!(ended.err.matches("the input makes no sense").count(), 1, "{ended:#?}");
}

#[test]
fn a_panic_is_reported_with_its_place() {
    behave(3, &[], "panic")
        .says(101, &["rank 2 (pid", "failed: panicked at", "launcher_rank.rs", "out of ideas"]);
}

#[test]
fn an_abort_chooses_the_exit_code() {
    behave(3, &[], "abort").says(42, &["rank 2 (pid", "aborted the job with code 42: nothing to be done"]);
    behave(3, &[], "abort-call").says(43, &["rank 2 (pid", "aborted the job with code 43: recv with rank 0"]);
}

#[test]
fn a_full_request_pool_is_a_typed_error() {
    behave(2, &[], "full").says(1, &["rank 1 (pid", "no free request slots"]);
}

#[test]
fn waiting_for_a_rank_that_has_left_is_an_error() {
    behave(2, &[], "leave").says(1, &["rank 0 (pid", "failed: recv with rank 1, tag 7", "has left the job"]);
    // Ranks with shared inboxes, which say it without a message.
    behave(36, &[], "leave")
        .says(1, &["rank 0 (pid", "failed: recv with rank 35, tag 7", "has left the job"]);
}

#[test]
fn a_timeout_says_what_everybody_was_doing() {
    let ended = behave(3, &["--timeout", "2.5"], "hang");
    ended.says(
        124,
        &[
            "timed out after 2.5 s (--timeout)",
            "recv of 4096 bytes from rank 1, tag 7, communicator 0, waiting",
            "recv of 4096 bytes from rank 2, tag 7, communicator 0, waiting",
            "recv of 4096 bytes from rank 0, tag 7, communicator 0, waiting",
        ],
    );
}

#[test]
fn a_rank_killed_in_the_middle_of_a_message_is_reported_with_what_it_did() {
    let mut job = begin(3, &[], "stuck");
    let pids = job.pids(3);
    job.all_wait(3);
    kill(pids[2], Signal::SIGKILL).unwrap();
    assert!(becomes(END_LIMIT, || !pids.iter().any(|pid| is_alive(*pid))), "others live on for a second");
    job.wait().says(
        137,
        &[
            "rank 2 (pid",
            "was killed by SIGKILL (signal 9)",
            "it was: send of 1048576 bytes to rank 0, tag 7, communicator 0, waiting",
            "2 other ranks were ended",
            "recv of 4096 bytes from any rank, tag 8, communicator 0, waiting",
            "recv of 4096 bytes from rank 2, tag 7, communicator 0, waiting",
        ],
    );
}

/// The owner and the reader of memory that is being copied.
#[test]
fn a_rank_killed_while_data_streams_ends_the_job_within_a_second() {
    let by_the_system = ["--env", "ALDIS_READ_COST=0:1"];
    let in_fragments = ["--env", "ALDIS_CMA=off"];
    let from_an_arena = ["--arena", "2M"];
    for (victim, options) in
        [(0, by_the_system), (3, by_the_system), (3, in_fragments), (0, from_an_arena), (3, from_an_arena)]
    {
        let mut job = begin(4, &options, "stream");
        let pids = job.pids(4);
        std::thread::sleep(Duration::from_millis(200));
        kill(pids[victim], Signal::SIGKILL).unwrap();
        assert!(becomes(END_LIMIT, || !pids.iter().any(|pid| is_alive(*pid))), "others live on for a second");
        let killed = format!("rank {victim} (pid {}) was killed by SIGKILL", pids[victim]);
        job.wait().says(137, &[&killed, "it was: ", "3 other ranks were ended"]);
    }
}

#[test]
fn a_rank_killed_in_a_collective_by_control_slots_ends_the_job_within_a_second() {
    for victim in [0, 2] {
        let mut job = begin(3, &[], "sums");
        let pids = job.pids(3);
        job.line("some are done");
        kill(pids[victim], Signal::SIGKILL).unwrap();
        assert!(becomes(END_LIMIT, || !pids.iter().any(|pid| is_alive(*pid))), "others live on for a second");
        let killed = format!("rank {victim} (pid {}) was killed by SIGKILL", pids[victim]);
        job.wait().says(137, &[&killed, "it was: ", "2 other ranks were ended"]);
    }
}

/// More ranks than each has lanes: some are reached by its inbox.
#[test]
fn a_rank_killed_in_a_crowd_ends_the_job_within_a_second() {
    let mut job = begin(40, &[], "crowd without an end");
    let pids = job.pids(40);
    job.line("all came back");
    kill(pids[17], Signal::SIGKILL).unwrap();
    assert!(becomes(END_LIMIT, || !pids.iter().any(|pid| is_alive(*pid))), "others live on for a second");
    let killed = format!("rank 17 (pid {}) was killed by SIGKILL", pids[17]);
    job.wait().says(137, &[&killed, "it was: ", "39 other ranks were ended"]);
}

#[test]
fn a_rank_stopped_in_a_collective_by_control_slots_is_named_by_the_others() {
    let mut job = begin(3, &[], "sums");
    let pids = job.pids(3);
    job.line("some are done");
    kill(pids[1], Signal::SIGSTOP).unwrap();
    // In whichever collective it was stopped.
    job.wait().says(1, &["failed: ", " with rank 1, communicator 0 (collective): the deadline passed, 3"]);
    assert!(becomes(END_LIMIT, || !pids.iter().any(|pid| is_alive(*pid))));
}

#[test]
fn a_rank_stopped_for_good_does_not_outlive_the_job() {
    let mut job = begin(2, &["--timeout", "2"], "hang");
    let pids = job.pids(2);
    kill(pids[0], Signal::SIGSTOP).unwrap();
    job.wait().says(124, &["timed out"]);
    assert!(becomes(END_LIMIT, || !pids.iter().any(|pid| is_alive(*pid))));
}
