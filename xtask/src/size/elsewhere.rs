//! The size of the firmware on other processors. Its limits hold for the microcontroller alone.

use std::fs;

use aldis_shell::table::Table;
use aldis_shell::toolchain::{self, Finder};
use aldis_shell::workspace::Workspace;
use anyhow::{Context, Result};

use super::image::Outline;
use super::{Built, PACKAGE, build, build_with};

/// A target of 64 bits, for which the step `images` builds an image too.
const WIDE: &str = "riscv64gc-unknown-none-elf";

/// The features with which the image stands on what that of the step `images` stands on.
const FEATURES: &str = "aldis-coll/default,aldis-drivers/auth,aldis-drivers/e1000e,aldis-drivers/virtio,\
    aldis-kernel/default,aldis-protocols/default";

/// Microcontrollers with RISC-V, and the processors of servers and DPUs.
const TARGETS: [&str; 4] =
    ["riscv32imac-unknown-none-elf", WIDE, "aarch64-unknown-none", "x86_64-unknown-none"];

/// A target, and what its image takes; `None` where it cannot be built here.
pub(super) type TargetRow = (&'static str, Option<Outline>);

/// Builds the image for each target and looks at it.
///
/// # Errors
/// What the compiler says, or that panic machinery or a heap is linked.
pub(super) fn measure_all(workspace: &Workspace) -> Result<Vec<TargetRow>> {
    TARGETS.into_iter().map(|target| Ok((target, judge(build(workspace, target)?, target)?))).collect()
}

/// Proves that neither panic machinery nor a heap is in an image of 64 bits, whose code is partly
/// another: with the fast paths and remote memory of hosts, since it is of crates that are built
/// for the step `images`, and optimised as that is. What it found, in a few words.
///
/// # Errors
/// What the compiler says, or that panic machinery or a heap is linked.
pub(super) fn prove(workspace: &Workspace) -> Result<String> {
    let found = Finder::new(workspace)?.find_all_to_emulate(&[WIDE])?.pop().context("one was asked for")?;
    let built = build_with(found, WIDE, |cargo| {
        toolchain::to_emulate(cargo, PACKAGE).args(["--features", FEATURES])
    })?;
    let is_good = judge(built, WIDE)?.is_some();
    Ok(format!("{} {WIDE}", if is_good { "nor for" } else { "not looked at for" }))
}

/// Looks at an image; nothing if it could not be built.
fn judge(built: Built, target: &str) -> Result<Option<Outline>> {
    let file = match built {
        Built::Image(file) => file,
        Built::Missing { why, enable } => {
            eprintln!("  {PACKAGE} for {target}: skipped, {why}; to enable: {enable}");
            return Ok(None);
        }
    };
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let outline = Outline::parse(&bytes).with_context(|| format!("reading {}", file.display()))?;
    super::contents::judge(&outline.symbols).with_context(|| target.to_owned())?;
    Ok(Some(outline))
}

pub(super) fn print_table(rows: &[TargetRow]) {
    if rows.is_empty() {
        return;
    }
    let mut table = Table::new(["the same for", "flash", "RAM", "shared"]);
    for (target, outline) in rows {
        let cell = |bytes: fn(&Outline) -> u64| match outline {
            Some(outline) => bytes(outline).to_string(),
            None => "-".into(),
        };
        table.row([(*target).into(), cell(|of| of.flash), cell(|of| of.ram), cell(|of| of.shared)]);
    }
    println!("{table}");
}

/// The rows that could be built.
pub(super) fn json(rows: &[TargetRow]) -> serde_json::Value {
    let of = |(target, outline): &TargetRow| {
        let Outline { flash, ram, initial, shared, .. } = outline.as_ref()?;
        Some(
            serde_json::json!({ "target": target, "flash": flash, "ram": ram, "initial": initial, "shared": shared }),
        )
    };
    rows.iter().filter_map(of).collect()
}
