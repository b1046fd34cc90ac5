//! A report that cannot be written is refused before anything is built or measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("aldis-xtask-report-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn is_refused_at_once(output: &Output, expected: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(expected), "{}: {said}", output.status);
    assert!(!said.contains("building"), "refused before anything else: {said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_limit_of_file_sizes_is_told_with_what_is_needed() {
    let folder = folder("limit");
    // Blocks of 512 or 1024 bytes: the report needs a mebibyte.
    let limited = "ulimit -f 64; exec \"$0\" bench --html \"$1\"";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", limited, XTASK]).arg(folder.join("report.html")).output().unwrap();
    is_refused_at_once(&output, "1048576 bytes are needed");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left behind");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let missing = folder("missing").join("none");
    for flag in ["--html", "--markdown"] {
        let output = Command::new(XTASK).args(["bench", flag]).arg(missing.join("r")).output().unwrap();
        is_refused_at_once(&output, "cannot be written: No such file or directory");
    }
    std::fs::remove_dir_all(Path::new(&missing).parent().unwrap()).unwrap();
}
