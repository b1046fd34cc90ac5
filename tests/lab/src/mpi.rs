//! `cargo xtask mpi`: the C interface of MPI (`host-sim/mpi`). What is written from its tables,
//! a folder that programs are built and run with, and tests: programs in C, and mpi4py's own and
//! the examples of rsmpi on a reference library and on Aldis.

mod gaps;
mod garbage;
mod header;
mod install;
mod modules;
mod programs;
mod record;
mod rsmpi;
mod status;
mod test;

pub(crate) use install::install;

use std::path::PathBuf;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::checkout;
use anyhow::Result;
use clap::Subcommand;

use modules::Control;

/// The C interface of MPI
#[derive(Subcommand)]
pub enum MpiCommand {
    /// Write `mpi.h` and the tables of docs/mpi.md
    Generate {
        /// Write nothing; fail if anything is not as it would be written
        #[arg(long)]
        check: bool,
    },
    /// Build the library, the compiler wrappers and the launchers into a folder
    Install(install::Install),
    /// Run programs in C, mpi4py's tests and the examples of rsmpi over Aldis, the latter two over
    /// a reference library too
    Test(test::MpiTest),
}

impl MpiCommand {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Generate { check } => {
                header::write(check)?;
                status::write(check)
            }
            Self::Install(install) => install.run(),
            Self::Test(test) => test.run(),
        }
    }
}

/// The step of `cargo xtask test`: the programs in C.
pub fn step() -> Result<Outcome> {
    if let Some(compiler) = ["cc", "c++"].into_iter().find(|name| !shell::has(name)) {
        let enable = "apt-get install g++".into();
        return Ok(Outcome::Skipped { why: format!("no {compiler}"), enable });
    }
    Ok(Outcome::Passed(test::programs()?))
}

/// The step of `cargo xtask test`: mpi4py's tests, compared with what they did over the library
/// that is the reference for them.
pub fn clients() -> Result<Outcome> {
    clients_of(&[modules::RANKS_DAILY], Control::Recorded)
}

/// Runs the step with every number of ranks, beside that library.
pub fn clients_in_full() -> Result<Outcome> {
    clients_of(&modules::RANKS, Control::Run)
}

fn clients_of(ranks: &[u32], control: Control) -> Result<Outcome> {
    if !modules::has_python() {
        let (why, enable) = ("no Python to build mpi4py with".into(), modules::PYTHON_NEEDS.into());
        return Ok(Outcome::Skipped { why, enable });
    }
    Ok(Outcome::Passed(test::modules(ranks, control)?))
}

/// The step of `cargo xtask test`: the examples of rsmpi, those that fail over that library too.
pub fn examples() -> Result<Outcome> {
    examples_of(&rsmpi::RANKS_DAILY)
}

/// Runs the step with every number of ranks.
pub fn examples_in_full() -> Result<Outcome> {
    examples_of(&rsmpi::RANKS)
}

fn examples_of(ranks: &[u32]) -> Result<Outcome> {
    match rsmpi::missing() {
        Some(enable) => {
            Ok(Outcome::Skipped { why: "no Python or libclang for rsmpi".into(), enable: enable.into() })
        }
        None => Ok(Outcome::Passed(test::examples(ranks)?)),
    }
}

/// The folder of the crate.
fn folder() -> PathBuf {
    checkout().join("host-sim/mpi")
}

/// Writes a file, or checks that it is as it would be written.
fn put(path: &std::path::Path, text: &str, check: bool) -> Result<()> {
    if !check {
        return Ok(std::fs::write(path, text)?);
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found != text {
        anyhow::bail!("{} is not what `cargo xtask mpi generate` writes", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_is_what_the_tables_say() {
        header::write(true).unwrap();
        status::write(true).unwrap();
    }
}
