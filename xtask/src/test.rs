//! `cargo xtask test`: everything that proves the project, one step after the other, and what could
//! not be done.

use core::num::NonZero;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use aldis_lab::{bench, conformance, endian, faults, fuzz, miri, mpi, qemu, sanitizers, sim, storm, verbs};
use aldis_shell::steps::{Outcome, Run, Verdict};
use aldis_shell::table::Table;
use aldis_shell::wild::Wild;
use aldis_shell::workspace::{self, Package, Workspace};
use aldis_shell::{compiles, harness, host_units, shell};
use aldis_sys::bpf::map_of_sockets;
use aldis_sys::xdp::xdp_socket;
use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::background::{Background, claim};
use crate::firmware;
use crate::{arrows, fences, house, licences, size};

/// Runs everything that proves the project and says plainly what it skipped and how to enable it.
///
/// Formatting, dependency arrows, fences of unsafe code, measures of the sources, licences, clippy
/// for each package and feature, documentation, unit and integration tests, bugs planted for them;
/// then, unless skipped as slow, a campaign of the simulator, the conformance suite on 300 seeds, a
/// storm of signals, calls of the system that fail, programs in C, mpi4py's tests and rsmpi's
/// examples over its interface of MPI, a job with an emulated big-endian machine, RDMA in emulated
/// machines, jobs of firmware in emulators, fuzz targets, trials of soundness under Miri, the loom
/// models, those trials under the sanitizers, instructions of calls, a check for firmware targets,
/// the firmware's size and contents, and a short run of the benchmark against the peers. Steps that
/// only build and compute run beside the others at low priority, and tell at their end. A step that
/// does not come to its end is ended, and what it ran is told. Needs no root and no package.
#[derive(Args)]
pub(crate) struct Test {
    /// Leave out the simulator, conformance, the storm, faults, programs in C, mpi4py, rsmpi, loom,
    /// sanitizers, Miri, fuzz, firmware, size, endian, emulators, RDMA and the peers
    #[arg(long)]
    skip_slow: bool,
    /// Run only this step; several may be named, and run one after the other in the usual order
    #[arg(long = "step", value_name = "NAME", conflicts_with = "skip_slow", value_parser = PossibleValuesParser::new(STEPS.map(|step| step.name)))]
    steps: Vec<String>,
    /// Run foreign suites and guests at every size, trials over sockets under the sanitizers too,
    /// and more seeds, cases and inputs of the campaigns
    #[arg(long)]
    full: bool,
    /// Measure the exact costs (sources, instructions, sizes of the firmware) and write them into
    /// baselines.json, instead of testing
    #[arg(long, conflicts_with_all = ["skip_slow", "steps", "full"])]
    update: bool,
    /// Build what the step `tests` runs, and end: for the time in which packages that other steps
    /// need are being installed
    #[arg(long, conflicts_with_all = ["skip_slow", "steps", "full", "update"])]
    prepare: bool,
    /// A skipped step is a failure
    #[arg(long)]
    require: bool,
    /// Write each step's outcome into this file as it ends, one JSON object a line
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// A lane of steps beside the others, which claim theirs in this folder
    #[arg(long, value_name = "FOLDER", hide = true, requires = "steps")]
    claims: Option<PathBuf>,
}

/// A step, and when it runs.
#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    when: When,
    work: fn(&Workspace) -> Result<Outcome>,
    /// The work at every size, where that is more.
    full: Option<fn(&Workspace) -> Result<Outcome>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// Unless skipped as slow.
    Slow,
    /// So too, and beside the others: it has no deadlines that a busy machine could miss, and no
    /// folder of theirs.
    Background,
}

