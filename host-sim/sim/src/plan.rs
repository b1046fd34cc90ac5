//! The faults of a run: a list that is drawn from its seed before it begins, and what it does to
//! which node. Swarm testing (Groce et al., ISSTA 2012), where each run has some kinds of fault and
//! not the others, finds more than runs that all have a little of everything.

use super::config::{Profile, SimConfig, Wire};
use super::faults::{ECHO_NS_MAX, RunFault, VirtualSpan, Ways};
use super::random::Random;

/// All faults begin before this virtual instant, ns.
pub(crate) const BEGIN_NS_MAX: u64 = 1_000_000;
/// All have healed by then: from here on a correct program must come to its end.
pub(crate) const HEALED_NS: u64 = 4_000_000;
/// Faults of one kind in one run: a list short enough to be read.
const KIND_MAX: u64 = 33;
/// Faults of frames of one kind in one run.
const FRAME_KIND_MAX: u64 = 6;

/// Returns the faults of a run, in the order in which they were drawn: the indices that
/// [`SimConfig::only`] names.
pub fn faults(config: &SimConfig) -> Vec<RunFault> {
    kept(config).into_iter().map(|(_, fault)| fault).collect()
}

/// The faults of a run with their indices in the list of all that its seed draws.
fn kept(config: &SimConfig) -> Vec<(u16, RunFault)> {
    let mut faults = Vec::new();
    if config.faults != Profile::Calm {
        draw_common(config, &mut faults);
        if config.wire == Wire::Frames {
            draw_of_frames(config, &mut faults);
        }
    }
    let mut faults: Vec<(u16, RunFault)> = (0..).zip(faults).collect();
    if let Some(only) = &config.only {
        faults.retain(|(index, _)| only.contains(index));
    }
    faults
}

fn span(random: &mut Random) -> VirtualSpan {
    // As likely early as late, on a logarithmic scale: short programs are to meet faults too.
    let last = BEGIN_NS_MAX >> random.below(12);
    let start = random.below(last);
    VirtualSpan { start, end: start + random.below(HEALED_NS - start) }
}

fn ways(random: &mut Random, ranks: u64) -> Ways {
    let mut node = || random.below(ranks) as u32;
    let (from, to) = (node(), node());
    match random.below(10) {
        0..2 => Ways::All,
        2..5 => Ways::Of(from),
        _ => Ways::Way { from, to },
    }
}

/// Draws the number of faults of kind number `kind`, at least one if it is among the `kinds` of
/// this run.
fn count(random: &mut Random, kinds: u64, kind: u64, max: u64) -> u64 {
    let count = random.within(1, max);
    if kinds >> kind & 1 != 0 { count } else { 0 }
}

/// The faults that both wires have.
fn draw_common(config: &SimConfig, faults: &mut Vec<RunFault>) {
    let (random, ranks) = (&mut Random::new(config.seed, 2), u64::from(config.ranks));
    let kinds = random.below(8);
    for _ in 0..count(random, kinds, 0, (1 + ranks).min(KIND_MAX)) {
        let (ways, span) = (ways(random, ranks), span(random));
        faults.push(RunFault::Clog { ways, span, extra_ns: *random.pick(&[5_000, 50_000, 500_000]) });
    }
    for _ in 0..count(random, kinds, 1, (1 + ranks / 2).min(KIND_MAX)) {
        let (node, span) = (random.below(ranks) as u32, span(random));
        faults.push(RunFault::Slow { node, span, factor: random.within(2, 100) });
    }
    for _ in 0..count(random, kinds, 2, (1 + ranks / 2).min(KIND_MAX)) {
        faults.push(RunFault::Pause { node: random.below(ranks) as u32, span: span(random) });
    }
    let (node, span) = (random.below(ranks) as u32, span(random));
    match config.faults {
        Profile::Calm | Profile::Swarm => {}
        Profile::Crash => faults.push(RunFault::Crash { node, at: span.start }),
        Profile::Restart => {
            // Often back so soon that the others have not missed it, or that frames of its old life
            // are still under way.
            let end = span.start + ((span.end - span.start) >> random.below(8));
            faults.push(RunFault::Restart { node, span: VirtualSpan { end, ..span } });
        }
    }
}

/// The faults of frames.
fn draw_of_frames(config: &SimConfig, faults: &mut Vec<RunFault>) {
    let (random, ranks) = (&mut Random::new(config.seed, 8), u64::from(config.ranks));
    let kinds = random.below(64);
    for kind in 0..6 {
        for _ in 0..count(random, kinds, kind, (1 + ranks / 2).min(FRAME_KIND_MAX)) {
            let (ways, span) = (ways(random, ranks), span(random));
            faults.push(match kind {
                0 => RunFault::Loss { ways, span, percent: *random.pick(&[1, 5, 20, 50, 90]) },
                1 => RunFault::Duplication { ways, span, percent: *random.pick(&[1, 10, 50]) },
                2 => {
                    let extra_ns = *random.pick(&[5_000, 50_000, 500_000]);
                    RunFault::Reordering { ways, span, percent: *random.pick(&[5, 30, 100]), extra_ns }
                }
                3 => RunFault::Corruption { ways, span, percent: *random.pick(&[1, 10, 50]) },
                4 => RunFault::Spike { ways, span, extra_ns: *random.pick(&[20_000, 200_000, 2_000_000]) },
                _ => RunFault::Partition { ways: halves(random, config.ranks), span },
            });
        }
    }
}

