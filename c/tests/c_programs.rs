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

/// A program of these sources with the library, in a folder of its own, which is removed with it.
struct CProgram(PathBuf);

impl CProgram {
    fn build(name: &str, sources: &[&str], options: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("aldis-c-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = Self(folder);
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]).arg(here("include"));
        cc.args(options).args(sources.iter().map(|source| here(source))).arg(library());
        cc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program.0.join("program"));
        good(&cc.current_dir(here("")).output().unwrap());
        program
    }

    /// Returns what it prints, in the order of the alphabet.
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let mut program = Command::new("timeout");
        program.arg("60").arg(self.0.join("program")).args(arguments);
        let mut lines: Vec<String> = good(&program.output().unwrap()).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }
}

impl Drop for CProgram {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_in_c_runs_a_job() {
    let program = CProgram::build("ring", &["examples/ring.c"], &[]);
    for ranks in ["1", "2", "5"] {
        let lines = program.lines(&[ranks]);
        let ranks: u32 = ranks.parse().unwrap();
        let sum = f64::from(ranks * (ranks - 1) / 2) + f64::from(ranks) / 4.0;
        let expected: Vec<String> =
            (0..ranks).map(|rank| format!("rank {rank}: {ranks} ranks, sum {sum:.2}")).collect();
        assert_eq!(lines, expected);
    }
}

/// The node for Solo5, over a model of its interface whose network calls fail 2 % of the time.
#[test]
fn applications_of_solo5_are_ranks_of_a_job() {
    let sources = ["examples/solo5/node.c", "examples/solo5/model/model.c"];
    let program = CProgram::build("solo5", &sources, &["-Iexamples/solo5/model"]);
    for (ranks, faults) in [(1, "0"), (2, "0"), (3, "20")] {
        let lines = program.lines(&[&ranks.to_string(), faults]);
        let (first, second) = (ranks * (ranks + 1) / 2, (0..ranks).map(|rank| rank * rank).sum::<u32>());
        let (failures, ends): (Vec<&String>, Vec<&String>) =
            lines.iter().partition(|line| line.starts_with("calls of net0 that failed: "));
        let expected: Vec<String> =
            (0..ranks).map(|rank| format!("rank {rank} of {ranks}: sums {first} and {second}")).collect();
        assert_eq!(ends, expected.iter().collect::<Vec<_>>());
        assert_eq!(failures.is_empty(), faults == "0", "{lines:?}");
    }
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
