//! `cargo xtask board`: the images of `tests/board`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::shell;
use crate::toolchain::{Finder, Found};
use crate::workspace::Workspace;

const PACKAGE: &str = "aldis-board";

/// An architecture that there are images for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
    Riscv64,
    #[value(name = "cortex-m")]
    CortexM,
}

impl Arch {
    /// The target that its image is built for.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-none",
            Self::Aarch64 => "aarch64-unknown-none",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
            Self::CortexM => "thumbv7em-none-eabihf",
        }
    }
}

/// Builds the firmware images that run the rank programs on emulated boards, and says where they are.
#[derive(Args)]
pub(crate) struct Board {
    /// For these architectures only
    #[arg(value_enum)]
    archs: Vec<Arch>,
}

impl Board {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        let archs = if self.archs.is_empty() { Arch::value_variants().to_vec() } else { self.archs };
        for arch in archs {
            println!("{}", build(&workspace, arch)?.display());
        }
        Ok(())
    }
}

/// Builds the image for an architecture; where it is.
///
/// # Errors
/// What is missing to build it, and what brings that; or what the compiler says.
pub(crate) fn build(workspace: &Workspace, arch: Arch) -> Result<PathBuf> {
    let target = arch.target();
    let toolchain = match Finder::new(workspace)?.find(target)? {
        Found::Toolchain(toolchain) if toolchain.is_bare() => toolchain,
        Found::Toolchain(_) => bail!("only a hosted core for {target}: rustup target add {target}"),
        Found::Missing { enable } => bail!("no core for {target}: {enable}"),
    };
    let Some(linker) = toolchain.linker() else { bail!("no linker for ELF: apt-get install lld") };
    eprintln!("  {PACKAGE} for {target}: {toolchain}");
    let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let mut build = toolchain.cargo("build");
    // What the kernel logs is at the level of debugging. Only the microcontroller's image has defmt.
    shell::run(build.args(["-p", PACKAGE]).env(variable, linker).env("DEFMT_LOG", "debug"))?;
    Ok(toolchain.artifacts().join(PACKAGE))
}
