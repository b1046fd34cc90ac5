//! The workspace as cargo sees it: where it stands, where it builds to, its packages and what they
//! use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{compiles, shell};

/// The output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    /// All packages, those of the registry too unless loaded with [`Workspace::members`].
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace or of the registry.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) features: std::collections::BTreeMap<String, Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
}

impl Package {
    /// Returns the folder in which it stands.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(checkout())
    }
}

/// A dependency as a package declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` or `build`; `None` for a dependency of the package itself.
    pub(crate) kind: Option<String>,
}

impl Dependency {
    /// Returns true if tests and examples alone use it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Workspace {
    /// The members alone; needs no network.
    pub(crate) fn members() -> Result<Self> {
        Self::load(&["--no-deps"])
    }

    /// The members and everything that they are built from.
    pub(crate) fn with_dependencies() -> Result<Self> {
        Self::load(&["--locked"])
    }

    fn load(flags: &[&str]) -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1"]).args(flags).current_dir(checkout());
        let text = shell::output(&mut command)?;
        let mut workspace: Self = serde_json::from_str(&text).context("reading cargo metadata")?;
        if flags.contains(&"--no-deps") {
            workspace.packages.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(workspace)
    }

    /// The lowest Rust version that the workspace promises to build with, as (major, minor).
    pub(crate) fn rust_version(&self) -> Result<(u32, u32)> {
        let Some(text) = self.packages.iter().find_map(|package| package.rust_version.as_deref()) else {
            bail!("no package states its rust-version");
        };
        parse_version(text).with_context(|| format!("rust-version {text:?}"))
    }
}

/// `1.95` or `1.95.0` as (major, minor).
pub(crate) fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The name of this machine's target.
pub(crate) fn host() -> Result<String> {
    let said = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not tell its host")?.to_owned())
}

/// The checkout that this xtask was built from.
pub(crate) fn checkout() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// What git says of the checkout.
pub(crate) fn git(arguments: &[&str]) -> Result<String> {
    shell::output(Command::new("git").current_dir(checkout()).args(arguments))
}

/// The cargo that started xtask, so that `cargo +toolchain xtask` stays with its toolchain.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(checkout());
    compiles::note(&mut command);
    command
}

/// The build of `aldis-run` and of the examples, to `target/debug`. Of the whole workspace, so that
/// it is what the tests were built with, with calls of the system that can be made to fail.
pub(crate) fn examples() -> Command {
    let mut cargo = cargo();
    cargo.args(["build", "--locked", "--quiet", "--workspace", "--bin", "aldis-run", "--examples"]);
    cargo
}
