//! Measuring: all implementations in one run, taking turns in short batches between two looks at
//! the calibrator.

use anyhow::Result;
use indicatif::ProgressBar;

use super::campaign::CampaignItem;
use super::client::ClientRow;
use super::cores;
use super::figure::{BenchCase, Figure};
use super::group::{BenchGroup, Sockets};
use super::implementation::{Implementation, Transport};
use super::perftest::Perftest;
use super::programs::Programs;
use super::series::{RoundTurn, Runner, Series};
use super::statistics::{Placement, RoundVerdict, judge, percentile};
use super::workload::{Ask, BenchWorkload};

/// The batch that the calibrator is asked for: it shows the machine's state, whatever is measured.
const CALIBRATION: Ask = Ask { is_call: false, wire: "latency", turns: 200, bytes: 8, each: 1 };

/// The factor by which a computation takes longer on each of two cores at once, at least, if there
/// is one physical core behind them. Its multiplier is then shared, which doubles the time; with
/// one each it is the same.
const CROWDED: f64 = 1.3;

/// Batches of each implementation in a round. More would make a round long enough for the machine
/// to change.
pub(crate) const BATCHES: u32 = 3;

/// So many times the rounds that were asked for are made at most, until that many were steady; and
/// the fewest steady rounds of a placement of the cores that make a figure.
const TRIES: usize = 4;
const STEADY_MIN: usize = 3;

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

/// Bytes of the messages of which one is changed.
const LOOKED_AT: usize = 64;

/// The implementations that run on one transport with one number of ranks.
pub(crate) struct RoundField {
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    series: Vec<Series>,
    /// The names of what could not be started, and why.
    lost: Vec<String>,
}

impl RoundField {
    /// Returns which implementations failed, and how.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &String> {
        self.lost.iter().chain(self.series.iter().filter_map(|one| one.failed.as_ref()))
    }

    /// Runs every loop of programs once, and once more with a byte of its result changed, which
    /// every implementation must tell.
    ///
    /// # Errors
    /// Data that were wrong, or changed and not told.
    pub(crate) fn tells_wrong_bytes(&mut self) -> Result<()> {
        for row in ClientRow::ALL {
            let Some(rank) = row.looking(self.ranks) else { continue };
            let (workload, transport) = (BenchWorkload::Client(row), self.transport);
            let ask = workload.ask(LOOKED_AT, transport, self.ranks);
            let has_row = |one: &&mut Series| one.which.carries(workload, transport, LOOKED_AT);
            let mut looking = self.series.iter_mut().filter(has_row);
            looking.try_for_each(|one| one.tells_wrong_byte(ask, rank))?;
        }
        Ok(())
    }

    /// Returns a line for each implementation that has no figure in a point, although it works: its
    /// few batches were in rounds that do not count.
    pub(crate) fn unmeasured(&self, point: &[Figure]) -> Vec<String> {
        let Some(case) = point.first().map(|figure| figure.case) else { return Vec::new() };
        let BenchCase { workload, transport, ranks, bytes, placement } = case;
        let (row, over, cores) = (workload.row(), transport.name(), placement.name());
        let is_due = |one: &&Series| {
            let has_figure = point.iter().any(|figure| figure.which == one.which);
            !has_figure && one.failed.is_none() && one.which.carries(workload, transport, bytes)
        };
        let due = self.series.iter().filter(is_due).map(|one| one.which.name());
        due.map(|name| {
            format!("{row} of {bytes} B over {over}, {ranks} ranks, {cores}: no batch of {name} counts")
        })
        .collect()
    }

    fn figures(&self, case: BenchCase, counts: impl Fn(usize) -> bool) -> Vec<Figure> {
        let carries = |one: &&Series| {
            one.failed.is_none() && one.which.carries(case.workload, case.transport, case.bytes)
        };
        let measured = self.series.iter().filter(carries);
        measured.filter_map(|one| Some(Figure::new(case, one.which, one.summary(&counts)?))).collect()
    }
}

impl Bench {
    /// Starts the calibrator on two cores.
    pub(crate) fn new(programs: Programs, cores: [usize; 2]) -> Result<Self> {
        let sockets = Sockets::new()?;
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
        let (mut series, mut lost) = (Vec::new(), Vec::new());
        for &which in wanted.iter().filter(|one| one.has(transport, ranks)) {
            self.started += 1;
            let runner = if which == Implementation::Ucx {
                Runner::Perftest(Perftest::new(transport, self.cores, self.started))
            } else {
                let socket = self.sockets.path(&format!("{}-{}", which.name(), self.started));
                let command = self.programs.command(which, transport, &socket, &cores);
                match BenchGroup::start(command, &socket, ranks) {
                    Ok(group) => Runner::Group(group),
                    Err(error) if Implementation::PEERS.contains(&which) => {
                        lost.push(format!("{} did not start: {error:#}", which.name()));
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            };
            series.push(Series::new(which, runner));
        }
        Ok(RoundField { transport, ranks, series, lost })
    }

    /// Makes rounds of batches until so many were steady, or the machine does not get any steadier.
    /// A point for each placement of the cores that was seen; one of all rounds if none was steady.
    pub(crate) fn measure(
        &mut self,
        field: &mut RoundField,
        item: CampaignItem,
        rounds: usize,
    ) -> Result<Vec<Vec<Figure>>> {
        let CampaignItem { workload, bytes } = item;
        field.series.iter_mut().for_each(Series::begin);
        let (transport, ranks) = (field.transport, field.ranks);
        let ask = workload.ask(bytes, transport, ranks);
        self.bar.set_message(format!("{} {}, {ranks} ranks, {bytes} B", transport.name(), workload.row()));
        let (mut calibrators, mut verdicts) = (Vec::new(), Vec::new());
        let steady = |verdicts: &[RoundVerdict]| {
            verdicts.iter().filter(|verdict| matches!(verdict, RoundVerdict::Steady(_))).count()
        };
        while calibrators.len() < rounds * TRIES && steady(&verdicts) < rounds {
            let before = self.calibrate()?;
            take_turns(field, workload, ask, calibrators.len())?;
            calibrators.push((before, self.calibrate()?));
            verdicts = judge(&calibrators);
        }
        self.calibrators.extend(calibrators.iter().map(|&(before, _)| before));
        self.steady += steady(&verdicts);
        let mut points = Vec::new();
        for placement in [Placement::Near, Placement::Far] {
            let counts = |round: usize| verdicts.get(round) == Some(&RoundVerdict::Steady(placement));
            if (0..verdicts.len()).filter(|&round| counts(round)).count() >= STEADY_MIN.min(rounds) {
                let case = BenchCase { workload, transport, ranks, bytes, placement };
                points.push(field.figures(case, counts));
            }
        }
        if points.is_empty() {
            let placement = Placement::Busy;
            let case = BenchCase { workload, transport, ranks, bytes, placement };
            points.push(field.figures(case, |_| true));
        }
        Ok(points)
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

/// Runs a round: each implementation's batches in turn, another one first in each round.
fn take_turns(field: &mut RoundField, workload: BenchWorkload, ask: Ask, round: usize) -> Result<()> {
    let transport = field.transport;
    let first = round % field.series.len().max(1);
    for batch in 0..BATCHES {
        let (head, tail) = field.series.split_at_mut(first);
        let carrying =
            |one: &&mut Series| one.failed.is_none() && one.which.carries(workload, transport, ask.bytes);
        for one in tail.iter_mut().chain(head).filter(carrying) {
            let bytes = one.which.payload(workload, transport, ask.bytes);
            match one.sample(workload, Ask { bytes, ..ask }, field.ranks, RoundTurn { round, batch }) {
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