const STEPS: [Step; 29] = {
    use When::{Always, Background, Slow};
    const fn step(name: &'static str, when: When, work: fn(&Workspace) -> Result<Outcome>) -> Step {
        Step { name, when, work, full: None }
    }
    [
        step("format", Always, |_| format()),
        step("arrows", Always, |_| arrows::check()),
        step("fences", Always, |_| fences::check()),
        step("house", Always, |_| house::check()),
        step("licences", Always, |_| licences::check()),
        step("clippy", Always, clippy),
        step("documentation", Always, |_| documentation()),
        step("tests", Always, |_| tests()),
        step("planted", Always, |_| planted()),
        Step { full: Some(|_| sim::step_in_full()), ..step("simulator", Slow, |_| sim::step()) },
        Step {
            full: Some(|_| conformance::step_in_full()),
            ..step("conformance", Slow, |_| conformance::step())
        },
        step("storm", Slow, |_| storm::step()),
        step("faults", Slow, |_| faults::step()),
        step("mpi", Slow, |_| mpi::step()),
        Step { full: Some(|_| mpi::clients_in_full()), ..step("mpi4py", Slow, |_| mpi::clients()) },
        Step { full: Some(|_| mpi::examples_in_full()), ..step("rsmpi", Slow, |_| mpi::examples()) },
        step("cards", Slow, |_| cards()),
        step("endian", Slow, endian::step),
        Step { full: Some(|_| verbs::step_in_full()), ..step("verbs", Slow, |_| verbs::step()) },
        // Begun first, as the next step waits for them.
        step("images", Background, qemu::images),
        step("qemu", Slow, |_| qemu::step()),
        // The longest first, so that both lanes have work to the end.
        Step { full: Some(|_| fuzz::step_in_full()), ..step("fuzz", Background, |_| fuzz::step()) },
        Step { full: Some(miri::step_in_full), ..step("miri", Background, miri::step) },
        Step { full: Some(loom_in_full), ..step("loom", Background, loom) },
        Step { full: Some(sanitizers::step_in_full), ..step("sanitizers", Background, sanitizers::step) },
        step("instructions", Background, |_| bench::hold_instructions()),
        step("firmware", Background, firmware::step),
        step("size", Background, size::check),
        // What measures does not share the machine.
        step("peers", Slow, |_| bench::peers()),
    ]
};

/// The steps that there are.
pub(crate) fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|step| step.name)
}

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        if self.update {
            house::update()?;
            size::update(&workspace)?;
            return bench::update_instructions();
        }
        if compiles::log().is_none() {
            compiles::begin(&workspace.target)?;
        }
        if self.prepare {
            shell::run(tests_of_all().args(["--quiet", "--no-run"]))?;
            compiles::tables()?.iter().for_each(|table| println!("{table}"));
            return Ok(());
        }
        let mut run = Run::new(self.report.as_deref())?;
        if !self.steps.is_empty() {
            self.chosen(&workspace, &mut run);
            return self.judge(&run);
        }
        let beside = STEPS.iter().filter(|step| step.when == When::Background).map(|step| step.name);
        let mut background = if self.skip_slow {
            None
        } else {
            Some(Background::start(&workspace.target, &beside.collect::<Vec<_>>(), self.full)?)
        };
        for step in &STEPS {
            match (step.when, &mut background) {
                (When::Always, _) | (When::Slow, Some(_)) => {
                    run.step(step.name, || self.work(step)(&workspace));
                }
                (When::Background, Some(background)) => background.join(step.name, &mut run)?,
                (_, None) => run.step(step.name, skipped_as_slow),
            }
        }
        self.judge(&run)
    }

    /// Runs the steps that are named: in the usual order, or of a lane beside the others, in the
    /// order in which it is told them and without those that the other lane has.
    fn chosen(&self, workspace: &Workspace, run: &mut Run) {
        let named = |name: &String| STEPS.iter().find(|step| step.name == name);
        if let Some(claims) = &self.claims {
            for step in self.steps.iter().filter_map(named).filter(|step| claim(claims, step.name)) {
                run.step(step.name, || self.work(step)(workspace));
            }
            return;
        }
        for step in STEPS.iter().filter(|step| self.steps.iter().any(|name| name == step.name)) {
            run.step(step.name, || self.work(step)(workspace));
        }
    }

    fn work(&self, step: &Step) -> fn(&Workspace) -> Result<Outcome> {
        step.full.filter(|_| self.full).unwrap_or(step.work)
    }

    fn judge(&self, run: &Run) -> Result<()> {
        let mut table = Table::new(["step", "seconds", "processor s", "outcome"]);
        for done in &run.done {
            let [seconds, processor] = [done.seconds, done.processor].map(|seconds| format!("{seconds:.1}"));
            table.row([done.step.clone(), seconds, processor, done.outcome.clone()]);
        }
        println!("\n{table}");
        compiles::tables()?.iter().for_each(|table| println!("{table}"));
        let count = |verdict| run.done.iter().filter(|done| done.verdict == verdict).count();
        let (skipped, failed, steps) = (count(Verdict::Skipped), count(Verdict::Failed), run.done.len());
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

fn skipped_as_slow() -> Result<Outcome> {
    Ok(Outcome::Skipped { why: "--skip-slow".into(), enable: "cargo xtask test".into() })
}

/// Returns true if cargo has a subcommand that comes as a component.
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
    shell::run(workspace::cargo().args(["fmt", "--check", "--manifest-path", "tests/unikernel/Cargo.toml"]))?;
    Ok(Outcome::Passed(String::new()))
}

