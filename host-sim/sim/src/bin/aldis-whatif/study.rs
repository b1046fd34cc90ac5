//! The points of a study, and their simulation.

use core::fmt;
use std::time::Instant;

use aldis_coll::catalog::algorithms;
use aldis_coll::schedule::Algorithm;
use aldis_hal::Operation;
use aldis_sim::whatif::{Run, RunError, ScheduleNetwork, run};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::{Options, scheduled};

/// A predicted time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct PredictedPoint {
    pub(crate) operation: String,
    pub(crate) algorithm: &'static str,
    pub(crate) ranks: u32,
    pub(crate) bytes: u64,
    /// `None` where it was refused, as are the next two.
    pub(crate) time_ns: Option<f64>,
    pub(crate) messages: Option<u64>,
    pub(crate) sent_bytes: Option<u64>,
    /// No other algorithm takes less time for the same.
    pub(crate) fastest: bool,
    /// The reason why there is no time.
    pub(crate) refused: Option<String>,
}

/// Everything that will be simulated.
#[derive(Debug)]
pub(crate) struct StudyPlan {
    network: ScheduleNetwork,
    runs: Vec<Run>,
}

impl StudyPlan {
    pub(crate) fn of(options: &Options) -> Result<Self, String> {
        let sizes = options.ranks.0.iter().map(|ranks| size(*ranks)).collect::<Result<Vec<u32>, _>>()?;
        let bytes = options.bytes.0.iter().map(|bytes| elements(*bytes, options.element_bytes));
        let counts = bytes.collect::<Result<Vec<usize>, _>>()?;
        if let Some(small) = sizes.iter().find(|size| options.root >= **size) {
            return Err(format!("--root {}: there is no such rank among {small}", options.root));
        }
        let scratch = options.scratch_bytes.map(|bytes| bytes / u64::from(options.element_bytes));
        let scratch = scratch.map_or(usize::MAX, |elements| usize::try_from(elements).unwrap_or(usize::MAX));
        let mut runs = Vec::new();
        for algorithm in chosen(options)? {
            let barrier = algorithm.operation() == Operation::Barrier;
            let counts = if barrier { &[0] } else { counts.as_slice() };
            let served = sizes.iter().filter(|size| algorithm.serves(**size));
            for (size, count) in served.flat_map(|size| counts.iter().map(move |count| (*size, *count))) {
                let (root, work_max) = (options.root, options.work_max);
                let run = Run { root, scratch, work_max, ..Run::new(algorithm, size) };
                runs.push(run.with_data(count, options.element_bytes));
            }
        }
        Ok(Self { network: options.network.network(), runs })
    }

    /// Simulates every point, with a progress bar where a user watches.
    pub(crate) fn simulate(&self) -> Result<(Vec<PredictedPoint>, Speed), String> {
        let works: Vec<u64> = self.runs.iter().map(|run| self.work(run)).collect();
        let bar = ProgressBar::new(works.iter().fold(0, |sum, work| sum.saturating_add(*work)));
        let style =
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed} of about {duration}  {msg}");
        bar.set_style(style.map_err(|error| error.to_string())?);
        let (mut points, mut speed, start) = (Vec::new(), Speed::default(), Instant::now());
        for (run, work) in self.runs.iter().zip(works) {
            bar.set_message(format!("{} over {} ranks", run.algorithm.name(), run.size));
            let before = bar.position();
            let outcome = run.watched(&self.network, |messages| {
                bar.set_position(before.saturating_add(messages.min(work)))
            });
            bar.set_position(before.saturating_add(work));
            if let Ok(outcome) = &outcome {
                speed.messages += outcome.messages;
                speed.memory = speed.memory.max(outcome.memory as u64);
            }
            let refused = match &outcome {
                Ok(_) => None,
                Err(error @ RunError::TooMuch { .. }) => {
                    Some(format!("{} over {} ranks: {error}", run.algorithm.name(), run.size))
                }
                Err(error) => {
                    return Err(format!("{} over {} ranks: {error}", run.algorithm.name(), run.size));
                }
            };
            let outcome = outcome.ok();
            points.push(PredictedPoint {
                operation: run.algorithm.operation().to_string(),
                algorithm: run.algorithm.name(),
                ranks: run.size,
                bytes: run.count as u64 * u64::from(run.element_bytes),
                time_ns: outcome.map(|outcome| outcome.time_ps as f64 / 1e3),
                messages: outcome.map(|outcome| outcome.messages),
                sent_bytes: outcome.map(|outcome| outcome.bytes),
                fastest: false,
                refused,
            });
        }
        bar.finish_and_clear();
        speed.seconds = start.elapsed().as_secs_f64();
        mark_fastest(&mut points);
        match points.iter().find_map(|point| point.refused.clone()) {
            Some(refused) if points.iter().all(|point| point.refused.is_some()) => {
                Err(format!("{refused}; take fewer ranks or raise --work-max"))
            }
            _ => Ok((points, speed)),
        }
    }

    /// Returns the work that a run will take; zero if it will be refused.
    fn work(&self, run: &Run) -> u64 {
        run.work(&self.network).ok().filter(|work| *work <= run.work_max).unwrap_or(0)
    }
}

