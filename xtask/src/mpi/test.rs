//! `cargo xtask mpi test`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::install::{install, profile};
use super::{modules, programs, rsmpi};
use crate::workspace::Workspace;

/// What is tested.
#[derive(Args)]
pub(crate) struct Test {
    /// Build without optimisation
    #[arg(long)]
    debug: bool,

    /// Also modules of mpi4py's tests, such as test_comm; `all` for those that docs/mpi.md counts. Needs Python, a compiler, and the
    /// network for the first time
    #[arg(long, value_name = "MODULE,...", value_delimiter = ',')]
    mpi4py: Vec<String>,

    /// Ranks that those modules are run with
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4", requires = "mpi4py")]
    ranks: Vec<u32>,

    /// Also the examples of the crate mpi (rsmpi), with 1 to 4 ranks. Needs Python, libclang-dev, and the network for the first time
    #[arg(long)]
    rsmpi: bool,

    /// Print what came of modules and examples as JSON, an object for each of them and number of ranks
    #[arg(long)]
    json: bool,
}

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let Folders { target, prefix, programs } = Folders::find()?;
        install(&target, &prefix, profile(self.debug))?;
        println!("{}", programs::run(&prefix, &programs)?);
        if !self.mpi4py.is_empty() {
            modules::run(&prefix, &target, &self.mpi4py, &self.ranks, self.json)?;
        }
        if self.rsmpi {
            rsmpi::run(&prefix, &target, self.json)?;
        }
        Ok(())
    }
}

/// Modules of mpi4py's tests alone, over the library as [`programs()`] builds it; what they showed.
pub(super) fn modules() -> Result<String> {
    let Folders { target, prefix, .. } = Folders::find()?;
    install(&target, &prefix, profile(true))?;
    let names = modules::STEP.map(String::from);
    let good = modules::run(&prefix, &target, &names, &[modules::STEP_RANKS], false)?;
    Ok(format!("{good} tests of {} modules, as over the reference library", names.len()))
}

/// The programs in C alone, built without optimisation; what they showed.
pub(super) fn programs() -> Result<String> {
    let Folders { target, prefix, programs } = Folders::find()?;
    install(&target, &prefix, profile(true))?;
    programs::run(&prefix, &programs)
}

/// Where it is built to.
struct Folders {
    target: PathBuf,
    /// As installed.
    prefix: PathBuf,
    /// What is run.
    programs: PathBuf,
}

impl Folders {
    fn find() -> Result<Self> {
        let target = Workspace::members()?.target;
        Ok(Self { prefix: target.join("mpi"), programs: target.join("mpi-programs"), target })
    }
}
