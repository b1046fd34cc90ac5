//! Selection: each candidate is priced with the cost model and the cheapest is taken, unless the
//! caller names one.
//!
//! The price of a schedule is `rounds * alpha + bytes * beta + reduced bytes * gamma` over its
//! critical path ([`Priced::work`]), with the processor's part of alpha for each further message of
//! a round, after Thakur, Rabenseifner, Gropp 2005, section 3. Segments that follow one another in
//! lanes cost the first one's price and, for each further one, what the busiest rank has to do for
//! it ([`Priced::share`]); there are as many as make that cheapest, and as the scratch asks for.
//!
//! **Every rank must select the same algorithm**, so nothing that a rank measures for itself
//! counts: count, element size, scratch size and [`Prices`] are arguments that the caller gives
//! alike on all ranks.
//!
//! [`Priced::work`]: crate::schedule::Priced::work
//! [`Priced::share`]: crate::schedule::Priced::share

mod plan;
pub(crate) mod slots;
mod spec;
mod two_levels;

use core::fmt;
use core::num::NonZeroUsize;

use aldis_kernel::hal::{Cause, Cost, Operation, Resource};
pub use plan::{LANES, Plan};
pub(crate) use spec::CallSpec;

use crate::algorithms::{across, algorithms, priced};
use crate::op::{Element, Kernel, Reduce};
use crate::schedule::{Algorithm, Candidate, Work, alike, least_scratch, on_blocks};

/// The prices of the cost model. The same on every rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Prices {
    /// The cost of a message (alpha and beta).
    pub message: Cost,
    /// Processor time to reduce or copy a KiB (gamma), ns.
    pub local_per_kib_ns: u32,
}

impl Prices {
    /// Two processes of one machine over shared memory, as measured on 2020s x86 servers.
    pub const SHARED_MEMORY: Self =
        Self { message: Cost { overhead_ns: 40, latency_ns: 160, per_kib_ns: 100 }, local_per_kib_ns: 50 };

    /// Two processes with a socket between them: a message costs what it costs to carry 25 KiB.
    pub const SOCKET: Self = Self {
        message: Cost { overhead_ns: 1_500, latency_ns: 2_000, per_kib_ns: 200 },
        local_per_kib_ns: 50,
    };

    /// The price of `work` with elements of `element_bytes` bytes, in ns, saturating.
    pub fn of(&self, work: &Work, element_bytes: u32) -> u64 {
        let span = |elements: u64, per_kib_ns: u32| {
            Cost { per_kib_ns, ..Cost::default() }.message_ns(elements.saturating_mul(element_bytes.into()))
        };
        let local = work.reduced.saturating_add(work.copied);
        (work.rounds.saturating_mul(self.message.message_ns(0)))
            .saturating_add(work.fan.saturating_mul(self.message.overhead_ns.into()))
            .saturating_add(span(work.elements, self.message.per_kib_ns))
            .saturating_add(span(local, self.local_per_kib_ns))
    }
}

impl Default for Prices {
    fn default() -> Self {
        Self::SHARED_MEMORY
    }
}

/// The part of the least price there can be by which an algorithm may be dearer and is taken
/// without looking at others.
const ENOUGH_PART: u64 = 8;

/// The bytes up to which a good part of a message's cost is the handshake before it, which the
/// model does not know.
const HANDSHAKE_BYTES: u64 = 128 << 10;

/// The algorithm that a call uses. The same on every rank.
#[derive(Clone, Copy, Debug, Default)]
pub enum Choice {
    /// The cheapest by the cost model.
    #[default]
    Auto,
    /// This one: a library's or the caller's own.
    Named(Algorithm),
    /// By the control slots of ranks that share memory: see [`shared`](crate::shared).
    Shared,
}

/// The preference for control slots: the cases in which a call is for them. Where words have 32
/// bits, none is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotPreference {
    Never,
    /// If they are there and the call is blocking.
    IfThere,
    /// By name.
    Named,
}

