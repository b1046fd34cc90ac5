//! The tests of the transport over verbs, in a guest.

use core::time::Duration;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::session::Session;
use crate::shell;
use crate::workspace::{self, Workspace};

/// What the library's headers are found by.
const HEADER: &str = "/usr/include/infiniband/verbs.h";
/// What builds the transport.
const PACKAGES: &str = "apt-get install libibverbs-dev libclang-dev cmake";
/// The tests that need a device; the others need that there is none.
const MODULE: &str = "rxe::";

/// The feature with which there is a transport over verbs.
pub(crate) const FEATURE: &str = "verbs";

/// Whether what the transport needs to build is here.
pub(crate) fn can_build() -> bool {
    Path::new(HEADER).exists() && shell::has("cmake")
}

/// Builds the tests and runs them. How many there are.
pub(super) fn test(limit: Duration, loud: bool) -> Result<usize> {
    let program = build()?;
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command = format!("{name} {MODULE} --test-threads=1 --nocapture");
    let session = Session { programs: vec![program], commands: vec![vec![command]], limit, loud };
    let guests = session.play().context("the tests of the transport")?;
    let said: String = guests.iter().flatten().map(|ran| ran.text()).collect();
    passed(&said)
        .with_context(|| format!("the tests of the transport do not say how many there are:\n{said}"))
}

/// Builds `aldis-run` and the example `pingpong`, as they are used.
pub(super) fn build_pingpong() -> Result<Vec<PathBuf>> {
    need_library()?;
    eprintln!("building aldis-run and pingpong in release");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "aldis-host-sim", "--features", FEATURE]);
    shell::run(cargo.args(["--bin", "aldis-run", "--example", "pingpong"]))?;
    let folder = Workspace::members()?.target.join("release");
    Ok(vec![folder.join("aldis-run"), folder.join("examples/pingpong")])
}

fn need_library() -> Result<()> {
    if !can_build() {
        bail!("the transport needs libibverbs to build; to enable: {PACKAGES}");
    }
    Ok(())
}

fn build() -> Result<PathBuf> {
    need_library()?;
    eprintln!("building the tests of the transport");
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--no-run", "--locked", "--quiet", "--message-format", "json"]);
    cargo.args(["-p", "aldis-host-sim", "--features", FEATURE, "--test", "verbs"]);
    let text =
        shell::output(&mut cargo).with_context(|| format!("what is missing may come with {PACKAGES}"))?;
    let program = text.lines().rev().find_map(executable);
    program.context("cargo has named no test program")
}

/// How many tests passed, as their harness says in the end. None is no number.
fn passed(said: &str) -> Option<usize> {
    let line = said.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "))?;
    line.split(' ').next()?.parse().ok().filter(|count| *count > 0)
}

/// The test's program, if a line of what cargo says names it.
fn executable(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message.pointer("/target/name")? == "verbs" && message.pointer("/profile/test")? == true;
    message.get("executable")?.as_str().filter(|_| is_test).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted() {
        let said = "test rxe::a ... ok\n\ntest result: ok. 9 passed; 0 failed; 0 ignored";
        assert_eq!(passed(said), Some(9));
        assert_eq!(passed("test result: ok. 0 passed; 0 failed"), None);
        assert_eq!(passed("test result: FAILED. 1 passed; 8 failed"), None);
    }

    #[test]
    fn the_program_is_found_among_what_cargo_says() {
        let line = r#"{"target":{"name":"verbs"},"profile":{"test":true},"executable":"/t/verbs-1"}"#;
        assert_eq!(executable(line), Some("/t/verbs-1".into()));
        assert_eq!(executable(&line.replace("\"verbs\"", "\"other\"")), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
