//! The tasks of a check, nearest to the change first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use aldis_shell::artifact::{Artifact, ArtifactTarget};
use aldis_shell::shell;
use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};

use super::cargo;
use super::change::{ChangeSet, TestPart};
use crate::firmware;

/// A task.
pub(super) struct CheckTask {
    pub(super) name: String,
    pub(super) work: TaskKind,
    /// Of what was changed itself.
    pub(super) is_near: bool,
}

/// The work of a task.
pub(super) enum TaskKind {
    Format {
        packages: Vec<String>,
    },
    Arrows,
    Fences,
    /// Clippy on a package, and on its tests too.
    Lint {
        package: String,
        with_tests: bool,
    },
    /// The compiler on the whole workspace, without code being made.
    Compile,
    /// The tests of packages, run one program after the other.
    Tests {
        packages: Vec<String>,
        build: Build,
        choice: TestChoice,
    },
}

/// The tests that are run of those packages.
pub(super) enum TestChoice {
    All,
    Only(TestPart),
    Except(TestPart),
}

/// The way in which tests are built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    /// The package alone, with the features that it asks for itself: little is built again.
    Alone,
    /// With the whole workspace, as `cargo xtask test` does, and with the programs that tests
    /// start.
    Whole,
}

impl TaskKind {
    /// The command of cargo that does it, or builds it.
    pub(super) fn cargo(&self) -> Command {
        let each = |mut command: Command, packages: &[String]| {
            command.args(packages.iter().flat_map(|package| ["-p", package]));
            command
        };
        match self {
            Self::Format { packages } => {
                let mut command = each(cargo(&["fmt"]), packages);
                command.arg("--check");
                command
            }
            Self::Arrows => cargo(&["xtask", "test", "--step", "arrows"]),
            Self::Fences => cargo(&["xtask", "test", "--step", "fences"]),
            Self::Lint { package, with_tests } => {
                let mut command = cargo(&["clippy", "--quiet", "--locked", "-p", package]);
                command.args(with_tests.then_some("--all-targets")).args([
                    "--no-deps",
                    "--",
                    "-D",
                    "warnings",
                ]);
                command
            }
            Self::Compile => cargo(&["check", "--quiet", "--locked", "--workspace", "--all-targets"]),
            Self::Tests { packages, build: Build::Alone, choice } => {
                let mut command = each(cargo(&["test", "--quiet", "--locked"]), packages);
                if let TestChoice::Only(part) = choice {
                    command.args(part.target());
                }
                command
            }
            Self::Tests { build: Build::Whole, .. } => cargo(&["test", "--quiet", "--locked", "--workspace"]),
        }
    }
}

impl CheckTask {
    pub(super) fn command(&self) -> String {
        shell::spell(&self.work.cargo())
    }
}

/// The tasks for a change.
pub(super) fn tasks(change: &ChangeSet, workspace: &Workspace) -> Vec<CheckTask> {
    let mut tasks = Vec::new();
    let mut add = |name: String, work: TaskKind, is_near: bool| tasks.push(CheckTask { name, work, is_near });
    let near: Vec<String> = change.packages.iter().cloned().collect();
    if near.is_empty() {
        return tasks;
    }
    add("format".into(), TaskKind::Format { packages: near.clone() }, true);
    if change.files.iter().any(|file| file.ends_with("Cargo.toml")) {
        add("arrows".into(), TaskKind::Arrows, true);
    }
    add("fences".into(), TaskKind::Fences, true);
    if let Some(part) = change.part() {
        let package = part.package.to_owned();
        let lint = |with_tests| TaskKind::Lint { package: package.clone(), with_tests };
        let tests = |choice| TaskKind::Tests { packages: vec![package.clone()], build: Build::Alone, choice };
        add(format!("lint {package} without its tests"), lint(false), true);
        add(format!("build tests of {package}"), tests(TestChoice::Only(part.clone())), true);
        add(format!("lint {package}"), lint(true), false);
        add(format!("build the tests of {package}"), tests(TestChoice::Except(part)), false);
        add_above(&mut add, change, workspace);
        return tasks;
    }
    for package in &near {
        add(format!("lint {package}"), TaskKind::Lint { package: package.clone(), with_tests: true }, true);
    }
    let (core, others): (Vec<String>, Vec<String>) =
        near.into_iter().partition(|name| firmware::CRATES.contains(&name.as_str()));
    for package in core {
        let name = format!("build the tests of {package}");
        let (packages, choice) = (vec![package], TestChoice::All);
        add(name, TaskKind::Tests { packages, build: Build::Alone, choice }, true);
    }
    if !others.is_empty() {
        let name = format!("build the tests of {}", others.join(", "));
        let choice = TestChoice::All;
        add(name, TaskKind::Tests { packages: others, build: Build::Whole, choice }, true);
    }
    add_above(&mut add, change, workspace);
    tasks
}

