//! The report of a full run: as text, as Markdown, and as one HTML file with plots.

use aldis_shell::table::Table;
use anyhow::Result;

use super::figure::{Figure, Point};
use super::implementation::{Implementation, Transport};
use super::target::PointTarget;
use super::workload::{BenchWorkload, spell_bytes};

pub(crate) mod file;
pub(crate) mod machine;
mod plot;

/// Everything that came of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Machine, cores, versions, load.
    pub(crate) facts: Vec<(String, String)>,
    /// A point for each workload at each size.
    pub(crate) points: Vec<Vec<Figure>>,
    /// The names of what was not measured, with the reasons.
    pub(crate) missing: Vec<String>,
    /// Tables of their own: their titles and what they hold.
    pub(crate) tables: Vec<(String, Table)>,
}

/// The facts that every reader has to know of the figures.
const METHOD: [&str; 5] = [
    "All implementations take turns in short batches on the same two cores; figures are 5th percentiles of their cost, and only ratios within this run mean anything.",
    "A pair of ranks that exchange one cache line is looked at before and after each round: rounds during which it moved, or which it shows on another placement of the virtual cores, are not counted.",
    "Long messages are written anew by their sender before each send, outside the measured time: a buffer sent again untouched would measure the receiver's cache.",
    "The root of a collective goes round, or every other turn goes the other way, so that no rank runs ahead of the others and what is sent is for the most part what was received just before. Bytes are those of a block where there is a block for every rank.",
    "`raw` is what the machine does without any library: one cache line a message, one memcpy out of what the other core has just written (for `consume` one sum of it), a non-blocking socket.",
];

impl Report {
    /// The ratio table: a row for each workload and size.
    pub(crate) fn ratios(&self) -> Table {
        let measured = self.measured();
        let names = measured.iter().map(|one| one.name());
        let head = ["workload", "over", "ranks", "bytes", "unit"].into_iter().chain(names);
        let mut table = Table::from_head(head.chain(["aldis/raw", "aldis/best peer", "aim", "met"]));
        for figures in &self.points {
            // A second row where the buffers lie in arenas, which has an aim of its own.
            for which in Implementation::OWN {
                if let Some(row) = row(Point(figures), &measured, which) {
                    table.push(row);
                }
            }
        }
        table
    }

    /// The implementations that have a figure, in order.
    fn measured(&self) -> Vec<Implementation> {
        let has = |which: &Implementation| self.points.iter().flatten().any(|figure| figure.which == *which);
        Implementation::ALL.into_iter().filter(has).collect()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.ratios());
        for (title, table) in &self.tables {
            text += &format!("{title}\n{table}\n");
        }
        for missing in &self.missing {
            text += &format!("not measured: {missing}\n");
        }
        text
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text =
            String::from("# Benchmarks\n\nMade by `cargo xtask bench --peers --markdown FILE`.\n\n");
        METHOD.iter().for_each(|line| text += &format!("- {line}\n"));
        text += "\n## Machine and versions\n\n| what | which |\n|---|---|\n";
        self.facts.iter().for_each(|(what, which)| text += &format!("| {what} | {which} |\n"));
        text += &format!("\n## Ratios\n\n{}", self.ratios().markdown());
        for (title, table) in &self.tables {
            text += &format!("\n## {title}\n\n{}", table.markdown());
        }
        if !self.missing.is_empty() {
            text += "\n## Not measured\n\n";
            self.missing.iter().for_each(|line| text += &format!("- {line}\n"));
        }
        text
    }

    pub(crate) fn html(&self) -> Result<String> {
        let mut body = String::from("<h1>Aldis: benchmarks</h1>\n<ul>\n");
        METHOD.iter().for_each(|line| body += &format!("<li>{}</li>\n", escape(line)));
        body += "</ul>\n<h2>Machine and versions</h2>\n<table>\n";
        for (what, which) in &self.facts {
            body += &format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(what), escape(which));
        }
        body += &format!("</table>\n<h2>Ratios</h2>\n{}", self.ratios().html());
        body += "<h2>Plots</h2>\n";
        for plot in self.plots()? {
            body += &format!("<figure>{plot}</figure>\n");
        }
        for (title, table) in &self.tables {
            body += &format!("<h2>{}</h2>\n{}", escape(title), table.html());
        }
        if !self.missing.is_empty() {
            body += "<h2>Not measured</h2>\n<ul>\n";
            self.missing.iter().for_each(|line| body += &format!("<li>{}</li>\n", escape(line)));
            body += "</ul>\n";
        }
        Ok(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Aldis: benchmarks</title>\n<style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n"
        ))
    }

    /// A plot for each workload on each transport with each number of ranks that has several sizes.
    fn plots(&self) -> Result<Vec<String>> {
        let mut kinds: Vec<(BenchWorkload, Transport, usize)> = Vec::new();
        for figure in self.points.iter().flatten() {
            let kind = (figure.workload, figure.transport, figure.ranks);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut plots = Vec::new();
        for kind in kinds {
            let of_kind = |figure: &&Figure| (figure.workload, figure.transport, figure.ranks) == kind;
            let lines: Vec<plot::PlotLine> = self
                .measured()
                .into_iter()
                .map(|which| {
                    let figures = self.points.iter().flatten().filter(of_kind);
                    let own = figures.filter(|figure| figure.which == which);
                    (which.name(), own.map(|figure| (figure.bytes as f64, figure.value)).collect())
                })
                .filter(|(_, places): &plot::PlotLine| !places.is_empty())
                .collect();
            let (workload, transport, ranks) = kind;
            let title = format!("{} over {}, {ranks} ranks", workload.name(), transport.name());
            plots.extend(plot::draw(&lines, &title, workload.unit().name())?);
        }
        Ok(plots)
    }
}

