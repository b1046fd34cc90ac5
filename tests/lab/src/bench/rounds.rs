//! Measuring: all implementations in one run, taking turns in short batches between two looks at
//! the calibrator.

use core::time::Duration;
use std::time::Instant;

use anyhow::Result;
use indicatif::ProgressBar;

use super::cores;
use super::figure::{BenchCase, Figure};
use super::group::{BenchGroup, Sockets};
use super::implementation::{Implementation, Transport};
use super::perftest::Perftest;
use super::programs::Programs;
use super::series::{Runner, Series};
use super::statistics::{RoundVerdict, judge, percentile};
use super::workload::{Ask, BenchWorkload};

/// The batch that the calibrator is asked for: it shows the machine's state, whatever is measured.
const CALIBRATION: Ask = Ask { wire: "latency", turns: 200, bytes: 8, each: 1 };

/// Below this two cores have a cache in common: seen 27 to 56 ns with, 150 and more without (AMD
/// EPYC, virtual machine).
const SHARED_CACHE_NS: f64 = 80.0;

/// The factor by which a computation takes longer on each of two cores at once, at least, if there
/// is one physical core behind them. Its multiplier is then shared, which doubles the time; with
/// one each it is the same.
const CROWDED: f64 = 1.3;

/// Batches of each implementation in a round. More would make a round long enough for the machine
/// to change.
const BATCHES: u32 = 3;

/// The fewest rounds of a measurement; and where the machine is so busy that these take several
/// times as long as was asked for, fewer.
const ROUNDS_MIN: usize = 10;
const ROUNDS_BUSY: usize = 4;
const BUSY: f64 = 4.0;

/// The parts that a run needs throughout: programs, cores, and the calibrator.
pub(crate) struct Bench {
    programs: Programs,
    sockets: Sockets,
    pub(crate) cores: [usize; 2],
    calibrator: BenchGroup,
    started: usize,
    /// The calibrator in every round so far, in ns, and how many rounds counted.
    calibrators: Vec<f64>,
    steady: usize,
    /// The progress of the run; hidden unless a caller shows it.
    pub(crate) bar: ProgressBar,
}

/// The implementations that run on one transport with one number of ranks.
pub(crate) struct RoundField {
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    series: Vec<Series>,
}

impl RoundField {
    /// Returns which implementations failed, and how.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &String> {
        self.series.iter().filter_map(|one| one.failed.as_ref())
    }
}

impl Bench {
    pub(crate) fn new(programs: Programs) -> Result<Self> {
        let (sockets, cores) = (Sockets::new()?, cores::two()?);
        let socket = sockets.path("calibrator");
        let command = programs.command(Implementation::Raw, Transport::Shm, &socket, &cores);
        let calibrator = BenchGroup::start(command, &socket, cores.len())?;
        let bar = ProgressBar::hidden();
        Ok(Self { programs, sockets, cores, calibrator, started: 0, calibrators: Vec::new(), steady: 0, bar })
    }

    /// Describes what becomes of a computation on each of the two cores while the other is at it
    /// too.
    pub(crate) fn crowding(&self) -> String {
        match self.programs.crowding(self.cores) {
            Some(slower) if slower < CROWDED => format!("{slower:.2} of the time alone: cores of their own"),
            Some(slower) => format!("{slower:.2} of the time alone: one core behind both"),
            None => "not known".into(),
        }
    }

    /// Returns true if Aldis has the transport at all.
    pub(crate) fn knows(&self, transport: Transport) -> Result<bool> {
        self.programs.knows(transport)
    }

    /// Starts the ranks of `wanted`; they sleep until they are measured.
    pub(crate) fn field(
        &mut self,
        transport: Transport,
        ranks: usize,
        wanted: &[Implementation],
    ) -> Result<RoundField> {
        let cores = cores::of_ranks(self.cores, ranks);
        let mut series = Vec::new();
        for &which in wanted.iter().filter(|one| one.has(transport, ranks)) {
            self.started += 1;
            let runner = if which == Implementation::Ucx {
                Runner::Perftest(Perftest::new(transport, self.cores, self.started))
            } else {
                let socket = self.sockets.path(&format!("{}-{}", which.name(), self.started));
                let command = self.programs.command(which, transport, &socket, &cores);
                Runner::Group(BenchGroup::start(command, &socket, ranks)?)
            };
            series.push(Series::new(which, runner));
        }
        Ok(RoundField { transport, ranks, series })
    }

