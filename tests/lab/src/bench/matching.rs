//! `cargo xtask bench matching`: what a message costs when many receives are posted, or many
//! messages unexpected.

use aldis_shell::shell;
use aldis_shell::table::Table;
use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::program;

/// Measures matching at growing depth, in one process.
///
/// A rank sends itself messages of 8 bytes. `posted`: each finds its receive among DEPTH with other
/// tags, which is posted again. `unexpected`: each is received from among DEPTH with other tags,
/// and sent again. The time is that of the whole step; how it grows with the depth is what matching
/// costs.
#[derive(Args)]
pub(crate) struct Matching {
    /// Receives posted or messages unexpected, 1 to 10000
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000")]
    depths: Vec<u32>,
    /// Batches of 64 messages for each figure
    #[arg(long, default_value_t = 1000)]
    batches: u32,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

/// A line of the measured program.
#[derive(Deserialize, Serialize)]
struct MatchingFigure {
    queue: String,
    depth: u32,
    position: String,
    p5_ns: f64,
    p50_ns: f64,
    samples: u32,
}

impl Matching {
    pub(crate) fn run(self) -> Result<()> {
        let text = measured(self.batches, &self.depths)?;
        if self.json {
            print!("{text}");
            return Ok(());
        }
        let table = tabulated(&text, &self.depths)?;
        println!("ns a message, p5 of {} batches of 64, by which entry it matches\n{table}", self.batches);
        Ok(())
    }
}

/// The default depths as a table.
pub(super) fn table(batches: u32) -> Result<Table> {
    let depths = [1, 10, 100, 1000, 10_000];
    tabulated(&measured(batches, &depths)?, &depths)
}

/// Returns the output of the measured program: a line of JSON for each figure.
fn measured(batches: u32, depths: &[u32]) -> Result<String> {
    let depths = depths.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    shell::output(program("bench_matching")?.args([batches.to_string(), depths]))
}

fn tabulated(text: &str, depths: &[u32]) -> Result<Table> {
    let figures: Vec<MatchingFigure> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("reading what bench_matching says")?;
    let mut table = Table::new(["queue", "depth", "first", "last", "random", "random p50"]);
    for queue in ["posted", "unexpected"] {
        for depth in depths {
            let of = |position: &str| {
                figures.iter().find(|figure| {
                    (figure.queue.as_str(), figure.depth, figure.position.as_str())
                        == (queue, *depth, position)
                })
            };
            let p5 = |position| of(position).map_or("-".into(), |figure| format!("{:.0}", figure.p5_ns));
            let p50 = of("random").map_or("-".into(), |figure| format!("{:.0}", figure.p50_ns));
            table.row([queue.into(), depth.to_string(), p5("first"), p5("last"), p5("random"), p50]);
        }
    }
    Ok(table)
}
