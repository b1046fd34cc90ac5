//! Percentiles, and which rounds of a run can be trusted.

/// The value below which `percent` of the samples lie, by nearest rank; `None` without samples.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The verdict on a round: counted, or the reason why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoundVerdict {
    /// The machine was the same before and after, with the cores placed like this.
    Steady(Placement),
    /// The calibrator changed during the round.
    Moved,
    /// The calibrator was the same before and after, but far from the median of its placement: the
    /// host was busy.
    Displaced,
}

/// The two cores seen from each other. A host moves virtual cores in the midst of a run, so that
/// the calibrator says it, and not the system's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// They have a cache in common.
    Near,
    /// They have none in common.
    Far,
    /// Others were at work on them all the time: no round was steady, and all are counted.
    Busy,
}

impl Placement {
    /// The placement of cores between which a cache line takes so many nanoseconds.
    fn of(calibrator_ns: f64) -> Self {
        if calibrator_ns < SHARED_CACHE_NS { Self::Near } else { Self::Far }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Busy => "busy",
        }
    }
}

/// Below this two cores have a cache in common: seen 27 to 56 ns with, 150 and more without (AMD
/// EPYC, virtual machine).
const SHARED_CACHE_NS: f64 = 80.0;

/// The factor by which the calibrator may change during a round.
const MOVED: f64 = 1.25;

/// The factor by which the calibrator may be off the median of all rounds of its placement.
const DISPLACED: f64 = 1.6;

/// Judges rounds by their calibrator, in nanoseconds before and after each.
pub(crate) fn judge(calibrators: &[(f64, f64)]) -> Vec<RoundVerdict> {
    let [near, far] = [Placement::Near, Placement::Far].map(|placement| {
        let all = calibrators.iter().flat_map(|&(before, after)| [before, after]);
        let mut of_placement: Vec<f64> = all.filter(|&one| Placement::of(one) == placement).collect();
        of_placement.sort_by(f64::total_cmp);
        percentile(&of_placement, 50.0).unwrap_or(0.0)
    });
    let apart = |a: f64, b: f64| a.max(b) / a.min(b);
    calibrators
        .iter()
        .map(|&(before, after)| {
            let placement = Placement::of(before);
            let median = if placement == Placement::Near { near } else { far };
            if apart(before, after) > MOVED || Placement::of(after) != placement {
                RoundVerdict::Moved
            } else if apart(before, median) > DISPLACED || apart(after, median) > DISPLACED {
                RoundVerdict::Displaced
            } else {
                RoundVerdict::Steady(placement)
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
    fn rounds_are_counted_by_the_placement_of_the_cores() {
        let rounds =
            [(170.0, 175.0), (160.0, 165.0), (30.0, 31.0), (170.0, 40.0), (168.0, 172.0), (600.0, 610.0)];
        let (near, far) = (RoundVerdict::Steady(Placement::Near), RoundVerdict::Steady(Placement::Far));
        assert_eq!(judge(&rounds), [far, far, near, RoundVerdict::Moved, far, RoundVerdict::Displaced]);
    }
}
