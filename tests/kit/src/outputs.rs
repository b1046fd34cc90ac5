//! Standard output that cannot be written: a tool tells it and fails, and keeps quiet towards a
//! reader that has read enough.

use std::fs::File;
use std::io;
use std::process::{Command, Output, Stdio};

/// A program by its path and its command line, which prints something and ends.
pub type PrintingCall = (&'static str, &'static str);

fn run(program: &str, line: &str, out: impl Into<Stdio>) -> Output {
    Command::new(program).args(line.split(' ')).stdout(out).output().unwrap()
}

/// Checks that each call fails on a device that is full and says so.
pub fn a_full_device_is_an_error(calls: &[PrintingCall]) {
    for (program, line) in calls {
        let output = run(program, line, File::options().write(true).open("/dev/full").unwrap());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program} {line}: {said}");
        assert!(said.contains(": standard output: No space left on device"), "{program} {line}: {said}");
    }
}

/// Checks that each call fails where standard output is closed and says so.
pub fn a_closed_output_is_an_error(calls: &[PrintingCall]) {
    for (program, line) in calls {
        let script = format!("exec \"$0\" {line} >&-");
        let output = Command::new("sh").args(["-c", &script, program]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program} {line}: {said}");
        assert!(said.contains(": standard output: Bad file"), "{program} {line}: {said}");
    }
}

/// Checks that each call is content with a reader that has gone.
pub fn a_reader_that_has_gone_is_no_error(calls: &[PrintingCall]) {
    for (program, line) in calls {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = run(program, line, writer);
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{program} {line}");
    }
}

/// Checks that each call is content with a device that throws everything away.
pub fn an_output_that_is_thrown_away_is_no_error(calls: &[PrintingCall]) {
    for (program, line) in calls {
        let open = || File::options().read(true).write(true).open("/dev/null").unwrap();
        let output = run(program, line, open());
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{program} {line}");
    }
}
