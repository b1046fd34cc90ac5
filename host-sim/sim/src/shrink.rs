//! Making a failing run smaller: fewer faults, then fewer ranks. What is left is what the failure
//! needs.

use super::config::SimConfig;
use super::faults;

/// A smaller run that still fails.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The run; as it was, if nothing could be left out.
    pub config: SimConfig,
    /// Runs that it took to find it.
    pub trials: u32,
    /// True if every fault that is left is needed: without any one of them the run passes. Not so
    /// if the trials ended before that was shown.
    pub minimal: bool,
}

/// Looks for a smaller run than `config` that `fails` too, in `trials_max` runs at most.
///
/// Faults are left out by delta debugging (Zeller and Hildebrandt: Simplifying and Isolating
/// Failure-Inducing Input, IEEE TSE 2002), which each run can do without changing the others. Then
/// job sizes are tried from the smallest on, with what is left and with all that the seed draws for
/// that size, for a smaller job is another history; faults that the first one found does not need
/// are left out in turn. `config` itself is taken to fail.
pub fn shrink(config: &SimConfig, trials_max: u32, mut fails: impl FnMut(&SimConfig) -> bool) -> Shrunk {
    let mut trials = Trials { left: trials_max, fails: &mut fails };
    let (mut found, mut minimal) = without_faults(config.clone(), &mut trials);
    if let Some(smaller) = with_fewer_ranks(&found, &mut trials) {
        (found, minimal) = without_faults(smaller, &mut trials);
    }
    Shrunk { config: found, trials: trials_max - trials.left, minimal }
}

/// The limit on how often a run may be tried, and the test whether it fails.
struct Trials<'f> {
    left: u32,
    fails: &'f mut dyn FnMut(&SimConfig) -> bool,
}

impl Trials<'_> {
    /// Returns true if a run fails; false when there are no more trials.
    fn fails(&mut self, config: &SimConfig) -> bool {
        self.left > 0 && {
            self.left -= 1;
            (self.fails)(config)
        }
    }
}

fn with_only(config: &SimConfig, only: &[u16]) -> SimConfig {
    SimConfig { only: Some(only.to_vec()), ..config.clone() }
}

/// Leaves out the faults that a failing run does not need; and whether it is known that all others
/// are needed.
fn without_faults(config: SimConfig, trials: &mut Trials<'_>) -> (SimConfig, bool) {
    let mut kept: Vec<u16> = match &config.only {
        Some(only) => only.clone(),
        None => (0..).zip(faults(&config)).map(|(index, _)| index).collect(),
    };
    let before = kept.len();
    // Indices that were kept of a larger job may name no fault of this one.
    if !kept.is_empty() {
        minimize(&mut kept, |only| trials.fails(&with_only(&config, only)));
    }
    let minimal = before == 0 || trials.left > 0;
    if kept.len() == before { (config, minimal) } else { (with_only(&config, &kept), minimal) }
}

/// The algorithm ddmin: parts and complements of `kept` that still fail, in ever smaller parts.
fn minimize(kept: &mut Vec<u16>, mut fails: impl FnMut(&[u16]) -> bool) {
    if fails(&[]) {
        return kept.clear();
    }
    let mut parts = 2;
    while kept.len() > 1 {
        let chunks: Vec<&[u16]> = kept.chunks(kept.len().div_ceil(parts)).collect();
        let rest = |out: usize| {
            let others = chunks.iter().enumerate().filter(|(index, _)| *index != out);
            others.flat_map(|(_, chunk)| chunk.iter().copied()).collect::<Vec<u16>>()
        };
        let part = chunks.iter().find(|chunk| fails(chunk)).map(|chunk| (chunk.to_vec(), 2));
        // The complements of two parts are these parts.
        let complements = if chunks.len() > 2 { 0..chunks.len() } else { 0..0 };
        let smaller = part.or_else(|| {
            complements.map(rest).find(|rest| fails(rest)).map(|rest| (rest, chunks.len().max(3) - 1))
        });
        match smaller {
            Some((smaller, next)) => (*kept, parts) = (smaller, next),
            None if chunks.len() < kept.len() => parts = (2 * chunks.len()).min(kept.len()),
            None => break,
        }
    }
}