/// The package beside which one is built alone, to use what was built for all.
const FEATURES: &str = "aldis-features";
/// The feature that it has on by default, for where defaults are off: without it, macros alone are
/// built as for all.
const LIBRARIES: &str = "aldis-features/libraries";

/// Features that are linted at once, in those packages that have them: each of them is built
/// without the others by another step.
const LINTED_AT_ONCE: [&[&str]; 2] = [
    &["arceos", "defmt", "embassy", "half", "memif", "smoltcp", "virtio", "xdp"],
    &["faults", "planted-bugs", verbs::FEATURE],
];

/// Each package of the core by itself, as features that another one happens to turn on would hide
/// what is wrong without them, and the others together; those of the core once more without what is
/// on by default, as firmware has them; once more for each feature, or several [at
/// once](LINTED_AT_ONCE), all packages that have it, and never with all features.
fn clippy(workspace: &Workspace) -> Result<Outcome> {
    if !has_component("clippy") {
        return Ok(missing_component("clippy"));
    }
    let names = workspace.packages.iter().map(|package| package.name.as_str());
    let (core, others): (Vec<&str>, Vec<&str>) = names.partition(|name| firmware::CRATES.contains(name));
    for package in &core {
        lint(&[package], &["--all-targets"])?;
    }
    lint(&others, &["--all-targets"])?;
    let (mut runs, mut without) = (core.len() + 1, "");
    let has_default = |package: &&Package| core.contains(&package.name.as_str()) && !on(package).is_empty();
    for package in workspace.packages.iter().filter(has_default) {
        lint(&[&package.name], &["--no-default-features"])?;
        runs += 1;
    }
    let mut features = features(workspace);
    if !verbs::can_build() {
        features.remove(verbs::FEATURE);
        without = ", without verbs: no libibverbs and librdmacm";
    }
    for group in at_once(features) {
        let packages: BTreeSet<&str> = group.iter().flat_map(|(_, packages)| packages).copied().collect();
        let named = |(feature, packages): &(&str, Vec<&str>)| -> Vec<String> {
            packages.iter().map(|package| format!("{package}/{feature}")).collect()
        };
        let named = group.iter().flat_map(named).collect::<Vec<String>>().join(",");
        lint(&Vec::from_iter(packages), &["--features", &named])?;
        runs += 1;
    }
    Ok(Outcome::Passed(format!("{} packages, {runs} runs{without}", workspace.packages.len())))
}

/// The features of a package that are on by default.
fn on(package: &Package) -> &[String] {
    package.features.get("default").map_or(&[], Vec::as_slice)
}