/// The tasks for what stands above a change.
fn add_above(add: &mut impl FnMut(String, TaskKind, bool), change: &ChangeSet, workspace: &Workspace) {
    let packages = above(&change.packages, workspace);
    if !packages.is_empty() {
        add("compile what stands above".into(), TaskKind::Compile, false);
        let work = TaskKind::Tests { packages, build: Build::Whole, choice: TestChoice::All };
        add("build the tests of what stands above".into(), work, false);
    }
}

/// The packages that use one of these, directly or not, the nearest first; then those whose tests
/// alone use one, directly.
fn above(changed: &BTreeSet<String>, workspace: &Workspace) -> Vec<String> {
    let (mut users, mut testers) = (BTreeMap::<&str, Vec<&str>>::new(), Vec::new());
    for package in &workspace.packages {
        for dependency in &package.dependencies {
            if !dependency.is_dev() {
                users.entry(&dependency.name).or_default().push(&package.name);
            } else if changed.contains(&dependency.name) {
                testers.push(package.name.as_str());
            }
        }
    }
    let mut seen: BTreeSet<&str> = changed.iter().map(String::as_str).collect();
    let (mut floor, mut above): (Vec<&str>, Vec<String>) = (seen.iter().copied().collect(), Vec::new());
    while !floor.is_empty() {
        let next: Vec<&str> = floor.iter().filter_map(|name| users.get(name)).flatten().copied().collect();
        floor = next.into_iter().filter(|name| seen.insert(name)).collect();
        above.extend(floor.iter().map(|name| (*name).to_owned()));
    }
    above.extend(testers.into_iter().filter(|name| seen.insert(name)).map(str::to_owned));
    above
}

/// A program of tests.
pub(super) struct TestProgram {
    pub(super) package: String,
    /// `lib`, or the name of what it is built from.
    pub(super) name: String,
    kind: String,
    file: PathBuf,
    folder: PathBuf,
    /// The arguments that choose some of its tests.
    arguments: Vec<String>,
}

impl TestProgram {
    /// The command that builds and runs it again.
    pub(super) fn command(&self) -> String {
        let Self { package, name, kind, arguments, .. } = self;
        let target = match kind.as_str() {
            "test" | "bin" | "bench" | "example" => format!("--{kind} {name}"),
            _ => "--lib".into(),
        };
        let chosen =
            if arguments.is_empty() { String::new() } else { format!(" -- {}", arguments.join(" ")) };
        format!("cargo test -p {package} {target}{chosen}")
    }

    /// The name of its run among tasks.
    pub(super) fn title(&self) -> String {
        [&["run".into(), self.package.clone(), self.name.clone()], &self.arguments[..]].concat().join(" ")
    }

    /// This program with the tests that are chosen; `None` if it has none of them.
    fn with(mut self, choice: &TestChoice) -> Option<Self> {
        match choice {
            TestChoice::Only(part) => {
                self.arguments = part.names.iter().cloned().collect();
                self.has_tests().then_some(self)
            }
            TestChoice::Except(part) if part.program == self.name => {
                self.arguments = part.names.iter().flat_map(|name| ["--skip".into(), name.clone()]).collect();
                Some(self)
            }
            TestChoice::Except(_) | TestChoice::All => Some(self),
        }
    }

    fn has_tests(&self) -> bool {
        let mut list = Command::new(&self.file);
        list.args(&self.arguments).args(["--list", "--format", "terse"]).current_dir(&self.folder);
        shell::output(&mut list).is_ok_and(|said| !said.trim().is_empty())
    }

    /// Runs it; what it says is shown when it fails.
    pub(super) fn run(&self) -> Result<()> {
        let mut command = Command::new(&self.file);
        command.arg("--quiet").args(&self.arguments);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        let (is_good, said) = shell::capture(&mut command)?;
        if !is_good {
            bail!("{}", said.trim_end());
        }
        Ok(())
    }
}

