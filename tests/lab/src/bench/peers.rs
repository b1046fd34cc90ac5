//! `cargo xtask bench memory` and `poll`: what peers cost a rank, in bytes and in time.

use aldis_shell::shell;
use aldis_shell::table::Table;
use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use super::program;

/// The form in which results are shown.
#[derive(Args)]
pub(crate) struct Peers {
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

/// A line of the measured program.
#[derive(Deserialize)]
pub(super) struct PeersLine {
    peers: u32,
    poll_p5_ns: f64,
    poll_p50_ns: f64,
    bytes_per_peer: u64,
    bytes_per_request: u64,
    bytes_per_communicator: u64,
    segment_bytes: Option<u64>,
    segment_bytes_per_peer: Option<u64>,
}

pub(super) const MEMORY: &str =
    "Memory of a rank on a host, in bytes; a job of so many ranks has as many segments";
pub(super) const POLL: &str = "Nanoseconds of a poll that finds nothing, by the number of idle peers";

impl Peers {
    /// Shows one of the two tables, or both as JSON.
    pub(crate) fn run(self, title: &str, table: fn(&[PeersLine]) -> Table) -> Result<()> {
        let text = said()?;
        if self.json {
            print!("{text}");
        } else {
            println!("{title}\n{}", table(&parse(&text)?));
        }
        Ok(())
    }
}

/// Returns the output of the measured program.
fn said() -> Result<String> {
    shell::output(&mut program("bench_peers")?)
}

fn parse(text: &str) -> Result<Vec<PeersLine>> {
    let lines = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    lines.context("reading what bench_peers says")
}

/// Both tables with their titles.
pub(super) fn tables() -> Result<[(String, Table); 2]> {
    let lines = parse(&said()?)?;
    Ok([(MEMORY.into(), memory(&lines)), (POLL.into(), poll(&lines))])
}

pub(super) fn memory(lines: &[PeersLine]) -> Table {
    let mut table = Table::new([
        "peers",
        "storage a peer",
        "a request",
        "a communicator",
        "segment of a rank",
        "segment a peer",
    ]);
    for line in lines {
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), |bytes| bytes.to_string());
        table.row([
            line.peers.to_string(),
            line.bytes_per_peer.to_string(),
            line.bytes_per_request.to_string(),
            line.bytes_per_communicator.to_string(),
            known(line.segment_bytes),
            known(line.segment_bytes_per_peer),
        ]);
    }
    table
}

pub(super) fn poll(lines: &[PeersLine]) -> Table {
    let mut table = Table::new(["idle peers", "p5 ns", "p50 ns"]);
    for line in lines {
        table.row([
            line.peers.to_string(),
            format!("{:.1}", line.poll_p5_ns),
            format!("{:.1}", line.poll_p50_ns),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_becomes_two_tables() {
        let said = r#"{"bench":"peers","peers":256,"poll_p5_ns":12.5,"poll_p50_ns":13.0,"bytes_per_peer":400000,"bytes_per_request":160,"bytes_per_communicator":96,"segment_bytes":null,"segment_bytes_per_peer":null}"#;
        let lines = parse(said).unwrap();
        assert!(poll(&lines).to_string().contains("12.5"));
        let row = memory(&lines).to_string();
        assert!(row.contains("400000") && row.contains('-'), "{row}");
    }
}
