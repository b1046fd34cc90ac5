//! A failing run: what is told of it, and a smaller one.

use std::io;
use std::panic;

use aldis_sim::{Finding, Report, RunFailure, SimConfig};
use serde_json::{Value, json};

use crate::cli::Job;
use crate::show;

/// Runs that looking for a smaller one takes at most.
const TRIALS_MAX: u32 = 400;

/// Returns what there is to tell of a run; nothing if it went well.
pub(crate) fn find(report: &Report, job: &Job, smaller: bool) -> io::Result<Option<Finding>> {
    if report.failure.is_none() || !smaller {
        return Finding::of(report, 0, |config| job.simulate(config));
    }
    let bar = show::spinner("shrinking: {pos} runs, {elapsed}");
    // Programs that panic do so hundreds of times now.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let finding = Finding::of(report, TRIALS_MAX, |config| {
        bar.inc(1);
        job.simulate(config)
    });
    panic::set_hook(hook);
    bar.finish_and_clear();
    finding
}

/// The finding as a JSON object.
pub(crate) fn json(finding: &Finding, workload: &str) -> Value {
    let Finding { config, failure, smaller } = finding;
    let mut found = run(config, failure, workload);
    found["shrunk"] = smaller.as_ref().map_or(Value::Null, |(shrunk, failure)| {
        let mut smaller = run(&shrunk.config, failure, workload);
        let more = [("trials", json!(shrunk.trials)), ("minimal", json!(shrunk.minimal))];
        more.into_iter().for_each(|(key, value)| smaller[key] = value);
        smaller
    });
    found
}

fn run(config: &SimConfig, failure: &RunFailure, workload: &str) -> Value {
    json!({
        "seed": config.seed,
        "ranks": config.ranks,
        "what": failure.what,
        "told": failure.to_string(),
        "faults": config.faults_in_words(),
        "replay": config.replay(workload),
    })
}
