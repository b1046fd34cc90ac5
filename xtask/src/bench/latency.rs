//! `cargo xtask bench latency`: half a round trip between two processes on two cores, all implementations in one
//! run, taking turns in short batches between two batches of the calibrator.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use super::implementation::{Implementation, Programs, two_cores};
use super::pair::{Pair, Sockets};
use super::statistics::{Verdict, judge, percentile};
use crate::steps::Outcome;
use crate::table::Table;
use crate::workspace::Workspace;

/// Measures half round trips between two processes pinned to two cores.
///
/// All implementations take turns in short batches. `raw` is what the hardware alone needs, one cache line a direction,
/// and the calibrator: rounds during which it moved, or which it shows to have run on another placement of the virtual
/// cores, are not counted.
#[derive(Args)]
pub(crate) struct Latency {
    /// Measure Open MPI and MPICH too, where they are installed
    #[arg(long)]
    peers: bool,
    /// Measure only these; `raw` always runs, as the calibrator
    #[arg(long, value_delimiter = ',')]
    only: Vec<Implementation>,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "8")]
    bytes: Vec<usize>,
    /// Time to measure each size for
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Fail when a peer is not installed
    #[arg(long)]
    require: bool,
}

/// What the calibrator carries, in bytes: it shows the machine's state, whatever size is measured.
const CALIBRATOR_BYTES: usize = 8;

/// Below this the calibrator may have stayed within one physical core: seen 28 to 56 ns there, 150 and more between two.
/// Some machines are as fast between cores, so it is a hint and no judgement.
const SHARED_CORE_NS: f64 = 80.0;

/// Batches of each implementation in a round. More would make a round long enough for the machine to change.
const BATCHES: u32 = 3;

/// Samples of one implementation at one size, in ns, with the number of the round that each is from.
struct Series {
    which: Implementation,
    pair: Pair,
    samples: Vec<(usize, f64)>,
}

/// One line of the result.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) which: Implementation,
    pub(crate) bytes: usize,
    pub(crate) p5_ns: f64,
    pub(crate) p50_ns: f64,
    pub(crate) samples: usize,
}

/// A run of two seconds with every peer, for `cargo xtask test`.
pub(super) fn step() -> Result<Outcome> {
    for peer in Implementation::PEERS {
        if let Some(install) = peer.missing() {
            return Ok(Outcome::Skipped {
                why: format!("{} is not installed", peer.name()),
                enable: install.into(),
            });
        }
    }
    if let Err(error) = two_cores() {
        return Ok(Outcome::Skipped { why: format!("{error:#}"), enable: "a machine with two cores".into() });
    }
    Latency { peers: true, only: Vec::new(), json: false, bytes: vec![8], seconds: 2.0, require: true }
        .run()?;
    Ok(Outcome::Passed("raw, aldis, openmpi and mpich in one run".into()))
}

impl Latency {
    pub(crate) fn run(self) -> Result<()> {
        let wanted = self.wanted()?;
        let workspace = Workspace::members()?;
        eprintln!("building {}", names(&wanted));
        let programs = Programs::build(&workspace, &wanted)?;
        let cores = two_cores()?;
        let sockets = Sockets::new()?;
        let mut series = Vec::new();
        for which in wanted {
            let socket = sockets.path(which.name());
            let pair = Pair::start(programs.command(which, &socket, cores), &socket)?;
            series.push(Series { which, pair, samples: Vec::new() });
        }
        eprintln!("measuring on cores {} and {}, {} s a size", cores[0], cores[1], self.seconds);
        for &bytes in &self.bytes {
            let figures = self.measure(&mut series, bytes)?;
            if self.json {
                figures.iter().for_each(print_json);
            } else {
                print_table(bytes, &figures);
            }
        }
        Ok(())
    }

    fn wanted(&self) -> Result<Vec<Implementation>> {
        if !self.only.is_empty() {
            let others = self.only.iter().copied().filter(|&one| one != Implementation::Raw);
            return Ok([Implementation::Raw].into_iter().chain(others).collect());
        }
        let mut wanted = vec![Implementation::Raw, Implementation::Aldis];
        for peer in Implementation::PEERS.into_iter().filter(|_| self.peers) {
            match peer.missing() {
                None => wanted.push(peer),
                Some(install) if self.require => bail!("{} is not installed: {install}", peer.name()),
                Some(install) => eprintln!("{} is not installed and not measured: {install}", peer.name()),
            }
        }
        Ok(wanted)
    }