    /// Rounds of batches for `seconds`, and for twice that if none was steady; no figures if none
    /// is even then.
    pub(crate) fn measure(
        &mut self,
        field: &mut RoundField,
        workload: BenchWorkload,
        bytes: usize,
        seconds: f64,
    ) -> Result<Vec<Figure>> {
        field.series.iter_mut().for_each(Series::begin);
        let ask = workload.ask(bytes, field.transport, field.ranks);
        self.bar.set_message(format!(
            "{} {}, {} ranks, {bytes} B",
            field.transport.name(),
            ask.wire,
            field.ranks
        ));
        let transport = field.transport;
        let carries = |one: &Series| one.which.carries(workload, transport, bytes);
        let mut calibrators = Vec::new();
        let mut end = Instant::now() + Duration::from_secs_f64(seconds);
        let last = end + Duration::from_secs_f64(seconds);
        let busy = end + Duration::from_secs_f64(seconds * (BUSY - 1.0));
        loop {
            let round = calibrators.len();
            let before = self.calibrate()?;
            take_turns(field, workload, ask, round)?;
            calibrators.push((before, self.calibrate()?));
            let now = Instant::now();
            let rounds_min = if now < busy { ROUNDS_MIN } else { ROUNDS_BUSY };
            if now < end || calibrators.len() < rounds_min {
                continue;
            }
            if judge(&calibrators).contains(&RoundVerdict::Steady) || end == last {
                break;
            }
            end = last;
        }
        let verdicts = judge(&calibrators);
        self.calibrators.extend(calibrators.iter().map(|&(before, _)| before));
        self.steady += verdicts.iter().filter(|&&verdict| verdict == RoundVerdict::Steady).count();
        self.tell(field, workload, bytes, &JudgedRounds { calibrators: &calibrators, verdicts: &verdicts });
        let case = BenchCase { workload, transport, ranks: field.ranks, bytes };
        let counts = |round: usize| verdicts.get(round) == Some(&RoundVerdict::Steady);
        let measured = field.series.iter().filter(|one| carries(one));
        let figures: Vec<Figure> = measured
            .filter(|one| one.failed.is_none())
            .filter_map(|one| {
                let summary = one.summary(counts)?;
                Some(Figure::new(case, one.which, summary))
            })
            .collect();
        Ok(figures)
    }

    /// Says on standard error which rounds were not counted.
    fn tell(&self, field: &RoundField, workload: BenchWorkload, bytes: usize, rounds: &JudgedRounds<'_>) {
        let JudgedRounds { calibrators, verdicts } = rounds;
        let count = |verdict| verdicts.iter().filter(|&&one| one == verdict).count();
        let what = format!("{} {}, {bytes} B", field.transport.name(), workload.name());
        let mut said = format!(
            "{what}: {} rounds; discarded {} in which the calibrator moved and {} on another placement of the cores",
            verdicts.len(),
            count(RoundVerdict::Moved),
            count(RoundVerdict::Displaced),
        );
        let near = calibrators.iter().filter(|&&(before, _)| before < SHARED_CACHE_NS).count();
        said += if near * 2 > calibrators.len() { "; cores that share a cache" } else { "; cores far apart" };
        for failed in field.failures() {
            said += &format!("; {failed}");
        }
        self.bar.suspend(|| eprintln!("{said}"));
    }

    /// Describes the calibrator's figures throughout the run.
    pub(crate) fn calibration(&self) -> String {
        let mut sorted = self.calibrators.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |percent| percentile(&sorted, percent).unwrap_or(0.0);
        format!(
            "one cache line one way: 5th percentile {:.0} ns, median {:.0} ns, 95th {:.0} ns; {} of {} rounds counted",
            at(5.0),
            at(50.0),
            at(95.0),
            self.steady,
            sorted.len()
        )
    }

    /// The calibrator's median of three batches: half a round trip in ns.
    fn calibrate(&mut self) -> Result<f64> {
        let mut batches = [0.0; 3];
        for batch in &mut batches {
            *batch = self.calibrator.batch(CALIBRATION)? / 2.0;
        }
        batches.sort_by(f64::total_cmp);
        let [_, median, _] = batches;
        Ok(median)
    }
}

/// The rounds of a case: the calibrator before and after each, and what was judged of it.
struct JudgedRounds<'a> {
    calibrators: &'a [(f64, f64)],
    verdicts: &'a [RoundVerdict],
}

/// Runs a round: each implementation's batches in turn, another one first in each round.
fn take_turns(field: &mut RoundField, workload: BenchWorkload, ask: Ask, round: usize) -> Result<()> {
    let transport = field.transport;
    let first = round % field.series.len().max(1);
    for _ in 0..BATCHES {
        let (head, tail) = field.series.split_at_mut(first);
        let carrying =
            |one: &&mut Series| one.failed.is_none() && one.which.carries(workload, transport, ask.bytes);
        for one in tail.iter_mut().chain(head).filter(carrying) {
            let bytes = one.which.payload(workload, transport, ask.bytes);
            match one.sample(workload, Ask { bytes, ..ask }, field.ranks, round) {
                // A peer's failure is told, and the others are measured without it.
                Err(error) if Implementation::PEERS.contains(&one.which) => {
                    one.failed = Some(format!("{} failed: {error:#}", one.which.name()));
                }
                sampled => sampled?,
            }
        }
    }
    Ok(())
}
