//! The checker checked: every schedule with one thing broken must be found out.

use aldis_coll::allreduce::{self, RecursiveDoubling, Ring};
use aldis_coll::alltoall::{self, InPlace};
use aldis_coll::bcast::Binomial;
use aldis_coll::catalog::algorithms;
use aldis_coll::schedule::{Instance, Order, Schedule, Span, Step, on_blocks};
use aldis_coll::{allgather, barrier};
use aldis_kernel::hal::Operation;

use crate::model::{JobShape, ScheduleFault};
use crate::{OPERATIONS, check, hierarchy, inter};

/// Returns the rank at which the ranks of a schedule for two groups are cut.
fn cut(schedule: &dyn Schedule, size: u32) -> u32 {
    match schedule.operation() {
        _ if !schedule.crosses() => 0,
        Operation::Reduce => size - 1,
        _ => size / 2,
    }
}

fn instance(schedule: &dyn Schedule, rank: u32, size: u32, count: usize) -> Instance {
    inter::instance(schedule, rank, JobShape { size, root: cut(schedule, size), count })
}

/// The defect that is put into a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// The round does nothing, on every rank.
    DropRound,
    /// A single step is left out.
    DropStep,
    /// A message is sent to or comes from the next rank.
    WrongPeer,
    /// A span starts one element late.
    Shift,
    /// A span is one element short.
    Shorten,
    /// The operands of a reduction change places.
    Swap,
    /// All sends of the round wait for its receives, on every rank.
    SendAfterRecv,
    /// A receive writes where a send is reading.
    Collide,
}

const DEFECTS: [Defect; 8] = [
    Defect::DropRound,
    Defect::DropStep,
    Defect::WrongPeer,
    Defect::Shift,
    Defect::Shorten,
    Defect::Swap,
    Defect::SendAfterRecv,
    Defect::Collide,
];

/// A schedule with a defect at one place.
#[derive(Debug)]
struct Mutant {
    inner: &'static dyn Schedule,
    defect: Defect,
    rank: u32,
    round: u32,
    index: u32,
}

impl Mutant {
    /// The rounds of a mutant whose round `self.round` is split into a receiving and a sending one.
    fn split(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let steps = |round| (0..).map_while(move |index| self.inner.step(instance, round, index));
        let is_recv = |step: &Step| matches!(step, Step::Recv { .. });
        if round < self.round {
            self.inner.step(instance, round, index)
        } else if round == self.round {
            steps(round).filter(is_recv).nth(index as usize)
        } else if round == self.round + 1 {
            steps(self.round).filter(|step| !is_recv(step)).nth(index as usize)
        } else {
            self.inner.step(instance, round - 1, index)
        }
    }

    fn break_step(&self, instance: &Instance, step: Step) -> Step {
        let next = |peer: u32| (peer + 1) % instance.size();
        let shift = |span: Span| Span { start: span.start + usize::from(span.len > 0), ..span };
        let shorten = |span: Span| Span { len: span.len.saturating_sub(1), ..span };
        match (self.defect, step) {
            (Defect::WrongPeer, Step::Recv { from, into }) => Step::Recv { from: next(from), into },
            (Defect::WrongPeer, Step::Send { to, from }) => Step::Send { to: next(to), from },
            (Defect::Shift, Step::Recv { from, into }) => Step::Recv { from, into: shift(into) },
            (Defect::Shift, Step::Send { to, from }) => Step::Send { to, from: shift(from) },
            (Defect::Shift, Step::Reduce { into, from, order }) => {
                Step::Reduce { into: shift(into), from, order }
            }
            (Defect::Shorten, Step::Recv { from, into }) => Step::Recv { from, into: shorten(into) },
            (Defect::Shorten, Step::Send { to, from }) => Step::Send { to, from: shorten(from) },
            (Defect::Shorten, Step::Reduce { into, from, order }) => {
                Step::Reduce { into: shorten(into), from: shorten(from), order }
            }
            (Defect::Swap, Step::Reduce { into, from, order }) => {
                let order = if order == Order::IntoFirst { Order::FromFirst } else { Order::IntoFirst };
                Step::Reduce { into, from, order }
            }
            (Defect::Collide, Step::Recv { from, into }) => {
                let sent =
                    (0..).map_while(|index| self.inner.step(instance, self.round, index)).find_map(|step| {
                        match step {
                            Step::Send { from, .. } => Some(from),
                            _ => None,
                        }
                    });
                Step::Recv { from, into: sent.unwrap_or(into) }
            }
            _ => step,
        }
    }
}

impl Schedule for Mutant {
    fn operation(&self) -> Operation {
        self.inner.operation()
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn rounds(&self, instance: &Instance) -> u32 {
        self.inner.rounds(instance) + u32::from(self.defect == Defect::SendAfterRecv)
    }
    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let here = round == self.round;
        match self.defect {
            Defect::SendAfterRecv => self.split(instance, round, index),
            Defect::DropRound if here => None,
            Defect::DropStep if here && instance.rank() == self.rank && index >= self.index => {
                self.inner.step(instance, round, index + 1)
            }
            _ => {
                let step = self.inner.step(instance, round, index)?;
                let here = here && index == self.index && instance.rank() == self.rank;
                Some(if here { self.break_step(instance, step) } else { step })
            }
        }
    }
    fn crosses(&self) -> bool {
        self.inner.crosses()
    }
    fn capacity(&self, size: u32, scratch: usize) -> usize {
        self.inner.capacity(size, scratch)
    }
    fn keeps_rank_order(&self) -> bool {
        self.inner.keeps_rank_order()
    }
}