impl Choice {
    /// The algorithm of `operation` that is called `name`; `auto` is [`Choice::Auto`].
    ///
    /// # Errors
    /// [`UnknownAlgorithm`], which lists the known ones when displayed.
    pub fn named(operation: Operation, name: &str) -> Result<Self, UnknownAlgorithm<'_>> {
        if name == "auto" {
            return Ok(Self::Auto);
        }
        if name == slots::NAME && slots::algorithm(operation).is_some() {
            return Ok(Self::Shared);
        }
        if let Some(two_level) =
            crate::algorithms::hierarchy::algorithm(operation).filter(|known| known.name() == name)
        {
            return Ok(Self::Named(two_level));
        }
        let mut all = algorithms(operation).iter().chain(across(operation));
        let known = all.find(|algorithm| algorithm.name() == name);
        known.map(|&candidate| Self::Named(candidate)).ok_or(UnknownAlgorithm { operation, name })
    }
}

/// A name that no algorithm of the operation has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownAlgorithm<'n> {
    /// The operation asked about.
    pub operation: Operation,
    /// The name asked for.
    pub name: &'n str,
}

impl fmt::Display for UnknownAlgorithm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} algorithm is called `{}`; known: auto", self.operation, self.name)?;
        let mut all = algorithms(self.operation).iter().chain(across(self.operation));
        all.try_for_each(|known| write!(f, ", {}", known.name()))?;
        crate::algorithms::hierarchy::algorithm(self.operation)
            .iter()
            .try_for_each(|known| write!(f, ", {}", known.name()))?;
        slots::algorithm(self.operation).iter().try_for_each(|known| write!(f, ", {}", known.name()))
    }
}

impl core::error::Error for UnknownAlgorithm<'_> {}

/// Returns true if an operation reduces, so that its result depends on what is combined first.
pub const fn reduces(operation: Operation) -> bool {
    use Operation::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
    matches!(operation, Reduce | Allreduce | ReduceScatter | ReduceScatterBlock | Scan | Exscan)
}

/// Per-call options. The same on every rank.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The choice of the algorithm.
    pub choice: Choice,
    /// Prices for [`Choice::Auto`].
    pub prices: Prices,
    /// Prices where a rank of the communicator shares no memory with another, if its transport
    /// knows of such.
    pub far: Prices,
    /// Ranks of a node, if nodes are runs of so many ranks and the last has what is left; 0 if that
    /// is not known. See [`hierarchy`](crate::hierarchy).
    pub node: u32,
    /// Elements of a segment, of every block in an operation on blocks of one length: fewer where
    /// the scratch asks for it, all where there are no more. By itself it is as many as are
    /// cheapest.
    pub segment: Option<NonZeroUsize>,
    /// Reductions have the same bits whatever algorithm, scratch and segments they are carried out
    /// by: each operation has one expression for so many ranks, and only algorithms that evaluate
    /// it ([`Priced::reproduces`]) are taken.
    ///
    /// [`Priced::reproduces`]: crate::schedule::Priced::reproduces
    pub reproducible: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            choice: Choice::Auto,
            prices: Prices::SHARED_MEMORY,
            far: Prices::SOCKET,
            node: 0,
            segment: None,
            reproducible: false,
        }
    }
}

impl Options {
    /// Options that use `algorithm`. See [`ContiguousCall::by`](crate::ContiguousCall::by) for
    /// programs in which no other algorithm is to be linked.
    #[inline(always)]
    pub fn using(algorithm: Algorithm) -> Self {
        Self { choice: Choice::Named(algorithm), ..Self::default() }
    }

    /// Options that use the algorithm `shared`.
    pub fn shared() -> Self {
        Self { choice: Choice::Shared, ..Self::default() }
    }

    /// Returns the options for a communicator in which a rank shares no memory with another.
    pub(crate) fn for_far(&self) -> Self {
        Self { prices: self.far, ..*self }
    }

    /// Returns these options, if they leave it open which algorithm is taken.
    pub(crate) fn open(&self) -> Option<Self> {
        matches!(self.choice, Choice::Auto).then_some(*self)
    }

    /// Returns true if they name the algorithm of this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        matches!(self.choice, Choice::Named(algorithm) if algorithm.name() == name)
    }

    /// Returns true if some algorithms for a call are ruled out by the expression that they
    /// evaluate.
    pub(crate) const fn fixes_bits(&self, call: &Call) -> bool {
        self.reproducible && reduces(call.operation)
    }

    /// Returns the preference for control slots in a call, given its selection by messages.
    #[inline(always)]
    pub(crate) fn slot_preference(&self, call: &Call, selected: &Result<Selected, Cause>) -> SlotPreference {
        if !cfg!(target_pointer_width = "64") || !slots::serves(call.operation) || self.fixes_bits(call) {
            return SlotPreference::Never;
        }
        match (self.choice, selected) {
            (Choice::Shared, _) => SlotPreference::Named,
            (Choice::Auto, _) if slots::is_in_control_slots(call.operation) => {
                if slots::is_too_long(call) {
                    SlotPreference::Never
                } else {
                    SlotPreference::IfThere
                }
            }
            (Choice::Auto, Ok(selected)) if call.prefers_control_slots(selected, &self.prices) => {
                SlotPreference::IfThere
            }
            _ => SlotPreference::Never,
        }
    }
}

