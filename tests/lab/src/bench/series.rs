//! An implementation through a run: its ranks, and the samples of what is being measured.

use anyhow::Result;

use super::group::BenchGroup;
use super::implementation::Implementation;
use super::perftest::Perftest;
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
}

/// The time that a batch should take at most: others' caches and the machine's state do not wait.
const BATCH_NS_MAX: f64 = 2e7;

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
    pub(crate) samples: usize,
}

impl Series {
    pub(crate) fn new(which: Implementation, runner: Runner) -> Self {
        Self { which, runner, costs: Vec::new(), failed: None, units: None, turns_max: u32::MAX }
    }

    /// Forgets what was measured before.
    pub(crate) fn begin(&mut self) {
        self.costs.clear();
        self.units = None;
        self.turns_max = u32::MAX;
    }

    /// Takes one sample of a batch of so many turns, or of fewer but one for each of `ranks` where
    /// that is too long; or none where that would take too long a share of the run.
    pub(crate) fn sample(
        &mut self,
        workload: BenchWorkload,
        ask: Ask,
        ranks: usize,
        round: usize,
    ) -> Result<()> {
        let ask = Ask { turns: ask.turns.min(self.turns_max), ..ask };
        let cost = match &mut self.runner {
            Runner::Group(group) if workload == BenchWorkload::Overlap => {
                Some(exposed(group, &mut self.units, ask)?)
            }
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

    /// The samples of the rounds that count, at the workload's percentile.
    pub(crate) fn summary(&self, counts: impl Fn(usize) -> bool) -> Option<Summary> {
        let mut sorted: Vec<f64> =
            self.costs.iter().filter(|(round, _)| counts(*round)).map(|(_, cost)| *cost).collect();
        sorted.sort_by(f64::total_cmp);
        let (best, median) = (percentile(&sorted, 5.0)?, percentile(&sorted, 50.0)?);
        Some(Summary { best, median, samples: sorted.len() })
    }
}

/// The share of a transfer that a computation as long does not hide.
fn exposed(group: &mut BenchGroup, units: &mut Option<usize>, ask: Ask) -> Result<f64> {
    let transfer = group.batch(Ask { each: 0, ..ask })?;
    let units = match *units {
        Some(units) => units,
        None => {
            let unit = group.batch(Ask { wire: "compute", turns: 1, bytes: 8, each: 100 })? / 100.0;
            *units.insert((transfer / unit).ceil().clamp(1.0, 1e6) as usize)
        }
    };
    let computation = group.batch(Ask { wire: "compute", each: units, ..ask })?;
    let both = group.batch(Ask { each: units, ..ask })?;
    Ok((both - computation) / transfer)
}
