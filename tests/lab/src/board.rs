//! `cargo xtask board`: the images of `tests/board`, of its counterpart in C, and of the unikernel.

use std::path::{Path, PathBuf};

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::toolchain::{self, Finder, FoundToolchain, Toolchain};
use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::c_image::{self, CBoard};
use crate::unikernel;

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
    /// A rank in C
    #[value(name = "aarch64-c")]
    Aarch64C,
    /// A rank in C
    #[value(name = "cortex-m-c")]
    CortexMC,
    /// A rank in the unikernel ArceOS, for x86_64
    Arceos,
}

impl Arch {
    /// The target that its image is built for.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 | Self::Arceos => "x86_64-unknown-none",
            Self::Aarch64 | Self::Aarch64C => "aarch64-unknown-none",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
            Self::CortexM | Self::CortexMC => "thumbv7em-none-eabihf",
        }
    }

    /// Returns true if the step `size` measures an image for its target, with a core as it ships.
    const fn is_measured(self) -> bool {
        matches!(self, Self::CortexM | Self::CortexMC)
    }

    /// Returns true if its image logs by defmt.
    const fn has_defmt(self) -> bool {
        matches!(self, Self::CortexM)
    }

    /// The board of an image in C.
    const fn c_board(self) -> Option<CBoard> {
        match self {
            Self::Aarch64C => Some(c_image::VIRT),
            Self::CortexMC => Some(c_image::MPS2),
            Self::X86_64 | Self::Aarch64 | Self::Riscv64 | Self::CortexM | Self::Arceos => None,
        }
    }

    /// Returns true if its image is one of `tests/board`.
    const fn is_board(self) -> bool {
        !matches!(self, Self::Arceos) && self.c_board().is_none()
    }

    /// The compiler beside Rust's that its image needs, if that is not installed here.
    pub(crate) fn missing_compiler(self) -> Option<Outcome> {
        self.c_board().and_then(|_| c_image::missing())
    }
}

/// Builds the images that run the rank programs on emulated boards, in Rust, in C and in a
/// unikernel, and says where they are.
#[derive(Args)]
pub struct BoardCommand {
    /// For these architectures only; all that there are compilers for, if left out
    #[arg(value_enum)]
    archs: Vec<Arch>,
}

impl BoardCommand {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        let mut archs = self.archs;
        if archs.is_empty() {
            archs.extend(Arch::value_variants().iter().filter(|arch| arch.missing_compiler().is_none()));
        }
        for image in build(&workspace, &archs)? {
            println!("{}", image.display());
        }
        Ok(())
    }
}

/// Builds the images for these architectures, those of one compiler at once; where they are, in
/// that order.
///
/// # Errors
/// What is missing to build one, and what brings that; or what the compiler says.
pub(crate) fn build(workspace: &Workspace, archs: &[Arch]) -> Result<Vec<PathBuf>> {
    let mut built = Vec::new();
    for tools in tools(workspace, archs)? {
        match tools {
            Tools::Found(toolchain, linker) => built.push((*toolchain, linker)),
            Tools::Missing { why, enable } => bail!("{why}: {enable}"),
        }
    }
    // What one of the targets of a run of cargo asks of a package, all of them get: the targets
    // with defmt are built apart.
    for has_defmt in [false, true] {
        let some = archs.iter().zip(&built);
        let some = some.filter(|(arch, _)| arch.is_board() && arch.has_defmt() == has_defmt);
        let some: Vec<(&Toolchain, &Path)> =
            some.map(|(_, (toolchain, linker))| (toolchain, linker.as_path())).collect();
        link(&some)?;
    }
    let image = |(arch, (toolchain, linker)): (&Arch, &(Toolchain, PathBuf))| match arch.c_board() {
        Some(board) => board.link(toolchain, linker),
        None if *arch == Arch::Arceos => unikernel::link(toolchain, linker),
        None => Ok(toolchain.artifacts().join(PACKAGE)),
    };
    archs.iter().zip(&built).map(image).collect()
}

/// Builds images that have the same features.
fn link(images: &[(&Toolchain, &Path)]) -> Result<()> {
    let toolchains: Vec<&Toolchain> = images.iter().map(|(toolchain, _)| *toolchain).collect();
    for (first, others) in toolchain::groups(&toolchains) {
        let mut build = first.cargo_for(&others, "build");
        toolchain::to_emulate(&mut build, PACKAGE);
        for (toolchain, linker) in images {
            eprintln!("  {PACKAGE} for {}: {toolchain}", toolchain.triple());
            build.env(toolchain.variable("LINKER"), linker);
        }
        // What the kernel logs is at the level of debugging.
        shell::run(build.args(["-p", PACKAGE]).env("DEFMT_LOG", "debug"))?;
    }
    Ok(())
}

/// The toolchain and linker that an image is built with.
enum Tools {
    Found(Box<Toolchain>, PathBuf),
    Missing { why: String, enable: String },
}

fn tools(workspace: &Workspace, archs: &[Arch]) -> Result<Vec<Tools>> {
    let finder = Finder::new(workspace)?;
    let mut found: Vec<(&Arch, FoundToolchain)> = Vec::new();
    // First, as its core serves the other images for its target.
    for arch in archs.iter().filter(|arch| **arch == Arch::Arceos) {
        found.push((arch, finder.find_with_alloc_to_emulate(arch.target())?));
    }
    // An image in Rust and one in C may have the same target, which is asked for once at a time.
    for is_c in [false, true] {
        let boards = archs.iter().filter(|arch| **arch != Arch::Arceos);
        let some = boards.filter(|arch| arch.c_board().is_some() == is_c);
        let (measured, others): (Vec<&Arch>, Vec<&Arch>) = some.partition(|arch| arch.is_measured());
        let targets = |archs: &[&Arch]| archs.iter().map(|arch| arch.target()).collect::<Vec<_>>();
        let these = finder.find_all(&targets(&measured))?;
        let these = these.into_iter().chain(finder.find_all_to_emulate(&targets(&others))?);
        found.extend(measured.into_iter().chain(others).zip(these));
    }
    // In the order in which they were asked for.
    found.sort_by_key(|(arch, _)| archs.iter().position(|asked| asked == *arch));
    Ok(found.into_iter().map(|(arch, found)| Tools::of(*arch, found)).collect())
}

impl Tools {
    fn of(arch: Arch, found: FoundToolchain) -> Self {
        let target = arch.target();
        let missing = |why: String, enable: String| Self::Missing { why, enable };
        if let Some(Outcome::Skipped { why, enable }) = arch.missing_compiler() {
            return missing(why, enable);
        }
        let toolchain = match found {
            FoundToolchain::Toolchain(toolchain) if toolchain.is_bare() => toolchain,
            FoundToolchain::Toolchain(_) => {
                let why = format!("only a hosted core for {target}");
                return missing(why, format!("rustup target add {target}"));
            }
            FoundToolchain::Missing { enable } => return missing(format!("no core for {target}"), enable),
        };
        match toolchain.linker() {
            Some(linker) => Self::Found(toolchain, linker),
            None => missing("no linker for ELF".into(), "apt-get install lld".into()),
        }
    }
}

/// Returns what is missing to build the images for these architectures, if anything is.
pub(crate) fn missing(workspace: &Workspace, archs: &[Arch]) -> Result<Option<Outcome>> {
    Ok(tools(workspace, archs)?.into_iter().find_map(|tools| match tools {
        Tools::Found(..) => None,
        Tools::Missing { why, enable } => Some(Outcome::Skipped { why, enable }),
    }))
}
