//! `cargo xtask size`: what a minimal firmware costs, on a Cortex-M4 above all, and proof of what
//! is not in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::baselines::{Cost, Gate};
use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::toolchain::{Finder, FoundToolchain, STACK_SIZES};
use aldis_shell::workspace::Workspace;
use anyhow::{Context, Result, bail};
use clap::Args;

mod contents;
mod elsewhere;
mod image;
mod linux;
mod stack;
mod thumb;

use image::{Image, Outline};
use stack::Depth;

/// The target whose image has limits.
const TARGET: &str = "thumbv7em-none-eabihf";

/// The package and binary of the image: `tests/firmware`.
const PACKAGE: &str = "aldis-firmware";

/// The most that the image may take of flash and of RAM, in bytes.
const FLASH_BYTES_MAX: u64 = 32 << 10;
const RAM_BYTES_MAX: u64 = 16 << 10;

const GATE: Gate = Gate { section: "size", tolerance: 2.0, command: "cargo xtask size" };

/// The facts that the image states of itself: a constant's symbol and what it means.
const FACTS: [(&str, &str); 3] = [
    ("ALDIS_BYTES_PER_PEER", "bytes per peer"),
    ("ALDIS_BYTES_PER_REQUEST", "bytes per request"),
    ("ALDIS_BYTES_PER_COMMUNICATOR", "bytes per communicator"),
];

/// Prints flash, RAM, stack and bytes per peer, request and communicator of a minimal firmware, and
/// bytes per idle and active peer of a rank on Linux.
///
/// The firmware is tests/firmware: eager and rendezvous, barrier, bcast and allreduce over shared
/// memory with 4 peers, built for thumbv7em-none-eabihf with the profile `firmware`. Fails when it
/// takes more flash or RAM than its limits, when panic machinery or a heap is linked, or when the
/// storage is not all zero and so takes flash.
#[derive(Args)]
pub(crate) struct Size {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Read this ELF file instead of building the firmware
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Also build it for other processors, which have no limits
    #[arg(long, conflicts_with = "image")]
    all: bool,
    /// Write the costs into baselines.json, which the step `size` of `cargo xtask test` holds them
    /// to
    #[arg(long, conflicts_with = "image")]
    update: bool,
}

/// An image and its deepest stack.
struct Measured {
    image: Image,
    depth: Depth,
}

impl Size {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        let file = match &self.image {
            Some(file) => file.clone(),
            None => match build(&workspace, TARGET)? {
                Built::Image(file) => file,
                Built::Missing { why, enable } => bail!("{why}; to enable: {enable}"),
            },
        };
        let measured = measure(&file)?;
        let linux = if self.image.is_none() { linux::costs()? } else { Vec::new() };
        if self.update {
            GATE.update(&[measured.costs()?, linux.clone()].concat())?;
        }
        let elsewhere = if self.all { elsewhere::measure_all(&workspace)? } else { Vec::new() };
        if self.json {
            measured.print_json(&elsewhere, &linux)?;
        } else {
            measured.print_table()?;
            linux::print_table(&linux);
            elsewhere::print_table(&elsewhere);
        }
        measured.judge().map(drop)
    }
}

/// Checks the size as a step of `cargo xtask test`: for the Cortex-M4, and proof of what is not in
/// an image of 64 bits, whose code is partly another.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    match build(workspace, TARGET)? {
        Built::Missing { why, enable } => Ok(Outcome::Skipped { why, enable }),
        Built::Image(file) => {
            let measured = measure(&file)?;
            measured.print_table()?;
            let said = measured.judge()?;
            let linux = linux::costs()?;
            linux::print_table(&linux);
            GATE.hold(&[measured.costs()?, linux].concat())?;
            Ok(Outcome::Passed(format!("{said}; {}", elsewhere::prove(workspace)?)))
        }
    }
}

/// Measures and writes the baselines anew.
pub(crate) fn update(workspace: &Workspace) -> Result<()> {
    match build(workspace, TARGET)? {
        Built::Missing { why, enable } => bail!("{why}; to enable: {enable}"),
        Built::Image(file) => GATE.update(&[measure(&file)?.costs()?, linux::costs()?].concat()),
    }
}

enum Built {
    Image(PathBuf),
    Missing { why: String, enable: String },
}

fn build(workspace: &Workspace, target: &str) -> Result<Built> {
    build_with(Finder::new(workspace)?.find(target)?, target, |cargo| cargo)
}

