//! Jobs whose ranks have rows for fewer peers than there are ranks: `--peers`; and connections to
//! fewer: `--tcp-connections`.

use crate::harness::{RANK, run};
use crate::hosts::folder;
use crate::slurm::in_c;

/// Every rank talks to every other, with rows for three of them at a time.
#[test]
fn a_crowd_talks_over_rows_for_few() {
    for transport in ["shm", "tcp"] {
        let line = ["-n", "32", "--peers", "4", "--transport", transport, "--timeout", "50", RANK, "crowd"];
        let ended = run(line);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.out.matches("all came back").count(), 32, "{ended:#?}");
    }
}

#[test]
fn a_program_in_c_runs_over_rows_for_few() {
    let Some((program, libraries)) = in_c(&folder("peers-in-c")) else { return };
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    let line = ["-n", "8", "--peers", "4", "--timeout", "50", "--genv", &path, program.to_str().unwrap()];
    let ended = run(line);
    assert!(ended.code == Some(0) && ended.out.contains("ok"), "{ended:#?}");
}

#[test]
fn rows_that_are_too_few_are_refused_with_the_minimum() {
    run(["-n", "8", "--peers", "2", RANK, "greet"]).says(2, &["'2' for '--peers <N>'", "a number from 3"]);
    let environment = ["-n", "8", "--genv", "ALDIS_PEERS=two", RANK, "greet"];
    run(environment).says(1, &["ALDIS_PEERS cannot be \"two\": a number from 3"]);
}

/// Every rank talks to every other, with four connections at a time, natively and in C.
#[test]
fn a_crowd_talks_over_few_connections() {
    let start = ["-n", "8", "--tcp-connections", "4", "--transport", "tcp", "--timeout", "50"];
    let ended = run([&start[..], &[RANK, "crowd"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 8, "{ended:#?}");
    let Some((program, libraries)) = in_c(&folder("connections-in-c")) else { return };
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    let ended = run([&start[..], &["--genv", &path, program.to_str().unwrap()]].concat());
    assert!(ended.code == Some(0) && ended.out.contains("ok"), "{ended:#?}");
}

/// A storage of the program's own for 8 peers in a job of 9, and the default one for all.
#[test]
fn ranks_that_disagree_about_rows_are_named() {
    let line = ["-n", "1", RANK, "greet", ":", "-n", "8", RANK, "full"];
    run(line).says(1, &["rank 0 has rows for all 9 ranks and rank 1 for 8", "--peers N"]);
    let agreed = ["-n", "1", "--peers", "5", RANK, "crowd", ":", "-n", "8", RANK, "crowd"];
    assert_eq!(run(agreed).code, Some(0));
}
