//! A run over many points: what is measured, for how long, and where the results go.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::figure::Point;
use super::implementation::{Implementation, Transport};
use super::report::file::ReportFile;
use super::report::{Report, machine};
use super::rounds::Bench;
use super::workload::BenchWorkload;

/// The files to which results go.
#[derive(Args, Debug, Default)]
pub(crate) struct Output {
    /// Write a report with plots that needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown, with machine and versions
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON object a line instead of the tables
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Makes sure of the files. Before anything is built or measured: minutes of measuring are not
    /// lost to a wrong path or a full disk.
    pub(crate) fn reserve(self) -> Result<Files> {
        let Self { html, markdown, json } = self;
        let html = html.as_deref().map(ReportFile::reserve).transpose()?;
        let markdown = markdown.as_deref().map(ReportFile::reserve).transpose()?;
        Ok(Files { html, markdown, json })
    }
}

/// The files to which results go, besides standard output.
pub(crate) struct Files {
    html: Option<ReportFile>,
    markdown: Option<ReportFile>,
    json: bool,
}

impl Files {
    /// Prints first, and then writes: whatever becomes of the files, the result has been seen.
    pub(crate) fn publish(self, out: &mut impl Write, report: &Report) -> Result<()> {
        if self.json {
            write_json(out, report)?;
        } else {
            write!(out, "{}", report.text())?;
        }
        out.flush().context("standard output")?;
        // Each is tried, whatever became of the other.
        let html = self.html.map(|file| anyhow::Ok(file.write(&report.html()?)?));
        let markdown = self.markdown.map(|file| anyhow::Ok(file.write(&report.markdown())?));
        html.into_iter().chain(markdown).collect()
    }
}

fn write_json(out: &mut impl Write, report: &Report) -> Result<()> {
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
    Ok(())
}

/// A thing to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CampaignItem {
    pub(crate) workload: BenchWorkload,
    pub(crate) bytes: usize,
}

/// The measurements that the same ranks make.
pub(crate) struct CampaignStage {
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    pub(crate) items: Vec<CampaignItem>,
}

/// The measurements of a run.
pub(crate) struct Campaign<'a> {
    pub(crate) stages: &'a [CampaignStage],
    pub(crate) wanted: &'a [Implementation],
    /// Steady rounds of each point.
    pub(crate) rounds: usize,
}

impl Campaign<'_> {
    /// Measures everything into the report, with what there is to know of the machine.
    ///
    /// # Errors
    /// An implementation that must not fail; what was measured until then is in the report.
    pub(crate) fn run(&self, bench: &mut Bench, report: &mut Report) -> Result<()> {
        let (load, crowding, start) = (machine::load(), bench.crowding(), Instant::now());
        let measured = self.measure(bench, report);
        report.facts = machine::facts(bench.cores, self.wanted);
        let mut fact = |what: &str, which: String| report.facts.push((what.into(), which));
        fact("load of the last minute", format!("{load} before, {} after", machine::load()));
        fact("both cores at work", format!("{crowding} before; {} after", bench.crowding()));
        fact("calibrator", bench.calibration());
        fact("length of the run", format!("{:.0} s", start.elapsed().as_secs_f64()));
        measured
    }

    fn measure(&self, bench: &mut Bench, report: &mut Report) -> Result<()> {
        let items = self.stages.iter().map(|stage| stage.items.len()).sum::<usize>();
        bench.bar = progress(items as u64)?;
        for CampaignStage { transport, ranks, items } in self.stages {
            let (over, mut these) = (transport.name(), self.wanted.to_vec());
            if !bench.knows(*transport)? {
                report
                    .missing
                    .push(format!("aldis over {over} with {ranks} ranks: aldis-run has no such transport"));
                these.retain(|one| !Implementation::OWN.contains(one));
            }
            let mut field = bench.field(*transport, *ranks, &these)?;
            for &item in items {
                let points = bench.measure(&mut field, item, self.rounds)?;
                // Said as it goes: a whole run takes many minutes.
                bench.bar.suspend(|| points.iter().for_each(|point| eprintln!("{}", Point(point).line())));
                report.missing.extend(points.iter().flat_map(|point| field.unmeasured(point)));
                report.points.extend(points);
                bench.bar.inc(1);
            }
            report
                .missing
                .extend(field.failures().map(|failed| format!("over {over} with {ranks} ranks: {failed}")));
        }
        bench.bar.finish_and_clear();
        Ok(())
    }
}

fn progress(items: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}")?;
    Ok(ProgressBar::new(items).with_style(style))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::bench::report::file::ReportError;

    #[test]
    fn a_report_that_cannot_be_written_loses_nothing_that_is_printed() {
        let full = || Some(ReportFile::reserve(Path::new("/dev/full")).unwrap());
        let report = Report { missing: vec!["the table stands here".into()], ..Report::default() };
        let mut printed = Vec::new();
        let files = Files { html: full(), markdown: full(), json: false };
        let error = files.publish(&mut printed, &report).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(ReportError::NoRoom { .. })), "{error:#}");
        assert!(String::from_utf8(printed).unwrap().contains("the table stands here"));
    }
}
