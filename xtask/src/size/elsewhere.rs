//! The size of the firmware on other processors. Its limits hold for the microcontroller alone.

use std::fs;

use aldis_shell::table::Table;
use aldis_shell::workspace::Workspace;
use anyhow::{Context, Result};

use super::image::Outline;
use super::{Built, PACKAGE, build};

/// A target of 64 bits.
pub(super) const WIDE: &str = "riscv64gc-unknown-none-elf";

/// Microcontrollers with RISC-V, and the processors of servers and DPUs.
const TARGETS: [&str; 4] =
    ["riscv32imac-unknown-none-elf", WIDE, "aarch64-unknown-none", "x86_64-unknown-none"];

/// A target, and what its image takes; `None` where it cannot be built here.
pub(super) type TargetRow = (&'static str, Option<Outline>);

/// [`measure`] for each.
///
/// # Errors
/// What the compiler says, or that panic machinery or a heap is linked, as of [`measure`].
pub(super) fn measure_all(workspace: &Workspace) -> Result<Vec<TargetRow>> {
    TARGETS.into_iter().map(|target| measure(workspace, target)).collect()
}

/// Builds the image for a target and looks at it.
///
/// # Errors
/// What the compiler says, or that panic machinery or a heap is linked.
pub(super) fn measure(workspace: &Workspace, target: &'static str) -> Result<TargetRow> {
    let file = match build(workspace, target)? {
        Built::Image(file) => file,
        Built::Missing { why, enable } => {
            eprintln!("  {PACKAGE} for {target}: skipped, {why}; to enable: {enable}");
            return Ok((target, None));
        }
    };
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let outline = Outline::parse(&bytes).with_context(|| format!("reading {}", file.display()))?;
    super::contents::judge(&outline.symbols).with_context(|| target.to_owned())?;
    Ok((target, Some(outline)))
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
