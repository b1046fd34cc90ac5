//! The walk over the data of (type, count): from any position of the packed stream, run by run.

use super::handle::Child;
use super::layout::Item;
use super::node::{DIMENSION, Dimension, ITEM, Node};
use super::table::{TableView, TypeEntry};
use super::{Basic, DEPTH_MAX, Form};

/// Equal blocks of memory at a regular distance: what is moved in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockRun {
    /// Of the first block, in bytes from the origin of the memory.
    pub(super) offset: i64,
    /// Of one block.
    pub(super) bytes: u64,
    pub(super) blocks: u64,
    pub(super) stride: i64,
    /// The type that the blocks consist of. In native form a block may be of several types: bytes
    /// then.
    pub(super) basic: Basic,
    /// Packed bytes of the block that come before the position; only ever in a run of one block.
    pub(super) skip: u64,
}

/// (type, count) as a grid of one dimension, around everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub(super) child: Child,
    pub(super) dimension: [i64; DIMENSION],
}

/// A level of the walk: a node somewhere in memory, and how far it is done.
#[derive(Clone, Copy, Debug)]
struct WalkLevel {
    slot: u32,
    base: i64,
    /// Step of the grid, item of the list.
    index: u64,
    /// Step in the item.
    inner: u64,
}

/// The slot of the root's frame: no table has so many.
const ROOT: u32 = u32::MAX;

impl WalkLevel {
    const fn new(slot: u32, base: i64) -> Self {
        Self { slot, base, index: 0, inner: 0 }
    }
}

/// A node with its words.
#[derive(Clone, Copy)]
enum Level<'v> {
    Root(Root),
    Grid { child: Child, origin: i64, dimensions: &'v [[i64; DIMENSION]] },
    List { items: &'v [[i64; ITEM]], entry: &'v TypeEntry },
}

/// The children from a frame's place on that are evenly spaced.
#[derive(Clone, Copy)]
struct Stretch {
    child: Child,
    /// Of the first child.
    offset: i64,
    count: u64,
    spacing: i64,
    /// Stretches like this one, `cycle` bytes apart.
    blocks: u64,
    cycle: i64,
    is_item: bool,
}

/// A child that is moved as it stands.
#[derive(Clone, Copy)]
struct Leaf {
    start: i64,
    bytes: u64,
    basic: Basic,
}

/// A walk. Its state is a fixed array of frames, one a level; it allocates nothing and does not
/// recurse.
pub(super) struct Walk<'v> {
    view: TableView<'v>,
    root: Root,
    form: Form,
    frames: [WalkLevel; DEPTH_MAX + 1],
    depth: usize,
    /// The node of the top frame.
    level: Level<'v>,
    skip: u64,
}

impl<'v> Walk<'v> {
    /// A walk from `position` of the packed stream. It takes O(log blocks) at each level to get
    /// there, or O(blocks) in lists whose parts have other widths in this form.
    pub(super) fn new(view: TableView<'v>, root: Root, form: Form, position: u64) -> Self {
        let frames = [WalkLevel::new(ROOT, 0); DEPTH_MAX + 1];
        let mut walk = Self { view, root, form, frames, depth: 1, level: Level::Root(root), skip: 0 };
        if walk.seek(position).is_none() {
            walk.depth = 0;
        }
        walk
    }

    /// The next run; `None` at the end.
    pub(super) fn next(&mut self) -> Option<BlockRun> {
        loop {
            let frame = self.top()?;
            let Some(stretch) = self.level.stretch(&frame, self.view) else {
                self.leave()?;
                continue;
            };
            if let Some(leaf) = self.leaf(stretch.child) {
                return Some(self.run(&stretch, &leaf));
            }
            self.advance(&stretch, 1);
            self.enter(stretch.child, stretch.offset)?;
        }
    }

