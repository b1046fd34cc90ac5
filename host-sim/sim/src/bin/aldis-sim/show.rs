//! The printed output: sums over seeds, speed, JSON, a progress bar.

use core::fmt;
use core::ops::Range;
use core::time::Duration;
use std::io;

use aldis_linux::output;
use aldis_sim::workloads::WORKLOADS;
use aldis_sim::{Finding, Profile, Report, RunProgress, Topology, Wire};
use aldis_sys::limits::{UsageWho, getrusage};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::failure;

/// Writes a line, or several, to standard output.
pub(crate) fn say(text: impl fmt::Display) -> io::Result<()> {
    Ok(output::print(format_args!("{text}\n"))?)
}

/// The sum of what all runs did.
#[derive(Default)]
pub(crate) struct RunSum {
    runs: u64,
    virtual_ns: u64,
    events: u64,
    messages: u64,
    frames: u64,
    refusals: u64,
    /// Of all hashes, in order.
    hash: u64,
}

impl RunSum {
    pub(crate) fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.virtual_ns += report.virtual_ns;
        self.events += report.totals.events;
        self.messages += report.totals.messages;
        self.frames += report.totals.frames;
        self.refusals += report.totals.refusals;
        self.hash = (self.hash.rotate_left(5) ^ report.hash).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

impl fmt::Display for RunSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, virtual_ns, events, messages, frames, refusals, hash } = self;
        write!(
            f,
            "{runs} seeds: {} virtual ms, {events} events, {messages} messages, {frames} frames, {refusals} refused \
             posts, trace of all {hash:016x}",
            virtual_ns / 1_000_000
        )
    }
}

/// The most memory that this process has had at a time, bytes.
fn peak_bytes() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64 * 1024)
}

/// Returns how fast a run went and how much memory it took: of this machine, and no part of any
/// history.
pub(crate) fn run_speed(report: &Report, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    format!(
        "{seconds:.3} s, {:.0} events/s, {:.0} messages or frames/s; {} bytes of memory a rank, of which {} are its storage",
        report.totals.events as f64 / seconds,
        (report.totals.messages + report.totals.frames) as f64 / seconds,
        peak_bytes() / u64::from(report.config.ranks),
        report.storage_bytes
    )
}

/// Returns how fast seeds went.
pub(crate) fn seeds_speed(sum: &RunSum, took: Duration, threads: usize) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    let each = |count: u64| count as f64 / seconds;
    format!(
        "{seconds:.3} s, {threads} at a time: {:.0} seeds/s, {:.0} events/s",
        each(sum.runs),
        each(sum.events)
    )
}

/// Returns a run as one line of JSON.
pub(crate) fn run_json(report: &Report, took: Duration, workload: &str, told: Option<&Finding>) -> String {
    let (seconds, ranks) = (took.as_secs_f64(), report.config.ranks);
    json!({
        "seed": report.config.seed,
        "ranks": ranks,
        "topology": report.config.topology.to_string(),
        "wire": report.config.wire.name(),
        "faults": report.config.faults.name(),
        "trace": format!("{:016x}", report.hash),
        "virtual_ns": report.virtual_ns,
        "events": report.totals.events,
        "messages": report.totals.messages,
        "frames": report.totals.frames,
        "frames_lost": report.totals.lost,
        "refused_posts": report.totals.refusals,
        "seconds": seconds,
        "events_per_second": report.totals.events as f64 / seconds.max(1e-9),
        "peak_bytes_per_rank": peak_bytes() / u64::from(ranks),
        "storage_bytes_per_rank": report.storage_bytes,
        "replay": report.replay(workload),
        "failure": told.map(|told| failure::json(told, workload)),
    })
    .to_string()
}

/// A campaign that is over: many runs of a workload.
pub(crate) struct FinishedCampaign<'a> {
    pub(crate) workload: &'a str,
    pub(crate) sum: &'a RunSum,
    pub(crate) took: Duration,
    /// The last run, and what was found out if it failed.
    pub(crate) last: Option<&'a Report>,
    pub(crate) told: Option<&'a Finding>,
}

impl FinishedCampaign<'_> {
    /// Many runs in one line.
    pub(crate) fn json(&self) -> String {
        let &Self { workload, sum, took, last, told } = self;
        let seconds = took.as_secs_f64();
        json!({
            "seeds": sum.runs,
            "last_seed": last.map(|last| last.config.seed),
            "trace": format!("{:016x}", sum.hash),
            "virtual_ns": sum.virtual_ns,
            "events": sum.events,
            "messages": sum.messages,
            "frames": sum.frames,
            "refused_posts": sum.refusals,
            "seconds": seconds,
            "events_per_second": sum.events as f64 / seconds.max(1e-9),
            "last_trace": last.map(|last| format!("{:016x}", last.hash)),
            "last_replay": last.map(|last| last.replay(workload)),
            "failure": told.map(|told| failure::json(told, workload)),
        })
        .to_string()
    }
}

/// The workloads, a line each.
pub(crate) fn list() -> String {
    let lines = WORKLOADS.iter().map(|workload| format!("{:18} {}", workload.name, workload.about));
    lines.collect::<Vec<_>>().join("\n")
}

/// Everything that can be named, for programs that run all of it.
pub(crate) fn list_json() -> String {
    let workloads =
        WORKLOADS.iter().map(|workload| json!({ "name": workload.name, "about": workload.about }));
    json!({
        "workloads": workloads.collect::<Vec<_>>(),
        "faults": Profile::ALL.map(Profile::name),
        "wires": Wire::ALL.map(Wire::name),
        "topologies": Topology::ALL.map(|topology| topology.to_string()),
    })
    .to_string()
}

/// A progress bar on standard error if that is a terminal, and nothing otherwise. Without an end,
/// it only counts.
pub(crate) fn bar(seeds: &Range<u64>) -> ProgressBar {
    if seeds.end == u64::MAX {
        return spinner("{pos} seeds, {per_sec}, {elapsed}");
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    let bar = ProgressBar::new(seeds.end.saturating_sub(seeds.start));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The progress of a run in words.
pub(crate) fn progress(progress: RunProgress) -> String {
    let RunProgress { made, over, ranks, events, virtual_ns } = progress;
    if made < ranks {
        return format!("{made} of {ranks} ranks made");
    }
    format!("{over} of {ranks} ranks over, {events} events, {} virtual us", virtual_ns / 1000)
}

/// A count on standard error, as [`bar`].
pub(crate) fn spinner(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