/// The ways from some nodes to some others.
fn halves(random: &mut Random, ranks: u32) -> Ways {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for node in 0..ranks {
        match random.below(3) {
            0 => from.push(node),
            1 => to.push(node),
            _ => {}
        }
    }
    // In small jobs one side may be empty.
    let free = |side: &[u32]| (0..ranks).find(|node| !side.contains(node)).unwrap_or_default();
    if from.is_empty() {
        from.push(free(&to));
    }
    if to.is_empty() {
        to.push(free(&from));
    }
    Ways::Across { from, to }
}

/// The fate of a frame.
#[derive(Debug, Default)]
pub(crate) struct FrameFate {
    pub(crate) lost: bool,
    pub(crate) damaged: bool,
    /// The time by which it takes longer, ns.
    pub(crate) extra_ns: u64,
    /// The time after which it arrives once more, ns.
    pub(crate) echo_ns: Option<u64>,
}

/// The faults at work, each with dice of its own: leaving one out changes nothing about the others.
#[derive(Debug)]
pub(crate) struct FaultPlan {
    faults: Vec<(RunFault, Random)>,
}

impl FaultPlan {
    pub(crate) fn drawn(config: &SimConfig) -> Self {
        let dice = |index: u16| Random::new(config.seed ^ 3, index.into());
        Self { faults: kept(config).into_iter().map(|(index, fault)| (fault, dice(index))).collect() }
    }

    /// Returns the factor by which a node needs longer than usual for a message.
    pub(crate) fn slowness(&self, now: u64, node: u32) -> u64 {
        if now >= HEALED_NS {
            return 1;
        }
        let factors = self.faults.iter().filter_map(|(fault, _)| match fault {
            RunFault::Slow { node: slow, span, factor } if *slow == node && span.contains(now) => {
                Some(*factor)
            }
            _ => None,
        });
        factors.max().unwrap_or(1)
    }

    /// Returns the time by which a message takes longer because ways are clogged, ns.
    pub(crate) fn clogged_ns(&mut self, now: u64, from: u32, to: u32) -> u64 {
        if now >= HEALED_NS {
            return 0;
        }
        let delays = self.faults.iter_mut().filter_map(|(fault, dice)| match fault {
            RunFault::Clog { ways, span, extra_ns } if span.contains(now) && ways.contain(from, to) => {
                Some(dice.below(*extra_ns))
            }
            _ => None,
        });
        delays.sum()
    }

    /// Draws the fate of a frame; it may be damaged here.
    pub(crate) fn fate(&mut self, now: u64, from: u32, to: u32, frame: &mut Vec<u8>) -> FrameFate {
        let mut fate = FrameFate::default();
        if now >= HEALED_NS {
            return fate;
        }
        for (fault, dice) in self.faults.iter_mut().filter(|(fault, _)| fault.span().contains(now)) {
            match fault {
                RunFault::Clog { ways, extra_ns, .. } if ways.contain(from, to) => {
                    fate.extra_ns += dice.below(*extra_ns);
                }
                RunFault::Loss { ways, percent, .. } if ways.contain(from, to) => {
                    fate.lost |= dice.chance(*percent);
                }
                RunFault::Duplication { ways, percent, .. } if ways.contain(from, to) => {
                    fate.echo_ns = dice.chance(*percent).then(|| dice.below(ECHO_NS_MAX));
                }
                RunFault::Reordering { ways, percent, extra_ns, .. } if ways.contain(from, to) => {
                    fate.extra_ns += if dice.chance(*percent) { dice.below(*extra_ns) } else { 0 };
                }
                RunFault::Corruption { ways, percent, .. }
                    if ways.contain(from, to) && dice.chance(*percent) =>
                {
                    damage(dice, frame);
                    fate.damaged = true;
                }
                RunFault::Spike { ways, extra_ns, .. } if ways.contain(from, to) => {
                    fate.extra_ns += *extra_ns
                }
                RunFault::Partition { ways, .. } => fate.lost |= ways.contain(from, to),
                _ => {}
            }
        }
        fate
    }
}