/// Every feature but those that are on by default, and the packages that have it.
fn features(workspace: &Workspace) -> BTreeMap<&str, Vec<&str>> {
    let mut features = BTreeMap::<&str, Vec<&str>>::new();
    for package in &workspace.packages {
        let is_off = |feature: &&String| *feature != "default" && !on(package).contains(feature);
        for feature in package.features.keys().filter(is_off) {
            features.entry(feature).or_default().push(&package.name);
        }
    }
    features
}

/// Features, and the packages that have them, in groups that are linted at once.
fn at_once<'w>(mut features: BTreeMap<&'w str, Vec<&'w str>>) -> Vec<Vec<(&'w str, Vec<&'w str>)>> {
    let mut together = |names: &&[&str]| -> Vec<_> {
        names.iter().filter_map(|name| features.remove_entry(*name)).collect()
    };
    let mut groups: Vec<_> = LINTED_AT_ONCE.iter().map(&mut together).collect();
    groups.extend(features.into_iter().map(|alone| vec![alone]));
    groups.retain(|group| !group.is_empty());
    groups
}

fn lint(packages: &[&str], flags: &[&str]) -> Result<()> {
    eprintln!("  {} {}", packages.join(" "), flags.join(" "));
    let mut cargo = workspace::cargo();
    cargo.args(["clippy", "--quiet", "--locked"]).args(packages.iter().flat_map(|package| ["-p", package]));
    cargo.args(["-p", FEATURES, "--features", LIBRARIES]).args(flags).arg("--").args(LINT_FLAGS);
    shell::run(&mut cargo)
}

/// The flags of clippy: each package is linted where it is named.
const LINT_FLAGS: [&str; 3] = ["--no-deps", "-D", "warnings"];

