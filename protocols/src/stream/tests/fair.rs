//! Checks of what happens when nothing goes wrong any more.

use std::vec::Vec;

use super::world::{Budget, StreamStep, StreamWorld, WorldEnd, epoch};
use crate::timer::Timer;

impl StreamWorld {
    /// Returns true if both hold the same connection and there is no other.
    pub(super) fn is_settled(&self) -> bool {
        self.shared().is_some()
            && self.connections.iter().all(|one| {
                let rests = one.ends.iter().any(|end| !matches!(end, WorldEnd::Open(rest) if rest.is_none()));
                !rests && one.wire.iter().all(Vec::is_empty)
            })
            && self.connections.len() == 1
    }

    /// Returns the next step of fair connections, patient users and kernels that learn of new
    /// lives: nothing more goes wrong; a peer that has to be introduced is; `askers` want the link
    /// while they do not have it.
    pub(super) fn fair_step(&self, askers: [bool; 2]) -> Option<StreamStep> {
        let all = || (0..self.connections.len()).flat_map(|at| [(at, 0), (at, 1)]);
        let steps = all().flat_map(|(at, i)| self.steps_of(at, i)).collect::<Vec<_>>();
        let first = |which: fn(&StreamStep) -> bool| steps.iter().copied().find(which);
        let links = [&self.sides[0].link, &self.sides[1].link];
        let node = |which: &dyn Fn(usize) -> bool| (0..2).find(|&i| which(i));
        first(|step| matches!(step, StreamStep::Deliver(..)))
            .or_else(|| first(|step| matches!(step, StreamStep::Notice(..))))
            .or_else(|| first(|step| matches!(step, StreamStep::Accept(..))))
            .or_else(|| first(|step| matches!(step, StreamStep::Agree(..))))
            .or_else(|| {
                let unknown = |i: usize| links[i].admitted() != Some(epoch(1 - i, self.sides[1 - i].life));
                node(&unknown).map(StreamStep::Introduce)
            })
            .or_else(|| node(&|i| links[i].retry != Timer::OFF).map(StreamStep::Retry))
            .or_else(|| node(&|i| askers[i] && !links[i].is_open() && !links[i].wanted).map(StreamStep::Want))
            .or_else(|| {
                let shaking = all().find(|&(at, i)| match &self.connections[at].ends[i] {
                    WorldEnd::Shaking(handshake) => handshake.poll_timeout().is_some(),
                    _ => false,
                });
                shaking.map(|(at, i)| StreamStep::Slow(at, i))
            })
    }

    /// This state with no faults left in the budget.
    pub(super) fn healed(&self) -> Self {
        let mut healed = self.clone();
        healed.budget = Budget { wants: 0, ..super::NOTHING };
        healed
    }
}