/// Builds the tests of packages; their programs of them, by package. Those of documentation are
/// none.
pub(super) fn programs(work: &TaskKind, workspace: &Workspace) -> Result<Vec<TestProgram>> {
    let TaskKind::Tests { packages, choice, .. } = work else { return Ok(Vec::new()) };
    let mut build = work.cargo();
    build.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let (is_good, said) = shell::capture(&mut build)?;
    if !is_good {
        bail!("the tests of {} do not compile", packages.join(", "));
    }
    let artifacts = said.lines().filter_map(Artifact::parse);
    let program = |artifact: Artifact| {
        let Artifact { target: ArtifactTarget { name, kind }, profile, executable, manifest_path } = artifact;
        let kind = kind.into_iter().next().unwrap_or_default();
        let name = if kind == "lib" { kind.clone() } else { name };
        let package = workspace.packages.iter().find(|package| package.manifest_path == manifest_path)?;
        let file = executable.filter(|_| profile.test)?;
        Some(TestProgram {
            package: package.name.clone(),
            name,
            kind,
            file,
            folder: package.folder().to_owned(),
            arguments: Vec::new(),
        })
    };
    let place = |program: &TestProgram| packages.iter().position(|package| *package == program.package);
    let of_these = artifacts.filter_map(program).filter(|program| place(program).is_some());
    let mut programs: Vec<TestProgram> = of_these.filter_map(|program| program.with(choice)).collect();
    programs.sort_by_key(place);
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_above_comes_nearest_first() {
        let workspace = Workspace::members().unwrap();
        let above = |name: &str| above(&BTreeSet::from([name.to_owned()]), &workspace);
        let of_kernel = above("aldis-kernel");
        let place = |name: &str| of_kernel.iter().position(|other| other == name).unwrap();
        assert!(place("aldis-coll") < place("aldis-fuzz"), "{of_kernel:?}");
        assert!(!of_kernel.iter().any(|name| name == "aldis-protocols" || name == "aldis-kernel"));
        assert!(above("xtask").is_empty());
        // Tests of the drivers use what tests share, which uses the kernel.
        assert!(!of_kernel.iter().any(|name| name == "aldis-drivers"));
        let of_kit = above("aldis-kit");
        assert!(of_kit.iter().any(|name| name == "aldis-drivers"));
        assert!(!of_kit.iter().any(|name| name == "aldis-coll"), "{of_kit:?}");
    }

    #[test]
    fn a_schedule_is_tried_first_by_its_own_tests() {
        let workspace = Workspace::members().unwrap();
        let change = ChangeSet {
            files: BTreeSet::from(["coll/src/algorithms/bcast/binomial.rs".into()]),
            packages: BTreeSet::from(["aldis-coll".into()]),
            ..ChangeSet::default()
        };
        let tasks = tasks(&change, &workspace);
        let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
        let near = ["format", "fences", "lint aldis-coll without its tests", "build tests of aldis-coll"];
        assert_eq!(names[..4], near);
        assert_eq!(names[4..6], ["lint aldis-coll", "build the tests of aldis-coll"]);
        assert_eq!(tasks.iter().filter(|task| task.is_near).count(), near.len());
        assert!(tasks[3].command().ends_with("-p aldis-coll --test symbolic"), "{}", tasks[3].command());
    }

    #[test]
    fn what_was_changed_comes_first_and_is_never_left_out() {
        let workspace = Workspace::members().unwrap();
        let change = ChangeSet { packages: BTreeSet::from(["aldis-drivers".into()]), ..ChangeSet::default() };
        let tasks = tasks(&change, &workspace);
        let near: Vec<&str> =
            tasks.iter().filter(|task| task.is_near).map(|task| task.name.as_str()).collect();
        assert_eq!(near, ["format", "fences", "lint aldis-drivers", "build the tests of aldis-drivers"]);
        assert!(tasks.iter().skip(near.len()).all(|task| !task.is_near));
        let is_of_c = |task: &CheckTask| matches!(&task.work, TaskKind::Tests { packages, .. } if packages.iter().any(|name| name == "aldis-mpi"));
        assert!(tasks.iter().any(is_of_c));
        assert!(super::tasks(&ChangeSet::default(), &workspace).is_empty());
    }
}
