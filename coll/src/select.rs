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

use aldis_kernel::hal::{Cause, Cost, Operation};
pub use plan::{LANES, Plan};
pub(crate) use spec::CallSpec;

use crate::algorithms::{across, algorithms};
use crate::op::{Element, Kernel, Reduce};
use crate::schedule::{Algorithm, Work};

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
    /// Ranks of a node, if nodes are runs of so many ranks and the last has what is left; 0 for
    /// what is known of the communicator. See [`hierarchy`](crate::hierarchy).
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
