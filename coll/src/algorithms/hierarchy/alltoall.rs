//! All-to-all: what a node has for a rank elsewhere is sent there in one message.

use aldis_kernel::hal::Operation;

use super::{NAME, Nodes, NodesShape, TwoLevel};
use crate::algorithms::blocks::alltoall::Linear;
use crate::phases::{locate, ring_before, sum};
use crate::schedule::exchange::{self, WIDTH_MAX};
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, divide};

/// The two-level all-to-all. Every rank of a node leads it towards some ranks elsewhere: those
/// whose number leaves the same rest, divided by the ranks of the node, as its own place there.
/// Ranks of a node swap the blocks for each other, then those that the others carry; every carrier
/// sorts what it has and sends each of its ranks the blocks of the whole node, four nodes at a
/// time. Of n nodes of k ranks: 2 ceil((k-1)/4) near and ceil((n-1)/4) far rounds, p (n - 1) far
/// messages of k blocks instead of p (p - k) of one.
///
/// With one leader a node it would be n (n - 1) messages of k^2 blocks, which take scratch for as
/// many and pass through one rank.
///
/// If the last node is shorter, its ranks carry for several ranks of each node. Scratch: 2 p
/// blocks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Alltoall;

/// The blocks that the ranks of a node carry for it, by their places there.
struct Carried {
    nodes: Nodes,
    /// Ranks of the node, and the first of them.
    here: u32,
    start: u32,
    /// Ranks elsewhere.
    others: u32,
    /// This rank's place.
    own: u32,
}

impl Carried {
    fn new(instance: &Instance, nodes: Nodes) -> Self {
        let (here, start) = (nodes.len(), nodes.own.start);
        let others = instance.size().saturating_sub(here);
        Self { nodes, here, start, others, own: instance.rank().saturating_sub(start) }
    }

    /// For how many ranks the one at a place carries.
    fn len(&self, place: u32) -> u32 {
        self.others.saturating_sub(place).div_ceil(self.here.max(1))
    }

    /// The rank elsewhere with a number, the place of its carrier, and which of those it is that
    /// this one carries for.
    fn other(&self, number: u32) -> (u32, u32, u32) {
        let rank = if number < self.start { number } else { number.saturating_add(self.here) };
        let (index, place) = divide(number as usize, self.here as usize);
        (rank, place as u32, index as u32)
    }

    /// The index of a rank elsewhere among those it carries for.
    fn index(&self, rank: u32) -> u32 {
        let number = if rank < self.start { rank } else { rank.saturating_sub(self.here) };
        number.checked_div(self.here).unwrap_or(0)
    }

    /// Returns the place where blocks for others to carry are packed, by the carrier and which of
    /// its blocks it is. There is room for as many as any carrier has.
    fn packed(&self, instance: &Instance, place: u32, index: u32, blocks: u32) -> Span {
        scratch(instance, place.saturating_mul(self.len(0)).saturating_add(index), blocks)
    }

    /// Returns the place where blocks arrive that this rank is to carry, in the same way, by their
    /// owner: behind the packed ones.
    fn came(&self, instance: &Instance, place: u32, index: u32, blocks: u32) -> Span {
        let before = instance.size().saturating_add(place.saturating_mul(self.len(0)));
        scratch(instance, before.saturating_add(index), blocks)
    }
}

/// Returns `number` blocks of scratch, behind `before` others.
fn scratch(instance: &Instance, before: u32, number: u32) -> Span {
    let elements = |blocks: u32| (blocks as usize).saturating_mul(instance.count());
    Span { start: elements(before), ..Span::scratch(elements(number)) }
}

/// Ranks of the last node.
fn last(size: u32, NodesShape { largest, nodes }: NodesShape) -> u32 {
    size.saturating_sub(largest.saturating_mul(nodes.saturating_sub(1))).max(1)
}

/// Messages that a rank of the last node has for another one: one if that is no larger.
fn messages_to_node(size: u32, shape: NodesShape) -> u32 {
    shape.largest.div_ceil(last(size, shape)).max(1)
}

impl Alltoall {
    /// Rounds within nodes, to pack, to swap, to sort, and between nodes.
    fn lengths(instance: &Instance, shape: NodesShape) -> [u32; 5] {
        if instance.count() == 0 {
            return [0; 5];
        }
        let others = shape.nodes.saturating_sub(1);
        let swaps = shape.largest.saturating_sub(1).div_ceil(WIDTH_MAX);
        let passes = others.saturating_mul(messages_to_node(instance.size(), shape)).div_ceil(WIDTH_MAX);
        let sorts = u32::from(shape.largest > 1 && others > 0);
        [swaps.max(1), sorts, swaps * sorts, sorts, passes]
    }

    /// A round of the blocks that stay in a node.
    fn within(instance: &Instance, nodes: &Nodes, round: u32, index: u32) -> Option<Step> {
        let before = instance.blocks(0, nodes.own.start).len;
        let here = |span: Span| Span { start: span.start.saturating_add(before), ..span };
        Some(match nodes.near.step(&Linear, instance, round, index)? {
            Step::Recv { from, into } => Step::Recv { from, into: here(into) },
            Step::Send { to, from } => Step::Send { to, from: here(from) },
            Step::Copy { into, from } => Step::Copy { into: here(into), from: here(from) },
            other => other,
        })
    }

    /// Packs a block that another rank carries, or puts one that this rank carries itself where
    /// theirs arrive.
    fn pack(instance: &Instance, carried: &Carried, number: u32) -> Option<Step> {
        let (rank, place, index) = carried.other(number);
        let into = match place == carried.own {
            true => carried.came(instance, place, index, 1),
            false => carried.packed(instance, place, index, 1),
        };
        let is_there = carried.here > 1 && number < carried.others;
        is_there.then(|| Step::Copy { into, from: instance.block(rank).of_input() })
    }

