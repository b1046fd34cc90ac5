//! The places of partial results: the input is never written, so the first reduction of a block is
//! stored in scratch.

use crate::schedule::{Instance, Order, Span, Step};

/// Returns `number` of the blocks that this rank gives, from that of rank `first` on.
pub(super) fn given(instance: &Instance, (first, number): (u32, u32)) -> Span {
    instance.blocks(first, number).of_input()
}

/// The blocks' place in scratch, behind as many others as `at`.
pub(crate) fn kept(instance: &Instance, at: u32, (first, number): (u32, u32)) -> Span {
    let len = instance.blocks(first, number).len;
    let start = (at as usize).saturating_mul(instance.count());
    Span { start, ..Span::scratch(len).of_block(first) }
}

/// The blocks' place in one of the images of all blocks that scratch holds.
pub(super) fn image(instance: &Instance, number: u32, blocks: (u32, u32)) -> Span {
    kept(instance, number.saturating_mul(instance.size()).saturating_add(blocks.0), blocks)
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
