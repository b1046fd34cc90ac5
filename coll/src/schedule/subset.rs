//! Subsets of a schedule's ranks, among which another schedule runs: a group, the ranks of a node,
//! the leaders of nodes.

use core::ops::Range;

use super::{Instance, Schedule, Step};

/// Ranks at even distances; one of them is the root, which may be at another place than its
/// distance gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankSubset {
    first: u32,
    stride: u32,
    size: u32,
    /// The root's number in the subset.
    root: u32,
    /// The root's rank in the whole.
    root_rank: u32,
}

impl RankSubset {
    /// The ranks of a range, `root` among them.
    pub(crate) fn of_range(ranks: &Range<u32>, root: u32) -> Self {
        let size = ranks.end.saturating_sub(ranks.start);
        Self { first: ranks.start, stride: 1, size, root: root.saturating_sub(ranks.start), root_rank: root }
    }

    /// Every `stride`-th of `ranks` ranks; `root` takes the place of the last of them that is not
    /// behind it.
    pub(crate) fn strided(stride: u32, ranks: u32, root: u32) -> Self {
        let number = root.checked_div(stride).unwrap_or(0);
        Self { first: 0, stride, size: ranks.div_ceil(stride.max(1)), root: number, root_rank: root }
    }

    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// Returns the rank of a number in the subset.
    fn rank(&self, number: u32) -> u32 {
        if number == self.root {
            return self.root_rank;
        }
        self.first.saturating_add(number.saturating_mul(self.stride))
    }

    /// Returns the call as this rank sees it in the subset; `None` for a rank outside.
    pub(crate) fn instance(&self, instance: &Instance) -> Option<Instance> {
        let before = instance.rank().checked_sub(self.first)?;
        let number =
            before.checked_div(self.stride).filter(|&number| self.rank(number) == instance.rank())?;
        Instance::new(number, self.size, self.root, instance.count()).ok()
    }

    /// Returns the step of `schedule` in the subset, with ranks of the whole.
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
