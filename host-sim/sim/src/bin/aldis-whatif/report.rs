//! Points as text: an aligned table, CSV, JSON; and what there is to choose from.

use core::fmt::Write;

use aldis_coll::catalog::algorithms;
use aldis_sim::topology;

use crate::cli::scheduled;
use crate::study::PredictedPoint;

const HEAD: [&str; 8] = ["operation", "algorithm", "ranks", "bytes", "us", "messages", "sent", "fastest"];

/// Columns that fit their widest cell: words to the left, numbers to the right.
pub(crate) fn table(points: &[PredictedPoint]) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(points.iter().map(cells));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; HEAD.len()] = core::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for ((column, cell), width) in row.iter().enumerate().zip(widths) {
            let pad = " ".repeat(width - cell.len());
            let number = (2..7).contains(&column);
            line += &if number { format!("  {pad}{cell}") } else { format!("  {cell}{pad}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn cells(point: &PredictedPoint) -> [String; HEAD.len()] {
    let or_dash = |number: Option<u64>| number.map_or_else(|| "-".into(), |number| number.to_string());
    [
        point.operation.clone(),
        point.algorithm.into(),
        point.ranks.to_string(),
        point.bytes.to_string(),
        point.time_ns.map_or_else(|| "-".into(), |ns| format!("{:.3}", ns / 1e3)),
        or_dash(point.messages),
        or_dash(point.sent_bytes),
        if point.fastest { "*".into() } else { String::new() },
    ]
}

/// Returns a line for each point under a line of names; empty where there is no number.
pub(crate) fn csv(points: &[PredictedPoint]) -> String {
    let mut text = String::from("operation,algorithm,ranks,bytes,time_ns,messages,sent_bytes,fastest\n");
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    for point in points {
        let PredictedPoint { operation, algorithm, ranks, bytes, messages, sent_bytes, fastest, .. } = point;
        let ns = point.time_ns.map(|ns| format!("{ns:.3}")).unwrap_or_default();
        let (messages, sent) = (number(*messages), number(*sent_bytes));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{operation},{algorithm},{ranks},{bytes},{ns},{messages},{sent},{fastest}");
    }
    text
}

/// An array of objects, one a line.
pub(crate) fn json(points: &[PredictedPoint]) -> String {
    let lines: Vec<String> = points.iter().filter_map(|point| serde_json::to_string(point).ok()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Everything that can be named on the command line.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for operation in scheduled() {
        for algorithm in algorithms(operation) {
            let (operation, source) = (operation.to_string(), algorithm.source());
            let _ = writeln!(text, "{operation:<10} {:<20} {source}", algorithm.name());
        }
    }
    let _ = writeln!(text, "topologies {}", topology::KNOWN);
    text
}