fn documentation() -> Result<Outcome> {
    let mut cargo = workspace::cargo();
    cargo.args(["doc", "--quiet", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    // What clippy has checked serves here too, if it was checked by the same command: as cargo
    // clippy has it, which hands its flags on so. Where that is no longer so all is checked again.
    let driver = workspace::sysroot()?.join("bin/clippy-driver");
    if driver.is_file() {
        let flags = LINT_FLAGS.map(|flag| format!("{flag}__CLIPPY_HACKERY__")).concat();
        cargo.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", flags);
    }
    shell::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed(String::new()))
}

fn tests() -> Result<Outcome> {
    // Many of them wait for processes, deadlines and signals most of the time.
    let threads = 3 * thread::available_parallelism().map_or(1, NonZero::get);
    let mut cargo = tests_of_all();
    let seed = property_seed();
    eprintln!("property tests: {PROPERTY_SEED}={seed}; replay with it in the environment of cargo test");
    let run = |cargo: &mut Command| {
        shell::run(cargo.env("RUST_TEST_THREADS", threads.to_string()).env(PROPERTY_SEED, &seed))
            .with_context(|| format!("with {PROPERTY_SEED}={seed}"))
    };
    // The kernel once more as firmware has it: without its fast paths and remote memory.
    let mut small = workspace::cargo();
    small.args([
        "test",
        "--locked",
        "-p",
        "aldis-kernel",
        "-p",
        FEATURES,
        "--no-default-features",
        "--features",
        LIBRARIES,
        "--tests",
    ]);
    let outcomes = [run(&mut cargo), run(&mut small)];
    outcomes.into_iter().collect::<Result<()>>()?;
    Ok(Outcome::Passed(format!("{PROPERTY_SEED}={seed}")))
}

/// The forwarding program of DPDK, and the package that brings it on Debian.
const TESTPMD: [&str; 2] = ["dpdk-testpmd", "dpdk-dev"];

/// The programs that jobs over PCI cards take into a guest, as the tests of cards are built with
/// them.
const OF_GUESTS: [&str; 3] = ["aldis-run", "aldis-nic", "launcher_rank"];

/// Runs the tests of cards in memory that is shared with DPDK, and with the system, and of those on
/// PCI in a guest: they were built with all others.
fn cards() -> Result<Outcome> {
    let [program, package] = TESTPMD;
    let no_testpmd =
        (!shell::has(program)).then(|| (format!("no {program}"), format!("apt-get install {package}")));
    // What a program for frames takes, and a network of one's own to try it in.
    let tried = xdp_socket().and_then(|_| map_of_sockets(1)).err();
    let no_tshark = (!shell::has("tshark")).then(|| ("no tshark".into(), "apt-get install tshark".into()));
    let no_xdp =
        tried.map(|errno| (format!("no AF_XDP: {}", errno.desc()), "run as root, Linux since 5.9".into()));
    let parts = [("memif_", no_testpmd), ("xdp_", no_xdp), ("tshark_", no_tshark)];
    let filters: Vec<_> =
        parts.iter().filter(|(_, missing)| missing.is_none()).map(|(filter, _)| *filter).collect();
    let mut cargo = tests_of_all();
    cargo.args(["--test", "launcher", "--test", "nic"]);
    let mut tests = 0;
    if filters.is_empty() {
        shell::run(cargo.arg("--no-run"))?;
    } else {
        cargo.args(["--", "--ignored", "--test-threads", "1"]);
        tests = harness::pass(&mut cargo, &filters)?;
    }
    let folder = Workspace::members()?.target.join("debug");
    let on_pci = match verbs::pci_cards(OF_GUESTS.map(|name| folder.join(name)).into())? {
        Outcome::Passed(on_pci) => on_pci,
        missing => return Ok(missing),
    };
    match parts.into_iter().find_map(|(_, missing)| missing) {
        Some((why, enable)) => Ok(Outcome::Skipped { why, enable }),
        None => Ok(Outcome::Passed(format!("{tests} tests, some beside {program}; in a guest {on_pci}"))),
    }
}

/// Cargo, to build and run the tests of the whole workspace but those of the conformance suite,
/// which the step "conformance" has: each case is compiled for every transport.
fn tests_of_all() -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--locked", "--workspace", "--exclude", conformance::PACKAGE, "--no-fail-fast"]);
    cargo
}

/// The variable from which proptest takes the seed of all that it draws, beside the failures that
/// it keeps in files.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// The seed of property tests: that of the environment, to replay a run, or a wild one.
fn property_seed() -> String {
    env::var(PROPERTY_SEED).unwrap_or_else(|_| Wild::of("tests").from.to_string())
}

/// Checks that the simulator finds the bugs that a feature of the kernel plants. In a build of its
/// own, so that no other test meets that feature; of the workspace, so that all but what has the
/// feature is what the other tests were built with.
fn planted() -> Result<Outcome> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--locked", "--workspace", "--features", "aldis-sim/planted-bugs"]);
    cargo.args(["--exclude", conformance::PACKAGE, "--test", "planted"]);
    // It is built again for this alone, and is not what takes the time here.
    cargo.args(["--config", "profile.dev.package.aldis-coll.opt-level=0"]);
    let wild = Wild::of("planted");
    cargo.env("ALDIS_WILD_FROM", wild.from.to_string());
    shell::run(cargo.args(["--", "--nocapture"]))?;
    Ok(Outcome::Passed(wild.to_string()))
}

/// The way the models are optimised, below the checkout.
const LOOM: &str = "xtask/loom.toml";

/// The lock-free structures under every interleaving. A folder of its own, because the flag
/// rebuilds everything.
fn loom(workspace: &Workspace) -> Result<Outcome> {
    explore(workspace, &[])
}

/// With the models that take minutes.
fn loom_in_full(workspace: &Workspace) -> Result<Outcome> {
    explore(workspace, &["--include-ignored"])
}

