//! An implementation through a run: its ranks, and the samples of what is being measured.

use anyhow::{Result, bail};

use super::group::BenchGroup;
use super::implementation::Implementation;
use super::perftest::Perftest;
use super::rounds::BATCHES;
use super::statistics::percentile;
use super::workload::{Ask, BenchWorkload};

/// Samples of one implementation of one workload at one size, with the number of the round that
/// each is from.
pub(crate) struct Series {
    pub(crate) which: Implementation,
    runner: Runner,
    /// Nanoseconds of a turn, or what [`BenchWorkload::Overlap`] makes of them.
    costs: Vec<(usize, f64)>,
    /// The reason why nothing more can be measured of it.
    pub(crate) failed: Option<String>,
    /// Units of a computation that is as long as the transfer, once known.
    units: Option<usize>,
    /// Turns of a batch that takes as long as a batch should, once known.
    turns_max: u32,
    /// Turns of a batch of a program's loop, once known.
    turns: Option<u32>,
    /// A batch takes so long that few are taken.
    is_slow: bool,
}

/// The time that a batch should take at most: others' caches and the machine's state do not wait.
const BATCH_NS_MAX: f64 = 2e7;

/// The time of a batch of a program's loop, whose mean is taken; and the most turns.
const CALLS_NS: f64 = 1e6;
const CALLS_MAX: f64 = 1000.0;

/// One in so many batches of a series that is slow is taken.
const SLOW_SHARE: usize = 6;

/// The percentile that is the best of up to a hundred samples, and no stray one of more.
const BEST: f64 = 1.0;

/// The place of a batch in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTurn {
    pub(crate) round: usize,
    pub(crate) batch: u32,
}

/// The source of samples.
pub(crate) enum Runner {
    /// From ranks that wait for batches.
    Group(BenchGroup),
    /// By runs of a foreign benchmark.
    Perftest(Perftest),
}

/// The result of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) best: f64,
    pub(crate) median: f64,
    pub(crate) mean: f64,
    pub(crate) samples: usize,
}

impl Series {
    pub(crate) fn new(which: Implementation, runner: Runner) -> Self {
        let (turns_max, turns) = (u32::MAX, None);
        Self { which, runner, costs: Vec::new(), failed: None, units: None, turns_max, turns, is_slow: false }
    }

    /// Forgets what was measured before.
    pub(crate) fn begin(&mut self) {
        self.costs.clear();
        self.units = None;
        self.turns_max = u32::MAX;
        self.turns = None;
        self.is_slow = false;
    }

    /// Takes one sample of a batch of so many turns, or of fewer but one for each of `ranks` where
    /// that is too long; or none where that would take too long a share of the run.
    pub(crate) fn sample(
        &mut self,
        workload: BenchWorkload,
        ask: Ask,
        ranks: usize,
        turn: RoundTurn,
    ) -> Result<()> {
        let RoundTurn { round, batch } = turn;
        if ask.is_call {
            if let Some(cost) = self.call(workload, ask, round * BATCHES as usize + batch as usize)? {
                self.costs.push((round, cost));
            }
            return Ok(());
        }
        let ask = Ask { turns: ask.turns.min(self.turns_max), ..ask };
        let cost = match &mut self.runner {
            Runner::Group(group) if workload.is_overlap() => Some(exposed(group, &mut self.units, ask)?),
            Runner::Group(group) => Some(group.batch(ask)?),
            Runner::Perftest(perftest) => perftest.sample(workload, ask)?,
        };
        if let Some(cost) = cost.filter(|cost| cost * f64::from(ask.turns) > BATCH_NS_MAX) {
            let (turns, ranks) = ((BATCH_NS_MAX / cost) as u32, ranks as u32);
            self.turns_max = turns.max(1).next_multiple_of(ranks).min(ask.turns);
        }
        self.costs.extend(cost.map(|cost| (round, cost)));
        Ok(())
    }

    /// Changes a byte of what comes to a rank: the batch must fail, and say where.
    pub(crate) fn tells_wrong_byte(&mut self, ask: Ask, rank: usize) -> Result<()> {
        let Runner::Group(group) = &mut self.runner else { return Ok(()) };
        group.spoil(rank)?;
        match group.batch(ask) {
            Err(error) if error.to_string().contains(&format!("of rank {rank} is")) => {
                // Nothing is wrong with the next one.
                group.batch(ask).map(drop)
            }
            Err(error) => Err(error),
            Ok(_) => bail!("{}: a wrong byte was not told", self.which.name()),
        }
    }

    /// A sample of a program's loop: the mean of as many turns as take a batch's time. `None` if it
    /// is not this batch's turn.
    fn call(&mut self, workload: BenchWorkload, ask: Ask, number: usize) -> Result<Option<f64>> {
        if self.is_slow && !number.is_multiple_of(SLOW_SHARE) {
            return Ok(None);
        }
        let Runner::Group(group) = &mut self.runner else { return Ok(None) };
        if workload.is_overlap() {
            return exposed(group, &mut self.units, ask).map(Some);
        }
        let turns = match self.turns {
            Some(turns) => turns,
            None => {
                // The first turns connect, and touch memory for the first time.
                group.batch(ask)?;
                let cost = group.batch(ask)?;
                *self.turns.insert((CALLS_NS / cost).clamp(1.0, CALLS_MAX) as u32)
            }
        };
        let cost = group.batch(Ask { turns, ..ask })?;
        self.is_slow = cost * f64::from(turns) > BATCH_NS_MAX;
        Ok(Some(cost))
    }

    /// The samples of the rounds that count, at the workload's percentile.
    pub(crate) fn summary(&self, counts: impl Fn(usize) -> bool) -> Option<Summary> {
        let mut sorted: Vec<f64> =
            self.costs.iter().filter(|(round, _)| counts(*round)).map(|(_, cost)| *cost).collect();
        sorted.sort_by(f64::total_cmp);
        let (best, median) = (percentile(&sorted, BEST)?, percentile(&sorted, 50.0)?);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Summary { best, median, mean, samples: sorted.len() })
    }
}

/// The share of a transfer that a computation as long does not hide.
fn exposed(group: &mut BenchGroup, units: &mut Option<usize>, ask: Ask) -> Result<f64> {
    let transfer = group.batch(Ask { each: 0, ..ask })?;
    let units = match *units {
        Some(units) => units,
        None => {
            let unit = group.batch(Ask { wire: "compute", turns: 1, bytes: 8, each: 100, ..ask })? / 100.0;
            *units.insert((transfer / unit).ceil().clamp(1.0, 1e6) as usize)
        }
    };
    let computation = group.batch(Ask { wire: "compute", each: units, ..ask })?;
    let both = group.batch(Ask { each: units, ..ask })?;
    Ok((both - computation) / transfer)
}
