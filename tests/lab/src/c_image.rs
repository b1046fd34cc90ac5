//! Images of ranks in C: the example for boards, `c/examples/board`, linked with the library of
//! `aldis.h`.
//!
//! The library is built with the profile and the folder of all firmware, so that what it stands on
//! is compiled once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::toolchain::{self, Toolchain};
use aldis_shell::workspace;
use anyhow::{Context, Result};

/// A C compiler for all targets.
const COMPILER: (&str, &str) = ("clang", "clang");

/// The package of the library.
const LIBRARY: &str = "aldis-c";

/// A board that the example runs on.
pub(crate) struct CBoard {
    /// The name of its files.
    name: &'static str,
    /// The processor, as the compiler is told of it.
    processor: &'static [&'static str],
    /// Options of cargo for the library.
    library: &'static [&'static str],
    /// True if the step `size` builds what the library stands on, as it ships.
    is_measured: bool,
}

/// QEMU's `virt`, an aarch64. Its library stands on what the images in Rust stand on.
pub(crate) const VIRT: CBoard = CBoard {
    name: "virt",
    processor: &["--target=aarch64-none-elf"],
    library: &["--features", "aldis-kernel/default,aldis-protocols/default,aldis-coll/default"],
    is_measured: false,
};

/// QEMU's `mps2-an386`, a Cortex-M4. Its library is the small one, which stands on what the minimal
/// firmware stands on.
pub(crate) const MPS2: CBoard = CBoard {
    name: "mps2",
    processor: &[
        "--target=thumbv7em-none-eabihf",
        "-mcpu=cortex-m4",
        "-mfloat-abi=hard",
        "-mfpu=fpv4-sp-d16",
    ],
    library: &["--no-default-features"],
    is_measured: true,
};

/// Options for all sources. Rounding is that of the program in Rust; the header has to be clean.
const OPTIONS: [&str; 9] = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-ffreestanding",
    "-ffunction-sections",
    "-ffp-contract=off",
    "-O2",
];

/// The compiler, if it is not installed here.
pub(crate) fn missing() -> Option<Outcome> {
    let (program, package) = COMPILER;
    (!shell::has(program)).then(|| Outcome::Skipped {
        why: format!("no {program}"),
        enable: format!("apt-get install {package}"),
    })
}

impl CBoard {
    /// Builds the library and the image, and says where the image is.
    pub(crate) fn link(&self, toolchain: &Toolchain, linker: &Path) -> Result<PathBuf> {
        let mut library = toolchain.cargo_static(LIBRARY);
        if !self.is_measured {
            toolchain::to_emulate(&mut library, LIBRARY);
        }
        // It links nothing; but what is built for another linker is built anew.
        shell::run(library.args(self.library).env(toolchain.variable("LINKER"), linker))?;
        let c = workspace::checkout().join("c");
        let example = c.join("examples/board");
        let folder = toolchain.artifacts().join("c-board");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let mut link = Command::new(linker);
        if linker.ends_with("rust-lld") {
            link.args(["-flavor", "gnu"]);
        }
        link.args(["--gc-sections", "-T"]).arg(example.join(self.name).with_extension("ld"));
        for source in ["heat.c".into(), format!("{}.c", self.name), format!("{}.S", self.name)] {
            let object = folder.join(format!("{source}.o"));
            let mut compile = Command::new(COMPILER.0);
            compile.args(self.processor).args(OPTIONS).arg("-I").arg(c.join("include"));
            shell::run(compile.arg("-c").arg(example.join(&source)).arg("-o").arg(&object))?;
            link.arg(object);
        }
        let image = folder.join("heat.elf");
        shell::run(link.arg(toolchain.artifacts().join("libaldis.a")).arg("-o").arg(&image))?;
        Ok(image)
    }
}
