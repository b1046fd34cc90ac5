//! Wrong command lines and programs that cannot be started: each a clear error with a remedy.

use crate::harness::{RANK, run};

#[test]
fn a_job_needs_a_rank() {
    run(["-n", "0", RANK]).says(2, &["'0' for '-n <N>'", "at least one rank; try -n 1"]);
}

#[test]
fn a_job_has_65536_ranks_at_most() {
    run(["-n", "65537", RANK]).says(2, &["'65537' for '-n <N>'", "at most 65536 ranks; try -n 65536"]);
    run(["-n", "many", RANK]).says(2, &["not a number of ranks from 1 to 65536"]);
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
    run(["-n", "2", "--bind", "moon", RANK]).says(2, &["possible values: auto, core, none"]);
    run(["-n", "2"]).says(2, &["<PROGRAM>"]);
    run([RANK]).says(2, &["-n <N>"]);
}

#[test]
fn several_programs_are_one_job() {
    for host in ["localhost", "local:a,local:b"] {
        let script = "echo $ALDIS_RANK of $ALDIS_SIZE runs $ALDIS_APPNUM with $0 $A in $(pwd)";
        let ended = run([
            "-n",
            "1",
            "--any-program",
            "--host",
            host,
            "--env",
            "A=1",
            "sh",
            "-c",
            script,
            "a",
            ":",
            "-n",
            "2",
            "--wdir",
            "/usr",
            "sh",
            "-c",
            script,
            "b",
        ]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:#?}");
        let mut lines: Vec<&str> = ended.out.lines().collect();
        lines.sort_unstable();
        assert!(lines[0].starts_with("[0] 0 of 3 runs 0 with a 1 in "), "{ended:#?}");
        assert_eq!(lines[1..], ["[1] 1 of 3 runs 1 with b in /usr", "[2] 2 of 3 runs 1 with b in /usr"]);
    }
    // Two programs that take part are ranks of one world.
    let ended = run(["-n", "1", RANK, "greet", ":", "-n", "2", "sh", "-c", "exec \"$0\" greet", RANK]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for rank in 0..3 {
        assert!(ended.out.contains(&format!("[{rank}] rank {rank} of 3 has pid ")), "{ended:#?}");
    }
}

#[test]
fn wrong_lines_of_several_programs_are_told() {
    run(["-n", "1", "true", ":", "true"]).says(2, &["-n <N>", ": -n <N> [--wdir <FOLDER>]"]);
    run(["-n", "1", "true", ":"]).says(2, &["-n <N>", "<PROGRAM>"]);
    run(["-n", "1", "true", ":", "-n", "1", "--timeout", "3", "true"])
        .says(2, &["unexpected argument '--timeout'", "[OPTIONS OF THE JOB]"]);
    run(["-n", "40000", "true", ":", "-n", "40000", "true"])
        .says(2, &["80000 ranks of all programs", "at most 65536 ranks"]);
    run(["-n", "1", "true", ":", "-n", "1", "no-such-program"])
        .says(127, &["cannot start no-such-program", "no such program in PATH"]);
    run(["-n", "1", "true", ":", "-n", "1", "--wdir", "/no/such/folder", "true"])
        .says(1, &["cannot work in /no/such/folder", "see --wdir"]);
    run(["-np", "2", "true"]).says(2, &["-np is -n here; aldis-mpiexec takes the options of mpiexec"]);
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
    for text in ["Examples:", "Exit code:", "--join-timeout", "possible values", "aldis_linux::run"] {
        assert!(
            help.out.to_lowercase().contains(&text.to_lowercase()),
            "{text:?} is missing in {}",
            help.out
        );
    }
}
