//! The common part of barriers along a tree: signals gather at rank 0, and its answer spreads out
//! again.

use core::marker::PhantomData;

use aldis_kernel::hal::Operation;

use crate::schedule::tree::{Edge, Tree};
use crate::schedule::variant::Pattern;
use crate::schedule::{Instance, Span, Step, Work};

/// A barrier along a tree.
pub(crate) struct Signal<T>(PhantomData<T>);

impl<T: Tree> Pattern for Signal<T> {
    const OPERATION: Operation = Operation::Barrier;

    fn rounds(instance: &Instance) -> u32 {
        T::rounds(instance.size()).saturating_mul(2)
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let out = T::rounds(instance.size());
        // The rounds of the answer, and before it the same ones backwards.
        let (answers, of_tree) = match round.checked_sub(out) {
            Some(round) => (true, round),
            None => (false, out - 1 - round),
        };
        Some(match (T::edge(instance, of_tree, index)?, answers) {
            (Edge::Parent(rank), true) | (Edge::Child(rank), false) => {
                Step::Recv { from: rank, into: Span::EMPTY }
            }
            (Edge::Parent(rank), false) | (Edge::Child(rank), true) => {
                Step::Send { to: rank, from: Span::EMPTY }
            }
        })
    }

    fn work(size: u32, _count: usize) -> Work {
        let (rounds, turns) = (u64::from(T::rounds(size)), T::turns(size).len() as u64);
        Work { rounds: 2 * rounds, fan: 2 * turns.saturating_sub(rounds), ..Work::default() }
    }

    fn share(size: u32, count: usize) -> Work {
        Self::work(size, count)
    }
}
