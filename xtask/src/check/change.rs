//! The files of a change, and the packages that they belong to.

use core::fmt;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aldis_shell::workspace::{Workspace, checkout, git};
use anyhow::{Context, Result, bail};

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
    fn what_cargo_reads_changes_every_package() {
        let workspace = Workspace::members().unwrap();
        let of = |file: &str| ChangeSet::of_files([PathBuf::from(file)].into_iter(), &workspace).unwrap();
        assert_eq!(of("Cargo.lock").packages.len(), workspace.packages.len());
        assert!(of("docs/size.md").packages.is_empty());
        assert_eq!(of("kernel/src/lib.rs").packages, BTreeSet::from(["aldis-kernel".to_owned()]));
    }
}
