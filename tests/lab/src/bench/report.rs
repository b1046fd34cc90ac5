//! The report of a full run: as text, as Markdown, and as one HTML file with plots.

use aldis_shell::table::Table;
use anyhow::Result;

use super::figure::{BenchCase, Figure, Point};
use super::implementation::Implementation;
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
const METHOD: [&str; 9] = [
    "All implementations take turns in short batches on the same two cores; only ratios within this run mean anything. A batch's figure is the mean of its turns; shown are the best of all batches that count (the 1st percentile) and, of programs in C, their median behind it.",
    "What a program in C sees is measured by one program in C, built with each implementation's own mpicc (`tests/bench/peers/client.c`): the loops and types of programs, roots that stay where they are, no barrier between turns, and a look at every element that arrived. `aldis` is Aldis by its C interface.",
    "The native interface is measured by the same loops in Rust (`native`; `arena` with all buffers in the ranks' arenas) and on bytes in C over the peers.",
    "`openmpi5`, `mpich5` and `impi` (Intel MPI) are PyPI's, `openmpi4`, `mpich4`, `ucx` and `gloo` are Debian's. With more ranks than cores each has its own setting for that: Open MPI `mpi_yield_when_idle`, MPICH `MPIR_CVAR_POLLS_BEFORE_YIELD=1`, Intel MPI `I_MPI_SHM_RECV_SPIN_COUNT=1` and its twin.",
    "A pair of ranks that exchange one cache line is looked at before and after each round: rounds during which it moved are not counted, and it tells where the host has the two virtual cores. `near` cores share a cache, `far` ones do not; `busy` is a machine on which no round was steady, and all of them count.",
    "Long messages of the native rows are written anew by their sender before each send, outside the measured time: a buffer sent again untouched would measure the receiver's cache.",
    "In the native rows the root of a collective goes round, or every other turn goes the other way, so that no rank runs ahead of the others and what is sent is for the most part what was received just before. Bytes are those of a block where there is a block for every rank.",
    "`raw` is what the machine does without any library: one cache line a message, one memcpy out of what the other core has just written (for `consume` one sum of it), a non-blocking socket.",
    "Ratios are of times, and less is better; of GB/s, M/s and % hidden more is.",
];

impl Report {
    /// The table of what a program in C sees: best and median of each, and the ratios of both.
    pub(crate) fn programs(&self) -> Table {
        let measured = self.measured(is_client);
        let names = measured.iter().map(|one| one.name());
        let head = ["row", "over", "ranks", "cores", "bytes", "unit"].into_iter().chain(names);
        let mut table = Table::from_head(head.chain(["aldis/best peer", "medians", "aim", "met"]));
        for figures in self.points.iter().filter(|figures| figures.iter().any(is_client)) {
            table.push(program_row(Point(figures), &measured));
        }
        table
    }

    /// The ratio table of the rows on bytes, natively and over the peers: a row for each workload
    /// and size.
    pub(crate) fn ratios(&self) -> Table {
        let measured = self.measured(|figure| !is_client(figure));
        let names = measured.iter().map(|one| one.name());
        let head = ["row", "over", "ranks", "cores", "bytes", "unit"].into_iter().chain(names);
        let mut table = Table::from_head(head.chain(["aldis/raw", "aldis/best peer", "aim", "met"]));
        for figures in self.points.iter().filter(|figures| !figures.iter().any(is_client)) {
            // A second row where the buffers lie in arenas, which has an aim of its own.
            for which in [Implementation::Native, Implementation::Arena] {
                if let Some(row) = row(Point(figures), &measured, which) {
                    table.push(row);
                }
            }
        }
        table
    }

    /// The rows that were measured, and what a turn of each is.
    fn legend(&self) -> Table {
        let mut table = Table::new(["row", "what it is"]);
        let mut seen = Vec::new();
        for workload in self.points.iter().flatten().map(|figure| figure.case.workload) {
            if !seen.contains(&workload) {
                seen.push(workload);
                table.row([workload.row(), workload.title().into()]);
            }
        }
        table
    }

    /// All tables of rows with their titles, where there is something in them.
    fn row_tables(&self) -> impl Iterator<Item = (&'static str, Table)> {
        let has = |client| self.points.iter().flatten().any(move |figure| is_client(figure) == client);
        let programs = has(true).then(|| ("What a program in C sees", self.programs()));
        let native = has(false).then(|| ("The native interface", self.ratios()));
        let legend = (!self.points.is_empty()).then(|| ("The rows", self.legend()));
        [programs, native, legend].into_iter().flatten()
    }

