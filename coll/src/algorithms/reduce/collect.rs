//! The common part of reductions along a tree: every rank adds what its children send, one child a
//! round, then sends the sum to its parent. This is the broadcast along the same tree backwards,
//! turn by turn.

use core::marker::PhantomData;

use aldis_kernel::hal::Operation;

use crate::schedule::tree::Tree;
use crate::schedule::variant::Pattern;
use crate::schedule::{Instance, Order, Span, Step, Work};

/// A reduction along a tree. Places are counted from the root, so that operands keep the order of
/// ranks for one root only: for operations that commute. One child a round, so that an element of
/// scratch is enough.
pub(crate) struct Collect<T>(PhantomData<T>);

impl<T: Tree> Pattern for Collect<T> {
    const OPERATION: Operation = Operation::Reduce;
    const KEEPS_RANK_ORDER: bool = false;

    fn rounds(instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { T::turns(instance.size()).len() as u32 }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (size, place) = (instance.size(), instance.from_root());
        let turn = T::turns(size).end.checked_sub(round)?.checked_sub(1)?;
        let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
        match (T::parent(size, place).filter(|(received, _)| *received == turn), index) {
            (Some((_, parent)), 0) => Some(Step::Send { to: instance.at_place(parent), from: data }),
            (None, 0) => T::child(size, place, turn)
                .map(|child| Step::Recv { from: instance.at_place(child), into: arrived }),
            (None, 1) => T::child(size, place, turn).map(|_| Step::Reduce {
                into: data,
                from: arrived,
                order: Order::IntoFirst,
            }),
            _ => None,
        }
    }

    fn capacity(size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }

    fn work(size: u32, count: usize) -> Work {
        let turns = T::turns(size).len() as u64;
        messages(turns, turns, count)
    }

    fn share(size: u32, count: usize) -> Work {
        let (root, other) = T::busiest(size);
        let most = if size < 2 { 0 } else { root.max(1 + other) };
        messages(most.into(), root.max(other).into(), count)
    }
}

/// The work of so many messages of the whole data, a round each, and so many reductions.
pub(crate) fn messages(messages: u64, reductions: u64, count: usize) -> Work {
    if count == 0 {
        return Work::default();
    }
    let elements = |times: u64| times.saturating_mul(count as u64);
    Work { rounds: messages, elements: elements(messages), reduced: elements(reductions), ..Work::default() }
}
