//! The table of docs/mpi.md: which functions are there and which are not, by tier.

use core::fmt::Write;
use std::fs;

use aldis_mpi_table::{FunctionState, functions};
use aldis_shell::workspace::checkout;
use anyhow::{Context, Result, anyhow};

use super::{folder, put};

/// The table stands between these.
const MARKS: [&str; 2] = ["<!-- written by `cargo xtask mpi generate` -->\n", "<!-- until here -->\n"];

const TIERS: [(&str, &str); 7] = [
    ("T0", "every program"),
    ("T1", "common benchmarks"),
    ("T2", "test suites, at run time"),
    ("T3", "test suites"),
    ("T3c", "large counts in test suites"),
    ("T4", "few"),
    ("T5", "none that was looked at"),
];

/// Writes the table into the manual, or checks it.
pub(super) fn write(check: bool) -> Result<()> {
    let listed = fs::read_to_string(folder().join("table/functions.txt"))?;
    let functions = functions(&listed).map_err(|error| anyhow!(error))?;
    let there = |tier: &str| {
        let of_tier = functions.iter().filter(move |function| function.tier == tier);
        of_tier.partition::<Vec<_>, _>(|function| function.state != FunctionState::Unsupported)
    };
    let total = functions.iter().filter(|function| function.state != FunctionState::Unsupported).count();
    let mut table = format!(
        "\n{total} of {} functions are there. The others answer `MPI_ERR_UNSUPPORTED_OPERATION`, through the error handler:\n\n",
        functions.len()
    );
    table.push_str("| used by | there | of | unsupported |\n|---|---|---|---|\n");
    for (tier, users) in TIERS {
        let (have, lack) = there(tier);
        let names = lack.iter().map(|function| format!("`{}`", function.name)).collect::<Vec<_>>().join(" ");
        writeln!(table, "| {users} | {} | {} | {names} |", have.len(), have.len() + lack.len())?;
    }
    table.push('\n');
    let path = checkout().join("docs/mpi.md");
    let manual = fs::read_to_string(&path).context("reading docs/mpi.md")?;
    let (head, rest) = manual.split_once(MARKS[0]).context("docs/mpi.md has no place for the table")?;
    let (_, tail) = rest.split_once(MARKS[1]).context("docs/mpi.md has no end of the table")?;
    put(&path, &format!("{head}{}{table}{}{tail}", MARKS[0], MARKS[1]), check)
}
