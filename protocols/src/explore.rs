//! Every state that a world of nodes can come to, breadth first: what the tests of handshakes
//! share.

use core::fmt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::string::String;
use std::vec;
use std::vec::Vec;

/// A description of the invariant that does not hold.
pub(crate) type Broken = String;

/// Nodes, what is between them, and what may still go wrong. A step takes in something that there
/// is or that is counted, so that the states are finitely many.
pub(crate) trait World: Clone {
    /// A step from one state to the next.
    type Step: Copy + fmt::Debug;

    /// States with the same one are the same.
    fn fingerprint(&self) -> u64;

    /// All that can happen here.
    fn steps(&self) -> Vec<Self::Step>;

    /// Takes a step, and checks what must hold after it.
    fn apply(&mut self, step: Self::Step) -> Result<(), Broken>;
}

/// The totals of an exploration.
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) depth: u32,
}

/// The invariant that was broken, and the steps that led to it.
pub(crate) struct Counterexample<S> {
    broken: Broken,
    steps: Vec<S>,
}

impl<S: fmt::Debug> fmt::Debug for Counterexample<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:?}", self.broken, self.steps)
    }
}

/// The state from which each was first reached, for the way back, and its depth.
type Origins<S> = HashMap<u64, (u64, Option<S>, u32)>;

fn way<S: Copy>(origins: &Origins<S>, mut at: u64) -> Vec<S> {
    let mut steps = vec![];
    while let Some(&(from, Some(step), _)) = origins.get(&at) {
        steps.push(step);
        at = from;
    }
    steps.reverse();
    steps
}

/// Breadth first, so that a counterexample is one of the shortest. From every state `recovers` is
/// asked, for each of `askers`, whether all comes right once nothing goes wrong any more; it keeps
/// the states of which that is known.
pub(crate) fn explore<W: World, A>(
    start: W,
    askers: &[A],
    recovers: impl Fn(&W, &A, &mut HashSet<u64>) -> Result<(), Broken>,
) -> Result<Explored, Counterexample<W::Step>> {
    let mut origins: Origins<W::Step> = HashMap::from([(start.fingerprint(), (0, None, 0))]);
    let mut good = vec![HashSet::new(); askers.len()];
    let mut queue = VecDeque::from([start]);
    let (mut transitions, mut depth) = (0, 0);
    while let Some(world) = queue.pop_front() {
        let from = world.fingerprint();
        let here = origins.get(&from).map_or(0, |&(_, _, depth)| depth);
        for (asker, good) in askers.iter().zip(&mut good) {
            recovers(&world, asker, good)
                .map_err(|broken| Counterexample { broken, steps: way(&origins, from) })?;
        }
        for step in world.steps() {
            let mut next = world.clone();
            transitions += 1;
            if let Err(broken) = next.apply(step) {
                let mut steps = way(&origins, from);
                steps.push(step);
                return Err(Counterexample { broken, steps });
            }
            origins.entry(next.fingerprint()).or_insert_with(|| {
                depth = depth.max(here + 1);
                queue.push_back(next);
                (from, Some(step), here + 1)
            });
        }
    }
    Ok(Explored { states: origins.len(), transitions, depth })
}
