//! The faults of a run: a list that is drawn from its seed before it begins. Swarm testing (Groce et al., ISSTA 2012),
//! where each run has some kinds of fault and not the others, finds more than runs that all have a little of everything.

use core::fmt;

use super::config::{Config, Profile};
use super::random::Random;

/// All faults begin before this virtual instant, ns.
const BEGIN_NS_MAX: u64 = 1_000_000;
/// All have healed by then: from here on a correct program must come to its end.
pub(crate) const HEALED_NS: u64 = 4_000_000;
/// Faults of one kind in one run: a list that somebody can read.
const KIND_MAX: u64 = 33;

/// A stretch of virtual time, ns: from `start` on and before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its first instant.
    pub start: u64,
    /// The first instant after it.
    pub end: u64,
}

impl Span {
    fn drawn(random: &mut Random) -> Self {
        // As likely early as late, on a logarithmic scale: short programs are to meet faults too.
        let last = BEGIN_NS_MAX >> random.below(12);
        let start = random.below(last);
        Self { start, end: start + random.below(HEALED_NS - start) }
    }

    /// Whether the instant `at` is in it.
    pub const fn contains(&self, at: u64) -> bool {
        self.start <= at && at < self.end
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} us to {} us", micros(self.start), micros(self.end))
    }
}

/// Which messages a fault of the network is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ways {
    /// All of them.
    All,
    /// Those to and from one node.
    Of(u32),
    /// Those from one node to another.
    Way {
        /// Who sends them.
        from: u32,
        /// Whom to.
        to: u32,
    },
}

impl Ways {
    fn drawn(random: &mut Random, ranks: u64) -> Self {
        let mut node = || random.below(ranks) as u32;
        let (from, to) = (node(), node());
        match random.below(10) {
            0..2 => Self::All,
            2..5 => Self::Of(from),
            _ => Self::Way { from, to },
        }
    }

    /// Whether a message from one node to another is among them.
    pub fn contain(&self, from: u32, to: u32) -> bool {
        match self {
            Self::All => true,
            Self::Of(node) => from == *node || to == *node,
            Self::Way { from: one, to: other } => (from, to) == (*one, *other),
        }
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("between all ranks"),
            Self::Of(node) => write!(f, "to and from rank {node}"),
            Self::Way { from, to } => write!(f, "from rank {from} to rank {to}"),
        }
    }
}

/// Something that goes wrong in a run. [`Display`](fmt::Display) tells it in words.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Messages take up to `extra_ns` longer, and keep their order.
    Clog {
        /// Which messages.
        ways: Ways,
        /// When.
        span: Span,
        /// By how much, ns.
        extra_ns: u64,
    },
    /// A node needs longer for each message that it sends or takes.
    Slow {
        /// Which one.
        node: u32,
        /// When.
        span: Span,
        /// How many times as long.
        factor: u64,
    },
    /// A node does nothing for a while.
    Pause {
        /// Which one.
        node: u32,
        /// When.
        span: Span,
    },
    /// A node dies.
    Crash {
        /// Which one.
        node: u32,
        /// When, ns.
        at: u64,
    },
}

