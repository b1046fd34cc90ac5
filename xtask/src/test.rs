//! `cargo xtask test`: everything that proves the project, one step after the other, and what could not be done.

use core::num::NonZero;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use crate::firmware;
use crate::steps::Outcome;
use crate::table::Table;
use crate::workspace::{self, Workspace};
use crate::{arrows, bench, conformance, endian, fences, licences, limit, qemu, shell, sim, size, verbs};

/// Runs everything that proves the project and says plainly what it skipped and how to enable it.
///
/// Formatting, dependency arrows, fences of unsafe code, licences, clippy for each package and feature, documentation, unit and
/// integration tests, bugs planted for them; then, unless skipped as slow, a campaign of the simulator, the conformance suite
/// on 300 seeds, the loom models, a check for every firmware target, the firmware's size and contents, a job with an
/// emulated big-endian machine, jobs of firmware in emulators, and a short run of the benchmark against the peers. A step that
/// does not come to its end is ended, and what it ran is told. Needs no root and no package.
#[derive(Args)]
pub(crate) struct Test {
    /// Leave out the simulator, conformance, loom, firmware, size, endian, emulators and the peers
    #[arg(long)]
    skip_slow: bool,
    /// A skipped step is a failure
    #[arg(long)]
    require: bool,
}

/// One step as it went.
struct Done {
    name: String,
    seconds: f64,
    outcome: Result<Outcome>,
}

/// The steps so far.
#[derive(Default)]
struct Run {
    done: Vec<Done>,
}

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        let mut run = Run::default();
        run.step("format", format);
        run.step("arrows", arrows::check);
        run.step("fences", fences::check);
        run.step("licences", licences::check);
        run.step("clippy", || clippy(&workspace));
        run.step("documentation", documentation);
        run.step("tests", tests);
        run.step("planted", planted);
        if self.skip_slow {
            for name in ["simulator", "conformance", "loom", "firmware", "size", "endian", "qemu", "peers"] {
                run.step(name, skipped_as_slow);
            }
        } else {
            run.step("simulator", sim::step);
            run.step("conformance", conformance::step);
            run.step("loom", || loom(&workspace));
            run.step("firmware", || firmware::step(&workspace));
            run.step("size", || size::check(&workspace));
            run.step("endian", || endian::step(&workspace));
            run.step("qemu", qemu::step);
            run.step("peers", bench::peers);
        }
        self.judge(&run)
    }

    fn judge(&self, run: &Run) -> Result<()> {
        let mut table = Table::new(["step", "seconds", "outcome"]);
        for done in &run.done {
            table.row([done.name.clone(), format!("{:.1}", done.seconds), Outcome::spell(&done.outcome)]);
        }
        println!("\n{table}");
        let skipped =
            run.done.iter().filter(|done| matches!(done.outcome, Ok(Outcome::Skipped { .. }))).count();
        let failed = run.done.iter().filter(|done| done.outcome.is_err()).count();
        let steps = run.done.len();
        if failed > 0 {
            bail!("{failed} of {steps} steps failed");
        }
        if self.require && skipped > 0 {
            bail!("{skipped} of {steps} steps skipped, and --require allows none");
        }
        println!("verdict: {} of {steps} steps are good, {skipped} skipped", steps - skipped);
        Ok(())
    }
}

impl Run {
    /// Runs a step and shows at once how it went; a failed one does not keep the others from running.
    fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome>) {
        eprintln!("==> {name}");
        let start = Instant::now();
        let outcome = limit::within(limit_of(name), work);
        let seconds = start.elapsed().as_secs_f64();
        if let Err(error) = &outcome {
            eprintln!("{error:#}");
        }
        eprintln!("<== {name}: {} ({seconds:.1} s)", Outcome::spell(&outcome));
        self.done.push(Done { name: name.into(), seconds, outcome });
    }
}

/// What a step may take before it is ended as one that hangs: many times what it needs on two cores that others use too,
/// with nothing built yet.
fn limit_of(step: &str) -> Duration {
    let minutes = match step {
        "format" | "arrows" | "fences" | "licences" => 15,
        "clippy" | "tests" | "conformance" => 120,
        _ => 60,
    };
    Duration::from_secs(60 * minutes)
}

fn skipped_as_slow() -> Result<Outcome> {
    Ok(Outcome::Skipped { why: "--skip-slow".into(), enable: "cargo xtask test".into() })
}

/// Whether cargo has a subcommand that comes as a component.
fn has_component(subcommand: &str) -> bool {
    shell::output(workspace::cargo().args([subcommand, "--version"])).is_ok()
}

fn missing_component(component: &str) -> Outcome {
    Outcome::Skipped {
        why: format!("{component} is not installed"),
        enable: format!("rustup component add {component}"),
    }
}

fn format() -> Result<Outcome> {
    if !has_component("fmt") {
        return Ok(missing_component("rustfmt"));
    }
    shell::run(workspace::cargo().args(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed(String::new()))
}

/// Each package by itself and once more with each feature: features that another package happens to turn on would
/// hide what is wrong without them, and `defmt` does not link on a host.
fn clippy(workspace: &Workspace) -> Result<Outcome> {
    if !has_component("clippy") {
        return Ok(missing_component("clippy"));
    }
    let (mut runs, mut without) = (0, "");
    for package in &workspace.packages {
        lint(&package.name, &["--all-targets"])?;
        for feature in package.features.keys().filter(|feature| *feature != "default") {
            if feature == verbs::FEATURE && !verbs::can_build() {
                without = ", without verbs: no libibverbs";
                continue;
            }
            lint(&package.name, &["--features", feature])?;
            runs += 1;
        }
        runs += 1;
    }
    Ok(Outcome::Passed(format!("{} packages, {runs} runs{without}", workspace.packages.len())))
}

fn lint(package: &str, flags: &[&str]) -> Result<()> {
    eprintln!("  {package} {}", flags.join(" "));
    let mut cargo = workspace::cargo();
    cargo.args(["clippy", "--quiet", "--locked", "-p", package]).args(flags).args(["--", "-D", "warnings"]);
    shell::run(&mut cargo)
}

fn documentation() -> Result<Outcome> {
    let mut cargo = workspace::cargo();
    cargo.args(["doc", "--quiet", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    shell::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed(String::new()))
}

fn tests() -> Result<Outcome> {
    // Many of them wait for processes, deadlines and signals most of the time.
    let threads = 3 * thread::available_parallelism().map_or(1, NonZero::get);
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--locked", "--workspace", "--no-fail-fast"]);
    shell::run(cargo.env("RUST_TEST_THREADS", threads.to_string()))?;
    Ok(Outcome::Passed(String::new()))
}

/// Whether the simulator finds the bugs that a feature of the kernel plants. A build of its own, so that no other test meets
/// that feature; of the workspace, so that all but what has the feature is what the other tests were built with.
fn planted() -> Result<Outcome> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--locked", "--workspace", "--features", "aldis-host-sim/planted-bugs"]);
    cargo.args(["--test", "planted"]);
    shell::run(cargo.args(["--", "--nocapture"]))?;
    Ok(Outcome::Passed(String::new()))
}

/// The lock-free structures under every interleaving. A folder of its own, because the flag rebuilds everything.
fn loom(workspace: &Workspace) -> Result<Outcome> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--locked", "--release", "-p", "aldis-drivers", "--test", "loom"]);
    shell::run(cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", workspace.target.join("loom")))?;
    Ok(Outcome::Passed(String::new()))
}
