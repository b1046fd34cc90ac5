//! What is printed: sums over seeds, speed, JSON, a progress bar.

use core::fmt;
use core::time::Duration;

use aldis_host_sim::sim::Report;
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

/// What all runs together did.
#[derive(Default)]
pub(crate) struct Sum {
    runs: u64,
    virtual_ns: u64,
    events: u64,
    messages: u64,
    refusals: u64,
    /// Of all hashes, in order.
    hash: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.virtual_ns += report.virtual_ns;
        self.events += report.totals.events;
        self.messages += report.totals.messages;
        self.refusals += report.totals.refusals;
        self.hash = (self.hash.rotate_left(5) ^ report.hash).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, virtual_ns, events, messages, refusals, hash } = self;
        write!(
            f,
            "{runs} seeds: {} virtual ms, {events} events, {messages} messages, {refusals} refused posts, trace of \
             all {hash:016x}",
            virtual_ns / 1_000_000
        )
    }
}

/// The most memory that this process has had at a time, bytes.
fn peak_bytes() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64 * 1024)
}

/// How fast it went and how much memory it took: of this machine, and no part of any history.
pub(crate) fn speed(report: &Report, sum: &Sum, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    format!(
        "{seconds:.3} s, {:.0} events/s, {:.0} messages/s; {} bytes of memory a rank, of which {} are its storage",
        sum.events as f64 / seconds,
        sum.messages as f64 / seconds,
        peak_bytes() / u64::from(report.config.ranks),
        report.storage_bytes
    )
}

/// Everything in one line.
pub(crate) fn json(report: &Report, sum: &Sum, took: Duration, replay: &str) -> String {
    let seconds = took.as_secs_f64();
    let failure = report.failure.as_ref().map(
        |failure| json!({ "rank": failure.rank, "what": failure.what, "ranks": failure.ranks, "replay": replay }),
    );
    json!({
        "runs": sum.runs,
        "last_seed": report.config.seed,
        "ranks": report.config.ranks,
        "topology": report.config.topology.to_string(),
        "faults": report.config.faults.name(),
        "trace": format!("{:016x}", if sum.runs == 1 { report.hash } else { sum.hash }),
        "virtual_ns": sum.virtual_ns,
        "events": sum.events,
        "messages": sum.messages,
        "refused_posts": sum.refusals,
        "seconds": seconds,
        "events_per_second": sum.events as f64 / seconds.max(1e-9),
        "peak_bytes_per_rank": peak_bytes() / u64::from(report.config.ranks),
        "storage_bytes_per_rank": report.storage_bytes,
        "failure": failure,
    })
    .to_string()
}

/// A progress bar on standard error if that is a terminal, and nothing otherwise.
pub(crate) fn bar(count: u64) -> ProgressBar {
    if count < 2 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
