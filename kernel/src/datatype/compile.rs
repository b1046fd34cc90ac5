//! From what a constructor says to a compiled node and a layout.

use aldis_hal::Cause;

use super::handle::Child;
use super::layout::{Item, OVERFLOW, Sum, TypeLayout, steps};
use super::node::{Dimension, Dimensions, ITEM, Node};
use super::table::{TableView, Writer};
use super::{DEPTH_MAX, DIMENSIONS_MAX};

/// Compiles `child` at `origin` and a step in every dimension.
pub(super) fn grid(
    view: TableView<'_>,
    writer: &mut Writer<'_>,
    dimensions: &Dimensions,
    origin: i64,
    child: Child,
) -> Result<(Node, TypeLayout), Cause> {
    let part = view.layout(child);
    let mut sum = Sum::EMPTY;
    let count = dimensions.count().ok_or(OVERFLOW)?;
    if count > 0 {
        let (lowest, highest) = dimensions.range(origin)?;
        sum.add(part, count, lowest, highest)?;
    }
    let mut layout = sum.finish()?;
    let node = regular(view, writer, dimensions, origin, child, &mut layout)?;
    Ok((node, layout))
}

/// The node of a grid whose bounds and sizes are known; tells `layout` the rest.
fn regular(
    view: TableView<'_>,
    writer: &mut Writer<'_>,
    dimensions: &Dimensions,
    origin: i64,
    child: Child,
    layout: &mut TypeLayout,
) -> Result<Node, Cause> {
    if layout.size == 0 {
        (layout.dense, layout.disjoint) = (true, true);
        return Ok(Node::Empty);
    }
    let (dimensions, origin, child) = unfold(view, dimensions.simplified(), origin, child);
    let part = view.layout(child);
    layout.dense = match dimensions.as_slice() {
        [only] => only.is_plain() && part.abuts(only.count, only.stride),
        _ => false,
    };
    layout.disjoint = part.disjoint && dimensions.keep_clear(part.span().unsigned_abs());
    layout.depth = deeper(part.depth)?;
    for words in dimensions.words() {
        writer.extend(words?)?;
    }
    Ok(Node::Grid { child, origin })
}

/// A grid of a grid is a grid of more dimensions, as long as there are not too many.
fn unfold(
    view: TableView<'_>,
    mut dimensions: Dimensions,
    mut origin: i64,
    mut child: Child,
) -> (Dimensions, i64, Child) {
    while let Child::Slot(slot) = child
        && let Some(entry) = view.entry(slot)
        && let Node::Grid { child: inner, origin: offset } = entry.node
        && let Some(words) = view.compiled(entry)
        && let Some(all) = joined(dimensions, words)
    {
        (dimensions, origin, child) = (all.simplified(), origin.wrapping_add(offset), inner);
    }
    (dimensions, origin, child)
}

/// Returns true if the structure shows that `count` elements in a row do not overlap, nor the
/// pieces of one of them.
pub(super) fn keep_clear(view: TableView<'_>, child: Child, count: u64) -> bool {
    let row = Dimensions::one(Dimension::plain(count, view.extent(child)));
    let (dimensions, _, child) = unfold(view, row.simplified(), 0, child);
    let part = view.layout(child);
    part.disjoint && dimensions.keep_clear(part.span().unsigned_abs())
}

fn joined(mut dimensions: Dimensions, words: &[i64]) -> Option<Dimensions> {
    for words in words.as_chunks().0 {
        dimensions.push(Dimension::from_words(words))?;
    }
    Some(dimensions)
}

fn deeper(depth: u8) -> Result<u8, Cause> {
    let depth = depth.saturating_add(1);
    let (len, max) = (u64::from(depth), DEPTH_MAX as u64);
    if len > max { Err(Cause::TooBig { len, max }) } else { Ok(depth) }
}

/// Compiles a sequence of stretches. They are handed in one by one, in the order of the type map.
pub(super) struct StretchList<'v, 'w, 'b> {
    view: TableView<'v>,
    writer: &'b mut Writer<'w>,
    /// The place at which the items begin.
    start: usize,
    sum: Sum,
    last: Option<(Item, u64)>,
    /// Behind the highest byte so far, as long as stretches ascend and keep clear of each other.
    clear_to: Option<i64>,
    depth: u8,
}

impl<'v, 'w, 'b> StretchList<'v, 'w, 'b> {
    pub(super) fn new(view: TableView<'v>, writer: &'b mut Writer<'w>) -> Self {
        let start = writer.len();
        Self { view, writer, start, sum: Sum::EMPTY, last: None, clear_to: Some(i64::MIN), depth: 0 }
    }

