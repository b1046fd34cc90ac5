//! The tasks of a check, nearest to the change first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use aldis_shell::artifact::{Artifact, ArtifactTarget};
use aldis_shell::shell;
use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};

use super::cargo;
use super::change::ChangeSet;
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
    /// Clippy on a package and its tests.
    Lint {
        package: String,
    },
    /// The compiler on the whole workspace, without code being made.
    Compile,
    /// The tests of packages, run one program after the other.
    Tests {
        packages: Vec<String>,
        build: Build,
    },
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
            Self::Lint { package } => {
                let mut command = cargo(&["clippy", "--quiet", "--locked", "-p", package]);
                command.args(["--all-targets", "--", "-D", "warnings"]);
                command
            }
            Self::Compile => cargo(&["check", "--quiet", "--locked", "--workspace", "--all-targets"]),
            Self::Tests { packages, build: Build::Alone } => {
                each(cargo(&["test", "--quiet", "--locked"]), packages)
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
    for package in &near {
        add(format!("lint {package}"), TaskKind::Lint { package: package.clone() }, true);
    }
    let (core, others): (Vec<String>, Vec<String>) =
        near.into_iter().partition(|name| firmware::CRATES.contains(&name.as_str()));
    for package in core {
        let name = format!("build the tests of {package}");
        add(name, TaskKind::Tests { packages: vec![package], build: Build::Alone }, true);
    }
    if !others.is_empty() {
        let name = format!("build the tests of {}", others.join(", "));
        add(name, TaskKind::Tests { packages: others, build: Build::Whole }, true);
    }
    let above = above(&change.packages, workspace);
    if !above.is_empty() {
        add("compile what stands above".into(), TaskKind::Compile, false);
        let work = TaskKind::Tests { packages: above, build: Build::Whole };
        add("build the tests of what stands above".into(), work, false);
    }
    tasks
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
}

impl TestProgram {
    /// The command that builds and runs it again.
    pub(super) fn command(&self) -> String {
        let Self { package, name, kind, .. } = self;
        match kind.as_str() {
            "test" | "bin" | "bench" | "example" => format!("cargo test -p {package} --{kind} {name}"),
            _ => format!("cargo test -p {package} --lib"),
        }
    }

    /// Runs it; what it says is shown when it fails.
    pub(super) fn run(&self) -> Result<()> {
        let mut command = Command::new(&self.file);
        command.arg("--quiet").current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
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
    let TaskKind::Tests { packages, .. } = work else { return Ok(Vec::new()) };
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
        })
    };
    let place = |program: &TestProgram| packages.iter().position(|package| *package == program.package);
    let mut programs: Vec<TestProgram> =
        artifacts.filter_map(program).filter(|program| place(program).is_some()).collect();
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
