//! Percentiles, and which rounds of a run can be trusted.

/// The value below which `percent` of the samples lie, by nearest rank; `None` without samples.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The verdict on a round: counted, or the reason why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoundVerdict {
    /// The machine was the same before and after.
    Steady,
    /// The calibrator changed during the round.
    Moved,
    /// The calibrator was the same before and after, but far from the run's median: the host had
    /// placed the virtual cores elsewhere, nearer to each other or farther apart, or was busy.
    Displaced,
}

/// The factor by which the calibrator may change during a round.
const MOVED: f64 = 1.25;

/// The factor by which the calibrator may be off the median of all rounds.
const DISPLACED: f64 = 1.6;

/// Judges rounds by their calibrator, in nanoseconds before and after each.
pub(crate) fn judge(calibrators: &[(f64, f64)]) -> Vec<RoundVerdict> {
    let mut all: Vec<f64> = calibrators.iter().flat_map(|&(before, after)| [before, after]).collect();
    all.sort_by(f64::total_cmp);
    let median = percentile(&all, 50.0).unwrap_or(0.0);
    let apart = |a: f64, b: f64| a.max(b) / a.min(b);
    calibrators
        .iter()
        .map(|&(before, after)| {
            if apart(before, after) > MOVED {
                RoundVerdict::Moved
            } else if apart(before, median) > DISPLACED || apart(after, median) > DISPLACED {
                RoundVerdict::Displaced
            } else {
                RoundVerdict::Steady
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_nearest_rank() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 5.0), Some(5.0));
        assert_eq!(percentile(&sorted, 50.0), Some(50.0));
        assert_eq!(percentile(&sorted, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0], 95.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn a_round_on_another_placement_is_not_counted() {
        let rounds = [(170.0, 175.0), (160.0, 165.0), (30.0, 31.0), (170.0, 40.0), (168.0, 172.0)];
        let verdicts = judge(&rounds);
        assert_eq!(
            verdicts,
            [
                RoundVerdict::Steady,
                RoundVerdict::Steady,
                RoundVerdict::Displaced,
                RoundVerdict::Moved,
                RoundVerdict::Steady
            ]
        );
    }
}
