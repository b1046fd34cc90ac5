//! `cargo xtask bench`: measurements. Ratios within one run are what counts; absolute numbers belong to the machine
//! and the minute.

use anyhow::Result;
use clap::Subcommand;

mod implementation;
mod latency;
mod pair;
mod statistics;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Half round trips between two processes over shared memory
    Latency(latency::Latency),
}

impl Command {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Latency(latency) => latency.run(),
        }
    }
}