    /// The longest run at the start of a stretch of leaves.
    fn run(&mut self, stretch: &Stretch, leaf: &Leaf) -> BlockRun {
        let (offset, basic) = (stretch.offset.wrapping_add(leaf.start), leaf.basic);
        let one = BlockRun { offset, bytes: leaf.bytes, blocks: 1, stride: 0, basic, skip: self.skip };
        if self.skip > 0 {
            self.skip = 0;
            self.advance(stretch, 1);
            one
        } else if stretch.count == 1 || u64::try_from(stretch.spacing) == Ok(leaf.bytes) {
            self.advance(stretch, stretch.count.wrapping_mul(stretch.blocks));
            let bytes = leaf.bytes.wrapping_mul(stretch.count);
            BlockRun { bytes, blocks: stretch.blocks, stride: stretch.cycle, ..one }
        } else {
            self.advance(stretch, stretch.count);
            BlockRun { blocks: stretch.count, stride: stretch.spacing, ..one }
        }
    }

    fn top(&self) -> Option<WalkLevel> {
        self.frames.get(self.depth.checked_sub(1)?).copied()
    }

    fn top_mut(&mut self) -> Option<&mut WalkLevel> {
        self.frames.get_mut(self.depth.checked_sub(1)?)
    }

    /// Goes on by `count` children of the stretch.
    fn advance(&mut self, stretch: &Stretch, count: u64) {
        let Some(frame) = self.top_mut() else { return };
        if !stretch.is_item {
            frame.index = frame.index.wrapping_add(count);
        } else if count == stretch.count {
            (frame.index, frame.inner) = (frame.index.wrapping_add(1), 0);
        } else {
            frame.inner = frame.inner.wrapping_add(count);
        }
    }

    fn enter(&mut self, child: Child, offset: i64) -> Option<()> {
        let Child::Slot(slot) = child else { return None };
        *self.frames.get_mut(self.depth)? = WalkLevel::new(slot, offset);
        self.depth = self.depth.wrapping_add(1);
        self.level = self.level_of(slot)?;
        Some(())
    }

    fn leave(&mut self) -> Option<()> {
        self.depth = self.depth.saturating_sub(1);
        self.level = self.level_of(self.top()?.slot)?;
        Some(())
    }

    fn level_of(&self, slot: u32) -> Option<Level<'v>> {
        if slot == ROOT {
            return Some(Level::Root(self.root));
        }
        let entry = self.view.entry(slot)?;
        let words = self.view.compiled(entry)?;
        match entry.node {
            Node::Empty => None,
            Node::Grid { child, origin } => {
                Some(Level::Grid { child, origin, dimensions: words.as_chunks().0 })
            }
            Node::List => Some(Level::List { items: words.as_chunks().0, entry }),
        }
    }

    /// A child that is one run in this form: any dense one as it is, one of equal elements if they
    /// are converted.
    fn leaf(&self, child: Child) -> Option<Leaf> {
        let slot = match child {
            Child::Basic(basic) => return Some(Leaf { start: 0, bytes: basic.size() as u64, basic }),
            Child::Slot(slot) => slot,
        };
        let layout = &self.view.entry(slot)?.layout;
        let basic = match self.form {
            Form::Native => Basic::Byte,
            Form::Swapped | Form::Narrow | Form::NarrowSwapped => layout.signature.uniform()?,
            Form::External32 => layout.signature.uniform()?.of_widths(layout.size, layout.external)?,
        };
        layout.dense.then_some(Leaf { start: layout.true_lb, bytes: layout.size, basic })
    }

    fn seek(&mut self, mut position: u64) -> Option<()> {
        loop {
            let mut frame = self.top()?;
            position = self.level.seek(&mut frame, position, self.form, self.view)?;
            *self.top_mut()? = frame;
            if position == 0 {
                return Some(());
            }
            let stretch = self.level.stretch(&frame, self.view)?;
            if self.leaf(stretch.child).is_some() {
                self.skip = position;
                return Some(());
            }
            self.advance(&stretch, 1);
            self.enter(stretch.child, stretch.offset)?;
        }
    }
}

