//! A folder as other implementations of MPI are installed in: `bin`, `include`, `lib`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use aldis_shell::shell;
use aldis_shell::workspace::{Workspace, cargo, checkout};
use anyhow::{Context, Result};
use clap::Args;

use super::folder;

/// The folder to install to, and the way it is built.
#[derive(Args)]
pub struct Install {
    /// The folder; target/mpi if not given
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<PathBuf>,

    /// Build without optimisation
    #[arg(long)]
    debug: bool,
}

/// The programs of `bin`.
const PROGRAMS: [&str; 4] = ["aldis-run", "aldis-mpicc", "aldis-mpicxx", "aldis-mpiexec"];

impl Install {
    pub(crate) fn run(self) -> Result<()> {
        let target = Workspace::members()?.target;
        let prefix = self.prefix.unwrap_or_else(|| target.join("mpi"));
        install(&target, &prefix, profile(self.debug))?;
        println!("{}", prefix.display());
        Ok(())
    }
}

/// Cargo's profile.
pub(super) const fn profile(debug: bool) -> &'static str {
    if debug { "dev" } else { "release" }
}

/// Builds everything in a profile of cargo's and puts it there.
///
/// # Errors
/// What cargo says; a folder that cannot be written.
pub(crate) fn install(target: &Path, prefix: &Path, profile: &str) -> Result<()> {
    let mut build = cargo();
    build.args([
        "build",
        "--locked",
        "-q",
        "--profile",
        profile,
        "-p",
        "aldis-mpi",
        "-p",
        "aldis-mpi-tools",
        "-p",
        "aldis-run",
    ]);
    build.arg("--lib").args(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
    shell::run(build.current_dir(checkout()))?;
    let built = target.join(if profile == "dev" { "debug" } else { profile });
    for part in ["bin", "include", "lib"] {
        fs::create_dir_all(prefix.join(part)).with_context(|| format!("making {}", prefix.display()))?;
    }
    for program in PROGRAMS {
        replace(&built.join(program), &prefix.join("bin").join(program))?;
    }
    replace(&folder().join("include/mpi.h"), &prefix.join("include/mpi.h"))?;
    replace(&built.join("libmpi_abi.so"), &prefix.join("lib/libmpi_abi.so.1"))?;
    // The linker looks for this name.
    let (link, name) = (prefix.join("lib/libmpi_abi.so"), Path::new("libmpi_abi.so.1"));
    if fs::read_link(&link).is_ok_and(|to| to == name) {
        return Ok(());
    }
    let _ = fs::remove_file(&link);
    symlink(name, &link).with_context(|| format!("making {}", link.display()))
}

/// Copies a file, also over one that is in use: it is moved into place, as another step may be
/// starting what stands there.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let part = to.with_extension(format!("part-{}", std::process::id()));
    let _ = fs::remove_file(&part);
    fs::copy(from, &part)
        .and_then(|_| fs::rename(&part, to))
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

/// The folders that it is built to.
pub(super) struct Folders {
    pub(super) target: PathBuf,
    /// The library as it is installed.
    pub(super) prefix: PathBuf,
    /// The programs that are run.
    pub(super) programs: PathBuf,
}

impl Folders {
    pub(super) fn find() -> Result<Self> {
        let target = Workspace::members()?.target;
        Ok(Self { prefix: target.join("mpi"), programs: target.join("mpi-programs"), target })
    }
}
