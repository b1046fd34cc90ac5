//! The plan by which a call is carried out, and its cost: into how many segments it is cut, and how
//! many of them are under way at a time.

use aldis_kernel::hal::Cause;

use super::{Call, Options, Prices, Selected};
use crate::schedule::{Algorithm, Candidate, Work, alike, divide, is_among_neighbors};

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

impl Call {
    /// The plan by this algorithm, which the caller has named: cut as the options say, else as is
    /// cheapest if it is one of the candidates.
    pub(super) fn named(
        &self,
        algorithm: Algorithm,
        candidates: &[Candidate],
        options: &Options,
    ) -> Result<Plan, Cause> {
        if let Some(segment) = options.segment {
            return self.cut(algorithm, segment.get());
        }
        match candidates.iter().find(|candidate| candidate.name() == algorithm.name()) {
            Some(&candidate) => self.priced(candidate, options).map(|selected| selected.plan),
            None => self.plan(algorithm),
        }
    }

    /// The cheapest plan by this candidate with this scratch.
    pub(super) fn priced(&self, candidate: Candidate, options: &Options) -> Result<Selected, Cause> {
        let prices = &options.prices;
        let price = |plan: Plan| Selected { plan, ns: plan.ns(self, candidate, prices) };
        if let Some(segment) = options.segment {
            return self.cut(candidate, segment.get()).map(price);
        }
        let whole = price(self.plan(candidate)?);
        let segments = self.cheapest_segments(candidate, prices);
        if segments < 2 {
            return Ok(whole);
        }
        let cut = price(self.cut(candidate, self.count.div_ceil(segments))?);
        Ok(if cut.ns < whole.ns { cut } else { whole })
    }

    /// The plan with segments of at most so many elements, as many of them at a time as the scratch
    /// is enough for. Blocks of unlike lengths are not cut so: a rank does not know the others'.
    /// Nor are those of neighbours, who may have unlike numbers of them.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if it is an algorithm for something else or for other sizes,
    /// [`Cause::TooSmall`] for no scratch where it needs some; the rest as [`plan`](Self::plan).
    fn cut(&self, algorithm: Algorithm, segment: usize) -> Result<Plan, Cause> {
        if alike(self.operation) != self.operation || is_among_neighbors(self.operation) {
            return self.plan(algorithm);
        }
        let mut lanes = self.count.div_ceil(segment.max(1)).clamp(1, LANES);
        while lanes > 1 && algorithm.capacity(self.size, divide(self.scratch, lanes).0) == 0 {
            lanes -= 1;
        }
        let in_turn = Self { scratch: divide(self.scratch, lanes).0, ..*self }.plan(algorithm)?;
        let segments = self.count.div_ceil(segment.min(in_turn.segment).max(1)).max(1);
        let plan = Plan::in_turn(algorithm, self.count.div_ceil(segments));
        Ok(plan.with_lanes(lanes.min(plan.segments(self.count)) as u32))
    }

    /// The number of segments that makes the price least, if prices were proportional to elements:
    /// with the first segment's price `a + b / s` and each further one's `c + d / s`, it is
    /// `sqrt((b - d) / c)`. The square root rule of pipelining, as in Johnsson, Ho 1989 and in
    /// Pješivac-Grbović et al. 2007, "Performance analysis of MPI collective operations",
    /// section 3.
    fn cheapest_segments(&self, candidate: Candidate, prices: &Prices) -> usize {
        let (work, share) = (candidate.work(self.size, self.count), candidate.share(self.size, self.count));
        let of_elements = |work: Work| prices.of(&Work { rounds: 0, fan: 0, ..work }, self.element_bytes);
        let saved = of_elements(work).saturating_sub(of_elements(share));
        let each = Work { rounds: share.rounds, fan: share.fan, ..Work::default() };
        let paid = prices.without_latency().of(&each, self.element_bytes);
        let segments = saved.checked_div(paid).unwrap_or(0).isqrt();
        usize::try_from(segments).unwrap_or(usize::MAX).min(self.count)
    }
}