impl Level<'_> {
    /// The children from the frame's place on; `None` when it is done.
    #[inline]
    fn stretch(&self, frame: &WalkLevel, view: TableView<'_>) -> Option<Stretch> {
        match *self {
            Self::Root(Root { child, ref dimension }) => {
                grid_stretch(core::slice::from_ref(dimension), frame.base, frame.index, child)
            }
            Self::Grid { child, origin, dimensions } => {
                grid_stretch(dimensions, frame.base.wrapping_add(origin), frame.index, child)
            }
            Self::List { items, .. } => {
                let item = Item::from_words(items.get(usize::try_from(frame.index).ok()?)?)?;
                let spacing = view.extent(item.child);
                let inner = spacing.wrapping_mul(frame.inner.cast_signed());
                let offset = frame.base.wrapping_add(item.displacement).wrapping_add(inner);
                let count = item.count.checked_sub(frame.inner)?;
                Some(Stretch {
                    child: item.child,
                    offset,
                    count,
                    spacing,
                    blocks: 1,
                    cycle: 0,
                    is_item: true,
                })
            }
        }
    }

    /// Moves a frame at its start to the child at `position` of the stream, and tells how far into
    /// that it is.
    fn seek(&self, frame: &mut WalkLevel, position: u64, form: Form, view: TableView<'_>) -> Option<u64> {
        let (child, position) = match *self {
            Self::Root(Root { child, .. }) | Self::Grid { child, .. } => (child, position),
            Self::List { items, entry } => {
                let (index, before) = find(items, position, form, entry, view);
                frame.index = index as u64;
                let Some(words) = items.get(index) else { return Some(0) };
                (Item::from_words(words)?.child, position.wrapping_sub(before))
            }
        };
        let packed = view.layout(child).packed(form);
        let index = position.checked_div(packed)?;
        match self {
            Self::List { .. } => frame.inner = index,
            Self::Root(_) | Self::Grid { .. } => frame.index = index,
        }
        position.checked_rem(packed)
    }
}

/// The stretch at step `index` of a grid: the rest of a block of the innermost dimension, and the
/// blocks like it.
fn grid_stretch(dimensions: &[[i64; DIMENSION]], base: i64, index: u64, child: Child) -> Option<Stretch> {
    let (innermost, outer) = dimensions.split_last()?;
    let inner = Dimension::from_words(innermost);
    let (mut rest, step) = split(index, inner.count)?;
    let (block, in_block) = split(step, inner.block)?;
    let mut offset = base.wrapping_add(inner.offset(block, in_block));
    for words in outer.iter().rev() {
        let dimension = Dimension::from_words(words);
        let (slower, step) = split(rest, dimension.count)?;
        let (block, in_block) = split(step, dimension.block)?;
        offset = offset.wrapping_add(dimension.offset(block, in_block));
        rest = slower;
    }
    if rest > 0 {
        return None;
    }
    let left = inner.count.wrapping_sub(step);
    let (count, blocks) = if in_block == 0 && left >= inner.block {
        (inner.block, if inner.is_plain() { 1 } else { left.checked_div(inner.block)? })
    } else {
        (left.min(inner.block.wrapping_sub(in_block)), 1)
    };
    let (spacing, cycle) = (inner.stride, inner.cycle);
    Some(Stretch { child, offset, count, spacing, blocks, cycle, is_item: false })
}

/// Quotient and remainder. Mostly there is nothing to divide.
#[inline]
fn split(number: u64, by: u64) -> Option<(u64, u64)> {
    if number < by { Some((0, number)) } else { Some((number.checked_div(by)?, number.checked_rem(by)?)) }
}

/// The item that holds `position`, and the packed bytes before it.
fn find(
    items: &[[i64; ITEM]],
    position: u64,
    form: Form,
    entry: &TypeEntry,
    view: TableView<'_>,
) -> (usize, u64) {
    if !entry.layout.changes_widths(form) {
        let after = items.partition_point(|[.., before]| before.cast_unsigned() <= position);
        let index = after.saturating_sub(1);
        return (index, items.get(index).map_or(0, |[.., before]| before.cast_unsigned()));
    }
    let mut before = 0u64;
    for (index, item) in items.iter().enumerate() {
        let bytes = Item::from_words(item)
            .map_or(0, |item| view.layout(item.child).packed(form).wrapping_mul(item.count));
        if position.wrapping_sub(before) < bytes {
            return (index, before);
        }
        before = before.wrapping_add(bytes);
    }
    (items.len(), before)
}
