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
    /// Nanoseconds of a turn.
    costs: Vec<(usize, f64)>,
    /// Nanoseconds of what an overlap is made of.
    overlaps: Vec<(usize, OverlapParts)>,
    /// The reason why nothing more can be measured of it.
    pub(crate) failed: Option<String>,
    /// Units of a computation that is as long as the transfer, once known.
    units: Option<usize>,
    /// Turns of a batch that takes as long as a batch should, once known.
    turns_max: u32,
    /// The least nanoseconds of a turn of a program's loop so far.
    call_ns: Option<f64>,
}

/// The parts of an overlap.
#[derive(Clone, Copy, Debug)]
struct OverlapParts {
    transfer: f64,
    computation: f64,
    both: f64,
}

/// The time that a batch should take at most: others' caches and the machine's state do not wait.
const BATCH_NS_MAX: f64 = 2e7;

/// The time of a batch of a program's loop, whose mean is taken; and the most turns.
const CALLS_NS: f64 = 1e6;
const CALLS_MAX: f64 = 1000.0;

/// A series that is slow takes a batch in so many, after its first few.
const SLOW_SHARE: usize = 6;
const SLOW_MIN: usize = 3;

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
        let (costs, overlaps) = (Vec::new(), Vec::new());
        let (failed, units, call_ns) = (None, None, None);
        Self { which, runner, costs, overlaps, failed, units, turns_max: u32::MAX, call_ns }
    }

    /// Forgets what was measured before.
    pub(crate) fn begin(&mut self) {
        self.costs.clear();
        self.units = None;
        self.turns_max = u32::MAX;
        self.overlaps.clear();
        self.call_ns = None;
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
        if workload.is_overlap() {
            let Runner::Group(group) = &mut self.runner else { return Ok(()) };
            self.overlaps.push((round, overlap(group, &mut self.units, ask)?));
            return Ok(());
        }
        if ask.is_call {
            let cost = self.call(ask, round * BATCHES as usize + batch as usize)?;
            self.costs.extend(cost.map(|cost| (round, cost)));
            return Ok(());
        }
        let ask = Ask { turns: ask.turns.min(self.turns_max), ..ask };
        let cost = match &mut self.runner {
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
    /// takes so long that this batch is left out.
    fn call(&mut self, ask: Ask, number: usize) -> Result<Option<f64>> {
        let Runner::Group(group) = &mut self.runner else { return Ok(None) };
        let least = match self.call_ns {
            Some(least) => least,
            None => {
                // The first turns connect, and touch memory for the first time; others may be
                // disturbed.
                let mut pilots = [0.0; 3];
                for pilot in &mut pilots {
                    *pilot = group.batch(ask)?;
                }
                pilots.into_iter().fold(f64::INFINITY, f64::min)
            }
        };
        let turns = (CALLS_NS / least).clamp(1.0, CALLS_MAX) as u32;
        let is_slow = least * f64::from(turns) > BATCH_NS_MAX;
        // The pilots may have been disturbed themselves.
        if is_slow && self.costs.len() >= SLOW_MIN && !number.is_multiple_of(SLOW_SHARE) {
            return Ok(None);
        }
        let cost = group.batch(Ask { turns, ..ask })?;
        self.call_ns = Some(least.min(cost));
        Ok(Some(cost))
    }

    /// The samples of the rounds that count, at the workload's percentile.
    pub(crate) fn summary(&self, counts: impl Fn(usize) -> bool) -> Option<Summary> {
        if self.overlaps.is_empty() {
            return Summary::of(self.costs.iter().filter(|(round, _)| counts(*round)).map(|(_, cost)| *cost));
        }
        let part = |of: fn(&OverlapParts) -> f64| {
            Summary::of(self.overlaps.iter().filter(|(round, _)| counts(*round)).map(|(_, parts)| of(parts)))
        };
        // Of each part by itself: the luckiest of all samples would be a transfer that was
        // disturbed, beside a computation that was not.
        let (transfer, computation) = (part(|parts| parts.transfer)?, part(|parts| parts.computation)?);
        let both = part(|parts| parts.both)?;
        let exposed = |of: fn(&Summary) -> f64| (of(&both) - of(&computation)) / of(&transfer);
        let (best, median, mean) = (exposed(|of| of.best), exposed(|of| of.median), exposed(|of| of.mean));
        Some(Summary { best, median, mean, samples: both.samples })
    }
}

impl Summary {
    fn of(samples: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.collect();
        sorted.sort_by(f64::total_cmp);
        let (best, median) = (percentile(&sorted, BEST)?, percentile(&sorted, 50.0)?);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Self { best, median, mean, samples: sorted.len() })
    }
}

/// A transfer alone, a computation as long, and both at once.
fn overlap(group: &mut BenchGroup, units: &mut Option<usize>, ask: Ask) -> Result<OverlapParts> {
    let transfer = group.batch(Ask { each: 0, ..ask })?;
    let units = match *units {
        Some(units) => units,
        None => {
            // The first ones connect, and touch memory for the first time.
            let again = group.batch(Ask { each: 0, ..ask })?.min(group.batch(Ask { each: 0, ..ask })?);
            let unit = group.batch(Ask { wire: "compute", turns: 1, bytes: 8, each: 100, ..ask })? / 100.0;
            *units.insert((transfer.min(again) / unit).ceil().clamp(1.0, 1e6) as usize)
        }
    };
    let computation = group.batch(Ask { wire: "compute", each: units, ..ask })?;
    Ok(OverlapParts { transfer, computation, both: group.batch(Ask { each: units, ..ask })? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::implementation::Transport;

    #[test]
    fn a_disturbed_transfer_does_not_hide_anything() {
        let mut series =
            Series::new(Implementation::Native, Runner::Perftest(Perftest::new(Transport::Shm, [0, 1], 1)));
        let parts = |transfer, both| OverlapParts { transfer, computation: 100.0, both };
        series.overlaps = vec![(0, parts(100.0, 180.0)), (1, parts(9000.0, 180.0)), (2, parts(100.0, 180.0))];
        let summary = series.summary(|_| true).unwrap();
        assert_eq!((summary.best, summary.median, summary.samples), (0.8, 0.8, 3));
        assert_eq!(series.summary(|round| round > 2).map(|summary| summary.samples), None);
    }
}
