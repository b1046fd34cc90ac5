//! The steps of a longer chore: running them one after the other, and what came of each.

use core::time::Duration;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::limit;

/// A step that did not fail.
#[derive(Debug)]
pub enum Outcome {
    /// The step did what it is for; a few words on what that was.
    Passed(String),
    /// The step could not be done here.
    Skipped {
        /// The thing that is missing.
        why: String,
        /// The command that brings it.
        enable: String,
    },
}

impl Outcome {
    /// Returns a line for a table.
    pub fn spell(outcome: &Result<Self>) -> String {
        match outcome {
            Ok(Self::Passed(words)) if words.is_empty() => "ok".into(),
            Ok(Self::Passed(words)) => format!("ok: {words}"),
            Ok(Self::Skipped { why, enable }) => format!("SKIPPED: {why}; to enable: {enable}"),
            Err(error) => {
                let text = format!("{error:#}");
                format!("FAILED: {}", text.lines().next().unwrap_or("no reason given"))
            }
        }
    }
}

/// A step as it went.
#[derive(Serialize, Deserialize)]
pub struct Done {
    /// The name of the step.
    pub step: String,
    /// The time that it took.
    pub seconds: f64,
    /// Seconds of processor time of the programs that it ran to their end.
    pub processor: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// In words.
    pub outcome: String,
}

/// The verdict on a step.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It did what it is for.
    Passed,
    /// It could not be done here.
    Skipped,
    /// It failed.
    Failed,
}

/// The steps so far.
pub struct Run {
    /// The steps that have ended.
    pub done: Vec<Done>,
    report: Option<File>,
}

impl Run {
    /// No steps yet; each is to be written into the report.
    ///
    /// # Errors
    /// A report that cannot be created.
    pub fn new(report: Option<&Path>) -> Result<Self> {
        let create = |file: &Path| File::create(file).with_context(|| format!("creating {}", file.display()));
        Ok(Self { done: Vec::new(), report: report.map(create).transpose()? })
    }

    /// Runs a step and shows at once how it went; a failed one does not keep the others from
    /// running.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome>) {
        eprintln!("==> {name}");
        let (start, used) = (Instant::now(), processor_seconds());
        let outcome = limit::within(limit_of(name), work);
        let seconds = start.elapsed().as_secs_f64();
        if let Err(error) = &outcome {
            eprintln!("{error:#}");
        }
        let verdict = match &outcome {
            Ok(Outcome::Passed(_)) => Verdict::Passed,
            Ok(Outcome::Skipped { .. }) => Verdict::Skipped,
            Err(_) => Verdict::Failed,
        };
        let processor = processor_seconds() - used;
        let done = Done { step: name.into(), seconds, processor, verdict, outcome: Outcome::spell(&outcome) };
        eprintln!("<== {name}: {} ({seconds:.1} s)", done.outcome);
        self.note(done);
    }

    /// Notes how a step went.
    pub fn note(&mut self, done: Done) {
        if let Some(report) = &mut self.report {
            let line = serde_json::to_string(&done).unwrap_or_default();
            // The table says it as well.
            let _ = writeln!(report, "{line}");
        }
        self.done.push(done);
    }
}

/// Seconds of processor time of this program and of those it has run to their end.
fn processor_seconds() -> f64 {
    let of =
        |who| getrusage(who).map_or(0, |used| (used.user_time() + used.system_time()).num_milliseconds());
    (of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)) as f64 / 1e3
}

/// Returns the time that a step may take before it is ended as one that hangs: many times what it
/// needs on two cores that others use too, with nothing built yet.
fn limit_of(step: &str) -> Duration {
    let minutes = match step {
        "format" | "arrows" | "fences" | "house" | "licences" => 15,
        "clippy" | "tests" | "conformance" => 120,
        _ => 60,
    };
    Duration::from_secs(60 * minutes)
}