/// A run of the same seed on fewer ranks that fails.
fn with_fewer_ranks(config: &SimConfig, trials: &mut Trials<'_>) -> Option<SimConfig> {
    let usual = |ranks| SimConfig::new(config.seed, ranks).leave;
    (1..config.ranks).filter(|ranks| is_tried(*ranks, config.ranks)).find_map(|ranks| {
        let leave = if config.leave == usual(config.ranks) { usual(ranks) } else { config.leave };
        let active = config.active.filter(|rows| *rows < ranks);
        let smaller = SimConfig { ranks, leave, active, ..config.clone() };
        let all = SimConfig { only: None, ..smaller.clone() };
        // Where there are no faults, one of the two says it all.
        let choices = if faults(&smaller) == faults(&all) { vec![smaller] } else { vec![smaller, all] };
        choices.into_iter().find(|choice| trials.fails(choice))
    })
}

/// All small sizes, and of the large ones about four from one power of two to the next.
const fn is_tried(ranks: u32, all: u32) -> bool {
    let step = match ranks.checked_ilog2() {
        Some(power @ 3..) => 1 << (power - 2),
        _ => 1,
    };
    ranks.is_multiple_of(step) && ranks < all
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    fn minimum(len: u16, needed: &[u16]) -> Vec<u16> {
        let mut kept: Vec<u16> = (0..len).collect();
        minimize(&mut kept, |only| needed.iter().all(|fault| only.contains(fault)));
        kept
    }

    #[test]
    fn the_faults_that_are_needed_are_found_wherever_they_stand() {
        assert!(minimum(40, &[]).is_empty());
        for first in 0..30 {
            assert_eq!(minimum(30, &[first]), [first]);
            for second in first + 1..30 {
                assert_eq!(minimum(30, &[first, second]), [first, second]);
            }
        }
        assert_eq!(minimum(33, &[0, 1, 13, 31, 32]), [0, 1, 13, 31, 32]);
        let all: Vec<u16> = (0..9).collect();
        assert_eq!(minimum(9, &all), all);
    }

    /// A run with many faults.
    fn config() -> SimConfig {
        let config = |seed| SimConfig { faults: Profile::Crash, ..SimConfig::new(seed, 12) };
        (0..).map(config).find(|config| faults(config).len() > 20).unwrap()
    }

    #[test]
    fn two_faults_of_a_plan_are_left_and_as_many_ranks_as_it_takes() {
        let all = faults(&config());
        let needed = [all[4].clone(), all[17].clone()];
        let shrunk = shrink(&config(), 500, |config| {
            let now = faults(config);
            config.ranks == 12 && needed.iter().all(|fault| now.contains(fault))
        });
        assert_eq!((shrunk.config.only, shrunk.config.ranks, shrunk.minimal), (Some(vec![4, 17]), 12, true));
        // Without any fault, from three ranks on.
        let shrunk = shrink(&config(), 500, |config| config.ranks >= 3);
        assert_eq!((shrunk.config.only, shrunk.config.ranks), (Some(vec![]), 3));
        // A fault of the smaller job in place of one of the larger.
        let crash = |config: &SimConfig| {
            faults(config).iter().any(|fault| matches!(fault, crate::RunFault::Crash { .. }))
        };
        let shrunk = shrink(&config(), 500, |config| config.ranks >= 5 && crash(config));
        assert_eq!((shrunk.config.ranks, faults(&shrunk.config).len()), (5, 1));
        assert!(crash(&shrunk.config));
    }

    #[test]
    fn the_number_of_runs_is_bounded_and_what_is_found_by_then_fails() {
        for most in 0..60 {
            let mut runs = 0;
            let fails = |config: &SimConfig| config.only.as_ref().is_none_or(|only| only.contains(&7));
            let shrunk = shrink(&config(), most, |config| {
                runs += 1;
                fails(config)
            });
            assert!(runs <= most && runs == shrunk.trials);
            assert!(fails(&shrunk.config) && !(most == 0 && shrunk.minimal));
        }
    }

    #[test]
    fn sizes_are_tried_more_sparsely_the_larger_they_are() {
        let tried: Vec<u32> = (1..70).filter(|ranks| is_tried(*ranks, 64)).collect();
        assert_eq!(tried, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56]);
    }
}
