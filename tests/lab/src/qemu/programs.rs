//! Building what the ranks run, and the switch between them.

use std::path::{Path, PathBuf};

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Result, bail};

use super::machine::Arch;
use crate::board;

/// The programs that were built.
#[derive(Debug)]
pub(super) struct QemuPrograms {
    pub(super) switch: PathBuf,
    host: PathBuf,
    images: Vec<(Arch, PathBuf)>,
}

impl QemuPrograms {
    /// Builds the switch, the host's rank, and the image of each architecture among `members`.
    pub(super) fn build(members: &[Arch]) -> Result<Self> {
        let workspace = Workspace::members()?;
        if let Some(Outcome::Skipped { why, enable }) = missing(&workspace, members)? {
            bail!("{why}; to enable: {enable}");
        }
        // As `cargo test --workspace` builds them, for one test of either package: so they are
        // built once for both.
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--no-run", "--locked", "--quiet", "--workspace"]);
        shell::run(cargo.args(["--test", "aldis_switch", "--test", "programs"]))?;
        let debug = workspace.target.join("debug");
        let images = images(&workspace, members)?;
        Ok(Self { switch: debug.join("aldis-switch"), host: debug.join("aldis-rank"), images })
    }

    /// Returns the program that a rank of this architecture runs.
    pub(super) fn of(&self, arch: Arch) -> &Path {
        let image = self.images.iter().find(|(built, _)| *built == arch);
        image.map_or(&self.host, |(_, path)| path)
    }
}

/// Builds the images that these run in emulators.
pub(super) fn images(workspace: &Workspace, members: &[Arch]) -> Result<Vec<(Arch, PathBuf)>> {
    let emulated = emulated(members);
    let built = board::build(workspace, &emulated.iter().map(|(_, image)| *image).collect::<Vec<_>>())?;
    Ok(emulated.into_iter().zip(built).map(|((arch, _), path)| (arch, path)).collect())
}

/// Each architecture among these that runs an image, once, and the image.
fn emulated(members: &[Arch]) -> Vec<(Arch, board::Arch)> {
    let mut images = Vec::new();
    for arch in members {
        if let Some(image) = arch.image()
            && !images.contains(&(*arch, image))
        {
            images.push((*arch, image));
        }
    }
    images
}

/// Returns what is not here that one of these ranks needs: its emulator, or what its image is built
/// with.
pub(super) fn missing(workspace: &Workspace, members: &[Arch]) -> Result<Option<Outcome>> {
    if let Some(emulator) = members.iter().find_map(|arch| arch.missing()) {
        return Ok(Some(emulator));
    }
    let images: Vec<board::Arch> = emulated(members).into_iter().map(|(_, image)| image).collect();
    board::missing(workspace, &images)
}
