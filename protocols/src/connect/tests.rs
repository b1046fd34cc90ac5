//! The handshake of two nodes, explored: every interleaving of what users, kernels, timers and the
//! network can do, within a stated number of losses, repetitions, restarts and so on. The state
//! space is finite, since whatever is not counted consumes a frame; so the depth is whatever the
//! counts allow, and it is printed with the number of states.
//!
//! In every state: what `world` checks. From every state: a fair network connects the two,
//! whichever of them asks.

mod paths;
mod world;

use std::collections::HashSet;
use std::{format, println, vec};

use world::{Budget, ConnectStep, World};

use crate::explore::{self, Broken, Counterexample, Explored, World as _};
use crate::sabotage::{Defect, with};

/// No frame is delivered more often than this before the wire is empty, if no rank's timer fires.
const BURST_MAX: u32 = 40;

fn explore(budget: Budget) -> Result<Explored, Counterexample<ConnectStep>> {
    explore::explore(World::new(budget), &[0, 1], |world, &asker, good| connects(world, asker, good))
}

/// From here on nothing goes wrong any more: the two are connected in the end, and no message stirs
/// up ever more. `good` are the states of which that is known.
fn connects(world: &World, asker: usize, good: &mut HashSet<u64>) -> Result<(), Broken> {
    let mut world = world.healed();
    let (mut passed, mut steps, mut burst) = (vec![], vec![], 0);
    loop {
        let here = world.fingerprint();
        if world.is_settled() || good.contains(&here) {
            good.extend(passed);
            return Ok(());
        }
        if passed.contains(&here) || burst > BURST_MAX {
            return Err(format!("node {asker} asks, and even a fair network connects nothing: {steps:?}"));
        }
        passed.push(here);
        for step in world.fair_steps(asker) {
            burst = if matches!(step, ConnectStep::Deliver(_)) { burst + 1 } else { 0 };
            steps.push(step);
            world.apply(step).map_err(|broken| format!("{broken}, fairly: {steps:?}"))?;
        }
    }
}

const NOTHING: Budget =
    Budget { lost: 0, repeated: 0, restarts: 0, retries: 0, ends: 0, attempts: 2, data: 0, closes: 0 };

/// The bounds of each exploration: a name and the counts.
const BUDGETS: [(&str, Budget); 10] = [
    ("losses", Budget { lost: 2, retries: 2, data: 1, ..NOTHING }),
    ("repetitions", Budget { repeated: 2, retries: 1, data: 1, ..NOTHING }),
    ("restart", Budget { repeated: 1, restarts: 1, ..NOTHING }),
    ("lossy restart", Budget { lost: 1, restarts: 1, retries: 1, attempts: 1, ..NOTHING }),
    ("restarts", Budget { restarts: 2, attempts: 1, ..NOTHING }),
    ("ends", Budget { repeated: 1, ends: 1, data: 1, ..NOTHING }),
    ("closes", Budget { repeated: 1, closes: 1, data: 1, attempts: 1, ..NOTHING }),
    ("closes that cross", Budget { closes: 2, ..NOTHING }),
    ("lossy closes", Budget { lost: 1, retries: 1, closes: 1, ..NOTHING }),
    ("a close and an end", Budget { repeated: 1, closes: 1, restarts: 1, attempts: 1, ..NOTHING }),
];

/// With `ALDIS_EXPLORE_DEEP` set: 21,469,014 states, 118,714,078 transitions, depth 37, some
/// minutes of a release build.
const DEEP: [(&str, Budget); 2] = [
    (
        "all but closes at once",
        Budget { lost: 1, repeated: 1, restarts: 1, retries: 1, ends: 1, attempts: 2, data: 1, closes: 0 },
    ),
    ("closes again and again", Budget { repeated: 1, retries: 1, closes: 2, data: 1, ..NOTHING }),
];

#[test]
fn every_interleaving() {
    let is_deep = std::env::var_os("ALDIS_EXPLORE_DEEP").is_some();
    let deep = if is_deep { &DEEP[..] } else { &[] };
    let mut sum = 0;
    for (name, budget) in BUDGETS.into_iter().chain(deep.iter().copied()) {
        let Explored { states, transitions, depth } = explore(budget).unwrap();
        println!("{name}: {states} states, {transitions} transitions, depth {depth}");
        sum += states;
    }
    assert!(is_deep || sum == 162_134, "the documentation states another number than {sum}");
}

const DEFECTS: [Defect; 10] = [
    Defect::NoEchoCheck,
    Defect::BothInsist,
    Defect::TrustsStrangers,
    Defect::KeepsNumbers,
    Defect::ForgetsOrder,
    Defect::NoStale,
    Defect::NoRepeats,
    Defect::AdmitsAnyLife,
    Defect::ClosesAlone,
    Defect::ClosesForEver,
];

#[test]
fn every_defect_is_found() {
    for defect in DEFECTS {
        let found = with(Some(defect), || BUDGETS.into_iter().find_map(|(_, budget)| explore(budget).err()));
        println!("{defect:?}: {found:?}");
        assert!(found.is_some(), "not found: {defect:?}");
    }
}
