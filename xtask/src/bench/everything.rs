//! `cargo xtask bench` by itself: every workload over every transport in one run of bounded length, and a report.

use core::time::Duration;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::PROFILE;
use super::figure::Point;
use super::implementation::{Implementation, Transport};
use super::programs::Programs;
use super::report::file::File;
use super::report::{Report, machine};
use super::rounds::Bench;
use super::workload::Workload;
use super::{instructions, matching, measure, peers};
use crate::workspace::Workspace;

/// A full run.
#[derive(Args)]
pub(crate) struct Everything {
    /// Measure Open MPI, MPICH, UCX and gloo too, where they are installed
    #[arg(long)]
    peers: bool,
    /// Write a report with plots that needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown, with machine and versions
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON object a line instead of the tables
    #[arg(long)]
    json: bool,
    /// How messages travel
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shm,tcp")]
    transport: Vec<Transport>,
    /// Time for the whole run, once everything is built
    #[arg(long, default_value_t = 9.0)]
    minutes: f64,
    /// Fail when a peer is not installed
    #[arg(long)]
    require: bool,
}

/// One thing to measure.
struct Item {
    workload: Workload,
    bytes: usize,
}

/// Workloads of two ranks, in the order of the report; then those of all ranks.
const OF_PAIRS: [Workload; 6] = [
    Workload::Latency,
    Workload::Bandwidth,
    Workload::Both,
    Workload::Consume,
    Workload::Rate,
    Workload::Overlap,
];

/// The share of a run's time that starting ranks and the other tables may take.
const OVERHEAD: f64 = 0.1;

/// The measured programs of tables of their own.
const OTHERS: [&str; 3] = ["bench_matching", "bench_peers", "bench_instructions"];

/// What is measured with so many ranks.
fn items(ranks: usize) -> Vec<Item> {
    let pairs = OF_PAIRS.into_iter().filter(|_| ranks == 2);
    let all = pairs.chain(Workload::COLLECTIVES);
    all.flat_map(|workload| workload.sizes().iter().map(move |&bytes| Item { workload, bytes })).collect()
}

/// The numbers of ranks.
const RANKS: [usize; 2] = [2, 4];

/// Where the results go, besides standard output.
struct Files {
    html: Option<File>,
    markdown: Option<File>,
}

impl Everything {
    pub(crate) fn run(self) -> Result<()> {
        // Before anything is built or measured: minutes of measuring are not lost to a wrong path or a full disk.
        let files = Files {
            html: self.html.as_deref().map(File::reserve).transpose()?,
            markdown: self.markdown.as_deref().map(File::reserve).transpose()?,
        };
        let mut report = Report::default();
        let wanted = measure::wanted(self.peers, self.require, |line| report.missing.push(line))?;
        eprintln!("building {}", measure::names(&wanted));
        let programs = Programs::build(&Workspace::members()?, PROFILE, &wanted, &OTHERS)?;
        let mut bench = Bench::new(programs)?;
        let (load, crowding) = (machine::load(), bench.crowding());
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(self.minutes * 60.0 * (1.0 - OVERHEAD));
        report.tables.push(("Matching: ns a message at growing depth".into(), matching::table(200)?));
        report.tables.extend(peers::tables()?);
        match instructions::missing() {
            None => report.tables.push(instructions::table()?),
            Some(install) => {
                report.missing.push(format!("instructions: valgrind is not installed: {install}"))
            }
        }
        let measured = self.measure(&mut bench, &mut report, &wanted, end);
        report.facts = machine::facts(bench.cores, &wanted);
        report
            .facts
            .push(("load of the last minute".into(), format!("{load} before, {} after", machine::load())));
        report
            .facts
            .push(("both cores at work".into(), format!("{crowding} before; {} after", bench.crowding())));
        report.facts.push(("calibrator".into(), bench.calibration()));
        report.facts.push(("length of the run".into(), format!("{:.0} s", start.elapsed().as_secs_f64())));
        // Also when it did not come to its end: what there is has cost minutes.
        publish(&mut std::io::stdout().lock(), &report, self.json, files)?;
        measured
    }

    fn measure(
        &self,
        bench: &mut Bench,
        report: &mut Report,
        wanted: &[Implementation],
        end: Instant,
    ) -> Result<()> {
        let mut left: usize =
            RANKS.iter().map(|&ranks| items(ranks).len()).sum::<usize>() * self.transport.len();
        bench.bar = progress(left as u64)?;
        for &transport in &self.transport {
            let mut these = wanted.to_vec();
            if !bench.knows(transport)? {
                report
                    .missing
                    .push(format!("aldis over {}: aldis-run has no such transport", transport.name()));
                these.retain(|one| !Implementation::OWN.contains(one));
            }
            for ranks in RANKS {
                let mut field = bench.field(transport, ranks, &these)?;
                for Item { workload, bytes } in items(ranks) {
                    let rest = end.saturating_duration_since(Instant::now()).as_secs_f64();
                    let figures = bench.measure(&mut field, workload, bytes, rest / left.max(1) as f64)?;
                    if figures.is_empty() {
                        report.missing.push(format!(
                            "{} over {} of {bytes} B with {ranks} ranks: no round was steady",
                            workload.name(),
                            transport.name()
                        ));
                    } else {
                        report.points.push(figures);
                    }
                    left -= 1;
                    bench.bar.inc(1);
                }
                let over = transport.name();
                report.missing.extend(field.failures().map(|failed| format!("over {over}: {failed}")));
            }
        }
        bench.bar.finish_and_clear();
        Ok(())
    }
}

fn progress(items: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}")?;
    Ok(ProgressBar::new(items).with_style(style))
}

/// Prints first, and then writes: whatever becomes of the files, the result has been seen.
fn publish(out: &mut impl Write, report: &Report, json: bool, files: Files) -> Result<()> {
    if json {
        for figures in &report.points {
            for figure in figures {
                writeln!(out, "{}", figure.json(Point(figures)))?;
            }
        }
        for (title, table) in &report.tables {
            for record in table.records() {
                let row: serde_json::Map<_, _> =
                    record.into_iter().map(|(name, cell)| (name.into(), cell.into())).collect();
                writeln!(out, "{}", serde_json::json!({ "table": title, "row": row }))?;
            }
        }
        for missing in &report.missing {
            writeln!(out, "{}", serde_json::json!({ "missing": missing }))?;
        }
    } else {
        write!(out, "{}", report.text())?;
    }
    out.flush().context("standard output")?;
    // Each is tried, whatever became of the other.
    let html = files.html.map(|file| anyhow::Ok(file.write(&report.html()?)?));
    let markdown = files.markdown.map(|file| anyhow::Ok(file.write(&report.markdown())?));
    html.into_iter().chain(markdown).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::bench::report::file::ReportError;

    #[test]
    fn a_report_that_cannot_be_written_loses_nothing_that_is_printed() {
        let full = || Some(File::reserve(Path::new("/dev/full")).unwrap());
        let report = Report { missing: vec!["the table stands here".into()], ..Report::default() };
        let mut printed = Vec::new();
        let failed = publish(&mut printed, &report, false, Files { html: full(), markdown: full() });
        let error = failed.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(ReportError::NoRoom { .. })), "{error:#}");
        assert!(String::from_utf8(printed).unwrap().contains("the table stands here"));
    }

    #[test]
    fn pairs_are_measured_with_two_ranks_alone() {
        assert!(items(4).iter().all(|item| Workload::COLLECTIVES.contains(&item.workload)));
        assert!(items(2).len() > items(4).len());
    }
}
