//! The step `miri`: what can be interpreted, by Miri, which sees what no sanitizer does: aliasing,
//! provenance, values that cannot be, and races by any schedule. It comes with the nightly
//! toolchain alone; where it is not, the step says so.

use std::process::Command;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, bail};

/// A set of tests: of a package, which targets, and the filters behind `--`.
struct TestSet {
    package: &'static str,
    targets: &'static [&'static str],
    filters: &'static [&'static str],
}

/// The tests that are interpreted. Property tests that take minutes are left out.
const SETS: [TestSet; 4] = [
    TestSet {
        package: "aldis-kernel",
        targets: &["--lib"],
        filters: &[
            "buffer::",
            "blocks::",
            "pool::",
            "list::",
            "fifo::",
            "comms::tests",
            "matching::tests::contexts",
        ],
    },
    TestSet {
        package: "aldis-kernel",
        targets: &["--test", "view"],
        filters: &["a_message_is_looked_at_where_it_is"],
    },
    TestSet { package: "aldis-trials", targets: &["--test", "safe", "--no-default-features"], filters: &[] },
    TestSet {
        package: "aldis-mpi",
        targets: &["--lib"],
        filters: &[
            "fault::",
            "spare::tests::what_is",
            "handles::tests::a_freed_handle_is_not_found_again",
            "handles::tests::a_handle",
        ],
    },
];

/// Cases of a property test: each takes seconds.
const CASES: u32 = 2;

/// A step of `cargo xtask test`.
pub fn step(workspace: &Workspace) -> Result<Outcome> {
    if shell::output(cargo().args(["miri", "--version"])).is_err() {
        let missing =
            "nothing: Miri is not here (rustup toolchain install nightly --component miri,rust-src)";
        return Ok(Outcome::Passed(missing.into()));
    }
    let mut tests = 0;
    for set in &SETS {
        let mut miri = cargo();
        miri.args(["miri", "test", "--locked", "-p", set.package]).args(set.targets);
        miri.arg("--target-dir").arg(workspace.target.join("miri")).arg("--").args(set.filters);
        // Clocks, and the files that property tests keep their failures in.
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", CASES.to_string());
        miri.env("RUST_BACKTRACE", "0").env("CARGO_INCREMENTAL", "0");
        let (passed, said) = shell::capture(&mut miri)?;
        print!("{said}");
        let counted = ran(&said).filter(|_| passed);
        tests += counted.with_context(|| format!("`{}` failed", shell::spell(&miri)))?;
        if let Some(filter) = set.filters.iter().find(|filter| !has_run(&said, filter)) {
            bail!(
                "no test of {} is called {filter}: say in tests/lab/src/miri.rs what it is now",
                set.package
            );
        }
    }
    Ok(Outcome::Passed(format!("{tests} tests of the kernel and the C interface, and trials of soundness")))
}

/// The cargo of the nightly toolchain: by rustup's name for it, as the one that runs this is
/// another.
fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.arg("+nightly").current_dir(workspace::checkout());
    // What the outer cargo tells of itself.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        cargo.env_remove(variable);
    }
    cargo
}

/// The tests that passed, of what the harness says; none is a failure too.
fn ran(said: &str) -> Option<u32> {
    let counts = said.lines().filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
    let all: u32 = counts.filter_map(|count| count.parse::<u32>().ok()).sum();
    (all > 0).then_some(all)
}

/// Returns true if a test passed whose name has this in it.
fn has_run(said: &str, filter: &str) -> bool {
    let tests = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    tests.into_iter().any(|test| test.contains(filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted_and_there_are_some() {
        let said =
            "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored\ntest result: ok. 3 passed; 0";
        assert_eq!(ran(said), Some(5));
        assert_eq!(ran("test result: ok. 0 passed; 0 failed"), None);
        assert!(has_run("running 1 test\ntest fifo::tests::it ... ok", "fifo::"));
        assert!(!has_run("test fifo::tests::it ... FAILED\ntest result: ok. fifo:: ok", "fifo::"));
    }
}
