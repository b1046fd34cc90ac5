//! `cargo xtask bench reduce`: what combining two slices costs, in vectors of each width.

use aldis_shell::shell;
use aldis_shell::table::Table;
use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::program;

/// Measures reductions of one slice into another, in one process, beside a copy of as many bytes.
///
/// `chosen` is what a collective does: the widest vectors that the processor is found to have. The
/// others are the same loop in what every program is compiled for and in each wider kind of
/// vectors. All take turns, batch after batch.
#[derive(Args)]
pub(crate) struct Reduce {
    /// Bytes of a slice, multiples of 16 up to 2^26
    #[arg(long, value_delimiter = ',', default_value = "64,16384,262144,4194304")]
    bytes: Vec<u64>,
    /// Batches of a mebibyte for each figure
    #[arg(long, default_value_t = 50)]
    batches: u32,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

/// A line of the measured program.
#[derive(Deserialize, Serialize)]
struct ReduceFigure {
    operation: String,
    element: String,
    bytes: u64,
    path: String,
    gb_s: f64,
}

impl Reduce {
    pub(crate) fn run(self) -> Result<()> {
        let sizes = self.bytes.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let text = shell::output(program("bench_reduce")?.args([self.batches.to_string(), sizes]))?;
        if self.json {
            print!("{text}");
            return Ok(());
        }
        println!("GB/s of a slice, p5 of {} batches\n{}", self.batches, tabulated(&text)?);
        Ok(())
    }
}

/// A row for each operation, element and size; a column for each path, as the first row has them.
fn tabulated(text: &str) -> Result<Table> {
    let figures: Vec<ReduceFigure> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("reading what bench_reduce says")?;
    let key = |figure: &ReduceFigure| (figure.operation.clone(), figure.element.clone(), figure.bytes);
    let rows: Vec<&[ReduceFigure]> = figures.chunk_by(|one, next| key(one) == key(next)).collect();
    let paths = rows.first().into_iter().flat_map(|row| row.iter().map(|figure| figure.path.as_str()));
    let mut table = Table::from_head(["operation", "element", "bytes"].into_iter().chain(paths));
    for row in rows {
        let first = row
            .iter()
            .take(1)
            .flat_map(|figure| [figure.operation.clone(), figure.element.clone(), figure.bytes.to_string()]);
        table.push(first.chain(row.iter().map(|figure| format!("{:.1}", figure.gb_s))));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_columns() {
        let line = |bytes, path, rate| {
            format!(r#"{{"operation":"sum","element":"f64","bytes":{bytes},"path":"{path}","gb_s":{rate}}}"#)
        };
        let text = [
            line(64, "memcpy", 50.0),
            line(64, "sse2", 25.04),
            line(128, "memcpy", 9.0),
            line(128, "sse2", 8.0),
        ];
        let table = tabulated(&text.join("\n")).unwrap().to_string();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["operation", "element", "bytes", "memcpy", "sse2"]), "{table}");
        assert!(rows.contains(&vec!["sum", "f64", "64", "50.0", "25.0"]), "{table}");
        assert!(rows.contains(&vec!["sum", "f64", "128", "9.0", "8.0"]), "{table}");
    }
}
