//! Measuring: all implementations in one run, taking turns in short batches between two looks at the calibrator.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Result, bail};

use super::cores;
use super::figure::Figure;
use super::group::{Group, Sockets};
use super::implementation::{Implementation, Transport};
use super::programs::Programs;
use super::series::Series;
use super::statistics::{Verdict, judge};
use super::workload::{Ask, Workload};

/// What the calibrator is asked for: it shows the machine's state, whatever is measured.
const CALIBRATION: Ask = Ask { wire: "latency", turns: 200, bytes: 8, each: 1 };

/// Below this the calibrator may have stayed within one physical core: seen 28 to 56 ns there, 150 and more between two.
/// Some machines are as fast between cores, so it is a hint and no judgement.
const SHARED_CORE_NS: f64 = 80.0;

/// Batches of each implementation in a round. More would make a round long enough for the machine to change.
const BATCHES: u32 = 3;

/// The fewest rounds of a measurement.
const ROUNDS_MIN: usize = 10;

/// What a run needs throughout: programs, cores, and the calibrator.
pub(crate) struct Bench {
    programs: Programs,
    sockets: Sockets,
    pub(crate) cores: [usize; 2],
    calibrator: Group,
    started: usize,
}

/// The implementations that run on one transport with one number of ranks.
pub(crate) struct Field {
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    series: Vec<Series>,
}

impl Bench {
    pub(crate) fn new(programs: Programs) -> Result<Self> {
        let (sockets, cores) = (Sockets::new()?, cores::two()?);
        let socket = sockets.path("calibrator");
        let command = programs.command(Implementation::Raw, Transport::Shm, &socket, &cores);
        let calibrator = Group::start(command, &socket, cores.len())?;
        Ok(Self { programs, sockets, cores, calibrator, started: 0 })
    }

    /// Whether Aldis has the transport at all.
    pub(crate) fn knows(&self, transport: Transport) -> Result<bool> {
        self.programs.knows(transport)
    }

    /// Starts the ranks of `wanted`; they sleep until they are measured.
    pub(crate) fn field(
        &mut self,
        transport: Transport,
        ranks: usize,
        wanted: &[Implementation],
    ) -> Result<Field> {
        let cores = cores::of_ranks(self.cores, ranks);
        let mut series = Vec::new();
        for &which in wanted {
            if which == Implementation::Raw && ranks != 2 {
                continue;
            }
            self.started += 1;
            let socket = self.sockets.path(&format!("{}-{}", which.name(), self.started));
            let command = self.programs.command(which, transport, &socket, &cores);
            series.push(Series::new(which, Group::start(command, &socket, ranks)?));
        }
        Ok(Field { transport, ranks, series })
    }

    /// Rounds of batches for `seconds`, and for twice that if none was steady.
    pub(crate) fn measure(
        &mut self,
        field: &mut Field,
        workload: Workload,
        bytes: usize,
        seconds: f64,
    ) -> Result<Vec<Figure>> {
        field.series.iter_mut().for_each(Series::begin);
        let ask = workload.ask(bytes, field.transport, field.ranks);
        let transport = field.transport;
        let carries = |one: &Series| one.which.carries(workload, transport, bytes);
        let mut calibrators = Vec::new();
        let mut end = Instant::now() + Duration::from_secs_f64(seconds);
        let last = end + Duration::from_secs_f64(seconds);
        loop {
            let round = calibrators.len();
            let before = self.calibrate()?;
            take_turns(field, workload, ask, round)?;
            calibrators.push((before, self.calibrate()?));
            if Instant::now() < end || calibrators.len() < ROUNDS_MIN {
                continue;
            }
            if judge(&calibrators).contains(&Verdict::Steady) || end == last {
                break;
            }
            end = last;
        }
        let verdicts = judge(&calibrators);
        self.tell(field, workload, bytes, &calibrators, &verdicts);
        let counts = |round: usize| verdicts.get(round) == Some(&Verdict::Steady);
        let measured = field.series.iter().filter(|one| carries(one));
        let figures: Vec<Figure> = measured
            .filter_map(|one| {
                let summary = one.summary(counts)?;
                Some(Figure::new(workload, field.transport, field.ranks, bytes, one.which, summary))
            })
            .collect();
        if figures.is_empty() {
            bail!(
                "{} of {bytes} B: no round was steady; the machine is too busy to measure",
                workload.name()
            );
        }
        Ok(figures)
    }

    /// Says on standard error which rounds were not counted.
    fn tell(
        &self,
        field: &Field,
        workload: Workload,
        bytes: usize,
        calibrators: &[(f64, f64)],
        verdicts: &[Verdict],
    ) {
        let count = |verdict| verdicts.iter().filter(|&&one| one == verdict).count();
        let what = format!("{} {}, {bytes} B", field.transport.name(), workload.name());
        eprintln!(
            "{what}: {} rounds; discarded {} in which the calibrator moved and {} on another placement of the cores",
            verdicts.len(),
            count(Verdict::Moved),
            count(Verdict::Displaced),
        );
        if calibrators.iter().filter(|&&(before, _)| before < SHARED_CORE_NS).count() * 2 > calibrators.len()
        {
            eprintln!(
                "{what}: the calibrator is so fast that the host may run both cores on one: repeat the run"
            );
        }
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

/// One round: each implementation's batches in turn, another one first in each round.
fn take_turns(field: &mut Field, workload: Workload, ask: Ask, round: usize) -> Result<()> {
    let transport = field.transport;
    let first = round % field.series.len().max(1);
    for _ in 0..BATCHES {
        let (head, tail) = field.series.split_at_mut(first);
        let carrying = |one: &&mut Series| one.which.carries(workload, transport, ask.bytes);
        for one in tail.iter_mut().chain(head).filter(carrying) {
            let bytes = one.which.payload(workload, transport, ask.bytes);
            one.sample(workload, Ask { bytes, ..ask }, round)?;
        }
    }
    Ok(())
}
