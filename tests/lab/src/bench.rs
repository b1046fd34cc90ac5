//! `cargo xtask bench`: measurements. Ratios within one run are what counts; absolute numbers
//! belong to the machine and the minute.

use std::process::Command as Program;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use anyhow::Result;
use clap::{Args, Subcommand};

mod campaign;
mod client;
mod cores;
mod figure;
mod group;
mod implementation;
mod instructions;
mod launch;
mod matching;
mod nic;
mod peers;
mod perftest;
mod programs;
mod reduce;
mod report;
mod rounds;
mod run;
mod scale;
mod series;
mod statistics;
mod target;
mod workload;

/// Measures, side by side with the peers and with what the hardware alone can do.
///
/// Without a command: what a program in C sees, then the native interface, over every transport, as
/// tables of ratios to the best peer, with a report on request. All implementations take turns in
/// short batches, so that only ratios within one run mean anything; what disturbs a round is seen
/// by a calibrator, and that round is not counted. Some lines to begin with:
///
/// cargo xtask bench --peers=mpich5,impi --rows pingpong,halo --ranks 2 --transport shm
///
/// cargo xtask bench --peers --rows programs --sizes 8,1024 --rounds 50 --json
///
/// cargo xtask bench --peers --rows native:latency,native:consume
///
/// cargo xtask bench --peers --markdown BENCHMARKS.md
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Measurements {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: run::BenchRun,
}

impl Measurements {
    pub(crate) fn run(self) -> Result<()> {
        match self.command {
            Some(command) => command.run(),
            None => self.run.run(),
        }
    }
}

/// The measurements of other things.
#[derive(Subcommand)]
enum BenchCommand {
    /// Memory of a rank: bytes a peer, request and communicator, and of its shared segment
    Memory(peers::Peers),
    /// The cost of a poll that finds nothing, by the number of idle peers
    Poll(peers::Peers),
    Instructions(instructions::Instructions),
    #[command(name = "match", alias = "matching")]
    Matching(matching::Matching),
    Nic(nic::NicBench),
    Reduce(reduce::Reduce),
    Scale(scale::Scale),
}

impl BenchCommand {
    fn run(self) -> Result<()> {
        match self {
            Self::Memory(shown) => shown.run(peers::MEMORY, peers::memory),
            Self::Poll(shown) => shown.run(peers::POLL, peers::poll),
            Self::Instructions(instructions) => instructions.run(),
            Self::Matching(matching) => matching.run(),
            Self::Nic(nic) => nic.run(),
            Self::Reduce(reduce) => reduce.run(),
            Self::Scale(scale) => scale.run(),
        }
    }
}

/// The profile of the programs that are measured, which is also the folder that cargo puts them
/// into.
const PROFILE: &str = "measured";

/// Builds a measured program; the command that starts it.
fn program(name: &str) -> Result<Program> {
    program_with(name, &[])
}

/// Builds a program, with further arguments of cargo, which choose features.
fn program_with(name: &str, features: &[&str]) -> Result<Program> {
    let workspace = Workspace::members()?;
    eprintln!("building {name}");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--profile", PROFILE, "--quiet", "-p", "aldis-bench", "--bin", name]);
    shell::run(cargo.args(features))?;
    Ok(Program::new(workspace.target.join(PROFILE).join(name)))
}

/// A step of `cargo xtask test`: a short run against every peer, to prove that the benchmark works.
/// What it measures is shown and not judged: a test run shares its machine.
pub fn peers() -> Result<Outcome> {
    run::step()
}

/// A step of `cargo xtask test`: the instructions of each call beside their baselines.
pub fn hold_instructions() -> Result<Outcome> {
    instructions::check()
}

/// Counts the instructions of each call and writes their baselines anew.
pub fn update_instructions() -> Result<()> {
    instructions::update()
}