impl Fault {
    /// When it begins and when it is over; a crash begins and does not end.
    pub const fn span(&self) -> Span {
        match self {
            Self::Clog { span, .. } | Self::Slow { span, .. } | Self::Pause { span, .. } => *span,
            Self::Crash { at, .. } => Span { start: *at, end: u64::MAX },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clog { ways, span, extra_ns } => {
                write!(f, "{span}: messages {ways} take up to {} us longer", micros(*extra_ns))
            }
            Self::Slow { node, span, factor } => write!(f, "{span}: rank {node} is {factor} times slower"),
            Self::Pause { node, span } => write!(f, "{span}: rank {node} stands still"),
            Self::Crash { node, at } => write!(f, "at {} us: rank {node} dies", micros(*at)),
        }
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// What goes wrong in a run, in the order in which it was drawn: the indices that [`Config::only`] names.
pub fn faults(config: &Config) -> Vec<Fault> {
    kept(config).into_iter().map(|(_, fault)| fault).collect()
}

/// The faults of a run with their indices in the list of all that its seed draws.
fn kept(config: &Config) -> Vec<(u16, Fault)> {
    let mut faults: Vec<(u16, Fault)> = (0..).zip(drawn(config)).collect();
    if let Some(only) = &config.only {
        faults.retain(|(index, _)| only.contains(index));
    }
    faults
}

fn drawn(config: &Config) -> Vec<Fault> {
    let (random, ranks) = (&mut Random::new(config.seed, 2), u64::from(config.ranks));
    let mut faults = Vec::new();
    if config.faults == Profile::Calm {
        return faults;
    }
    let kinds = random.below(8);
    let count = |random: &mut Random, kind: u64, max: u64| {
        let count = random.within(1, max.min(KIND_MAX));
        if kinds >> kind & 1 != 0 { count } else { 0 }
    };
    for _ in 0..count(random, 0, 1 + ranks) {
        let (ways, span) = (Ways::drawn(random, ranks), Span::drawn(random));
        faults.push(Fault::Clog { ways, span, extra_ns: *random.pick(&[5_000, 50_000, 500_000]) });
    }
    for _ in 0..count(random, 1, 1 + ranks / 2) {
        let (node, span) = (random.below(ranks) as u32, Span::drawn(random));
        faults.push(Fault::Slow { node, span, factor: random.within(2, 100) });
    }
    for _ in 0..count(random, 2, 1 + ranks / 2) {
        faults.push(Fault::Pause { node: random.below(ranks) as u32, span: Span::drawn(random) });
    }
    if config.faults == Profile::Crash {
        faults.push(Fault::Crash { node: random.below(ranks) as u32, at: Span::drawn(random).start });
    }
    faults
}

/// The faults at work, each with dice of its own: leaving one out changes nothing about the others.
#[derive(Debug)]
pub(crate) struct Plan {
    faults: Vec<(Fault, Random)>,
}

impl Plan {
    pub(crate) fn drawn(config: &Config) -> Self {
        let dice = |index: u16| Random::new(config.seed ^ 3, index.into());
        Self { faults: kept(config).into_iter().map(|(index, fault)| (fault, dice(index))).collect() }
    }

    fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().map(|(fault, _)| fault)
    }

    /// How many times longer than usual a node needs for a message.
    pub(crate) fn slowness(&self, now: u64, node: u32) -> u64 {
        if now >= HEALED_NS {
            return 1;
        }
        let factors = self.iter().filter_map(|fault| match fault {
            Fault::Slow { node: slow, span, factor } if *slow == node && span.contains(now) => Some(*factor),
            _ => None,
        });
        factors.max().unwrap_or(1)
    }

    /// How much longer a message takes because ways are clogged, ns.
    pub(crate) fn clogged_ns(&mut self, now: u64, from: u32, to: u32) -> u64 {
        if now >= HEALED_NS {
            return 0;
        }
        let delays = self.faults.iter_mut().filter_map(|(fault, dice)| match fault {
            Fault::Clog { ways, span, extra_ns } if span.contains(now) && ways.contain(from, to) => {
                Some(dice.below(*extra_ns))
            }
            _ => None,
        });
        delays.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_heal_in_time_and_say_what_they_are() {
        for seed in 0..500 {
            let config = Config { faults: Profile::Crash, ..Config::new(seed, 5) };
            for fault in faults(&config) {
                match fault {
                    Fault::Crash { node, at } => assert!(node < 5 && at < BEGIN_NS_MAX),
                    ref other => assert!(other.span().end <= HEALED_NS && other.span().start < BEGIN_NS_MAX),
                }
                assert!(fault.to_string().contains(" us: "), "{fault}");
            }
        }
        let ways = Ways::Way { from: 1, to: 0 };
        let clog = Fault::Clog { ways, span: Span { start: 1_500, end: 20_000 }, extra_ns: 5_000 };
        let words = "from 1.5 us to 20 us: messages from rank 1 to rank 0 take up to 5 us longer";
        assert_eq!(clog.to_string(), words);
    }

    #[test]
    fn a_calm_run_has_none_and_others_have_the_kinds_that_were_drawn() {
        let list = |faults_, seed| faults(&Config { faults: faults_, ..Config::new(seed, 3) });
        assert_eq!(list(Profile::Calm, 7), []);
        let lists: Vec<_> = (0..100).map(|seed| list(Profile::Swarm, seed)).collect();
        let has = |list: &[Fault]| list.iter().any(|fault| matches!(fault, Fault::Pause { .. }));
        let with = lists.iter().filter(|list| has(list)).count();
        assert!((20..80).contains(&with), "{with} of 100 runs have pauses");
        assert!((0..100).all(|seed| matches!(list(Profile::Crash, seed).last(), Some(Fault::Crash { .. }))));
    }

    #[test]
    fn what_is_left_out_does_not_change_the_others() {
        let config = Config { faults: Profile::Crash, ..Config::new(11, 9) };
        let all = faults(&config);
        let only = |indices: &[u16]| faults(&Config { only: Some(indices.to_vec()), ..config.clone() });
        assert!(all.len() > 3, "{all:?}");
        assert_eq!(only(&[]), []);
        assert_eq!(only(&[1, 3, 999]), [all[1].clone(), all[3].clone()]);
        let mut alone = Plan::drawn(&Config { only: Some(vec![2]), ..config.clone() });
        let mut among = Plan::drawn(&config);
        assert_eq!(alone.faults[0].1.draw(), among.faults[2].1.draw());
    }
}
