//! The faults of a run, drawn from its seed before it begins: swarm testing (Groce et al., ISSTA 2012), where each
//! run has some kinds of fault and not the others, finds more than runs that all have a little of everything.

use super::config::{Config, Profile};
use super::random::Random;

/// All faults begin before this virtual instant, ns.
const BEGIN_NS_MAX: u64 = 1_000_000;
/// All have healed by then: from here on a correct program must come to its end.
pub(crate) const HEALED_NS: u64 = 4_000_000;

/// A stretch of virtual time, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    fn drawn(random: &mut Random) -> Self {
        // As likely early as late, on a logarithmic scale: short programs are to meet faults too.
        let last = BEGIN_NS_MAX >> random.below(12);
        let start = random.below(last);
        Self { start, end: start + random.below(HEALED_NS - start) }
    }

    pub(crate) const fn contains(&self, at: u64) -> bool {
        self.start <= at && at < self.end
    }
}

/// What is wrong with a link: messages take longer by up to `extra_ns`, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clog {
    pub(crate) span: Span,
    pub(crate) extra_ns: u64,
}

/// The faults of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    seed: u64,
    /// Percent of the links that are clogged for a while.
    clogged: u64,
    /// How many times slower each node is while the faults last.
    pub(crate) slowness: Vec<u64>,
    /// Which node stops for a while, and when.
    pub(crate) pauses: Vec<(u32, Span)>,
    /// Which node dies, and when.
    pub(crate) crash: Option<(u32, u64)>,
}

impl Plan {
    pub(crate) fn drawn(config: &Config) -> Self {
        let (seed, ranks) = (config.seed, u64::from(config.ranks));
        let random = &mut Random::new(seed, 2);
        let calm = config.faults == Profile::Calm;
        let kinds = if calm { 0 } else { random.below(8) };
        let clogged = if kinds & 1 != 0 { random.within(1, 60) } else { 0 };
        let slow = if kinds & 2 != 0 { random.within(1, 50) } else { 0 };
        let slowness =
            (0..ranks).map(|_| if random.chance(slow) { random.within(2, 100) } else { 1 }).collect();
        let pauses = if kinds & 4 != 0 { random.within(1, 1 + ranks / 2) } else { 0 };
        let pauses = (0..pauses).map(|_| (random.below(ranks) as u32, Span::drawn(random))).collect();
        let crash = (config.faults == Profile::Crash)
            .then(|| (random.below(ranks) as u32, Span::drawn(random).start));
        Self { seed, clogged, slowness, pauses, crash }
    }

    /// What is wrong with the way from one node to another, if anything.
    pub(crate) fn clog(&self, from: u32, to: u32) -> Option<Clog> {
        if self.clogged == 0 {
            return None;
        }
        let random = &mut Random::new(self.seed ^ 3, u64::from(from) << 32 | u64::from(to));
        random
            .chance(self.clogged)
            .then(|| Clog { span: Span::drawn(random), extra_ns: *random.pick(&[5_000, 50_000, 500_000]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_heal_in_time() {
        for seed in 0..500 {
            let plan = Plan::drawn(&Config { faults: Profile::Crash, ..Config::new(seed, 5) });
            assert!(plan.pauses.iter().all(|(node, span)| *node < 5 && span.end <= HEALED_NS));
            assert!(plan.crash.is_some_and(|(node, at)| node < 5 && at < BEGIN_NS_MAX));
            assert!(plan.clog(0, 1).is_none_or(|clog| clog.span.end <= HEALED_NS));
        }
    }

    #[test]
    fn a_calm_run_has_none() {
        let plan = Plan::drawn(&Config { faults: Profile::Calm, ..Config::new(7, 3) });
        assert!(plan.pauses.is_empty() && plan.crash.is_none() && plan.clog(0, 1).is_none());
        assert_eq!(plan.slowness, [1, 1, 1]);
    }
}