fn explore(workspace: &Workspace, options: &[&str]) -> Result<Outcome> {
    let mut models = 0;
    let folder = workspace.target.join("loom");
    host_units::share(workspace, &folder)?;
    // The first is made of macros, which are those that all is made of.
    let macros = ["-p", FEATURES, "--no-default-features"];
    for (package, beside) in [("aldis-drivers", &macros[..]), ("aldis-records", &[])] {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--locked", "--config", LOOM]).args(["-p", package, "--lib"]).args(beside);
        // A target of its own name, so that the flag is not one of macros and build scripts.
        cargo.args(["--target", &workspace::host()?, "--target-dir"]).arg(&folder);
        cargo.env("RUSTFLAGS", "--cfg loom").env_remove("CARGO_ENCODED_RUSTFLAGS");
        models += harness::pass(cargo.arg("--").args(options), &["models::"])?;
    }
    Ok(Outcome::Passed(format!("{models} models")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The files below a folder that are named `.rs`, but those of the programs of a library.
    fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("src/bin") {
                sources(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }

    #[test]
    fn every_feature_is_linted_once() {
        let workspace = Workspace::members().unwrap();
        let all = features(&workspace);
        let groups = at_once(all.clone());
        assert!(groups.len() < all.len() && groups.len() >= LINTED_AT_ONCE.len());
        assert_eq!(groups.into_iter().flatten().collect::<BTreeMap<_, _>>(), all);
        assert!(LINTED_AT_ONCE.iter().copied().flatten().all(|name| all.contains_key(name)));
    }

    #[test]
    fn what_is_built_without_a_harness_has_no_tests() {
        let workspace = Workspace::members().unwrap();
        let targets = workspace.packages.iter().flat_map(|package| &package.targets);
        let mut seen = 0;
        for target in targets.filter(|target| !target.test) {
            let is_root = ["lib.rs", "main.rs"].iter().any(|name| target.src_path.ends_with(name));
            let mut files = vec![target.src_path.clone()];
            if is_root {
                sources(target.src_path.parent().unwrap(), &mut files);
            }
            for file in files {
                let text = fs::read_to_string(&file).unwrap();
                let is_test = |line: &str| line.trim() == "#[test]";
                assert!(!text.lines().any(is_test), "{} of {}", file.display(), target.name);
            }
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }

    /// The first example in what a source says of itself: a block of code, fenced or indented, but
    /// fenced ones of plain text, or a page that is taken in.
    fn example(text: &str) -> Option<&str> {
        let mut is_inside = false;
        text.lines().map(str::trim).find(|line| {
            let Some(said) = ["///", "//!"].iter().find_map(|start| line.strip_prefix(start)) else {
                return line.contains("doc = include_str!") || line.contains("doc(include");
            };
            let fence = said.trim().strip_prefix("```");
            let is_code =
                !is_inside && (fence.is_some_and(|kind| kind != "text") || said.starts_with("     "));
            is_inside ^= fence.is_some();
            is_code
        })
    }

    #[test]
    fn an_example_is_a_block_of_code() {
        for code in
            ["//! ```\n//! run();", "/// ```no_run\n", "///     run();", "#![doc = include_str!(\"a.md\")]"]
        {
            assert!(example(code).is_some(), "{code}");
        }
        let text = "/// ```text\n///      a\n/// ```\n/// - b\n///   c `d`\n";
        assert_eq!(example(text), None);
        assert!(example(&format!("{text}/// ```\n")).is_some());
    }

    #[test]
    fn what_is_not_searched_for_examples_has_none() {
        let workspace = Workspace::members().unwrap();
        let targets = workspace.packages.iter().flat_map(|package| &package.targets);
        let mut seen = 0;
        for target in targets.filter(|target| !target.doctest && target.src_path.ends_with("src/lib.rs")) {
            let mut files = Vec::new();
            sources(target.src_path.parent().unwrap(), &mut files);
            for file in files {
                let text = fs::read_to_string(&file).unwrap();
                assert_eq!(example(&text), None, "{} of {}", file.display(), target.name);
            }
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }
}
