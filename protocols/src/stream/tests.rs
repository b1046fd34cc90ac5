//! Two nodes, explored: every interleaving of what users, kernels, timers and the system can do
//! with the connections between them, within a stated number of resets, restarts and so on. The
//! state space is finite, since whatever is not counted takes in what is there; so the depth is
//! whatever the counts allow, and it is printed with the number of states.
//!
//! In every state: what `world` checks. From every state: the two come to share one connection,
//! whichever of them wants it.

mod fair;
mod paths;
mod strangers;
mod world;

use std::collections::HashSet;
use std::{format, println, vec};

use world::{Budget, StreamStep, StreamWorld};

use crate::explore::{self, Broken, Counterexample, Explored, World as _};
use crate::sabotage::{Defect, with};

/// No more steps than this are needed to be connected once nothing goes wrong any more.
const FAIR_STEPS_MAX: usize = 120;

fn explore(budget: Budget) -> Result<Explored, Counterexample<StreamStep>> {
    explore::explore(
        StreamWorld::new(budget),
        &[[true, false], [false, true], [true, true]],
        |world, &askers, good| connects(world, askers, good),
    )
}

/// From here on nothing goes wrong any more: the two share a connection in the end, and no other is
/// left. `good` are the states of which that is known.
fn connects(world: &StreamWorld, askers: [bool; 2], good: &mut HashSet<u64>) -> Result<(), Broken> {
    let mut world = world.healed();
    let (mut passed, mut steps) = (vec![], vec![]);
    loop {
        let here = world.fingerprint();
        if world.is_settled() || good.contains(&here) {
            let arrived = (0..2).all(|i| world.sides[i].sent == world.sides[1 - i].received);
            if world.is_settled() && world.is_lossless && !arrived {
                return Err(format!("messages that never come: {steps:?}"));
            }
            good.extend(passed);
            return Ok(());
        }
        let next = world.fair_step(askers).filter(|_| steps.len() < FAIR_STEPS_MAX);
        let Some(step) = next else {
            return Err(format!("{askers:?} want it, nothing goes wrong, and nothing connects: {steps:?}"));
        };
        passed.push(here);
        steps.push(step);
        world.apply(step).map_err(|broken| format!("{broken}, fairly: {steps:?}"))?;
    }
}

const NOTHING: Budget = Budget {
    resets: 0,
    unreachable: 0,
    restarts: 0,
    retries: 0,
    slow: 0,
    ends: 0,
    wants: 2,
    sends: 0,
    rests: 0,
};

/// The bounds of each exploration: a name and the counts.
const BUDGETS: [(&str, Budget); 8] = [
    ("resets", Budget { resets: 1, retries: 1, ..NOTHING }),
    ("one way", Budget { unreachable: 2, retries: 2, ..NOTHING }),
    ("slow", Budget { slow: 1, retries: 1, ..NOTHING }),
    ("restart", Budget { restarts: 1, ..NOTHING }),
    ("restarts", Budget { restarts: 2, wants: 1, ..NOTHING }),
    ("ends", Budget { ends: 1, resets: 1, ..NOTHING }),
    ("rests", Budget { rests: 2, sends: 2, wants: 3, retries: 1, ..NOTHING }),
    ("rest and reset", Budget { rests: 1, wants: 3, resets: 1, ..NOTHING }),
];

/// With `ALDIS_EXPLORE_DEEP` set: 535,004 states, 2,775,154 transitions, depth 27, 40 seconds of a
/// release build.
const DEEP: Budget =
    Budget { resets: 1, unreachable: 1, restarts: 1, retries: 1, slow: 1, ends: 1, ..NOTHING };

#[test]
fn every_interleaving() {
    let deep = std::env::var_os("ALDIS_EXPLORE_DEEP").map(|_| ("all at once", DEEP));
    let mut sum = 0;
    for (name, budget) in BUDGETS.into_iter().chain(deep) {
        let Explored { states, transitions, depth } = explore(budget).unwrap();
        println!("{name}: {states} states, {transitions} transitions, depth {depth}");
        sum += states;
    }
    assert!(deep.is_some() || sum == 105_754, "the documentation states another number than {sum}");
}

const DEFECTS: [Defect; 9] = [
    Defect::BothChoose,
    Defect::IgnoresLives,
    Defect::KeepsDialling,
    Defect::KeepsSelected,
    Defect::RestsAlone,
    Defect::RestsForgetful,
    Defect::RestsUnanswered,
    Defect::SelectsTwice,
    Defect::TakesTwice,
];

#[test]
fn every_defect_is_found() {
    for defect in DEFECTS {
        let found = with(Some(defect), || BUDGETS.into_iter().find_map(|(_, budget)| explore(budget).err()));
        println!("{defect:?}: {found:?}");
        assert!(found.is_some(), "not found: {defect:?}");
    }
}
