//! The files of a change, and the packages that they belong to.

use core::fmt;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aldis_shell::workspace::{Workspace, checkout, git};
use anyhow::{Context, Result, bail};

/// The part of a package's tests that tries what a small change touches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TestPart {
    pub(super) package: &'static str,
    /// The program that has them: `lib`, or the name of what it is built from.
    pub(super) program: &'static str,
    /// A test is one of them if its name contains one of these.
    pub(super) names: BTreeSet<String>,
}

impl TestPart {
    /// The option of cargo that chooses the program.
    pub(super) fn target(&self) -> Vec<&'static str> {
        if self.program == "lib" { vec!["--lib"] } else { vec!["--test", self.program] }
    }
}

/// A folder whose files are each tried by part of one program's tests.
struct PartFolder {
    folder: &'static str,
    package: &'static str,
    program: &'static str,
    /// The parts of tests' names that follow from a file's path below the folder.
    names: fn(&Path) -> Vec<String>,
}

const PARTS: [PartFolder; 2] = [
    // A schedule: its operation's tests, and those of its name.
    PartFolder {
        folder: "coll/src/algorithms",
        package: "aldis-coll",
        program: "symbolic",
        names: |path| {
            let above = path.parent().and_then(Path::file_name);
            above.into_iter().chain(path.file_stem()).map(|name| name.to_string_lossy().into()).collect()
        },
    },
    // A driver: the tests of its module.
    PartFolder {
        folder: "drivers/src",
        package: "aldis-drivers",
        program: "lib",
        names: |path| {
            let module = path.iter().next().and_then(|first| Path::new(first).file_stem());
            module.into_iter().map(|name| format!("{}::", name.to_string_lossy())).collect()
        },
    },
];

/// The files that have changed, and their packages.
#[derive(Debug, Default)]
pub(super) struct ChangeSet {
    /// Files, from the root of the checkout.
    pub(super) files: BTreeSet<PathBuf>,
    /// The packages that have one of them.
    pub(super) packages: BTreeSet<String>,
    /// All packages, since a file of the whole workspace is among them.
    pub(super) is_general: bool,
}

impl ChangeSet {
    /// Returns what differs from a commit, committed or not, files that git does not know yet among
    /// them.
    pub(super) fn of_git(since: Option<&str>, workspace: &Workspace) -> Result<Self> {
        let base = match since {
            Some(since) => since.to_owned(),
            None => upstream(),
        };
        let base = git(&["merge-base", &base, "HEAD"]).with_context(|| format!("no commit {base}"))?;
        let differs = git(&["diff", "--name-only", "--no-renames", "-z", base.trim()])?;
        let unknown = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        let names = [differs, unknown].concat();
        Self::of_files(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from), workspace)
    }

    /// These files, and all that git knows in these folders.
    pub(super) fn of_paths(paths: &[PathBuf], workspace: &Workspace) -> Result<Self> {
        let mut arguments = vec!["ls-files", "--cached", "--others", "--exclude-standard", "-z", "--"];
        for path in paths {
            if !checkout().join(path).exists() {
                bail!("no file {} in {}", path.display(), checkout().display());
            }
            arguments.push(path.to_str().context("a path that is no text")?);
        }
        let names = git(&arguments)?;
        Self::of_files(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from), workspace)
    }

    fn of_files(files: impl Iterator<Item = PathBuf>, workspace: &Workspace) -> Result<Self> {
        let mut change = Self { files: files.collect(), ..Self::default() };
        for file in &change.files {
            match owner(file, workspace) {
                Some(package) => drop(change.packages.insert(package.to_owned())),
                None => change.is_general |= is_general(file),
            }
        }
        if change.is_general {
            change.packages = workspace.packages.iter().map(|package| package.name.clone()).collect();
        }
        Ok(change)
    }
}

