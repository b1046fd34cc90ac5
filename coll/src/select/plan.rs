//! The plan by which a call is carried out, and its cost.

use super::{Call, Prices};
use crate::schedule::{Algorithm, Candidate, Work};

/// The most segments of one call that are under way at a time.
pub const LANES: usize = 4;

/// The plan by which a call is carried out: the algorithm, the elements of a segment, and how many
/// segments are under way at a time.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Elements of every segment but the last, which may be shorter; the whole count if it needs no
    /// cutting.
    pub segment: usize,
    lanes: u32,
}

impl Plan {
    /// Makes a plan of one segment at a time.
    pub(crate) const fn in_turn(algorithm: Algorithm, segment: usize) -> Self {
        Self { algorithm, segment, lanes: 1 }
    }

    /// With so many at a time.
    pub(super) const fn with_lanes(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    /// Segments that are under way at a time, 1 to [`LANES`].
    #[inline]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Elements from one segment to the next of the same lane.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.segment.saturating_mul(self.lanes() as usize)
    }

    /// Segments that `count` elements are cut into, at least 1.
    pub fn segments(&self, count: usize) -> usize {
        if count <= self.segment { 1 } else { count.div_ceil(self.segment.max(1)) }
    }

    /// The work of all segments of `call`, by the algorithm of this plan.
    pub fn work(&self, call: &Call, algorithm: Candidate) -> Work {
        let full = self.segments(call.count) - 1;
        let each = algorithm.work(call.size, self.segment);
        if full == 0 {
            return each;
        }
        let last = algorithm.work(call.size, call.count.saturating_sub(full.saturating_mul(self.segment)));
        let sum = |each: u64, last: u64| each.saturating_mul(full as u64).saturating_add(last);
        Work {
            rounds: sum(each.rounds, last.rounds),
            fan: sum(each.fan, last.fan),
            elements: sum(each.elements, last.elements),
            reduced: sum(each.reduced, last.reduced),
            copied: sum(each.copied, last.copied),
        }
    }

    /// Returns the cost of `call` by the algorithm of this plan, in ns. Where several segments are
    /// under way at a time: the first one's work, and of each further one what keeps the busiest
    /// rank's processor; or, if that is more, its part of what that rank waits for with so many
    /// lanes.
    pub(super) fn ns(&self, call: &Call, algorithm: Candidate, prices: &Prices) -> u64 {
        let bytes = call.element_bytes;
        if self.lanes() < 2 {
            return prices.of(&self.work(call, algorithm), bytes);
        }
        let further = (self.segments(call.count) - 1) as u64;
        let share = algorithm.share(call.size, self.segment);
        let in_lanes = prices.of(&share, bytes).div_ceil(self.lanes().into());
        let each = prices.without_latency().of(&share, bytes).max(in_lanes);
        let first = prices.of(&algorithm.work(call.size, self.segment), bytes);
        first.saturating_add(further.saturating_mul(each))
    }
}

impl Prices {
    /// Of what a processor is busy with: while a message is on its way, it is not.
    pub(super) const fn without_latency(self) -> Self {
        let mut prices = self;
        prices.message.latency_ns = 0;
        prices
    }
}