/// The speed of the simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    messages: u64,
    seconds: f64,
    memory: u64,
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millions = self.messages as f64 / 1e6;
        write!(f, "{millions:.2} million messages simulated in {:.2} s, ", self.seconds)?;
        write!(f, "{:.2} million a second; at most ", millions / self.seconds.max(1e-9))?;
        write!(f, "{:.2} MiB for one point", self.memory as f64 / f64::from(1 << 20))
    }
}

fn size(ranks: u64) -> Result<u32, String> {
    let size = u32::try_from(ranks).ok().filter(|size| (1..=run::RANKS_MAX).contains(size));
    size.ok_or_else(|| format!("--ranks: {ranks} ranks; there must be 1 to {}", run::RANKS_MAX))
}

fn elements(bytes: u64, element_bytes: u32) -> Result<usize, String> {
    let whole = bytes.is_multiple_of(element_bytes.into()).then(|| bytes / u64::from(element_bytes));
    let count = whole.and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| {
        format!(
            "--bytes: {bytes} bytes are no whole number of elements of {element_bytes}; see --element-bytes"
        )
    })
}

/// The algorithms asked for, or which there are.
fn chosen(options: &Options) -> Result<Vec<Algorithm>, String> {
    let all: Vec<Operation> = scheduled().collect();
    let operations = if options.operations.is_empty() { &all } else { &options.operations };
    let known = || operations.iter().flat_map(|operation| algorithms(*operation)).copied();
    for name in &options.algorithm {
        if !known().any(|algorithm| algorithm.name() == name) {
            let names: Vec<&str> = known().map(|algorithm| algorithm.name()).collect();
            return Err(format!("--algorithm: none is called `{name}`; known: {}", names.join(", ")));
        }
    }
    let wanted = |name: &str| options.algorithm.is_empty() || options.algorithm.iter().any(|it| it == name);
    Ok(known().filter(|algorithm| wanted(algorithm.name())).map(|known| known as Algorithm).collect())
}

fn mark_fastest(points: &mut [PredictedPoint]) {
    let times: Vec<_> = points
        .iter()
        .map(|point| {
            (point.operation.clone(), point.ranks, point.bytes, point.time_ns.unwrap_or(f64::INFINITY))
        })
        .collect();
    for point in points {
        let same = times.iter().filter(|(operation, ranks, bytes, _)| {
            (operation.as_str(), *ranks, *bytes) == (point.operation.as_str(), point.ranks, point.bytes)
        });
        let least = same.map(|(_, _, _, time)| *time).fold(f64::INFINITY, f64::min);
        point.fastest = point.time_ns.is_some_and(|time| time <= least);
    }
}
