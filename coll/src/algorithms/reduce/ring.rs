//! The ring: a reduce-scatter, once around in chunks of n/p, then all chunks to the root.

use aldis_kernel::hal::Operation;

use crate::phases::{Parts, locate, messages, nth, pass_reducing, ring_before, sum};
use crate::schedule::{IN_FLIGHT_MAX, Instance, Priced, Schedule, Step, Work};

/// The ring reduction: p - 1 rounds of n/p elements, and (p - 1)/8 more in which the root gets a
/// chunk each of eight ranks.
///
/// Places count from the root. In round k of the reduce-scatter a place passes the chunk of the
/// place k + 1 before it on to the next and adds its own part to the one that comes; after p - 1
/// rounds it holds its own chunk complete.
///
/// The path of a chunk starts at the place after its own, so operands are in ring order, not in
/// rank order: only for operations that commute.
///
/// Scratch: one chunk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ring;

/// Chunks that the root receives in a round.
const AT_ONCE: u32 = IN_FLIGHT_MAX as u32;

/// The chunks go to the root, [`AT_ONCE`] a round.
fn gather(instance: &Instance, parts: Parts, round: u32, index: u32) -> Option<Step> {
    let place = instance.from_root();
    let first = round.saturating_mul(AT_ONCE).saturating_add(1);
    match place.checked_sub(first) {
        None if place == 0 && index < AT_ONCE => {
            let place = first.saturating_add(index);
            let into = parts.span(place, 1);
            (place < instance.size() && into.len > 0)
                .then(|| Step::Recv { from: instance.at_place(place), into })
        }
        Some(nth) if nth < AT_ONCE && index == 0 => {
            let from = parts.span(place, 1);
            (from.len > 0).then_some(Step::Send { to: instance.root(), from })
        }
        _ => None,
    }
}

fn lengths(size: u32) -> [u32; 2] {
    let lap = size.saturating_sub(1);
    [lap, lap.div_ceil(AT_ONCE)]
}

impl Schedule for Ring {
    fn operation(&self) -> Operation {
        Operation::Reduce
    }

    fn name(&self) -> &'static str {
        "ring"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { lengths(instance.size()).iter().sum() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (size, place) = (instance.size(), instance.from_root());
        let parts = Parts::new(instance.count(), size);
        let chunk = |before| parts.span(ring_before(place, before, size), 1);
        match locate(round, lengths(size))? {
            (0, round) => nth(pass_reducing(instance, chunk(round + 1), chunk(round + 2)), index),
            (_, round) => gather(instance, parts, round, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch.saturating_mul(size as usize) }
    }

    fn keeps_rank_order(&self) -> bool {
        false
    }
}

impl Priced for Ring {
    fn source(&self) -> &'static str {
        "Patarasuk, Yuan 2009; gloo reduce.cc"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let (parts, [lap, gathers]) = (Parts::new(count, size), lengths(size));
        let rounds = parts.longest_messages(1, 1, AT_ONCE, gathers).rounds;
        let fan = parts.nonempty_pieces(1, 1, lap).saturating_sub(rounds);
        let gathered = Work { rounds, fan, elements: parts.len(1, lap) as u64, ..Work::default() };
        sum([messages(lap, parts.len(0, 1), true), gathered])
    }
}