    /// A round of exchanges with ranks of the node. Some have nothing to carry.
    fn swap(instance: &Instance, carried: &Carried, round: u32, index: u32) -> Option<Step> {
        let before = round.saturating_mul(WIDTH_MAX);
        let now = carried.here.saturating_sub(1).saturating_sub(before).min(WIDTH_MAX);
        let distances = before + 1..before + 1 + now;
        let rank = |place: u32| carried.start.saturating_add(place);
        let received = distances.clone().map(|distance| {
            let place = ring_before(carried.own, distance, carried.here);
            Step::Recv { from: rank(place), into: carried.came(instance, place, 0, carried.len(carried.own)) }
        });
        let sent = distances.map(|distance| {
            let place = ring_before(carried.own, carried.here - distance, carried.here);
            Step::Send { to: rank(place), from: carried.packed(instance, place, 0, carried.len(place)) }
        });
        received.chain(sent).filter(|step| step.message().len > 0).nth(index as usize)
    }

    /// Sorts carried blocks by the rank that they are for, into the place of packed blocks.
    fn sort(instance: &Instance, carried: &Carried, number: u32) -> Option<Step> {
        let (index, place) = divide(number as usize, carried.here as usize);
        let (index, place) = (index as u32, place as u32);
        let is_there = carried.here > 1 && index < carried.len(carried.own);
        is_there.then(|| Step::Copy {
            into: scratch(instance, number, 1),
            from: carried.came(instance, place, index, 1),
        })
    }

    /// A round of exchanges with ranks of other nodes: in each turn with the next node and the one
    /// as far before. A rank receives from its carrier there, and sends to those that it carries
    /// for.
    fn pass(instance: &Instance, carried: &Carried, round: u32, index: u32) -> Option<Step> {
        let nodes = &carried.nodes;
        let (size, all, own) = (instance.size(), nodes.shape.nodes, nodes.node(instance.rank()));
        let turns = messages_to_node(size, nodes.shape);
        let first = round.saturating_mul(WIDTH_MAX);
        let end = all.saturating_sub(1).saturating_mul(turns);
        let now = (first..first.saturating_add(WIDTH_MAX).min(end)).map(|number| {
            let (before, turn) = divide(number as usize, turns as usize);
            (before as u32 + 1, turn as u32)
        });
        let received = now.clone().filter_map(|(distance, turn)| {
            let node = ring_before(own, distance, all);
            let there = nodes.ranks(size, node);
            let carrier = instance.rank().checked_rem(there)?;
            let from = nodes.first(node).saturating_add(carrier);
            let is_now = carried.own.checked_div(there) == Some(turn);
            is_now.then(|| Step::Recv { from, into: nodes.blocks(instance, node) })
        });
        let sent = now.filter_map(|(distance, turn)| {
            let node = ring_before(own, all - distance, all);
            let before = turn.saturating_mul(carried.here);
            let place = before.saturating_add(ring_before(carried.own, nodes.first(node), carried.here));
            let to = nodes.first(node).saturating_add(place);
            let from = match carried.here {
                1 => instance.block(to).of_input(),
                here => scratch(instance, carried.index(to).saturating_mul(here), here),
            };
            (place < nodes.ranks(size, node)).then_some(Step::Send { to, from })
        });
        received.chain(sent).nth(index as usize)
    }
}

impl Schedule for Alltoall {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        Self::lengths(instance, Nodes::of(instance).shape).into_iter().fold(0, u32::saturating_add)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let carried = Carried::new(instance, Nodes::of(instance));
        match locate(round, Self::lengths(instance, carried.nodes.shape))? {
            (0, round) => Self::within(instance, &carried.nodes, round, index),
            (1, _) => Self::pack(instance, &carried, index),
            (2, round) => Self::swap(instance, &carried, round, index),
            (3, _) => Self::sort(instance, &carried, index),
            (_, round) => Self::pass(instance, &carried, round, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 3 { usize::MAX } else { divide(scratch, size as usize).0 / 2 }
    }
}

impl TwoLevel for Alltoall {
    fn source(&self) -> &'static str {
        "Traeff, Hunold 2020, full-lane; Open MPI mca_coll_han_alltoall, on a grid"
    }

    /// With a shorter last node, at most so much.
    fn work(&self, size: u32, node: u32, count: usize) -> [Work; 2] {
        let shape @ NodesShape { largest, nodes } = NodesShape::new(size, node);
        let others = nodes.saturating_sub(1);
        let within = Linear.work(largest, count);
        if count == 0 || others == 0 {
            return [within, Work::default()];
        }
        let elements = |blocks: u32| u64::from(blocks).saturating_mul(count as u64);
        let (turns, last) = (messages_to_node(size, shape), last(size, shape));
        // A rank of the last node carries for so many.
        let most = others.saturating_mul(largest).div_ceil(last);
        let swapped = exchange::work(largest, count.saturating_mul(others as usize), WIDTH_MAX);
        let more = elements(last.saturating_sub(1).saturating_mul(most.saturating_sub(others)));
        let copied = if largest > 1 {
            elements(others.saturating_mul(largest) + last.saturating_mul(most))
        } else {
            0
        };
        let swapped = Work { elements: swapped.elements.saturating_add(more), copied, ..swapped };
        let passes = exchange::work(others.saturating_mul(turns).saturating_add(1), count, WIDTH_MAX);
        let blocks = (turns - 1).saturating_mul(last).saturating_add(largest).saturating_mul(others);
        [sum([within, swapped]), Work { elements: elements(blocks), ..passes }]
    }
}
