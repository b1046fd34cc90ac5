//! `cargo xtask mpi test`.

use anyhow::Result;
use clap::Args;

use super::{install, modules, programs};
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
}

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let target = Workspace::members()?.target;
        let prefix = target.join("mpi");
        install::install(&target, &prefix, self.debug)?;
        programs::run(&prefix, &target.join("mpi-programs"))?;
        if self.mpi4py.is_empty() { Ok(()) } else { modules::run(&prefix, &target, &self.mpi4py) }
    }
}
