//! The cube: in each dimension groups of ranks share out what they have, and gather it again on the
//! way back.

use aldis_kernel::hal::Operation;

use crate::phases::{Parts, messages, nth, ring_before, sum};
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work};

/// The bcube all-reduce of gloo, of base `BASE`: 2 log_b p stages of b - 1 rounds, 2 (p - 1)/p n
/// elements, for p a power of the base b. Otherwise the last stage has groups of what is left of p
/// without its factors b.
///
/// In a stage the ranks of a group, which differ in one digit of their number, cut what they have
/// into as many parts and send each other's; the stages back are an allgather. gloo exchanges with
/// all of a group at once, which takes scratch for all of them; here it is one after another, in
/// rounds of one message each way.
///
/// **Same bits everywhere:** each part is combined on one rank in the end, and copied to the
/// others. What the others of a group send is combined in the order in which it comes around, not
/// in rank order: only for operations that commute.
///
/// Scratch: the first stage's part of a segment, half of it where p is even and the base 2.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bcube<const BASE: u32>;

/// A stage: groups of `group` ranks at a distance of `stride`.
#[derive(Clone, Copy)]
struct BcubeStage {
    group: u32,
    stride: u32,
}

impl BcubeStage {
    /// Parts of the data, one for each of `size` ranks, that a rank has after it.
    fn width(&self, size: u32) -> u32 {
        size.checked_div(self.group.saturating_mul(self.stride)).unwrap_or(1)
    }

    /// The digit of `rank` that sets it apart from the others of its group.
    fn digit(&self, rank: u32) -> u32 {
        rank.checked_div(self.stride).and_then(|rest| rest.checked_rem(self.group)).unwrap_or(0)
    }

    /// The rank of the group with another digit.
    fn rank(&self, rank: u32, digit: u32) -> u32 {
        let own = self.digit(rank).saturating_mul(self.stride);
        rank.saturating_sub(own).saturating_add(digit.saturating_mul(self.stride))
    }
}

/// The stages of `size` ranks: groups of `base`, then of what is left.
fn stages(base: u32, size: u32) -> impl Iterator<Item = BcubeStage> {
    let (mut left, mut stride) = (size, 1);
    core::iter::from_fn(move || {
        let divides = left.checked_rem(base) == Some(0);
        let group = if divides && base > 1 { base } else { left };
        let stage = BcubeStage { group, stride };
        left = left.checked_div(group)?;
        stride = stride.saturating_mul(group);
        (group > 1).then_some(stage)
    })
}

/// Rounds of the way there.
fn rounds(base: u32, size: u32) -> u32 {
    stages(base, size).map(|stage| stage.group - 1).sum()
}

/// The stage of a round, the first part of what the rank has before it, and the round within it.
fn stage_at(base: u32, instance: &Instance, mut round: u32) -> Option<(BcubeStage, u32, u32)> {
    let mut first = 0;
    stages(base, instance.size()).find_map(|stage| match round.checked_sub(stage.group - 1) {
        None => Some((stage, first, round)),
        Some(rest) => {
            round = rest;
            first += stage.digit(instance.rank()) * stage.width(instance.size());
            None
        }
    })
}

/// A round of a stage: the peers that this rank's message is sent to and comes from, and the parts
/// of both and its own.
struct Round {
    to: (u32, Span),
    from: (u32, Span),
    own: Span,
}

impl Round {
    fn of(base: u32, instance: &Instance, round: u32) -> Option<Self> {
        let (stage, first, round) = stage_at(base, instance, round)?;
        let (rank, width) = (instance.rank(), stage.width(instance.size()));
        let (digit, by) = (stage.digit(rank), round + 1);
        let parts = Parts::new(instance.count(), instance.size());
        let part = |digit: u32| parts.span(first + digit * width, width);
        let other = |digit: u32| (stage.rank(rank, digit), part(digit));
        let before = ring_before(digit, by, stage.group);
        let after = ring_before(digit, stage.group - by, stage.group);
        Some(Self { to: other(after), from: other(before), own: part(digit) })
    }

    fn share_out(&self, instance: &Instance, index: u32) -> Option<Step> {
        let arrived = Span::scratch(self.own.len);
        let order = if self.from.0 < instance.rank() { Order::FromFirst } else { Order::IntoFirst };
        let steps = [
            Step::Recv { from: self.from.0, into: arrived },
            Step::Send { to: self.to.0, from: self.to.1 },
            Step::Reduce { into: self.own, from: arrived, order },
        ];
        nth(steps, index)
    }

    fn gather(&self, index: u32) -> Option<Step> {
        let steps = [
            Step::Recv { from: self.from.0, into: self.from.1 },
            Step::Send { to: self.to.0, from: self.own },
        ];
        nth(steps, index)
    }
}

impl<const BASE: u32> Schedule for Bcube<BASE> {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "bcube"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { rounds(BASE, instance.size()).saturating_mul(2) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let there = rounds(BASE, instance.size());
        match round.checked_sub(there) {
            None => Round::of(BASE, instance, round)?.share_out(instance, index),
            Some(done) => {
                let undone = there.checked_sub(done)?.checked_sub(1)?;
                Round::of(BASE, instance, undone)?.gather(index)
            }
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        match stages(BASE, size).next() {
            None => usize::MAX,
            Some(first) => Parts::capacity(scratch, size, first.width(size)),
        }
    }

    fn keeps_rank_order(&self) -> bool {
        false
    }
}

impl<const BASE: u32> Priced for Bcube<BASE> {
    fn source(&self) -> &'static str {
        "Guo et al. 2009 (BCube); gloo allreduce.cc bcube, allreduce_bcube.h"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let parts = Parts::new(count, size);
        let of =
            |stage: BcubeStage, reduces| messages(stage.group - 1, parts.len(0, stage.width(size)), reduces);
        stages(BASE, size).fold(Work::default(), |all, stage| sum([all, of(stage, true), of(stage, false)]))
    }

    fn reproduces(&self, size: u32) -> bool {
        size.is_power_of_two()
    }
}
