//! The workspace as cargo sees it: where it stands, where it builds to, its packages and what they
//! use.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{compiles, shell};

/// The output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    /// The folder that it builds to.
    #[serde(rename = "target_directory")]
    pub target: PathBuf,
    /// All packages, those of the registry too unless loaded with [`Workspace::members`].
    pub packages: Vec<Package>,
}

/// A package of the workspace or of the registry.
#[derive(Debug, Default, Deserialize)]
pub struct Package {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// The licence, as an SPDX expression.
    pub license: Option<String>,
    /// The lowest version of Rust that it promises to build with.
    pub rust_version: Option<String>,
    /// The features, and what each turns on.
    pub features: std::collections::BTreeMap<String, Vec<String>>,
    /// The dependencies of all kinds.
    pub dependencies: Vec<Dependency>,
    /// The library, programs, tests and examples.
    #[serde(default)]
    pub targets: Vec<BuildTarget>,
}

/// A thing that a package is built to.
#[derive(Debug, Deserialize)]
pub struct BuildTarget {
    /// The name.
    pub name: String,
    /// The file that its source begins in.
    pub src_path: PathBuf,
    /// True if `cargo test` builds its tests.
    pub test: bool,
    /// True if `cargo test` looks for examples in its documentation.
    pub doctest: bool,
}

impl Package {
    /// Returns the folder in which it stands.
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(checkout())
    }
}

/// A dependency as a package declares it.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The name.
    pub name: String,
    /// `dev` or `build`; `None` for a dependency of the package itself.
    pub kind: Option<String>,
}

impl Dependency {
    /// Returns true if tests and examples alone use it.
    pub fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Workspace {
    /// The members alone; needs no network.
    pub fn members() -> Result<Self> {
        Self::load(&["--no-deps"])
    }

    /// The members and everything that they are built from.
    pub fn with_dependencies() -> Result<Self> {
        Self::load(&["--locked"])
    }

    /// The package of a manifest outside of the workspace, and everything that it is built from.
    pub fn outside(manifest: &Path) -> Result<Self> {
        Self::load(&["--locked", "--manifest-path", &manifest.display().to_string()])
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

    /// The lowest Rust version that the workspace promises to build with.
    pub fn rust_version(&self) -> Result<RustVersion> {
        let Some(text) = self.packages.iter().find_map(|package| package.rust_version.as_deref()) else {
            bail!("no package states its rust-version");
        };
        RustVersion::parse(text).with_context(|| format!("rust-version {text:?}"))
    }
}

/// A version of Rust, as far as a package states what it needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RustVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl RustVersion {
    /// Reads `1.95` or `1.95.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        Some(Self { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

/// The name of this machine's target.
pub fn host() -> Result<String> {
    let said = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not tell its host")?.to_owned())
}

/// The folder of the compiler that cargo uses.
///
/// # Errors
/// No rustc in the search path.
pub fn sysroot() -> Result<PathBuf> {
    let said = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(PathBuf::from(said.trim()))
}

/// The checkout that this xtask was built from.
pub fn checkout() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// Asks git about the checkout.
pub fn git(arguments: &[&str]) -> Result<String> {
    shell::output(Command::new("git").current_dir(checkout()).args(arguments))
}

/// The cargo that started xtask, so that `cargo +toolchain xtask` stays with its toolchain.
///
/// It does not see what that cargo has said of xtask's own package: the build script of `ring` asks
/// for it, and would be run anew, and all above it be built anew, each time that another package's
/// test or a hand calls cargo.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(checkout());
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(name)) {
        command.env_remove(name);
    }
    compiles::note(&mut command);
    command
}

/// Returns true if cargo sets this variable for the programs of one package.
fn is_of_package(variable: &OsStr) -> bool {
    let bytes = variable.as_encoded_bytes();
    [&b"OUT_DIR"[..], b"CARGO_MANIFEST_", b"CARGO_PKG_"].iter().any(|start| bytes.starts_with(start))
}

/// The build of `aldis-run` and of the examples, to `target/debug`. Of the whole workspace, so that
/// it is what the tests were built with, with calls of the system that can be made to fail.
pub fn examples() -> Command {
    let mut cargo = cargo();
    cargo.args(["build", "--locked", "--quiet", "--workspace", "--bin", "aldis-run", "--examples"]);
    cargo
}
