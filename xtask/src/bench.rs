//! `cargo xtask bench`: measurements. Ratios within one run are what counts; absolute numbers belong to the machine
//! and the minute.

use anyhow::Result;
use clap::Subcommand;

use crate::steps::Outcome;

mod implementation;
mod latency;
mod pair;
mod statistics;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Command {
    Latency(latency::Latency),
}

impl Command {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Latency(latency) => latency.run(),
        }
    }
}

/// A step of `cargo xtask test`: a short run against every peer, to prove that the benchmark works. What it measures
/// is shown and not judged: a test run shares its machine.
pub(crate) fn peers() -> Result<Outcome> {
    latency::step()
}