/// Returns true if the mutant does anything other than the original.
fn differs(mutant: &Mutant, size: u32, count: usize) -> bool {
    (0..size).any(|rank| {
        let instance = instance(mutant, rank, size, count);
        let steps = |schedule: &dyn Schedule, round: u32| {
            (0..).map_while(|index| schedule.step(&instance, round, index)).collect::<Vec<_>>()
        };
        (0..mutant.rounds(&instance)).any(|round| steps(mutant, round) != steps(mutant.inner, round))
    })
}

/// Every mutant of `inner` for `size` ranks that differs from it, with what the checker says.
fn mutants(
    inner: &'static dyn Schedule,
    size: u32,
    count: usize,
) -> Vec<(Mutant, Result<(), ScheduleFault>)> {
    let mut all = Vec::new();
    let rounds = inner.rounds(&instance(inner, 0, size, count));
    for defect in DEFECTS {
        for round in 0..rounds {
            for rank in 0..size {
                for index in 0..3 {
                    let mutant = Mutant { inner, defect, rank, round, index };
                    if differs(&mutant, size, count) {
                        let verdict = check(&mutant, size, cut(inner, size), count).map(drop);
                        all.push((mutant, verdict));
                    }
                }
            }
        }
    }
    all
}

/// Returns true if no rank both sends and receives in this round.
fn is_one_way(schedule: &dyn Schedule, size: u32, count: usize, round: u32) -> bool {
    (0..size).all(|rank| {
        let instance = instance(schedule, rank, size, count);
        let steps = || (0..).map_while(|index| schedule.step(&instance, round, index));
        let receives = steps().any(|step| matches!(step, Step::Recv { .. }));
        !(receives && steps().any(|step| matches!(step, Step::Send { .. })))
    })
}

/// Returns true if the messages of a round carry nothing, in an operation that moves data: they
/// make others wait, and no more.
fn only_says_go(schedule: &dyn Schedule, size: u32, count: usize, round: u32) -> bool {
    on_blocks(schedule.operation())
        && (0..size).all(|rank| {
            let instance = instance(schedule, rank, size, count);
            let mut steps = (0..).map_while(|index| schedule.step(&instance, round, index));
            steps.all(|step| matches!(step, Step::Recv { into: span, .. } | Step::Send { from: span, .. } if span.len == 0))
        })
}

#[test]
fn every_mutant_of_every_schedule_is_found() {
    let listed = OPERATIONS.into_iter().flat_map(algorithms).map(|known| *known as &'static dyn Schedule);
    let crossing = inter::crossing().map(|known| known as &'static dyn Schedule);
    let two_level = OPERATIONS.into_iter().filter_map(|operation| hierarchy::leaked(operation, 2));
    let further: [&'static dyn Schedule; 6] = [
        &InPlace,
        &allreduce::Bcube::<3>,
        &allreduce::RecursiveMultiplying::<3>,
        &barrier::DisseminationRadix::<3>,
        &allgather::Bruck::<3>,
        &alltoall::Bruck::<3>,
    ];
    for inner in listed.chain(further).chain(crossing).chain(two_level) {
        // The messages of a scan are sent to higher ranks only: no ranks wait in a circle.
        let goes_up = matches!(inner.operation(), Operation::Scan | Operation::Exscan);
        let mut tried = 0;
        for size in (2..=7).filter(|size| inner.serves(*size)) {
            let count = match inner.operation() {
                Operation::Barrier => 0,
                operation if on_blocks(operation) => 2,
                _ => 2 * size as usize + 1,
            };
            for (mutant, verdict) in mutants(inner, size, count) {
                // A barrier's messages are empty wherever they start; the ring does not promise an
                // order; and sends may wait where no rank both sends and receives. None of these is
                // a defect.
                let harmless = match mutant.defect {
                    Defect::Shift | Defect::Collide => inner.operation() == Operation::Barrier,
                    Defect::SendAfterRecv => goes_up || is_one_way(inner, size, count, mutant.round),
                    Defect::Swap => !inner.keeps_rank_order(),
                    Defect::DropRound => only_says_go(inner, size, count, mutant.round),
                    _ => false,
                };
                assert!(harmless || verdict.is_err(), "not found, size {size}: {mutant:?}");
                tried += usize::from(!harmless);
            }
        }
        assert!(tried > if inner.serves(3) { 50 } else { 10 }, "{}: only {tried} mutants", inner.name());
    }
}

#[test]
fn faults_are_named() {
    let verdict = |defect, inner, rank, round, index| {
        check(&Mutant { inner, defect, rank, round, index }, 4, 0, 9).map(drop).unwrap_err()
    };
    assert_eq!(
        verdict(Defect::DropRound, &RecursiveDoubling, 0, 1, 0),
        ScheduleFault::Wrong { rank: 2, element: 0 }
    );
    assert_eq!(verdict(Defect::DropStep, &Binomial, 0, 0, 0), ScheduleFault::Deadlock { rank: 2, round: 0 });
    assert_eq!(verdict(Defect::SendAfterRecv, &Ring, 0, 2, 0), ScheduleFault::Deadlock { rank: 0, round: 2 });
    assert!(matches!(
        verdict(Defect::Shift, &Binomial, 0, 0, 0),
        ScheduleFault::Range { rank: 0, round: 0, .. }
    ));
    assert!(matches!(verdict(Defect::Shorten, &Ring, 1, 0, 1), ScheduleFault::Length { from: 1, to: 2, .. }));
    assert_eq!(
        verdict(Defect::Collide, &RecursiveDoubling, 1, 1, 0),
        ScheduleFault::Overlap { rank: 1, round: 1 }
    );
    assert!(matches!(
        verdict(Defect::Swap, &RecursiveDoubling, 3, 1, 2),
        ScheduleFault::Wrong { rank: 3, .. }
    ));
}
