//! Algorithms that differ in their tree, in a width or in the sizes they are for, and in nothing
//! else: their steps are written once, as a [`Pattern`].

use aldis_kernel::hal::Operation;

use super::{Instance, Priced, Schedule, Step, Work};

/// A named algorithm that takes the steps of a pattern.
pub(crate) trait Variant: Sync {
    type Pattern: Pattern;
    const NAME: &'static str;
    const SOURCE: &'static str;

    /// Returns true if it is made for so many ranks, as [`Schedule::serves`].
    fn serves(_size: u32) -> bool {
        true
    }
}

/// The steps and the work that several algorithms share: the parts of [`Schedule`] and [`Priced`]
/// with the same names.
pub(crate) trait Pattern {
    const OPERATION: Operation;
    /// True if operands keep the order of their ranks, where there are any.
    const KEEPS_RANK_ORDER: bool = true;
    /// True if what a group has is sent to another.
    const CROSSES: bool = false;

    fn rounds(instance: &Instance) -> u32;
    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step>;
    fn work(size: u32, count: usize) -> Work;

    fn share(size: u32, count: usize) -> Work {
        Self::work(size, count)
    }

    fn reproduces(_size: u32) -> bool {
        false
    }

    fn capacity(_size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl<A: Variant> Schedule for A {
    fn operation(&self) -> Operation {
        A::Pattern::OPERATION
    }

    fn name(&self) -> &'static str {
        A::NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        A::Pattern::rounds(instance)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round < A::Pattern::rounds(instance) { A::Pattern::step(instance, round, index) } else { None }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        A::Pattern::capacity(size, scratch)
    }

    fn serves(&self, size: u32) -> bool {
        A::serves(size)
    }

    fn crosses(&self) -> bool {
        A::Pattern::CROSSES
    }

    fn keeps_rank_order(&self) -> bool {
        A::Pattern::KEEPS_RANK_ORDER
    }
}

impl<A: Variant> Priced for A {
    fn source(&self) -> &'static str {
        A::SOURCE
    }

    fn work(&self, size: u32, count: usize) -> Work {
        A::Pattern::work(size, count)
    }

    fn share(&self, size: u32, count: usize) -> Work {
        A::Pattern::share(size, count)
    }

    fn reproduces(&self, size: u32) -> bool {
        A::Pattern::reproduces(size)
    }
}
