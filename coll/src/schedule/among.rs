//! Ranks that are not all alike: two groups, nodes, and some of them as ranks of their own, among
//! whom another schedule runs.

use core::ops::Range;

use super::{Instance, Schedule, Step};

/// Ranks at even distances, one of whom is the root and need not stand where the distance has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Among {
    first: u32,
    apart: u32,
    size: u32,
    /// The root, by its number among them and as a rank.
    root: (u32, u32),
}

impl Among {
    /// The ranks of a range, of whom `root` is one.
    pub(crate) fn run(ranks: &Range<u32>, root: u32) -> Self {
        let size = ranks.end.saturating_sub(ranks.start);
        Self { first: ranks.start, apart: 1, size, root: (root.saturating_sub(ranks.start), root) }
    }

    /// Every `apart`-th of `ranks` ranks, with `root` in place of the one that it comes after.
    pub(crate) fn every(apart: u32, ranks: u32, root: u32) -> Self {
        let number = root.checked_div(apart).unwrap_or(0);
        Self { first: 0, apart, size: ranks.div_ceil(apart.max(1)), root: (number, root) }
    }

    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// The rank with a number among them.
    fn rank(&self, number: u32) -> u32 {
        let (root, rank) = self.root;
        if number == root {
            return rank;
        }
        self.first.saturating_add(number.saturating_mul(self.apart))
    }

    /// This rank as one of them, if it is.
    pub(crate) fn instance(&self, instance: &Instance) -> Option<Instance> {
        let before = instance.rank().checked_sub(self.first)?;
        let number = before.checked_div(self.apart).filter(|&number| self.rank(number) == instance.rank())?;
        Instance::new(number, self.size, self.root.0, instance.count()).ok()
    }

    /// The step of `schedule` among them.
    pub(crate) fn step(
        &self,
        schedule: &impl Schedule,
        instance: &Instance,
        round: u32,
        index: u32,
    ) -> Option<Step> {
        Some(match schedule.step(&self.instance(instance)?, round, index)? {
            Step::Recv { from, into } => Step::Recv { from: self.rank(from), into },
            Step::Send { to, from } => Step::Send { to: self.rank(to), from },
            local => local,
        })
    }
}

impl Instance {
    /// Returns this call where the first `cut` ranks are one group, and the others another: see
    /// [`Schedule::crosses`]. Of an algorithm in [two levels](crate::hierarchy): where nodes have
    /// so many ranks each.
    #[must_use]
    pub const fn with_cut(self, cut: u32) -> Self {
        Self { cut, ..self }
    }

    /// Ranks of the first group, or of a node; 0 if all ranks are one.
    pub const fn cut(&self) -> u32 {
        self.cut
    }

    /// This rank's group and the other group.
    pub fn groups(&self) -> [Range<u32>; 2] {
        let cut = self.cut().min(self.size());
        let (first, second) = (0..cut, cut..self.size());
        if self.rank < cut { [first, second] } else { [second, first] }
    }
}