impl ChangeSet {
    /// Returns the tests that try the change, if it is of schedules alone or of drivers alone.
    pub(super) fn part(&self) -> Option<TestPart> {
        let [package] = &self.packages.iter().collect::<Vec<_>>()[..] else { return None };
        let PartFolder { folder, package, program, names } =
            PARTS.iter().find(|part| part.package == package.as_str())?;
        let is_theirs =
            |file: &&PathBuf| file.starts_with(Path::new(folder).iter().next().unwrap_or_default());
        let theirs = self.files.iter().filter(is_theirs);
        let below = theirs.map(|file| file.strip_prefix(folder).ok()).collect::<Option<Vec<_>>>()?;
        let names: BTreeSet<String> = below.into_iter().flat_map(names).collect();
        (!names.is_empty()).then_some(TestPart { package, program, names })
    }
}

/// The upstream branch, or HEAD where there is none.
fn upstream() -> String {
    let name = git(&["rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}"]);
    name.map_or_else(|_| "HEAD".into(), |name| name.trim().to_owned())
}

/// The package whose folder a file is in, the innermost one.
fn owner<'a>(file: &Path, workspace: &'a Workspace) -> Option<&'a str> {
    let file = checkout().join(file);
    let around = workspace.packages.iter().filter(|package| file.starts_with(package.folder()));
    let inner = around.max_by_key(|package| package.folder().components().count());
    inner.map(|package| package.name.as_str())
}

/// Returns true if a file of no package concerns all: it is what cargo reads.
fn is_general(file: &Path) -> bool {
    file.starts_with(".cargo")
        || ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "rustfmt.toml", "clippy.toml"]
            .iter()
            .any(|name| file == Path::new(name))
}

impl fmt::Display for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.len();
        let noun = if files == 1 { "file" } else { "files" };
        if self.is_general {
            return write!(f, "{files} {noun} changed, of the whole workspace among them");
        }
        let packages: Vec<&str> = self.packages.iter().map(String::as_str).collect();
        let packages = if packages.is_empty() { "no package".into() } else { packages.join(", ") };
        write!(f, "{files} {noun} changed, in {packages}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_innermost_package() {
        let workspace = Workspace::members().unwrap();
        let owner = |file: &str| owner(Path::new(file), &workspace);
        assert_eq!(owner("coll/src/lib.rs"), Some("aldis-coll"));
        assert_eq!(owner("host-sim/linux/src/lib.rs"), Some("aldis-linux"));
        assert_eq!(owner("host-sim/sys/src/lib.rs"), Some("aldis-sys"));
        assert_eq!(owner("README.md"), None);
    }

    #[test]
    fn schedules_and_drivers_are_tried_by_part_of_the_tests() {
        let workspace = Workspace::members().unwrap();
        let of = |files: &[&str]| {
            let files = files.iter().map(PathBuf::from);
            ChangeSet::of_files(files, &workspace).unwrap().part()
        };
        let names = |part: Option<TestPart>| part.unwrap().names.into_iter().collect::<Vec<_>>();
        let schedule = of(&["coll/src/algorithms/blocks/allgather/bruck.rs", "README.md"]);
        assert_eq!(names(schedule), ["allgather", "bruck"]);
        let drivers = of(&["drivers/src/shm/outgoing.rs", "drivers/src/loopback.rs"]);
        assert_eq!(names(drivers), ["loopback::", "shm::"]);
        assert_eq!(of(&["coll/src/algorithms/scan.rs", "coll/src/lib.rs"]), None);
        assert_eq!(of(&["drivers/Cargo.toml"]), None);
        assert_eq!(of(&["drivers/src/loopback.rs", "kernel/src/lib.rs"]), None);
    }

    #[test]
    fn what_cargo_reads_changes_every_package() {
        let workspace = Workspace::members().unwrap();
        let of = |file: &str| ChangeSet::of_files([PathBuf::from(file)].into_iter(), &workspace).unwrap();
        assert_eq!(of("Cargo.lock").packages.len(), workspace.packages.len());
        assert!(of("docs/size.md").packages.is_empty());
        assert_eq!(of("kernel/src/lib.rs").packages, BTreeSet::from(["aldis-kernel".to_owned()]));
    }
}
