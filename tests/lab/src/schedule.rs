//! `cargo xtask schedule`: `aldis-schedule`, built and run.

use std::ffi::OsString;

use aldis_shell::shell;
use aldis_shell::workspace;
use anyhow::Result;
use clap::Args;

/// Draws the schedule of a collective operation and says what it costs; --help tells how
///
/// `cargo xtask schedule OPERATION [ALGORITHM] --ranks N [--bytes B] [--root R] [--scratch S]
/// [--svg FILE] [--json]` runs `aldis-schedule` with these arguments.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Schedule {
    /// Arguments of aldis-schedule
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Schedule {
    pub(crate) fn run(self) -> Result<()> {
        let mut cargo = workspace::cargo();
        cargo.args(["run", "--quiet", "--locked", "-p", "aldis-sim", "--bin", "aldis-schedule", "--"]);
        shell::run(cargo.args(self.arguments))
    }
}
