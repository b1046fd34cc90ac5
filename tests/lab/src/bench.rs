//! `cargo xtask bench`: measurements. Ratios within one run are what counts; absolute numbers
//! belong to the machine and the minute.

use std::process::Command as Program;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use anyhow::Result;
use clap::{Args, Subcommand};

mod campaign;
mod collectives;
mod cores;
mod everything;
mod figure;
mod group;
mod implementation;
mod instructions;
mod matching;
mod measure;
mod peers;
mod perftest;
mod programs;
mod reduce;
mod report;
mod rounds;
mod series;
mod statistics;
mod target;
mod workload;

use workload::BenchWorkload;

/// Measures, side by side with the peers and with what the hardware alone can do.
///
/// Without a command: every workload over every transport in one run of bounded length, a table of
/// ratios, and reports on request. All implementations take turns in short batches, so that only
/// ratios within one run mean anything; what disturbs a round is seen by a calibrator, and that
/// round is not counted. Peers come from Debian: apt-get install openmpi-bin libopenmpi-dev mpich
/// libmpich-dev ucx-utils libgloo-dev g++.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Measurements {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    everything: everything::Everything,
}

impl Measurements {
    pub(crate) fn run(self) -> Result<()> {
        match self.command {
            Some(command) => command.run(),
            None => self.everything.run(),
        }
    }
}

/// The measurements to choose from.
#[derive(Subcommand)]
enum BenchCommand {
    /// Half a round trip of blocking calls between two processes on two cores
    ///
    /// All implementations take turns in short batches. `raw` is what the hardware alone needs, one
    /// cache line a direction (or a socket), and a pair of such ranks is the calibrator: rounds
    /// during which it moved, or which it shows to have run on another placement of the virtual
    /// cores, are not counted.
    Latency(measure::Measure),
    /// Bandwidth one way: windows of long messages, which the sender writes anew before each send
    ///
    /// Writing is not part of the time. A buffer that is sent again untouched lies in the
    /// receiver's cache already, and its bandwidth would be that cache's. `raw` is one memcpy out
    /// of what the other core has just written.
    Bandwidth(measure::Measure),
    /// Bandwidth both ways at once, of messages written anew
    #[command(name = "bibw")]
    Both(measure::Measure),
    /// Bandwidth of messages that their receiver reads once, all of it: a new message there, its
    /// sum back
    ///
    /// `raw` adds up where the other core has written. Out of an arena so does Aldis
    /// (`Endpoint::recv_view`): there is no copy.
    Consume(measure::Measure),
    /// Messages a second: windows of 64 nonblocking sends and receives of 8 bytes
    Rate(measure::Measure),
    /// The part of a long transfer that a computation hides, with polling in between
    ///
    /// Each implementation's transfer is timed alone, then beside a computation that takes as long;
    /// what is not added to the computation's time was hidden by it.
    Overlap(measure::Measure),
    Collectives(collectives::Collectives),
    /// Memory of a rank: bytes a peer, request and communicator, and of its shared segment
    Memory(peers::Peers),
    /// The cost of a poll that finds nothing, by the number of idle peers
    Poll(peers::Peers),
    Instructions(instructions::Instructions),
    #[command(name = "match", alias = "matching")]
    Matching(matching::Matching),
    Reduce(reduce::Reduce),
}

impl BenchCommand {
    fn run(self) -> Result<()> {
        match self {
            Self::Latency(measure) => measure.run(BenchWorkload::Latency),
            Self::Bandwidth(measure) => measure.run(BenchWorkload::Bandwidth),
            Self::Both(measure) => measure.run(BenchWorkload::Both),
            Self::Consume(measure) => measure.run(BenchWorkload::Consume),
            Self::Rate(measure) => measure.run(BenchWorkload::Rate),
            Self::Overlap(measure) => measure.run(BenchWorkload::Overlap),
            Self::Collectives(collectives) => collectives.run(),
            Self::Memory(shown) => shown.run(peers::MEMORY, peers::memory),
            Self::Poll(shown) => shown.run(peers::POLL, peers::poll),
            Self::Instructions(instructions) => instructions.run(),
            Self::Matching(matching) => matching.run(),
            Self::Reduce(reduce) => reduce.run(),
        }
    }
}

/// The arguments by which cargo is to build what the step `peers` measures, beside the launcher.
pub(crate) const PROGRAMS: [&str; 6] = ["-p", "aldis-bench", "--bin", "bench_raw", "--bin", "bench_aldis"];

/// The profile of the programs that are measured, which is also the folder that cargo puts them
/// into.
const PROFILE: &str = "measured";

/// Builds a measured program; the command that starts it.
fn program(name: &str) -> Result<Program> {
    let workspace = Workspace::members()?;
    eprintln!("building {name}");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--profile", PROFILE, "--quiet", "-p", "aldis-bench", "--bin", name]);
    shell::run(&mut cargo)?;
    Ok(Program::new(workspace.target.join(PROFILE).join(name)))
}

/// A step of `cargo xtask test`: a short run against every peer, to prove that the benchmark works.
/// What it measures is shown and not judged: a test run shares its machine.
pub fn peers() -> Result<Outcome> {
    measure::step()
}

/// A step of `cargo xtask test`: the instructions of each call beside their baselines.
pub fn hold_instructions() -> Result<Outcome> {
    instructions::check()
}

/// Counts the instructions of each call and writes their baselines anew.
pub fn update_instructions() -> Result<()> {
    instructions::update()
}
