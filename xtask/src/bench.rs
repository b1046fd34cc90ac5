//! `cargo xtask bench`: measurements. Ratios within one run are what counts; absolute numbers belong to the machine
//! and the minute.

use std::process::Command as Program;

use anyhow::Result;
use clap::Subcommand;

use crate::shell;
use crate::steps::Outcome;
use crate::workspace::{self, Workspace};

mod implementation;
mod instructions;
mod latency;
mod matching;
mod pair;
mod statistics;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Command {
    Instructions(instructions::Instructions),
    Latency(latency::Latency),
    Matching(matching::Matching),
}

impl Command {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Instructions(instructions) => instructions.run(),
            Self::Latency(latency) => latency.run(),
            Self::Matching(matching) => matching.run(),
        }
    }
}

/// The profile of the programs that are measured, which is also the folder that cargo puts them into.
const PROFILE: &str = "measured";

/// Builds a measured program of the tests; the command that starts it.
fn program(name: &str) -> Result<Program> {
    let workspace = Workspace::members()?;
    eprintln!("building {name}");
    shell::run(workspace::cargo().args([
        "build",
        "--profile",
        PROFILE,
        "--quiet",
        "-p",
        "aldis-tests",
        "--bin",
        name,
    ]))?;
    Ok(Program::new(workspace.target.join(PROFILE).join(name)))
}

/// A step of `cargo xtask test`: a short run against every peer, to prove that the benchmark works. What it measures
/// is shown and not judged: a test run shares its machine.
pub(crate) fn peers() -> Result<Outcome> {
    latency::step()
}
