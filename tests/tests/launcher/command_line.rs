//! Wrong command lines and programs that cannot be started: each a clear error with a remedy.

use crate::harness::{RANK, run};

#[test]
fn a_job_needs_a_rank() {
    run(["-n", "0", RANK]).says(2, &["'0' for '-n <N>'", "at least one rank; try -n 1"]);
}

#[test]
fn a_job_must_fit_the_storage() {
    run(["-n", "65", RANK]).says(2, &["'65' for '-n <N>'", "room for 64 peers; try -n 64"]);
    run(["-n", "many", RANK]).says(2, &["not a number of ranks from 1 to 64"]);
}

#[test]
fn transports_are_listed() {
    run(["-n", "2", "--transport", "pigeon", RANK])
        .says(2, &["'pigeon' for '--transport <TRANSPORT>'", "possible values: auto, shm, tcp"]);
}

#[test]
fn options_are_checked() {
    run(["-n", "2", "--bogus", RANK]).says(2, &["unexpected argument '--bogus'", "--help"]);
    run(["-n", "2", "--timeout", "soon", RANK]).says(2, &["'soon'", "positive number of seconds"]);
    run(["-n", "2", "--bind", "moon", RANK]).says(2, &["possible values: core, none"]);
    run(["-n", "2"]).says(2, &["<PROGRAM>"]);
    run([RANK]).says(2, &["-n <N>"]);
}

#[test]
fn a_missing_program_is_named() {
    run(["-n", "2", "no-such-program"])
        .says(127, &["cannot start no-such-program", "no such program in PATH", "give its path"]);
    run(["-n", "2", "./no/such/program"])
        .says(127, &["cannot start ./no/such/program", "has it been built?"]);
}

#[test]
fn a_program_that_cannot_be_executed_is_named() {
    run(["-n", "2", "/etc/passwd"]).says(126, &["cannot start /etc/passwd", "chmod +x"]);
    run(["-n", "2", "/etc"]).says(126, &["cannot start /etc", "it is a folder"]);
}

#[test]
fn help_teaches_by_examples() {
    let help = run(["--help"]);
    assert_eq!(help.code, Some(0));
    for text in ["Examples:", "Exit code:", "--join-timeout", "possible values", "aldis_host_sim::run"] {
        assert!(
            help.out.to_lowercase().contains(&text.to_lowercase()),
            "{text:?} is missing in {}",
            help.out
        );
    }
}
