//! Output of the tools that cannot be written: each tells it and fails, and keeps quiet towards a
//! reader that has read enough.

use std::fs::File;
use std::io;
use std::process::{Command, Output};

const SHORT: [(&str, &str); 4] = [
    (env!("CARGO_BIN_EXE_aldis-run"), "--help"),
    (env!("CARGO_BIN_EXE_aldis-run"), "--version"),
    (env!("CARGO_BIN_EXE_aldis-run"), "--list-algorithms"),
    (env!("CARGO_BIN_EXE_aldis-run"), "--explain-collective allreduce:8:1M"),
];

fn run(program: &str, line: &str, out: impl Into<std::process::Stdio>) -> Output {
    Command::new(program).args(line.split(' ')).stdout(out).output().unwrap()
}

#[test]
fn a_full_device_is_told() {
    for (program, line) in SHORT {
        let output = run(program, line, File::options().write(true).open("/dev/full").unwrap());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program} {line}: {said}");
        assert!(said.contains(": standard output: No space left on device"), "{program} {line}: {said}");
    }
}

#[test]
fn a_closed_output_is_told() {
    for (program, line) in SHORT {
        let script = format!("exec \"$0\" {line} >&-");
        let output = Command::new("sh").args(["-c", &script, program]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program} {line}: {said}");
        assert!(said.contains(": standard output: Bad file"), "{program} {line}: {said}");
    }
}

#[test]
fn a_reader_that_has_gone_is_told_nothing() {
    for (program, line) in SHORT {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = run(program, line, writer);
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{program} {line}");
    }
}

#[test]
fn an_output_that_is_thrown_away_is_no_error() {
    for (program, line) in SHORT {
        let open = || File::options().read(true).write(true).open("/dev/null").unwrap();
        let output = run(program, line, open());
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{program} {line}");
    }
}
