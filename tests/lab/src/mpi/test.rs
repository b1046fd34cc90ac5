//! `cargo xtask mpi test`.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::install::{Folders, install, profile};
use super::modules::{Control, ModulesPlan};
use super::{modules, programs, rsmpi};

/// The choice of what is tested.
#[derive(Args)]
pub struct MpiTest {
    /// Suites to run [default: all of them]
    #[arg(value_enum, value_name = "SUITE", default_values = ["programs", "mpi4py", "rsmpi"], hide_default_value = true)]
    suites: Vec<Suite>,

    /// Modules of mpi4py's tests, such as test_comm [default: those that docs/mpi.md counts]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    modules: Vec<String>,

    /// Ranks that those modules are run with
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = modules::RANKS)]
    ranks: Vec<u32>,

    /// Write down which of mpi4py's tests pass over the reference library, which is all that
    /// `cargo xtask test` knows of it every day
    #[arg(long, conflicts_with = "modules")]
    record: bool,

    /// Build without optimisation
    #[arg(long)]
    debug: bool,

    /// Print what came of modules and examples as JSON, an object for each of them and number of
    /// ranks
    #[arg(long)]
    json: bool,
}

/// Programs of one origin.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Programs in C of this repository, built with `aldis-mpicc`
    Programs,
    /// mpi4py's own tests, over the reference library MPICH and over Aldis, test by test. Needs
    /// Python, a compiler, and PyPI for the first time
    Mpi4py,
    /// The examples of the crate `mpi` with 1 to 4 ranks, over both where one fails. Needs
    /// the same, libclang, and crates.io for the first time
    Rsmpi,
}

impl MpiTest {
    pub(crate) fn run(self) -> Result<()> {
        let folders = Folders::find()?;
        let Folders { target, prefix, programs } = &folders;
        let has = |suite| self.suites.contains(&suite);
        if has(Suite::Mpi4py) || has(Suite::Rsmpi) {
            modules::need_python().context("or run `cargo xtask mpi test programs` alone")?;
        }
        install(target, prefix, profile(self.debug))?;
        if has(Suite::Programs) {
            println!("{}", programs::run(prefix, programs)?);
        }
        if has(Suite::Mpi4py) {
            let control = if self.record { Control::Record } else { Control::Run };
            let (modules, ranks) = (&*self.modules, &*self.ranks);
            let plan = ModulesPlan { modules, ranks, control, is_json: self.json };
            println!("{}", modules::run(&folders, &plan)?);
        }
        if has(Suite::Rsmpi) {
            println!("{}", rsmpi::run(prefix, target, &rsmpi::RANKS, self.json)?);
        }
        Ok(())
    }
}

/// The programs in C alone; what they showed.
pub(super) fn programs() -> Result<String> {
    let Folders { target, prefix, programs } = Folders::find()?;
    install(&target, &prefix, profile(false))?;
    programs::run(&prefix, &programs)
}

/// mpi4py's tests alone, with as many ranks as are named.
pub(super) fn modules(ranks: &[u32], control: Control) -> Result<String> {
    let folders = Folders::find()?;
    install(&folders.target, &folders.prefix, profile(false))?;
    modules::run(&folders, &ModulesPlan { modules: &[], ranks, control, is_json: false })
}

/// The examples of rsmpi alone, at these numbers of ranks.
pub(super) fn examples(ranks: &[u32]) -> Result<String> {
    let Folders { target, prefix, .. } = Folders::find()?;
    install(&target, &prefix, profile(false))?;
    rsmpi::run(&prefix, &target, ranks, false)
}
