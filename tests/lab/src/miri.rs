//! The step `miri`: what can be interpreted, by Miri, which sees what no sanitizer does: aliasing,
//! provenance, values that cannot be, and races by any schedule. It comes with the nightly
//! toolchain alone; where it is not, the step says so.

use std::process::Command;

use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use aldis_shell::{harness, shell};
use anyhow::Result;

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
        targets: &["--test", "kernel"],
        filters: &["view::a_message_is_looked_at_where_it_is"],
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

/// Cases of a property test, and with `--full`: each takes seconds, and is another in every run.
const CASES: u32 = 1;
const FULL_CASES: u32 = 8;

/// A step of `cargo xtask test`.
pub fn step(workspace: &Workspace) -> Result<Outcome> {
    interpret(workspace, CASES)
}

/// Runs the step with more cases of each property test.
pub fn step_in_full(workspace: &Workspace) -> Result<Outcome> {
    interpret(workspace, FULL_CASES)
}

fn interpret(workspace: &Workspace, cases: u32) -> Result<Outcome> {
    if shell::output(cargo().args(["miri", "--version"])).is_err() {
        let missing =
            "nothing: Miri is not here (rustup toolchain install nightly --component miri,rust-src)";
        return Ok(Outcome::Passed(missing.into()));
    }
    let mut tests = 0;
    for set in &SETS {
        let mut miri = cargo();
        miri.args(["miri", "test", "--locked", "-p", set.package]).args(set.targets);
        miri.arg("--target-dir").arg(workspace.target.join("miri")).arg("--");
        // Clocks, and the files that property tests keep their failures in.
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", cases.to_string());
        miri.env("RUST_BACKTRACE", "0").env("CARGO_INCREMENTAL", "0");
        tests += harness::pass(&mut miri, set.filters)?;
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