    /// The implementations that have such a figure, in order.
    fn measured(&self, such: impl Fn(&Figure) -> bool) -> Vec<Implementation> {
        let figures = || self.points.iter().flatten().filter(|figure| such(figure));
        let has = |which: &Implementation| figures().any(|figure| figure.which == *which);
        Implementation::ALL.into_iter().filter(has).collect()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (title, table) in self.row_tables() {
            text += &format!("{title}\n{table}\n");
        }
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
        for (title, table) in self.row_tables() {
            text += &format!("\n## {title}\n\n{}", table.markdown());
        }
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
        body += "</table>\n";
        for (title, table) in self.row_tables() {
            body += &format!("<h2>{title}</h2>\n{}", table.html());
        }
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
        let kind_of = |figure: &Figure| {
            let BenchCase { workload, transport, ranks, placement, .. } = figure.case;
            (workload, transport, ranks, placement)
        };
        let mut kinds = Vec::new();
        for figure in self.points.iter().flatten() {
            let kind = kind_of(figure);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut plots = Vec::new();
        for kind in kinds {
            let of_kind = |figure: &&Figure| kind_of(figure) == kind;
            let lines: Vec<plot::PlotLine> = self
                .measured(|figure| kind_of(figure) == kind)
                .into_iter()
                .map(|which| {
                    let figures = self.points.iter().flatten().filter(of_kind);
                    let own = figures.filter(|figure| figure.which == which);
                    (which.name(), own.map(|figure| (figure.case.bytes as f64, figure.value)).collect())
                })
                .filter(|(_, places): &plot::PlotLine| !places.is_empty())
                .collect();
            let (workload, transport, ranks, placement) = kind;
            let (row, over, cores) = (workload.row(), transport.name(), placement.name());
            let title = format!("{row} over {over}, {ranks} ranks, cores {cores}");
            plots.extend(plot::draw(&lines, &title, workload.unit().name())?);
        }
        Ok(plots)
    }
}

/// Returns the row of `which`, one that is Aldis, in a point; a point without either has a row all
/// the same.
fn row(point: Point<'_>, measured: &[Implementation], which: Implementation) -> Option<Vec<String>> {
    let case = point.0.first()?.case;
    let unit = case.workload.unit();
    let own = point.of(which);
    if own.is_none() && which != Implementation::Native {
        return None;
    }
    let over = own.map_or(case.transport.name(), |own| own.which.over(case.transport));
    let mut row = row_head(case, over);
    row.extend(
        measured.iter().map(|&one| point.of(one).map_or("-".into(), |figure| unit.spell(figure.value))),
    );
    let (to_raw, to_peer) =
        (own.and_then(|figure| point.to_raw(figure)), own.and_then(|figure| point.to_best_peer(figure)));
    let target = PointTarget::of(which, case);
    let met = spell_met(target.is_met(unit.is_rate(), to_raw, to_peer));
    row.extend([spell_ratio(to_raw), spell_ratio(to_peer), target.spell(unit.is_rate()), met.into()]);
    Some(row)
}

/// The row of a loop of programs.
fn program_row(point: Point<'_>, measured: &[Implementation]) -> Vec<String> {
    let Some(case) = point.0.first().map(|figure| figure.case) else { return Vec::new() };
    let unit = case.workload.unit();
    let mut row = row_head(case, case.transport.name());
    let cell = |figure: &Figure| format!("{} / {}", unit.spell(figure.value), unit.spell(figure.median));
    row.extend(measured.iter().map(|&one| point.of(one).map_or("-".into(), cell)));
    let own = point.of(Implementation::Aldis);
    let best = own.and_then(|own| point.to_best_peer(own));
    let median = own.and_then(|own| point.median_to_best_peer(own));
    let target = PointTarget::of(Implementation::Aldis, case);
    let met = spell_met(target.is_met(unit.is_rate(), None, best));
    row.extend([spell_ratio(best), spell_ratio(median), target.spell(unit.is_rate()), met.into()]);
    row
}

fn row_head(case: BenchCase, over: &str) -> Vec<String> {
    let BenchCase { workload, ranks, bytes, placement, .. } = case;
    vec![
        workload.row(),
        over.into(),
        ranks.to_string(),
        placement.name().into(),
        spell_bytes(bytes),
        workload.unit().name().into(),
    ]
}

fn spell_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
}

const fn spell_met(is_met: Option<bool>) -> &'static str {
    match is_met {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

fn is_client(figure: &Figure) -> bool {
    matches!(figure.case.workload, BenchWorkload::Client(_))
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
    use crate::bench::client::ClientRow;
    use crate::bench::implementation::Transport;
    use crate::bench::series::Summary;
    use crate::bench::statistics::Placement;

    fn report() -> Report {
        let figure = |workload, which, bytes, best| {
            let summary = Summary { best, median: 2.0 * best, mean: best, samples: 10 };
            let (transport, placement) = (Transport::Shm, Placement::Near);
            Figure::new(BenchCase { workload, transport, ranks: 2, bytes, placement }, which, summary)
        };
        let point = |bytes| {
            vec![
                figure(BenchWorkload::Latency, Implementation::Raw, bytes, 300.0),
                figure(BenchWorkload::Latency, Implementation::Native, bytes, 360.0),
                figure(BenchWorkload::Latency, Implementation::Mpich5, bytes, 800.0),
            ]
        };
        let halo = BenchWorkload::Client(ClientRow::Halo);
        let client = vec![
            figure(halo, Implementation::Aldis, 8, 500.0),
            figure(halo, Implementation::Mpich5, 8, 1000.0),
            figure(halo, Implementation::Intel, 8, 400.0),
        ];
        Report {
            facts: vec![("processor".into(), "a <fast> one".into())],
            points: vec![point(8), point(64), client],
            missing: vec!["gloo is not installed".into()],
            tables: Vec::new(),
        }
    }

    #[test]
    fn ratios_and_aims_stand_in_one_row() {
        let text = report().text();
        let row = text.lines().find(|line| line.contains("native:latency")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let expected = ["native:latency", "shm", "2", "near", "8", "ns", "150", "180", "400", "1.20", "0.45"];
        assert_eq!(cells.get(..11), Some(&expected[..]), "{row}");
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
        let native = "| native:latency | shm | 2 | near | 64 | ns | 150 | 180 | 400 | 1.20 | 0.45 |";
        let program = "| halo | shm | 2 | near | 8 | us | 0.50 / 1.00 | 1.00 / 2.00 | 0.40 / 0.80 | 1.25 | 1.25 | <= 1 peer | no |";
        assert!(text.contains(native) && text.contains(program), "{text}");
        assert!(text.find(program) < text.find(native), "what a user sees comes first");
    }
}