/// Builds the image with a compiler that was found, and what else cargo is told.
fn build_with(
    found: FoundToolchain,
    target: &str,
    told: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Built> {
    let toolchain = match found {
        FoundToolchain::Toolchain(toolchain) if toolchain.is_bare() => toolchain,
        FoundToolchain::Toolchain(_) => {
            let enable = format!("rustup target add {target}");
            return Ok(Built::Missing { why: format!("no core of its own for {target}"), enable });
        }
        FoundToolchain::Missing { enable } => {
            return Ok(Built::Missing { why: format!("no core for {target}"), enable });
        }
    };
    let Some(linker) = toolchain.linker() else {
        return Ok(Built::Missing { why: "no linker for ELF".into(), enable: "apt-get install lld".into() });
    };
    eprintln!("  {PACKAGE}: {toolchain}");
    // The frames are stated for this one crate, in whose link-time optimisation all code is
    // generated. That changes no instruction.
    let mut cargo = toolchain.cargo("rustc");
    cargo.args(["-p", PACKAGE, "--bin", PACKAGE]).env(toolchain.variable("LINKER"), linker);
    shell::run(told(&mut cargo).args(["--", STACK_SIZES]))?;
    Ok(Built::Image(toolchain.artifacts().join(PACKAGE)))
}

fn measure(file: &Path) -> Result<Measured> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let image = Image::parse(&bytes).with_context(|| format!("reading {}", file.display()))?;
    let depth = stack::deepest(&image)?;
    Ok(Measured { image, depth })
}

impl Measured {
    fn print_table(&self) -> Result<()> {
        let mut table = Table::new(["minimal firmware, 4 peers, thumbv7em", "bytes"]);
        let mut row = |name: &str, bytes: u64| table.row([name.into(), bytes.to_string()]);
        row("flash (.text + .rodata + .data)", self.image.outline.flash);
        row("of which initial values (.data)", self.image.outline.initial);
        row("RAM (.data + .bss)", self.image.outline.ram);
        row("shared between cores (.shared)", self.image.outline.shared);
        row("deepest stack", u64::from(self.depth.bytes));
        row("deepest stack of poll", u64::from(self.poll()?));
        for (symbol, words) in FACTS {
            row(words, u64::from(self.image.fact(symbol)?));
        }
        println!("{table}");
        println!("deepest stack: frames stated by the compiler, along the decoded calls of the linked code:");
        for (name, frame) in &self.depth.chain {
            println!("  {frame:>5}  {name}");
        }
        for (names, words) in [
            (&self.depth.unknown, "not counted, because their frame is not stated"),
            (&self.depth.indirect, "not followed: calls through a register, in"),
        ] {
            if !names.is_empty() {
                println!("{words}: {}", names.join(", "));
            }
        }
        Ok(())
    }

    fn print_json(&self, elsewhere: &[elsewhere::TargetRow], linux: &[Cost]) -> Result<()> {
        let mut line = serde_json::Map::new();
        line.insert("target".into(), TARGET.into());
        line.insert("flash".into(), self.image.outline.flash.into());
        line.insert("initial".into(), self.image.outline.initial.into());
        line.insert("ram".into(), self.image.outline.ram.into());
        line.insert("shared".into(), self.image.outline.shared.into());
        line.insert("stack".into(), self.depth.bytes.into());
        line.insert("stack_poll".into(), self.poll()?.into());
        line.insert("stack_unknown".into(), self.depth.unknown.clone().into());
        line.insert("stack_indirect".into(), self.depth.indirect.clone().into());
        for (symbol, words) in FACTS {
            line.insert(words.replace(' ', "_"), self.image.fact(symbol)?.into());
        }
        for Cost { name, value } in linux {
            line.insert(name.replace(' ', "_"), (*value).into());
        }
        line.insert("elsewhere".into(), elsewhere::json(elsewhere));
        println!("{}", serde_json::Value::Object(line));
        Ok(())
    }

    /// The costs that have baselines, in bytes.
    fn costs(&self) -> Result<Vec<Cost>> {
        let Outline { flash, ram, .. } = self.image.outline;
        let mut costs = vec![("flash", flash), ("RAM", ram), ("deepest stack", self.depth.bytes.into())];
        costs.push(("deepest stack of poll", self.poll()?.into()));
        for (symbol, words) in FACTS {
            costs.push((words, self.image.fact(symbol)?.into()));
        }
        let cost = |(name, bytes): (&str, u64)| Cost { name: name.into(), value: bytes as f64 };
        Ok(costs.into_iter().map(cost).collect())
    }

    fn poll(&self) -> Result<u32> {
        self.depth.poll.context("the image has no Endpoint::poll of its own")
    }

    /// Fails with what must not be there.
    fn judge(&self) -> Result<String> {
        contents::judge(&self.image.outline.symbols)?;
        if self.image.outline.initial > 0 {
            bail!(
                "{} bytes of initial values: a storage that is all zero has none",
                self.image.outline.initial
            );
        }
        let Outline { flash, ram, .. } = self.image.outline;
        if flash > FLASH_BYTES_MAX || ram > RAM_BYTES_MAX {
            bail!("{flash} B of flash and {ram} B of RAM: more than {FLASH_BYTES_MAX} and {RAM_BYTES_MAX}");
        }
        let (stack, poll) = (self.depth.bytes, self.poll()?);
        Ok(format!(
            "flash {flash} B, RAM {ram} B, stack {stack} B, of poll {poll} B; no panic machinery, no heap"
        ))
    }
}
