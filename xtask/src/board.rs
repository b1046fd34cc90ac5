//! `cargo xtask board`: the images of `tests/board`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::shell;
use crate::steps::Outcome;
use crate::toolchain::{Finder, Found, Toolchain};
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
    let (toolchain, linker) = match tools(workspace, arch)? {
        Tools::Found(toolchain, linker) => (toolchain, linker),
        Tools::Missing { why, enable } => bail!("{why}: {enable}"),
    };
    eprintln!("  {PACKAGE} for {target}: {toolchain}");
    let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let mut build = toolchain.cargo("build");
    // What the kernel logs is at the level of debugging. Only the microcontroller's image has defmt.
    shell::run(build.args(["-p", PACKAGE]).env(variable, linker).env("DEFMT_LOG", "debug"))?;
    Ok(toolchain.artifacts().join(PACKAGE))
}

/// What an image is built with.
enum Tools {
    Found(Box<Toolchain>, PathBuf),
    Missing { why: String, enable: String },
}

fn tools(workspace: &Workspace, arch: Arch) -> Result<Tools> {
    let target = arch.target();
    let missing = |why: String, enable: String| Ok(Tools::Missing { why, enable });
    let toolchain = match Finder::new(workspace)?.find(target)? {
        Found::Toolchain(toolchain) if toolchain.is_bare() => toolchain,
        Found::Toolchain(_) => {
            return missing(
                format!("only a hosted core for {target}"),
                format!("rustup target add {target}"),
            );
        }
        Found::Missing { enable } => return missing(format!("no core for {target}"), enable),
    };
    match toolchain.linker() {
        Some(linker) => Ok(Tools::Found(toolchain, linker)),
        None => missing("no linker for ELF".into(), "apt-get install lld".into()),
    }
}

/// What is missing to build the image for an architecture, if anything is.
pub(crate) fn missing(workspace: &Workspace, arch: Arch) -> Result<Option<Outcome>> {
    Ok(match tools(workspace, arch)? {
        Tools::Found(..) => None,
        Tools::Missing { why, enable } => Some(Outcome::Skipped { why, enable }),
    })
}