/// Returns the row of `which`, one that is Aldis, in a point; a point without either has a row all
/// the same.
fn row(point: Point<'_>, measured: &[Implementation], which: Implementation) -> Option<Vec<String>> {
    let first = point.0.first()?;
    let unit = first.workload.unit();
    let of = |which| point.0.iter().find(|figure| figure.which == which);
    let own = of(which);
    if own.is_none() && which != Implementation::Aldis {
        return None;
    }
    let mut row = vec![
        first.workload.name().into(),
        own.map_or(first.transport.name(), |own| own.which.over(first.transport)).into(),
        first.ranks.to_string(),
        spell_bytes(first.bytes),
        unit.name().into(),
    ];
    row.extend(measured.iter().map(|&one| of(one).map_or("-".into(), |figure| unit.spell(figure.value))));
    let (to_raw, to_peer) =
        (own.and_then(|figure| point.to_raw(figure)), own.and_then(|figure| point.to_best_peer(figure)));
    let spell = |ratio: Option<f64>| ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
    let target = PointTarget::of(which, first.case());
    let met = match target.is_met(unit.is_rate(), to_raw, to_peer) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    row.extend([spell(to_raw), spell(to_peer), target.spell(unit.is_rate()), met.into()]);
    Some(row)
}

const STYLE: &str = "body{font:15px/1.4 sans-serif;margin:2em auto;max-width:80em;padding:0 1em}\
table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #ccc;padding:.15em .5em;text-align:left}\
figure{display:inline-block;margin:.5em}svg{max-width:100%}";

/// Text as HTML shows it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::BenchCase;
    use crate::bench::series::Summary;

    fn report() -> Report {
        let figure = |which, bytes, best| {
            let summary = Summary { best, median: best, samples: 10 };
            let (workload, transport) = (BenchWorkload::Latency, Transport::Shm);
            Figure::new(BenchCase { workload, transport, ranks: 2, bytes }, which, summary)
        };
        let point = |bytes| {
            vec![
                figure(Implementation::Raw, bytes, 300.0),
                figure(Implementation::Aldis, bytes, 360.0),
                figure(Implementation::Mpich, bytes, 800.0),
            ]
        };
        Report {
            facts: vec![("processor".into(), "a <fast> one".into())],
            points: vec![point(8), point(64)],
            missing: vec!["gloo is not installed".into()],
            tables: Vec::new(),
        }
    }

    #[test]
    fn ratios_and_aims_stand_in_one_row() {
        let text = report().text();
        let row = text.lines().find(|line| line.contains("latency")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let expected = ["latency", "shm", "2", "8", "ns", "150", "180", "400", "1.20", "0.45"];
        assert_eq!(cells.get(..10), Some(&expected[..]), "{row}");
        assert_eq!(cells.last(), Some(&"yes"), "{row}");
        assert!(text.contains("not measured: gloo"), "{text}");
    }

    #[test]
    fn the_page_stands_alone_and_has_a_plot() {
        let page = report().html().unwrap();
        assert!(page.contains("<svg") && page.contains("a &lt;fast&gt; one"), "{page}");
        assert!(!page.contains("src=") && !page.contains("href="), "nothing is fetched");
    }

    #[test]
    fn markdown_has_the_same_rows() {
        let text = report().markdown();
        assert!(text.contains("| latency | shm | 2 | 64 | ns | 150 | 180 | 400 | 1.20 | 0.45 |"), "{text}");
    }
}