/// Turns a few bits of a frame over or cuts its end off. Three bits at most: a CRC-32C notices all
/// such errors in frames of up to 655 bytes, and the others but for one in 2^32 (Koopman,
/// DSN 2002).
fn damage(dice: &mut Random, frame: &mut Vec<u8>) {
    if dice.chance(20) {
        frame.truncate(dice.below(frame.len() as u64) as usize);
        return;
    }
    for _ in 0..dice.within(1, 3) {
        let at = dice.below(frame.len() as u64) as usize;
        let bit = 1 << dice.below(8);
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(seed: u64, wire: Wire, profile: Profile) -> Vec<RunFault> {
        faults(&SimConfig { faults: profile, wire, ..SimConfig::new(seed, 5) })
    }

    #[test]
    fn faults_heal_in_time() {
        for (seed, profile) in (0..500).flat_map(|seed| [(seed, Profile::Crash), (seed, Profile::Restart)]) {
            for fault in list(seed, Wire::Frames, profile) {
                match fault {
                    RunFault::Crash { node, at } => assert!(node < 5 && at < BEGIN_NS_MAX),
                    ref other => assert!(other.span().end <= HEALED_NS && other.span().start < BEGIN_NS_MAX),
                }
                assert!(fault.to_string().contains(" us: "), "{fault}");
            }
        }
    }

    #[test]
    fn a_calm_run_has_none_and_others_have_the_kinds_that_were_drawn() {
        assert_eq!(list(7, Wire::Frames, Profile::Calm), []);
        let share = |wire, is: fn(&RunFault) -> bool| {
            (0..100).filter(|seed| list(*seed, wire, Profile::Swarm).iter().any(is)).count()
        };
        let kinds: [fn(&RunFault) -> bool; 6] = [
            |fault| matches!(fault, RunFault::Loss { .. }),
            |fault| matches!(fault, RunFault::Duplication { .. }),
            |fault| matches!(fault, RunFault::Reordering { .. }),
            |fault| matches!(fault, RunFault::Corruption { .. }),
            |fault| matches!(fault, RunFault::Spike { .. }),
            |fault| matches!(fault, RunFault::Partition { .. }),
        ];
        for (kind, is) in kinds.into_iter().enumerate() {
            assert!((20..80).contains(&share(Wire::Frames, is)), "kind {kind} of faults");
            assert_eq!(share(Wire::Messages, is), 0, "kind {kind} of faults");
        }
        assert!((20..80).contains(&share(Wire::Messages, |fault| matches!(fault, RunFault::Pause { .. }))));
        let deaths = |profile| {
            let lists = (0..100).flat_map(move |seed| list(seed, Wire::Frames, profile));
            lists.filter(|fault| matches!(fault, RunFault::Crash { .. } | RunFault::Restart { .. })).count()
        };
        assert_eq!(Profile::ALL.map(deaths), [0, 0, 100, 100]);
    }

    #[test]
    fn what_is_left_out_does_not_change_the_others() {
        let config = SimConfig { faults: Profile::Crash, ..SimConfig::new(11, 9) };
        let all = faults(&config);
        let only = |indices: &[u16]| faults(&SimConfig { only: Some(indices.to_vec()), ..config.clone() });
        assert!(all.len() > 3, "{all:?}");
        assert_eq!(only(&[]), []);
        assert_eq!(only(&[1, 3, 999]), [all[1].clone(), all[3].clone()]);
        let mut alone = FaultPlan::drawn(&SimConfig { only: Some(vec![2]), ..config.clone() });
        let mut among = FaultPlan::drawn(&config);
        assert_eq!(alone.faults[0].1.draw(), among.faults[2].1.draw());
    }

    #[test]
    fn frames_meet_the_faults_of_their_way_while_these_last() {
        let span = VirtualSpan { start: 10, end: 20 };
        let way = || Ways::Way { from: 0, to: 1 };
        let fate = |fault, now, from, to| {
            let mut frame = vec![7; 80];
            let fate = FaultPlan { faults: vec![(fault, Random::new(1, 1))] }.fate(now, from, to, &mut frame);
            (fate, frame != [7; 80])
        };
        let corruption = || RunFault::Corruption { ways: way(), span, percent: 100 };
        let (hit, changed) = fate(corruption(), 10, 0, 1);
        assert!(hit.damaged && changed && !hit.lost);
        for (now, from, to) in [(9, 0, 1), (20, 0, 1), (15, 1, 0)] {
            let (missed, changed) = fate(corruption(), now, from, to);
            assert!(!missed.damaged && !changed);
        }
        assert!(fate(RunFault::Loss { ways: Ways::All, span, percent: 100 }, 15, 3, 4).0.lost);
        assert!(fate(RunFault::Partition { ways: way(), span }, 15, 0, 1).0.lost);
        assert!(
            fate(RunFault::Duplication { ways: way(), span, percent: 100 }, 15, 0, 1).0.echo_ns.is_some()
        );
        assert_eq!(fate(RunFault::Spike { ways: Ways::Of(1), span, extra_ns: 77 }, 15, 0, 1).0.extra_ns, 77);
    }
}
