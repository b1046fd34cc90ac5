//! The image of `tests/unikernel`: a rank and ArceOS in one, built from crates.io alone.
//!
//! Its package stands outside of the workspace, with a lock file of its own. ArceOS has unstable
//! features of the compiler, which are allowed to this build alone, and is told of the machine by a
//! file that its crates read when they are compiled.

use std::path::{Path, PathBuf};

use aldis_shell::shell;
use aldis_shell::toolchain::Toolchain;
use aldis_shell::workspace;
use anyhow::Result;

/// The package, which is the program's name too.
const PACKAGE: &str = "aldis-unikernel";

/// Builds the image, and says where it is.
pub(crate) fn link(toolchain: &Toolchain, linker: &Path) -> Result<PathBuf> {
    eprintln!("  {PACKAGE} for {}: {toolchain}", toolchain.triple());
    let folder = workspace::checkout().join("tests/unikernel");
    let mut build = toolchain.cargo("build");
    build.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    build.env("AX_CONFIG_PATH", folder.join("x86_64.toml"));
    // The console is the rank's, but for the banner.
    build.env("AX_LOG", "off").env("RUSTC_BOOTSTRAP", "1");
    shell::run(build.env(toolchain.variable("LINKER"), linker))?;
    Ok(toolchain.artifacts().join(PACKAGE))
}
