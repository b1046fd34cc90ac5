//! The one entry to every chore: `cargo xtask COMMAND`. One file a command; the doc comments of the
//! arguments are the help texts. Scripts (`.ci/run`) hold no logic of their own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod arrows;
mod artifact;
mod aside;
mod baselines;
mod bench;
mod board;
mod check;
mod children;
mod compiles;
mod conformance;
mod demo;
mod dice;
mod endian;
mod faults;
mod fences;
mod firmware;
mod fuzz;
mod house;
mod licences;
mod limit;
mod marked;
mod miri;
mod mpi;
mod provision;
mod qemu;
mod sanitizers;
mod schedule;
mod shell;
mod sim;
mod size;
mod steps;
mod storm;
mod table;
mod test;
mod toolchain;
mod verbs;
mod wild;
mod workspace;

/// The chores of Aldis.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Measurements),
    Board(board::Board),
    Check(check::Check),
    Conformance(conformance::Conformance),
    Demo(demo::Demo),
    Endian(endian::Endian),
    Faults(faults::Faults),
    Fences(fences::Fences),
    Firmware(firmware::Firmware),
    Fuzz(fuzz::Fuzz),
    House(house::House),
    #[command(subcommand)]
    Mpi(mpi::Command),
    #[command(subcommand)]
    Qemu(qemu::Command),
    Schedule(schedule::Schedule),
    Sim(sim::Sim),
    Size(size::Size),
    Storm(storm::Storm),
    Test(test::Test),
    #[command(subcommand)]
    Verbs(verbs::Command),
}

fn main() -> ExitCode {
    if let Some(code) = compiles::stand_in() {
        return code;
    }
    let result = match Arguments::parse().command {
        Command::Bench(measurements) => measurements.run(),
        Command::Board(board) => board.run(),
        Command::Check(check) => check.run(),
        Command::Conformance(conformance) => conformance.run(),
        Command::Demo(demo) => demo.run(),
        Command::Endian(endian) => endian.run(),
        Command::Faults(faults) => faults.run(),
        Command::Fences(fences) => fences.run(),
        Command::Firmware(firmware) => firmware.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::House(house) => house.run(),
        Command::Mpi(command) => command.run(),
        Command::Qemu(command) => command.run(),
        Command::Schedule(schedule) => schedule.run(),
        Command::Sim(sim) => sim.run(),
        Command::Size(size) => size.run(),
        Command::Storm(storm) => storm.run(),
        Command::Test(test) => test.run(),
        Command::Verbs(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
