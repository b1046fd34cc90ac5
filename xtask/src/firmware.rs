//! `cargo xtask firmware`: the five `no_std` crates on bare metal, without and with `defmt`, in a build that has no
//! `alloc` and no `std` to offer.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use crate::shell;
use crate::steps::Outcome;
use crate::table::Table;
use crate::toolchain::{Finder, Found, Toolchain};
use crate::workspace::Workspace;

/// The crates that run without an operating system.
pub(crate) const CRATES: [&str; 5] =
    ["aldis-hal", "aldis-protocols", "aldis-drivers", "aldis-kernel", "aldis-coll"];

/// The targets that must build: servers and DPUs, RISC-V, and microcontrollers of two families.
pub(crate) const TARGETS: [&str; 5] = [
    "x86_64-unknown-none",
    "aarch64-unknown-none",
    "riscv64gc-unknown-none-elf",
    "thumbv7em-none-eabihf",
    "riscv32imac-unknown-none-elf",
];

/// Builds hal, protocols, drivers, kernel and coll for bare metal, and checks them once more with `defmt`.
///
/// The compiler's core for a target comes from `ALDIS_RUSTC_<TARGET>`, an installed rustup target, a core built
/// earlier, or a rustc with library source (Debian: rustc-web cargo-web rust-web-src); x86_64 falls back to the
/// host's core. Nothing is downloaded; a target without a core is skipped.
#[derive(Args)]
pub(crate) struct Firmware {
    /// Build for these targets only
    #[arg(long = "target", value_name = "T")]
    targets: Vec<String>,
    /// A skipped target is a failure
    #[arg(long)]
    require: bool,
}

impl Firmware {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        let finder = Finder::new(&workspace)?;
        let targets = if self.targets.is_empty() { TARGETS.map(String::from).to_vec() } else { self.targets };
        let mut table = Table::new(["target", "outcome"]);
        let mut bad = 0;
        for target in &targets {
            let outcome = build(&workspace, &finder, target);
            let skipped = matches!(outcome, Ok(Outcome::Skipped { .. }));
            bad += u32::from(outcome.is_err() || (self.require && skipped));
            table.row([target.clone(), Outcome::spell(&outcome)]);
        }
        println!("{table}");
        if bad > 0 { bail!("{bad} of {} targets not built", targets.len()) } else { Ok(()) }
    }
}

/// Builds and checks one target.
pub(crate) fn build(workspace: &Workspace, finder: &Finder, target: &str) -> Result<Outcome> {
    let start = Instant::now();
    let toolchain = match finder.find(target)? {
        Found::Toolchain(toolchain) => toolchain,
        Found::Missing { enable } => {
            return Ok(Outcome::Skipped { why: format!("no core for {target}"), enable });
        }
    };
    eprintln!("  {target}: {toolchain}");
    build_crates(&toolchain)?;
    check_defmt(workspace, &toolchain)?;
    Ok(Outcome::Passed(format!("{toolchain}; {:.0} s", start.elapsed().as_secs_f64())))
}

fn build_crates(toolchain: &Toolchain) -> Result<()> {
    let mut cargo = toolchain.cargo("build");
    for name in CRATES {
        cargo.args(["-p", name]);
    }
    shell::run(&mut cargo)
}

/// `defmt` leaves symbols for a linker script that only a firmware image has: it is checked, not linked.
fn check_defmt(workspace: &Workspace, toolchain: &Toolchain) -> Result<()> {
    let mut cargo = toolchain.cargo("check");
    for name in CRATES {
        let package = workspace.packages.iter().find(|package| package.name == name);
        if !package.is_some_and(|package| package.features.contains_key("defmt")) {
            bail!("{name} has no feature `defmt`");
        }
        cargo.args(["-p", name, "--features", &format!("{name}/defmt")]);
    }
    shell::run(&mut cargo)
}