    /// Rounds of batches for the time that was asked for; at least ten.
    fn measure(&self, series: &mut [Series], bytes: usize) -> Result<Vec<Figure>> {
        series.iter_mut().for_each(|one| one.samples.clear());
        let round_trips = round_trips(bytes);
        let mut calibrators = Vec::new();
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        while Instant::now() < end || calibrators.len() < 10 {
            let round = calibrators.len();
            let before = calibrate(series)?;
            take_turns(series, round, round_trips, bytes)?;
            calibrators.push((before, calibrate(series)?));
        }
        let verdicts = judge(&calibrators);
        let count = |verdict| verdicts.iter().filter(|&&one| one == verdict).count();
        eprintln!(
            "{bytes} B: {} rounds; discarded {} in which the calibrator moved and {} on another placement of the cores",
            verdicts.len(),
            count(Verdict::Moved),
            count(Verdict::Displaced),
        );
        if calibrators.iter().filter(|&&(before, _)| before < SHARED_CORE_NS).count() * 2 > calibrators.len()
        {
            eprintln!(
                "{bytes} B: the calibrator is so fast that the host may run both cores on one: repeat the run"
            );
        }
        let steady = |round: usize| verdicts.get(round) == Some(&Verdict::Steady);
        let figures: Vec<Figure> = series.iter().filter_map(|one| one.figure(bytes, steady)).collect();
        if figures.is_empty() {
            bail!("{bytes} B: no round was steady; the machine is too busy to measure");
        }
        Ok(figures)
    }
}

impl Series {
    fn carries(&self, bytes: usize) -> bool {
        bytes <= self.which.bytes_max()
    }

    fn figure(&self, bytes: usize, steady: impl Fn(usize) -> bool) -> Option<Figure> {
        let mut sorted: Vec<f64> =
            self.samples.iter().filter(|(round, _)| steady(*round)).map(|(_, sample)| *sample).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Figure {
            which: self.which,
            bytes,
            p5_ns: percentile(&sorted, 5.0)?,
            p50_ns: percentile(&sorted, 50.0)?,
            samples: sorted.len(),
        })
    }
}

/// Round trips in a batch: about 0.1 ms of small messages, few enough that one interrupt spoils one sample.
fn round_trips(bytes: usize) -> u32 {
    match bytes {
        0..=4096 => 200,
        4097..=262_144 => 20,
        _ => 5,
    }
}

/// The calibrator's median of three batches, in ns.
fn calibrate(series: &mut [Series]) -> Result<f64> {
    let Some(raw) = series.iter_mut().find(|one| one.which == Implementation::Raw) else {
        bail!("no calibrator runs");
    };
    let mut batches = [0.0; 3];
    for batch in &mut batches {
        *batch = raw.pair.batch(200, CALIBRATOR_BYTES)?;
    }
    batches.sort_by(f64::total_cmp);
    let [_, median, _] = batches;
    Ok(median)
}

/// One round: each implementation's batches in turn, another one first in each round.
fn take_turns(series: &mut [Series], round: usize, round_trips: u32, bytes: usize) -> Result<()> {
    let first = round % series.len();
    for _ in 0..BATCHES {
        let (head, tail) = series.split_at_mut(first);
        for one in tail.iter_mut().chain(head).filter(|one| one.carries(bytes)) {
            let sample = one.pair.batch(round_trips, bytes)?;
            one.samples.push((round, sample));
        }
    }
    Ok(())
}

fn names(wanted: &[Implementation]) -> String {
    wanted.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
}

fn print_json(figure: &Figure) {
    let line = serde_json::json!({
        "bench": "latency",
        "impl": figure.which.name(),
        "transport": figure.which.transport(),
        "bytes": figure.bytes,
        "p5_ns": round(figure.p5_ns),
        "p50_ns": round(figure.p50_ns),
        "samples": figure.samples,
    });
    println!("{line}");
}

/// A tenth of a nanosecond is more than a batch can tell.
fn round(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

fn print_table(bytes: usize, figures: &[Figure]) {
    let p5_of = |which| figures.iter().find(|figure| figure.which == which).map(|figure| figure.p5_ns);
    let raw = p5_of(Implementation::Raw);
    let best_peer = Implementation::PEERS.into_iter().filter_map(p5_of).min_by(f64::total_cmp);
    let ratio =
        |p5_ns: f64, to: Option<f64>| to.map_or_else(|| "-".into(), |to| format!("{:.2}", p5_ns / to));
    let mut table = Table::new(["impl", "transport", "p5 ns", "p50 ns", "samples", "p5/raw", "p5/best peer"]);
    for figure in figures {
        table.row([
            figure.which.name().into(),
            figure.which.transport().into(),
            format!("{:.0}", figure.p5_ns),
            format!("{:.0}", figure.p50_ns),
            figure.samples.to_string(),
            ratio(figure.p5_ns, raw),
            ratio(figure.p5_ns, best_peer),
        ]);
    }
    println!("half round trip, {bytes} B, two processes on two cores\n{table}");
}
