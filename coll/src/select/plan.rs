//! The choice of the plan by which a call is carried out, and its cost: which algorithm, into how
//! many segments the call is cut, and how many of them are under way at a time.

use aldis_kernel::hal::{Cause, Operation, Resource};

use super::{Call, Choice, Options, Prices, Selected, slots};
use crate::algorithms::priced;
use crate::schedule::{
    Algorithm, Candidate, Work, alike, divide, is_among_neighbors, least_scratch, on_blocks,
};

/// The most segments of one call that are under way at a time.
pub const LANES: usize = 4;

/// The part of the least price there can be by which an algorithm may be dearer and is taken
/// without looking at others.
pub(super) const ENOUGH_PART: u64 = 8;

/// The bytes up to which a good part of a message's cost is the handshake before it, which the
/// model does not know.
const HANDSHAKE_BYTES: u64 = 128 << 10;

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
    /// Ranks of a node, for an algorithm in two levels; 0 if that is not known.
    pub(crate) node: u32,
}

impl Plan {
    /// Makes a plan of one segment at a time.
    pub(crate) const fn in_turn(algorithm: Algorithm, segment: usize) -> Self {
        Self { algorithm, segment, lanes: 1, node: 0 }
    }

    /// With so many at a time.
    pub(super) const fn with_lanes(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    /// For nodes of so many ranks.
    pub(super) const fn with_node(self, node: u32) -> Self {
        Self { node, ..self }
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
    /// Plans the call by `algorithm`, in as few segments as the scratch allows, one at a time.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if it is an algorithm for something else or for other sizes, or would
    /// mix the order of operands that do not commute; [`Cause::TooSmall`] if there is not one
    /// element of scratch and it needs some.
    pub fn plan(&self, algorithm: Algorithm) -> Result<Plan, Cause> {
        let is_like = algorithm.operation() == alike(self.operation);
        let serves = algorithm.operation() == self.operation || algorithm.serves_unlike(self.size);
        if !is_like || !serves || !self.admits(algorithm) {
            return Err(Cause::Unsupported);
        }
        let capacity = algorithm.capacity(self.size, self.scratch);
        // Where ranks differ in their longest block, all cut alike nevertheless: what two of them
        // exchange ends for both alike.
        let cuts_alike = matches!(self.operation, Operation::Alltoallv | Operation::Alltoallw);
        if self.count > capacity && capacity > 0 && cuts_alike {
            return Ok(Plan::in_turn(algorithm, capacity));
        }
        let segment = self.even_segment(capacity).ok_or_else(|| self.too_little(algorithm))?;
        Ok(Plan::in_turn(algorithm, segment))
    }

    /// Returns true if the algorithm is for so many ranks, and keeps their order where that counts.
    pub(crate) fn admits(&self, algorithm: Algorithm) -> bool {
        algorithm.serves(self.size) && (self.commutes || algorithm.keeps_rank_order())
    }

    /// Returns the elements of a segment, if at most `capacity` can be worked on at once: as few
    /// segments as that allows, of even length; `None` if it is 0 and there are elements.
    pub(crate) fn even_segment(&self, capacity: usize) -> Option<usize> {
        if self.count <= capacity {
            return Some(self.count);
        }
        let segments = self.count.checked_div(capacity)?;
        let segments = segments + usize::from(segments.saturating_mul(capacity) < self.count);
        Some(self.count.div_ceil(segments.max(1)))
    }

    #[cold]
    fn too_little(&self, algorithm: Algorithm) -> Cause {
        let bytes = |elements: usize| {
            u32::try_from((elements as u64).saturating_mul(self.element_bytes.into())).unwrap_or(u32::MAX)
        };
        let need = bytes(least_scratch(algorithm, self.size));
        Cause::TooSmall { what: Resource::Scratch, need, have: bytes(self.scratch) }
    }

    /// The plan by the option's algorithm, or the cheapest one.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] and [`Cause::TooSmall`] as [`plan`](Self::plan); for [`Choice::Auto`]
    /// the last candidate's refusal when all are refused; [`Cause::Irreproducible`] for a named
    /// algorithm of which the options ask for the bits of others.
    #[inline(always)]
    pub fn select(&self, candidates: &[Candidate], options: &Options) -> Result<Selected, Cause> {
        match options.choice {
            Choice::Named(algorithm) => {
                if options.fixes_bits(self) {
                    self.check_bits(priced(algorithm))?;
                }
                let plan = self.named(algorithm, candidates, options)?;
                Ok(Selected { plan: plan.with_node(options.node), ns: 0 })
            }
            Choice::Auto => self.cheapest(candidates, options),
            Choice::Shared if options.fixes_bits(self) => Err(Cause::Irreproducible),
            Choice::Shared => Err(Cause::Unsupported),
        }
    }

    /// Refuses what does not evaluate the operation's one expression.
    fn check_bits(&self, algorithm: Option<Candidate>) -> Result<(), Cause> {
        let reproduces = algorithm.is_some_and(|candidate| candidate.reproduces(self.size));
        if reproduces { Ok(()) } else { Err(Cause::Irreproducible) }
    }

    /// [`price`](Self::price) of what these options allow.
    pub(crate) fn offer(&self, candidate: Candidate, options: &Options) -> Result<Selected, Cause> {
        if options.fixes_bits(self) {
            self.check_bits(Some(candidate))?;
        }
        self.price(candidate, options)
    }

    /// The cheapest plan by this candidate and what it costs. More scratch than there are data is
    /// used only by what the caller names.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if it is an algorithm for something else or for other sizes,
    /// [`Cause::TooSmall`] for no scratch where it needs some; the rest as [`plan`](Self::plan).
    pub fn price(&self, candidate: Candidate, options: &Options) -> Result<Selected, Cause> {
        let scratch = if on_blocks(self.operation) { self.scratch } else { self.scratch.min(self.count) };
        Self { scratch, ..*self }.priced(candidate, options)
    }

    /// Returns the cost of the call by control slots, in ns.
    pub(crate) fn shared_ns(&self, prices: &Prices) -> u64 {
        let work = slots::work(self.operation, self.size, self.count);
        prices.of(&work, self.element_bytes)
    }

    /// Returns true if control slots are cheaper than messages. Where these are short for what
    /// their handshakes cost, or there are but two ranks, control slots may seem twice as dear:
    /// each side's copy is a part of both, and theirs are done at a time, in chunks that stay in a
    /// cache. Two ranks, cores of one cache (AMD EPYC), messages and control slots: a broadcast of
    /// 1 MiB takes 84 and 63 us, of 64 KiB 10 and 5, an all-reduce of 1 MiB 181 and 104, a
    /// reduction of 256 KiB 40 and 14.
    pub(super) fn prefers_control_slots(&self, by_messages: &Selected, prices: &Prices) -> bool {
        let bytes = (self.count as u64).saturating_mul(self.element_bytes.into());
        let times = if bytes > HANDSHAKE_BYTES && self.size > 2 { 1 } else { 2 };
        self.shared_ns(prices) <= by_messages.ns.saturating_mul(times)
    }

    /// Returns the lower bound of the cost of any algorithm, in ns: a round, what a rank must
    /// receive, half of what two ranks reduce, and an all-to-all's own block. With two ranks some
    /// algorithm costs hardly more.
    pub(super) fn floor_ns(&self, prices: &Prices) -> u64 {
        let Self { operation, size, count, element_bytes, .. } = *self;
        let (count, others) = (count as u64, u64::from(size.saturating_sub(1)));
        let operation = alike(operation);
        let reduces = matches!(operation, Operation::Reduce | Operation::Allreduce | Operation::Scan);
        let elements = if on_blocks(operation) { count.saturating_mul(others) } else { count };
        let reduced = if reduces { count / 2 } else { 0 };
        let copied = if operation == Operation::Alltoall { count } else { 0 };
        // Without data there is nothing to send, but in a barrier.
        let rounds = if count > 0 || operation == Operation::Barrier { others.min(1) } else { 0 };
        prices.of(&Work { rounds, fan: 0, elements, reduced, copied }, element_bytes)
    }

    /// The cheapest, or the first that costs hardly more than any can: pricing all takes longer
    /// than a short message.
    #[inline(never)]
    pub(super) fn cheapest(&self, candidates: &[Candidate], options: &Options) -> Result<Selected, Cause> {
        let mut best: Result<Selected, Cause> = Err(Cause::Unsupported);
        let enough = self.floor_ns(&options.prices);
        let enough = enough.saturating_add(enough / ENOUGH_PART);
        for &candidate in candidates {
            if best.is_ok_and(|best| best.ns <= enough) {
                break;
            }
            best = match (best, self.offer(candidate, options)) {
                (Ok(best), Ok(other)) if other.ns >= best.ns => Ok(best),
                (Ok(best), Err(_)) => Ok(best),
                (_, other) => other,
            };
        }
        best
    }

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
