//! A failing run: its faults in words, the command that repeats it, and a smaller one.

use core::fmt;
use std::io;
use std::panic;

use aldis_host_sim::sim::{Config, Failure, Report, Shrunk, faults, shrink};
use serde_json::{Value, json};

use crate::cli::Job;
use crate::show;

/// Runs that looking for a smaller one takes at most.
const TRIALS_MAX: u32 = 400;

/// A failing run as it is told.
pub(crate) struct Told {
    config: Config,
    workload: &'static str,
    failure: Failure,
    smaller: Option<(Shrunk, Failure)>,
}

impl Told {
    /// What there is to tell of a run; nothing if it went well.
    pub(crate) fn of(report: &Report, job: &Job, smaller: bool) -> io::Result<Option<Self>> {
        let Some(failure) = report.failure.clone() else { return Ok(None) };
        let (config, workload) = (report.config.clone(), job.workload.name);
        let smaller = if smaller { smaller_than(&config, &failure, job)? } else { None };
        Ok(Some(Self { config, workload, failure, smaller }))
    }

    pub(crate) fn json(&self) -> Value {
        let Failure { rank, what, ranks } = &self.failure;
        json!({
            "seed": self.config.seed,
            "rank": rank,
            "what": what,
            "ranks": ranks,
            "faults": words(&self.config),
            "replay": self.config.replay(self.workload),
            "shrunk": self.smaller.as_ref().map(|(shrunk, failure)| json!({
                "ranks": shrunk.config.ranks,
                "faults": words(&shrunk.config),
                "trials": shrunk.trials,
                "minimal": shrunk.minimal,
                "what": failure.what,
                "replay": shrunk.config.replay(self.workload),
            })),
        })
    }
}

/// Looks for fewer faults and ranks that end in a failure of the same kind: a job that does not come to its end, or a
/// rank that found something wrong.
fn smaller_than(config: &Config, failure: &Failure, job: &Job) -> io::Result<Option<(Shrunk, Failure)>> {
    let bar = show::spinner("shrinking: {pos} runs, {elapsed}");
    // Programs that panic do so hundreds of times now.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let shrunk = shrink(&Config { record: false, ..config.clone() }, TRIALS_MAX, |config| {
        bar.inc(1);
        let found = job.simulate(config).ok().and_then(|report| report.failure);
        found.is_some_and(|found| found.rank.is_some() == failure.rank.is_some())
    });
    let last = job.simulate(&shrunk.config);
    panic::set_hook(hook);
    bar.finish_and_clear();
    let is_smaller = shrunk.config.only != config.only || shrunk.config.ranks != config.ranks;
    Ok(last?.failure.filter(|_| is_smaller).map(|failure| (shrunk, failure)))
}

/// The faults of a run in words, under their numbers in the list of all that its seed draws.
fn words(config: &Config) -> Vec<String> {
    let all = faults(&Config { only: None, ..config.clone() });
    let is_there = |index: &u16| config.only.as_ref().is_none_or(|only| only.contains(index));
    let there = (0..).zip(all).filter(|(index, _)| is_there(index));
    there.map(|(index, fault)| format!("{index:>3}  {fault}")).collect()
}

/// The same, below each other and under a head.
pub(crate) fn list(config: &Config) -> String {
    let words = words(config);
    match words.len() {
        0 => "no faults".into(),
        1 => format!("1 fault:\n{}", words.join("\n")),
        count => format!("{count} faults:\n{}", words.join("\n")),
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, workload, failure, smaller } = self;
        writeln!(f, "seed {} FAILED: {failure}\n\n{}\n", config.seed, list(config))?;
        write!(f, "replay with\n  {}", config.replay(workload))?;
        let Some((shrunk, failure)) = smaller else { return Ok(()) };
        let (ranks, trials) = (shrunk.config.ranks, shrunk.trials);
        writeln!(
            f,
            "\n\nsmaller, found in {trials} runs: {ranks} ranks: {failure}\n\n{}",
            list(&shrunk.config)
        )?;
        if !shrunk.minimal {
            writeln!(f, "some of these may not be needed: there were no more runs to find out")?;
        }
        write!(f, "\nreplay with\n  {}", shrunk.config.replay(workload))
    }
}
