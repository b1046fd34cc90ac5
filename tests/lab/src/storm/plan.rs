//! The plan that a seed draws: a job, and what is done to its processes.

use core::fmt;
use core::time::Duration;

use aldis_shell::dice::Dice;

/// A transport between ranks, and the options that ask the launcher for it.
pub(crate) struct StormKind {
    pub(crate) name: &'static str,
    pub(super) options: &'static [&'static str],
}

pub(crate) const KINDS: [StormKind; 5] = [
    StormKind { name: "shm", options: &["--transport", "shm"] },
    StormKind { name: "arena", options: &["--transport", "shm", "--arena", "1M"] },
    StormKind { name: "tcp", options: &["--transport", "tcp"] },
    StormKind { name: "hosts", options: &["--host", "local:a,local:b"] },
    StormKind { name: "hosts-tcp", options: &["--transport", "tcp", "--host", "local:a,local:b"] },
];

/// An example, the option that says how long it runs, and how much of that is a fraction of a
/// second.
struct Program {
    arguments: &'static [&'static str],
    length: &'static str,
    short: &'static str,
}

/// Each verifies what it has received, or its result.
const PROGRAMS: [Program; 3] = [
    Program { arguments: &["ring"], length: "--laps", short: "1000" },
    Program { arguments: &["ring", "--words", "20000"], length: "--laps", short: "200" },
    Program { arguments: &["heat"], length: "--steps", short: "500" },
];

/// A length that no job comes to the end of.
const ENDLESS: &str = "4000000000";

/// The process that is hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Victim {
    Launcher,
    /// Of the other processes that there are at that moment, in the order of their ids, the one of
    /// this number, round and round.
    Other(u64),
}

/// A process that is stopped, and continued later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) after: Duration,
    pub(super) victim: Victim,
    pub(super) time: Duration,
}

/// A job and what is done to it.
pub(crate) struct StormPlan {
    pub(crate) seed: u64,
    /// Its number among the kinds.
    pub(crate) kind: usize,
    pub(super) ranks: u64,
    pub(super) program: Vec<&'static str>,
    pub(super) pauses: Vec<Pause>,
    /// The process that is killed after the pauses, and how long after; a job without is to come to
    /// its end.
    pub(crate) kills: Option<(Duration, Victim)>,
}

impl StormPlan {
    /// Draws the plan of a seed, of the kind that is named.
    pub(crate) fn draw(seed: u64, kind: Option<&str>) -> Self {
        let mut dice = Dice(seed);
        let drawn = dice.below(KINDS.len() as u64) as usize;
        let kind = KINDS.iter().position(|of| kind == Some(of.name)).unwrap_or(drawn);
        let ranks = 2 + dice.below(3);
        let program = dice.one_of(&PROGRAMS);
        let is_killed = dice.below(4) > 0;
        let pauses = if is_killed { dice.below(3) } else { 1 + dice.below(3) };
        let pauses = (0..pauses).map(|_| pause(&mut dice)).collect();
        let kills = is_killed.then(|| (moment(&mut dice, 300), victim(&mut dice)));
        let mut words = program.arguments.to_vec();
        words.extend([program.length, if is_killed { ENDLESS } else { program.short }]);
        Self { seed, kind, ranks, program: words, pauses, kills }
    }
}

impl fmt::Display for StormPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, ranks, program, pauses, kills, .. } = self;
        write!(f, "{ranks} ranks, {}, {}", KINDS[*kind].name, program.join(" "))?;
        for Pause { after, victim, time } in pauses {
            write!(f, "; after {after:?} {victim:?} stops for {time:?}")?;
        }
        match kills {
            Some((after, victim)) => write!(f, "; after {after:?} {victim:?} is killed"),
            None => Ok(()),
        }
    }
}

fn moment(dice: &mut Dice, ms_max: u64) -> Duration {
    Duration::from_micros(dice.below(1000 * ms_max))
}

fn victim(dice: &mut Dice) -> Victim {
    match dice.below(6) {
        0 => Victim::Launcher,
        _ => Victim::Other(dice.below(1000)),
    }
}

fn pause(dice: &mut Dice) -> Pause {
    Pause { after: moment(dice, 150), victim: victim(dice), time: moment(dice, 150) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_every_kind_and_every_end_and_always_the_same() {
        let plans: Vec<StormPlan> = (0..300).map(|seed| StormPlan::draw(seed, None)).collect();
        for kind in 0..KINDS.len() {
            let of =
                |kills: fn(&StormPlan) -> bool| plans.iter().any(|plan| plan.kind == kind && kills(plan));
            assert!(of(|plan| plan.kills.is_none() && !plan.pauses.is_empty()));
            assert!(of(|plan| plan.kills.is_some_and(|(_, victim)| victim == Victim::Launcher)));
            assert!(of(|plan| plan.kills.is_some_and(|(_, victim)| victim != Victim::Launcher)));
        }
        for plan in &plans {
            assert_eq!(plan.to_string(), StormPlan::draw(plan.seed, None).to_string());
            assert_eq!(KINDS[StormPlan::draw(plan.seed, Some("tcp")).kind].name, "tcp");
        }
    }
}