    pub(super) fn add(&mut self, item: Item) -> Result<(), Cause> {
        let Some(more) = item.count.checked_sub(1) else { return Ok(()) };
        let part = self.view.layout(item.child);
        let last = item.displacement.checked_add(steps(more, part.extent())?).ok_or(OVERFLOW)?;
        let (lowest, highest) = (item.displacement.min(last), item.displacement.max(last));
        let before = self.sum.size;
        self.sum.add(part, item.count, lowest, highest)?;
        if part.size == 0 {
            return Ok(());
        }
        let (low, high) = (lowest.saturating_add(part.true_lb), highest.saturating_add(part.true_ub));
        let clear = keep_clear(self.view, item.child, item.count);
        self.clear_to = self.clear_to.filter(|end| clear && low >= *end).map(|_| high);
        self.append(self.unfolded(item), before)
    }

    /// Returns the stretch in terms of the parts of its part, where that is one stretch too.
    fn unfolded(&self, mut item: Item) -> Item {
        while let Some(inner) = self.unfolded_once(item) {
            item = inner;
        }
        item
    }

    fn unfolded_once(&self, item: Item) -> Option<Item> {
        let Child::Slot(slot) = item.child else { return None };
        let entry = self.view.entry(slot)?;
        let Node::Grid { child, origin } = entry.node else { return None };
        let (words, []) = self.view.compiled(entry)?.as_chunks() else { return None };
        let [only] = words else { return None };
        let only = Dimension::from_words(only);
        let extent = self.view.layout(child).extent();
        let inner_fits = only.count == 1 || (only.is_plain() && only.stride == extent);
        let outer_fits = item.count == 1 || Ok(entry.layout.extent()) == steps(only.count, extent);
        if !inner_fits || !outer_fits {
            return None;
        }
        let displacement = item.displacement.wrapping_add(origin);
        Some(Item { displacement, count: item.count.checked_mul(only.count)?, child })
    }

    /// Writes an item, or makes the last one longer where this one continues it.
    fn append(&mut self, item: Item, before: u64) -> Result<(), Cause> {
        let part = self.view.layout(item.child);
        if let Some((last, last_before)) = self.last
            && last.child == item.child
            && steps(last.count, part.extent()).ok().and_then(|bytes| last.displacement.checked_add(bytes))
                == Some(item.displacement)
        {
            self.writer.rewind(self.writer.len().saturating_sub(ITEM));
            return self.write(
                Item { count: last.count.checked_add(item.count).ok_or(OVERFLOW)?, ..last },
                last_before,
            );
        }
        self.depth = self.depth.max(part.depth);
        self.write(item, before)
    }

    fn write(&mut self, item: Item, before: u64) -> Result<(), Cause> {
        self.last = Some((item, before));
        self.writer.extend(item.words(before)?)
    }

    pub(super) fn finish(self) -> Result<(Node, TypeLayout), Cause> {
        let mut layout = self.sum.finish()?;
        let Self { view, writer, start, .. } = self;
        let items = writer.since(start).as_chunks().0;
        if let Some((first, dimension)) = regularity(view, items) {
            writer.rewind(start);
            let dimensions = Dimensions::one(dimension);
            let node = regular(view, writer, &dimensions, first.displacement, first.child, &mut layout)?;
            return Ok((node, layout));
        }
        layout.dense = abut(view, items);
        layout.disjoint = self.clear_to.is_some();
        if layout.size == 0 {
            return Ok((Node::Empty, layout));
        }
        layout.depth = deeper(self.depth)?;
        Ok((Node::List, layout))
    }
}

/// The first item, and the loop that all items are the blocks of, if they are.
fn regularity(view: TableView<'_>, items: &[[i64; ITEM]]) -> Option<(Item, Dimension)> {
    let first = Item::from_words(items.first()?)?;
    let stride = view.layout(first.child).extent();
    let Some(second) = items.get(1) else { return Some((first, Dimension::plain(first.count, stride))) };
    let cycle = Item::from_words(second)?.displacement.checked_sub(first.displacement)?;
    let mut expected = first;
    for words in items {
        if Item::from_words(words)? != expected {
            return None;
        }
        expected.displacement = expected.displacement.wrapping_add(cycle);
    }
    let count = first.count.checked_mul(items.len() as u64)?;
    Some((first, Dimension { count, block: first.count, cycle, stride }))
}

/// Returns true if the items are one run of bytes, in order.
fn abut(view: TableView<'_>, items: &[[i64; ITEM]]) -> bool {
    let mut end = None;
    items.iter().all(|words| {
        let Some(item) = Item::from_words(words) else { return false };
        let part = view.layout(item.child);
        let start = item.displacement.wrapping_add(part.true_lb);
        let follows = end.is_none_or(|end| end == start);
        end = Some(start.wrapping_add((part.size.wrapping_mul(item.count)).cast_signed()));
        follows && part.abuts(item.count, part.extent())
    })
}

const _: () = assert!(DEPTH_MAX < u8::MAX as usize && DIMENSIONS_MAX > 0);
