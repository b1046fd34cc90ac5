//! The places of partial results: the input is never written, so the first reduction of a block is
//! stored in scratch.

use crate::schedule::{BlockRange, Instance, Order, Span, Step};

/// Returns the place of these of the blocks that this rank gives.
pub(super) fn given(instance: &Instance, blocks: BlockRange) -> Span {
    blocks.span(instance).of_input()
}

/// The blocks' place in scratch, behind as many others as `at`.
pub(crate) fn kept(instance: &Instance, at: u32, blocks: BlockRange) -> Span {
    let len = blocks.span(instance).len;
    let start = (at as usize).saturating_mul(instance.count());
    Span { start, ..Span::scratch(len).of_block(blocks.first) }
}

/// The blocks' place in one of the images of all blocks that scratch holds.
pub(super) fn image(instance: &Instance, number: u32, blocks: BlockRange) -> Span {
    kept(instance, number.saturating_mul(instance.size()).saturating_add(blocks.first), blocks)
}

/// This rank's result.
pub(super) fn result(instance: &Instance, from: Span) -> Step {
    Step::Copy { into: instance.block(instance.rank()), from }
}

/// Reduces what came from `peer`, in its place, with what this rank gives; the lower rank's operand
/// is on the left.
pub(super) fn add_given(instance: &Instance, peer: u32, came: Span, given: Span) -> Step {
    let order = if peer < instance.rank() { Order::IntoFirst } else { Order::FromFirst };
    Step::Reduce { into: came, from: given, order }
}
