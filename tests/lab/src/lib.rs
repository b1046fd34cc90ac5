//! # aldis-lab: the laboratory
//!
//! Whatever measures Aldis, or runs it for long or in places where it is hard to run: one file a
//! command of `cargo xtask`, whose help texts are the doc comments of the arguments.
//!
//! | module | what it does |
//! |---|---|
//! | [`bench`](mod@bench) | measures, beside Open MPI and MPICH and beside earlier measurements |
//! | [`sim`], [`conformance`] | campaigns from seeds: the simulator, the conformance suite |
//! | [`storm`], [`faults`] | campaigns of signals, and of calls of the system that fail |
//! | [`fuzz`], [`sanitizers`], [`miri`] | tries to break the code, by inputs and by safe programs |
//! | [`mpi`] | the C interface: its tables, its installation, programs in C, mpi4py and rsmpi |
//! | [`qemu`], [`board`], [`endian`] | firmware and other kinds of machines in emulators |
//! | [`verbs`] | Linux's RDMA stack in emulated machines |
//! | [`demo`], [`schedule`] | the examples, and drawings of schedules |

pub mod bench;
pub mod board;
mod c_image;
pub mod conformance;
pub mod demo;
pub mod endian;
pub mod faults;
pub mod fuzz;
pub mod miri;
pub mod mpi;
pub mod qemu;
pub mod sanitizers;
pub mod schedule;
pub mod sim;
pub mod storm;
mod unikernel;
pub mod verbs;

use anyhow::Result;
use clap::Subcommand;

/// The commands of the laboratory.
#[derive(Subcommand)]
#[allow(missing_docs, reason = "each is the command of its name, whose arguments hold the help text")]
pub enum Command {
    Bench(bench::Measurements),
    Board(board::BoardCommand),
    Conformance(conformance::Conformance),
    Demo(demo::Demo),
    Endian(endian::Endian),
    Faults(faults::FaultsCommand),
    Fuzz(fuzz::Fuzz),
    #[command(subcommand)]
    Mpi(mpi::MpiCommand),
    #[command(subcommand)]
    Qemu(qemu::QemuCommand),
    Schedule(schedule::Schedule),
    Sim(sim::Sim),
    Storm(storm::Storm),
    #[command(subcommand)]
    Verbs(verbs::VerbsCommand),
}

impl Command {
    /// Carries out the command.
    ///
    /// # Errors
    /// A program that cannot be started or fails, and a finding.
    pub fn run(self) -> Result<()> {
        match self {
            Self::Bench(measurements) => measurements.run(),
            Self::Board(board) => board.run(),
            Self::Conformance(conformance) => conformance.run(),
            Self::Demo(demo) => demo.run(),
            Self::Endian(endian) => endian.run(),
            Self::Faults(faults) => faults.run(),
            Self::Fuzz(fuzz) => fuzz.run(),
            Self::Mpi(command) => command.run(),
            Self::Qemu(command) => command.run(),
            Self::Schedule(schedule) => schedule.run(),
            Self::Sim(sim) => sim.run(),
            Self::Storm(storm) => storm.run(),
            Self::Verbs(command) => command.run(),
        }
    }
}
