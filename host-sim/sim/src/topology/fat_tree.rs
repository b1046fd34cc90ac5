//! Fat trees of two levels.

use core::num::NonZeroU32;

/// Leaf switches under spine switches, each connected with each. The target's number picks the
/// spine (D-mod-k, Zahavi 2010).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Nodes at a leaf switch.
    pub leaf: NonZeroU32,
    /// Spine switches: uplinks of each leaf switch.
    pub uplinks: NonZeroU32,
}

/// Nodes at a leaf switch of the size that is chosen at most.
const LEAF_MAX: u32 = 32;

impl FatTree {
    /// The one for `size` nodes: as many nodes at a leaf as leaves, up to 32, and half as many
    /// uplinks, so that a leaf's nodes meet.
    pub fn of(size: u32) -> Self {
        let root = size.isqrt();
        let leaf = (root + u32::from(root.pow(2) < size)).clamp(1, LEAF_MAX);
        let number = |number: u32| NonZeroU32::MIN.saturating_add(number - 1);
        Self { leaf: number(leaf), uplinks: number(leaf.div_ceil(2)) }
    }

    /// Without what `size` nodes leave unused.
    pub(super) fn cut(self, size: u32) -> Self {
        let most = NonZeroU32::new(size).unwrap_or(NonZeroU32::MIN);
        Self { leaf: self.leaf.min(most), uplinks: self.uplinks.min(most) }
    }

    /// Switches on the way.
    pub(super) fn switches(self, from: u32, to: u32) -> u32 {
        if from / self.leaf == to / self.leaf { 1 } else { 3 }
    }

    /// From each leaf to each spine, and back.
    pub(super) fn links(self, size: u32) -> u64 {
        2 * u64::from(size.div_ceil(self.leaf.get())) * u64::from(self.uplinks.get())
    }

    pub(super) fn route(self, size: u32, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        let (up, down) = ((from / self.leaf) as usize, (to / self.leaf) as usize);
        if up == down {
            return;
        }
        let leaves = size.div_ceil(self.leaf.get()) as usize;
        let (spines, spine) = (self.uplinks.get() as usize, (to % self.uplinks) as usize);
        visit(up * spines + spine);
        visit((leaves + down) * spines + spine);
    }
}
