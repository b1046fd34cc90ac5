//! Algorithms that differ in their tree, in a width or in the sizes they are for, and in nothing
//! else: what they do is written once, as their [`Way`].

use aldis_kernel::hal::Operation;

use super::{Instance, Priced, Schedule, Step, Work};

/// An algorithm that is such a way under a name.
pub(crate) trait Along: Sync {
    type Way: Way;
    const NAME: &'static str;
    const SOURCE: &'static str;

    /// Returns true if it is made for so many ranks, as [`Schedule::serves`].
    fn serves(_size: u32) -> bool {
        true
    }
}

/// The steps and the work of such algorithms: the parts of [`Schedule`] and [`Priced`] with the
/// same names.
pub(crate) trait Way {
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

impl<A: Along> Schedule for A {
    fn operation(&self) -> Operation {
        A::Way::OPERATION
    }

    fn name(&self) -> &'static str {
        A::NAME
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        A::Way::rounds(instance)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round < A::Way::rounds(instance) { A::Way::step(instance, round, index) } else { None }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        A::Way::capacity(size, scratch)
    }

    fn serves(&self, size: u32) -> bool {
        A::serves(size)
    }

    fn crosses(&self) -> bool {
        A::Way::CROSSES
    }

    fn keeps_rank_order(&self) -> bool {
        A::Way::KEEPS_RANK_ORDER
    }
}

impl<A: Along> Priced for A {
    fn source(&self) -> &'static str {
        A::SOURCE
    }

    fn work(&self, size: u32, count: usize) -> Work {
        A::Way::work(size, count)
    }

    fn share(&self, size: u32, count: usize) -> Work {
        A::Way::share(size, count)
    }

    fn reproduces(&self, size: u32) -> bool {
        A::Way::reproduces(size)
    }
}
