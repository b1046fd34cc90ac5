//! Tests that the compiler's wrapper and the launcher fail where their output is lost.

use std::fs::File;
use std::io;
use std::process::Command;

const LINES: [(&str, &str); 3] = [
    (env!("CARGO_BIN_EXE_aldis-mpicc"), "-show"),
    (env!("CARGO_BIN_EXE_aldis-mpicxx"), "-show"),
    (env!("CARGO_BIN_EXE_aldis-mpiexec"), "--help"),
];

#[test]
fn answers_that_are_lost_fail_the_tools() {
    for (program, option) in LINES {
        let run = |out: std::process::Stdio| Command::new(program).arg(option).stdout(out).output().unwrap();
        let output = run(File::options().write(true).open("/dev/full").unwrap().into());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program}: {said}");
        assert!(said.contains(": standard output: No space left on device"), "{program}: {said}");
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = run(writer.into());
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{program}");
    }
}
