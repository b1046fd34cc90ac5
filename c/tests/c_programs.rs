//! The header and the library as a program in C takes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The static library that was built with this test: the newest beside it.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = std::fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libaldis-") && name.ends_with(".a")
    };
    let age = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).unwrap();
    beside.filter(is_library).max_by_key(age).expect("the library is built as a static one too")
}

fn good(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_program_in_c_runs_a_job() {
    let folder = std::env::temp_dir().join(format!("aldis-c-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("ring");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]).arg(here("include"));
    cc.arg(here("examples/ring.c")).arg(library()).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    good(&cc.output().unwrap());
    for ranks in ["1", "2", "5"] {
        let said = good(&Command::new("timeout").arg("60").arg(&program).arg(ranks).output().unwrap());
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        let ranks: u32 = ranks.parse().unwrap();
        let sum = f64::from(ranks * (ranks - 1) / 2) + f64::from(ranks) / 4.0;
        let expected: Vec<String> =
            (0..ranks).map(|rank| format!("rank {rank}: {ranks} ranks, sum {sum:.2}")).collect();
        assert_eq!(lines, expected);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_header_is_cpp_too() {
    let mut cc = Command::new("cc");
    cc.args(["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    good(&cc.arg(here("include/aldis.h")).output().unwrap());
}

/// All text of the sources in a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).unwrap() }
    };
    entries.map(text).collect()
}

/// Each function of the header is one of the library's, and the other way round; but the one that
/// the firmware brings.
#[test]
fn header_and_library_have_the_same_functions() {
    let names = |text: &str, before: &str| {
        let mut names: Vec<String> = text
            .lines()
            .filter(|line| line.contains(before))
            .filter_map(|line| {
                let end = line.find('(')?;
                let start = line[..end].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')? + 1;
                line[start..end].starts_with("aldis_").then(|| line[start..end].to_owned())
            })
            .collect();
        names.sort_unstable();
        names
    };
    let header = std::fs::read_to_string(here("include/aldis.h")).unwrap();
    let (mut declared, made) = (names(&header, "aldis_"), names(&sources(&here("src")), "extern \"C\" fn"));
    declared.retain(|name| name != "aldis_panic");
    assert_eq!(declared, made);
}
