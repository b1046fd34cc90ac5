//! The one entry to every chore: `cargo xtask COMMAND`. One file a command, here or in the
//! laboratory (`tests/lab`); the doc comments of the arguments are the help texts. Scripts
//! (`.ci/run`) hold no logic of their own.

use std::process::ExitCode;

use aldis_shell::compiles;
use clap::{Parser, Subcommand};

mod arrows;
mod background;
mod check;
mod fences;
mod firmware;
mod house;
mod licences;
mod size;
mod test;

/// The chores of Aldis.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Check),
    Fences(fences::Fences),
    Firmware(firmware::Firmware),
    House(house::House),
    Size(size::Size),
    Test(test::Test),
    #[command(flatten)]
    Lab(Box<aldis_lab::Command>),
}

fn main() -> ExitCode {
    if let Some(code) = compiles::stand_in() {
        return code;
    }
    let result = match Arguments::parse().command {
        Command::Check(check) => check.run(),
        Command::Fences(fences) => fences.run(),
        Command::Firmware(firmware) => firmware.run(),
        Command::House(house) => house.run(),
        Command::Size(size) => size.run(),
        Command::Test(test) => test.run(),
        Command::Lab(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
