//! Tests of what becomes of the ranks' output.

use std::collections::BTreeSet;

use crate::harness::{RANK, behave, launch, program, start};

#[test]
fn lines_are_prefixed_by_their_rank() {
    let ended = behave(3, &[], "greet");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for rank in 0..3 {
        assert!(ended.out.contains(&format!("[{rank}] rank {rank} of 3 has pid ")), "{ended:#?}");
        assert!(ended.out.contains(&format!("[{rank}] a line without an end\n")), "{ended:#?}");
        assert!(ended.err.contains(&format!("[{rank}] to the error output\n")), "{ended:#?}");
    }
}

#[test]
fn groups_come_rank_by_rank_at_the_end() {
    let ended = behave(2, &["--output", "group"], "greet");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let (first, second) = ended.out.split_once("==> rank 1 <==\n").expect("two groups");
    assert!(first.starts_with("==> rank 0 <==\nrank 0 of 2"), "{ended:#?}");
    assert!(second.starts_with("rank 1 of 2") && second.ends_with("a line without an end\n"), "{ended:#?}");
    assert!(ended.err.contains("==> rank 1 <==\nto the error output\n"), "{ended:#?}");
}

#[test]
fn plain_output_is_untouched() {
    let ended = behave(1, &["--output", "plain"], "greet");
    assert!(
        ended.out.starts_with("rank 0 of 1") && ended.out.ends_with("a line without an end"),
        "{ended:#?}"
    );
}

#[test]
fn much_output_arrives_whole() {
    // 3 ranks x 20,000 lines, more than all pipes and buffers hold; then a failure, for the
    // launcher to end the job.
    let script = "i=0; while [ $i -lt 20000 ]; do echo $ALDIS_RANK line $i; i=$((i+1)); done; exit 9";
    let ended = start(["-n", "1", "sh", "-c", script]).wait();
    assert_eq!(ended.code, Some(9));
    let lines: BTreeSet<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 20_000);
    assert!(lines.iter().all(|line| line.starts_with("[0] 0 line ")));
}

#[test]
fn an_output_whose_reader_is_gone_ends_the_job() {
    let launcher = program("aldis-run");
    let script = format!("{} -n 2 sh -c 'while :; do echo more; done' | head -1", launcher.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("] more\n"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("was killed by SIGPIPE"), "{output:?}");
}

/// Runs a shell script in which `$BIN` is the folder of the programs; returns its exit code and
/// errors.
fn shell(script: &str) -> (Option<i32>, String) {
    let launcher = program("aldis-run");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).env("BIN", launcher.parent().unwrap()).env("RANK", RANK);
    let ended = launch(shell).wait();
    (ended.code, ended.err)
}

#[test]
fn output_that_a_full_device_does_not_take_fails_the_job() {
    for mode in ["prefix", "group"] {
        let (code, said) =
            shell(&format!("$BIN/aldis-run -n 1 --any-program --output {mode} echo x > /dev/full"));
        assert!(code.is_some_and(|code| code != 0), "{mode}: {said}");
        assert!(
            said.contains(
                "write to standard output failed: No space left on device; what the ranks have printed there is lost"
            ),
            "{mode}: {said}"
        );
    }
    let (code, _) = shell("$BIN/aldis-run -n 1 --any-program sh -c 'echo x >&2' 2> /dev/full");
    assert!(code.is_some_and(|code| code != 0 && code != 101), "{code:?}");
    // A launcher whose errors are not taken keeps to the job's exit code.
    assert_eq!(shell("$BIN/aldis-run -n 2 --any-program sh -c 'exit 7' 2> /dev/full").0, Some(7));
    // A rank that prints nothing has lost nothing.
    assert_eq!(shell("$BIN/aldis-run -n 2 --any-program true > /dev/full 2>&1").0, Some(0));
}

#[test]
fn output_that_is_closed_fails_the_job() {
    let (code, said) = shell("$BIN/aldis-run -n 1 --any-program echo x >&-");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("aldis-run: write to standard output failed: Bad file"), "{said}");
    // Without a reader the launcher ends as by SIGPIPE, in silence.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(program("aldis-run"));
    command.args(["-n", "1", "--timeout", "60", "--any-program", "echo", "x"]).stdout(writer);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert_eq!(output.stderr, b"", "{output:?}");
}

#[test]
fn input_goes_to_rank_0_alone() {
    let ended = start(["-n", "2", "sh", "-c", "wc -c; exit 4"]).wait();
    assert_eq!(ended.code, Some(4));
    assert!(ended.out.contains(" 0\n") || ended.out.contains("] 0\n"), "{ended:#?}");
}
