//! Building what the ranks run, and the switch between them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::machine::Arch;
use crate::board;
use crate::shell;
use crate::steps::Outcome;
use crate::workspace::{self, Workspace};

/// What was built.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) switch: PathBuf,
    host: PathBuf,
    images: Vec<(Arch, PathBuf)>,
}

impl Programs {
    /// Builds the switch, the host's rank, and the image of each architecture among `members`.
    pub(super) fn build(members: &[Arch]) -> Result<Self> {
        for arch in members {
            if let Some(Outcome::Skipped { why, enable }) = arch.missing() {
                bail!("{why}; to install it: {enable}");
            }
        }
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--locked", "--quiet", "-p", "aldis-host-sim", "--bin", "aldis-switch"]);
        shell::run(cargo.args(["-p", "aldis-tests", "--bin", "aldis-rank"]))?;
        let workspace = Workspace::members()?;
        let debug = workspace.target.join("debug");
        let mut images: Vec<(Arch, PathBuf)> = Vec::new();
        for arch in members {
            if *arch != Arch::Host && !images.iter().any(|(built, _)| built == arch) {
                images.push((*arch, image(&workspace, *arch)?));
            }
        }
        Ok(Self { switch: debug.join("aldis-switch"), host: debug.join("aldis-rank"), images })
    }

    /// What a rank of this architecture runs.
    pub(super) fn of(&self, arch: Arch) -> &Path {
        let image = self.images.iter().find(|(built, _)| *built == arch);
        image.map_or(&self.host, |(_, path)| path)
    }
}

fn image(workspace: &Workspace, arch: Arch) -> Result<PathBuf> {
    let arch = match arch {
        Arch::X86_64 => board::Arch::X86_64,
        Arch::Aarch64 => board::Arch::Aarch64,
        Arch::Riscv64 => board::Arch::Riscv64,
        Arch::CortexM => board::Arch::CortexM,
        Arch::Host => bail!("there is no image for {}", arch.name()),
    };
    board::build(workspace, arch)
}
