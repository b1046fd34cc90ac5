//! Bytes that a rank on Linux sets aside for another of its job, as a program of its crate tells.

use aldis_shell::baselines::Cost;
use aldis_shell::shell;
use aldis_shell::table::Table;
use aldis_shell::workspace;
use anyhow::{Context, Result};

/// The bytes of idle and active peers.
pub(super) fn costs() -> Result<Vec<Cost>> {
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--quiet", "--locked", "-p", "aldis-linux", "--example", "peer_bytes"]);
    let said = shell::output(&mut cargo)?;
    let cost = |line: &str| {
        let (bytes, name) = line.split_once('\t')?;
        Some(Cost { name: name.into(), value: bytes.parse().ok()? })
    };
    said.lines().map(cost).collect::<Option<_>>().with_context(|| format!("peer_bytes said {said:?}"))
}

/// Prints them.
pub(super) fn print_table(costs: &[Cost]) {
    let mut table = Table::new(["a rank on Linux, for each other rank of its job", "bytes"]);
    for Cost { name, value } in costs {
        table.row([name.clone(), value.to_string()]);
    }
    println!("{table}");
}