/// Returns true if what a communicator's control slots say means that a rank is on another node.
pub(crate) fn is_far(slots: Result<(), Cause>) -> bool {
    slots == Err(Cause::Unreachable)
}

/// A collective call, as far as selection looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Call {
    /// The collective.
    pub operation: Operation,
    /// Ranks.
    pub size: u32,
    /// Elements of data.
    pub count: usize,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// Elements of scratch.
    pub scratch: usize,
    /// True if the reduction commutes; `true` where there is none.
    pub commutes: bool,
}

impl Call {
    /// A barrier of `size` ranks.
    pub const fn barrier(size: u32) -> Self {
        Self { operation: Operation::Barrier, size, count: 0, element_bytes: 1, scratch: 0, commutes: true }
    }

    /// A broadcast of `count` elements to `size` ranks.
    pub const fn bcast<E: Element>(size: u32, count: usize) -> Self {
        let element_bytes = size_of::<E>() as u32;
        Self { operation: Operation::Bcast, size, count, element_bytes, scratch: 0, commutes: true }
    }

    /// An all-reduce of `count` elements over `size` ranks with `scratch` elements of scratch.
    pub const fn allreduce<R: Reduce<E>, E: Element>(size: u32, count: usize, scratch: usize) -> Self {
        Self::reducing::<R, E>(Operation::Allreduce, size, count, scratch)
    }

    /// A reduction of `count` elements to one of `size` ranks with `scratch` elements of scratch.
    pub const fn reduce<R: Reduce<E>, E: Element>(size: u32, count: usize, scratch: usize) -> Self {
        Self::reducing::<R, E>(Operation::Reduce, size, count, scratch)
    }

    /// A scan of `count` elements over `size` ranks with `scratch` elements of scratch.
    pub const fn scan<R: Reduce<E>, E: Element>(size: u32, count: usize, scratch: usize) -> Self {
        Self::reducing::<R, E>(Operation::Scan, size, count, scratch)
    }

    /// An exclusive scan of `count` elements over `size` ranks with `scratch` elements of scratch.
    pub const fn exscan<R: Reduce<E>, E: Element>(size: u32, count: usize, scratch: usize) -> Self {
        Self::reducing::<R, E>(Operation::Exscan, size, count, scratch)
    }

    const fn reducing<R: Reduce<E>, E: Element>(
        operation: Operation,
        size: u32,
        count: usize,
        scratch: usize,
    ) -> Self {
        let kernel = Kernel::of::<R, E>();
        let (element_bytes, commutes) = (kernel.element_bytes(), kernel.commutes());
        Self { operation, size, count, element_bytes, scratch, commutes }
    }

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
                self.named(algorithm, candidates, options).map(|plan| Selected { plan, ns: 0 })
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
    fn prefers_control_slots(&self, by_messages: &Selected, prices: &Prices) -> bool {
        let bytes = (self.count as u64).saturating_mul(self.element_bytes.into());
        let times = if bytes > HANDSHAKE_BYTES && self.size > 2 { 1 } else { 2 };
        self.shared_ns(prices) <= by_messages.ns.saturating_mul(times)
    }

    /// Returns the lower bound of the cost of any algorithm, in ns: a round, what a rank must
    /// receive, half of what two ranks reduce, and an all-to-all's own block. With two ranks some
    /// algorithm costs hardly more.
    fn floor_ns(&self, prices: &Prices) -> u64 {
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
    fn cheapest(&self, candidates: &[Candidate], options: &Options) -> Result<Selected, Cause> {
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
}

/// The decision of selection.
#[derive(Clone, Copy, Debug)]
pub struct Selected {
    /// The plan by which the call is carried out.
    pub plan: Plan,
    /// The time that this is predicted to take; 0 for an algorithm that the caller has named.
    pub ns: u64,
}

#[cfg(test)]
mod tests;
