//! The common part of broadcasts along a tree: a rank that has the data sends it to its children.

use core::marker::PhantomData;

use aldis_kernel::hal::Operation;

use crate::schedule::tree::{Edge, Tree};
use crate::schedule::variant::Pattern;
use crate::schedule::{Instance, Span, Step, Work};

/// A broadcast along a tree.
pub(crate) struct Spread<T>(PhantomData<T>);

impl<T: Tree> Pattern for Spread<T> {
    const OPERATION: Operation = Operation::Bcast;

    fn rounds(instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { T::rounds(instance.size()) }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let data = Span::data(0, instance.count());
        Some(match T::edge(instance, round, index)? {
            Edge::Parent(from) => Step::Recv { from, into: data },
            Edge::Child(to) => Step::Send { to, from: data },
        })
    }

    fn work(size: u32, count: usize) -> Work {
        messages(T::rounds(size), T::turns(size).len() as u32, count)
    }

    fn share(size: u32, count: usize) -> Work {
        let (root, other) = T::busiest(size);
        let rounds = |children: u32| children.div_ceil(T::WIDTH);
        let of_root = messages(rounds(root), root, count);
        if size < 2 {
            return of_root;
        }
        let of_other = messages(1 + rounds(other), 1 + other, count);
        Work {
            rounds: of_root.rounds.max(of_other.rounds),
            fan: of_root.fan.max(of_other.fan),
            elements: of_root.elements.max(of_other.elements),
            ..Work::default()
        }
    }
}

/// The work of so many messages of the whole data in so many rounds.
fn messages(rounds: u32, messages: u32, count: usize) -> Work {
    if count == 0 {
        return Work::default();
    }
    let (rounds, messages) = (u64::from(rounds), u64::from(messages));
    let elements = messages.saturating_mul(count as u64);
    Work { rounds, fan: messages.saturating_sub(rounds), elements, ..Work::default() }
}
