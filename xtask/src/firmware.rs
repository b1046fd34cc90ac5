//! `cargo xtask firmware`: the five `no_std` crates and the C interface on bare metal, without and
//! with `defmt`, in a build that has no `alloc` and no `std` to offer.

use std::process::Command;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::toolchain::{self, Finder, FoundToolchain, Toolchain};
use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};
use clap::Args;

/// The crates that run without an operating system.
pub(crate) const CRATES: [&str; 5] =
    ["aldis-hal", "aldis-protocols", "aldis-drivers", "aldis-kernel", "aldis-coll"];

/// Their interface for firmware in C, a static library.
const C_INTERFACE: &str = "aldis-c";

/// The targets that must build: servers and DPUs, RISC-V, and microcontrollers of two families.
pub(crate) const TARGETS: [&str; 5] = [
    "x86_64-unknown-none",
    "aarch64-unknown-none",
    "riscv64gc-unknown-none-elf",
    "thumbv7em-none-eabihf",
    "riscv32imac-unknown-none-elf",
];

/// The target for which no step of `cargo xtask test` links anything, and which it checks with
/// `defmt`: features add, and clippy has seen all of them with words of eight bytes.
const NOT_LINKED: &str = "riscv32imac-unknown-none-elf";

/// Builds hal, protocols, drivers, kernel, coll and the static library of `aldis.h` for bare metal,
/// and checks the five once more with `defmt`.
///
/// The compiler's core for a target comes from `ALDIS_RUSTC_<TARGET>`, an installed rustup target,
/// a core built earlier, or a rustc with library source (Debian: rustc-web cargo-web rust-web-src);
/// x86_64 falls back to the host's core. Nothing is downloaded; a target without a core is skipped.
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
        let named: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        let targets = if named.is_empty() { &TARGETS[..] } else { &named };
        let outcome = build(&workspace, targets, false);
        println!("firmware: {}", Outcome::spell(&outcome));
        match outcome? {
            Outcome::Skipped { .. } if self.require => bail!("skipped, and --require allows none"),
            Outcome::Passed(_) | Outcome::Skipped { .. } => Ok(()),
        }
    }
}

/// The step of `cargo xtask test`: checks the target that no image is made for, with `defmt`. For
/// the other four the steps `size` and `images` generate code, of one of them with `defmt` too.
pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    build(workspace, &[NOT_LINKED], true)
}

/// Builds targets and checks them with `defmt`, or only checks all with it; those of one compiler
/// at once.
fn build(workspace: &Workspace, targets: &[&str], is_check: bool) -> Result<Outcome> {
    let finder = Finder::new(workspace)?;
    let (mut toolchains, mut lacking, mut remedies) = (Vec::new(), Vec::new(), Vec::new());
    let found = if is_check { finder.find_all_to_check(targets)? } else { finder.find_all(targets)? };
    for (target, found) in targets.iter().zip(found) {
        match found {
            FoundToolchain::Toolchain(toolchain) => {
                eprintln!("  {target}: {toolchain}");
                toolchains.push(*toolchain);
            }
            FoundToolchain::Missing { enable } => {
                lacking.push(*target);
                remedies.push(enable);
            }
        }
    }
    let all: Vec<&Toolchain> = toolchains.iter().collect();
    for (first, others) in toolchain::groups(&all) {
        if !is_check {
            let mut cargo = first.cargo_for(&others, "build");
            shell::run(cargo.args(CRATES.into_iter().flat_map(|name| ["-p", name])))?;
        }
        let mut cargo = first.cargo_for(&others, "check");
        if is_check {
            cargo.args(["-p", C_INTERFACE]);
        }
        check_defmt(workspace, cargo)?;
    }
    for toolchain in all.iter().filter(|_| !is_check) {
        shell::run(&mut toolchain.cargo_static(C_INTERFACE))?;
    }
    if !lacking.is_empty() {
        let why = format!("no core for {}", lacking.join(", "));
        return Ok(Outcome::Skipped { why, enable: remedies.join("; ") });
    }
    Ok(Outcome::Passed(match all[..] {
        [toolchain] => toolchain.to_string(),
        _ => format!("{} targets", toolchains.len()),
    }))
}

/// `defmt` leaves symbols for a linker script that only a firmware image has: it is checked, not
/// linked.
fn check_defmt(workspace: &Workspace, mut cargo: Command) -> Result<()> {
    for name in CRATES {
        let package = workspace.packages.iter().find(|package| package.name == name);
        if !package.is_some_and(|package| package.features.contains_key("defmt")) {
            bail!("{name} has no feature `defmt`");
        }
        cargo.args(["-p", name, "--features", &format!("{name}/defmt")]);
    }
    shell::run(&mut cargo)
}
