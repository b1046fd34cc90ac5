//! Intrusive lists by index: a node is linked where it stands in its table, so that queues need no
//! memory of their own and can never be full.

use core::marker::PhantomData;

/// An optional index, stored plus one so that all-zero memory means "none".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OptionalIndex(u32);

impl OptionalIndex {
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(crate) const fn to(index: u32) -> Self {
        Self(index.wrapping_add(1))
    }

    #[inline]
    pub(crate) const fn get(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0.wrapping_sub(1)) }
    }
}

/// A node's place in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Links {
    next: OptionalIndex,
    prev: OptionalIndex,
}

impl Links {
    pub(crate) const NONE: Self = Self { next: OptionalIndex::NONE, prev: OptionalIndex::NONE };
}

/// A table whose entries carry links for lists of kind `L`.
pub(crate) trait Nodes<L> {
    fn links(&mut self, index: u32) -> Option<&mut Links>;
}

/// A doubly linked list through a table's entries; FIFO at the ends, O(1) removal anywhere.
#[derive(Debug)]
pub(crate) struct List<L> {
    head: OptionalIndex,
    tail: OptionalIndex,
    kind: PhantomData<L>,
}

impl<L> List<L> {
    pub(crate) const EMPTY: Self =
        Self { head: OptionalIndex::NONE, tail: OptionalIndex::NONE, kind: PhantomData };

    #[inline]
    pub(crate) const fn front(&self) -> Option<u32> {
        self.head.get()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head.get().is_none()
    }

    pub(crate) const fn back(&self) -> Option<u32> {
        self.tail.get()
    }

    /// The node before `index`.
    pub(crate) fn before(nodes: &mut impl Nodes<L>, index: u32) -> Option<u32> {
        nodes.links(index)?.prev.get()
    }

    /// The node after `index`.
    pub(crate) fn after(nodes: &mut impl Nodes<L>, index: u32) -> Option<u32> {
        nodes.links(index)?.next.get()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, nodes: &mut impl Nodes<L>, index: u32) {
        if let Some(links) = nodes.links(index) {
            self.join(index, links).link(nodes);
        }
    }

    /// Puts a node at the end, whose links these are; the one in front of it is still to be linked
    /// to it.
    #[inline(always)]
    pub(crate) fn join(&mut self, index: u32, links: &mut Links) -> Joined<L> {
        let (before, own) = (self.tail, OptionalIndex::to(index));
        *links = Links { next: OptionalIndex::NONE, prev: before };
        if before == OptionalIndex::NONE {
            self.head = own;
        }
        self.tail = own;
        Joined { before, own, kind: PhantomData }
    }

    /// Takes out the front node, whose links these are.
    #[inline]
    pub(crate) fn pop_front(&mut self, nodes: &mut impl Nodes<L>, Links { next, .. }: Links) {
        self.head = next;
        match next.get().and_then(|next| nodes.links(next)) {
            Some(links) => links.prev = OptionalIndex::NONE,
            None => self.tail = OptionalIndex::NONE,
        }
    }

    /// Takes out a node, which must be in this list.
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes<L>, index: u32) {
        if let Some(&mut links) = nodes.links(index) {
            self.leave(nodes, links);
        }
    }

    /// Takes out a node, whose links these are.
    #[inline]
    pub(crate) fn leave(&mut self, nodes: &mut impl Nodes<L>, Links { next, prev }: Links) {
        match prev.get().and_then(|prev| nodes.links(prev)) {
            Some(links) => links.next = next,
            None => self.head = next,
        }
        match next.get().and_then(|next| nodes.links(next)) {
            Some(links) => links.prev = prev,
            None => self.tail = prev,
        }
    }
}

/// A node has come to the end of a list, and the one in front of it does not know yet.
#[must_use = "the node in front is to be told"]
pub(crate) struct Joined<L> {
    before: OptionalIndex,
    own: OptionalIndex,
    kind: PhantomData<L>,
}

impl<L> Joined<L> {
    /// Tells the one in front, if there is any.
    #[inline(always)]
    pub(crate) fn link(self, nodes: &mut impl Nodes<L>) {
        if let Some(links) = self.before.get().and_then(|before| nodes.links(before)) {
            links.next = self.own;
        }
    }
}

/// A doubly linked ring through a table's entries, known by the one that it is at; O(1) insertion
/// there and removal anywhere.
#[derive(Debug)]
pub(crate) struct Ring<L> {
    at: OptionalIndex,
    kind: PhantomData<L>,
}

impl<L> Ring<L> {
    pub(crate) const EMPTY: Self = Self { at: OptionalIndex::NONE, kind: PhantomData };

    /// The node that it is at; `None` if it is empty.
    pub(crate) const fn at(&self) -> Option<u32> {
        self.at.get()
    }

    /// Goes to a node, which must be in this ring, or is empty.
    pub(crate) fn turn_to(&mut self, index: Option<u32>) {
        self.at = index.map_or(OptionalIndex::NONE, OptionalIndex::to);
    }

    /// The node after `index`, which is itself if it is alone.
    pub(crate) fn after(nodes: &mut impl Nodes<L>, index: u32) -> Option<u32> {
        nodes.links(index)?.next.get()
    }

    /// Puts a node after the one that it is at, and goes to it.
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes<L>, index: u32) {
        let own = OptionalIndex::to(index);
        let prev = if self.at == OptionalIndex::NONE { own } else { self.at };
        let next = match self.at.get().and_then(|at| nodes.links(at)) {
            Some(links) => core::mem::replace(&mut links.next, own),
            None => own,
        };
        if let Some(links) = nodes.links(index) {
            *links = Links { next, prev };
        }
        if let Some(links) = next.get().and_then(|next| nodes.links(next)) {
            links.prev = own;
        }
        self.at = own;
    }

    /// Takes a node out of the ring that it is in; the one before it is left to be gone to, if
    /// there is any.
    pub(crate) fn unlink(nodes: &mut impl Nodes<L>, index: u32) -> Option<u32> {
        let Links { next, prev } = *nodes.links(index)?;
        if let Some(links) = prev.get().and_then(|prev| nodes.links(prev)) {
            links.next = next;
        }
        if let Some(links) = next.get().and_then(|next| nodes.links(next)) {
            links.prev = prev;
        }
        prev.get().filter(|prev| *prev != index)
    }
}

/// Lists of requests by their links in the queue of a peer, a bin or the engine.
#[derive(Debug)]
pub(crate) struct Queue;
/// Lists of requests by their links in a scope, or in memory for buffered sends.
#[derive(Debug)]
pub(crate) struct InScope;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    struct LinksTable([Links; 8]);
    struct Only;
    impl Nodes<Only> for LinksTable {
        fn links(&mut self, index: u32) -> Option<&mut Links> {
            self.0.get_mut(index as usize)
        }
    }

    proptest! {
        #[test]
        fn a_list_behaves_as_a_deque(steps in proptest::collection::vec((any::<bool>(), 0u32..8), 0..200)) {
            let mut table = LinksTable([Links::NONE; 8]);
            let mut list = List::<Only>::EMPTY;
            let mut model = VecDeque::new();
            for (push, index) in steps {
                let position = model.iter().position(|&entry| entry == index);
                match (push, position) {
                    (true, None) => { list.push_back(&mut table, index); model.push_back(index); }
                    (false, Some(position)) => { list.remove(&mut table, index); model.remove(position); }
                    _ => {}
                }
                let mut walk = Vec::new();
                let mut next = list.front();
                while let Some(index) = next { walk.push(index); next = List::after(&mut table, index); }
                prop_assert_eq!(&walk, &model.iter().copied().collect::<Vec<_>>());
                let mut back = Vec::new();
                let mut next = list.back();
                while let Some(index) = next { back.push(index); next = List::before(&mut table, index); }
                back.reverse();
                prop_assert_eq!(&back, &walk);
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }

    proptest! {
        /// Against a sequence that begins with the node that the ring is at.
        #[test]
        fn a_ring_behaves_as_a_sequence_that_is_turned(
            steps in proptest::collection::vec((0u8..3, 0u32..8), 0..200)
        ) {
            let mut table = LinksTable([Links::NONE; 8]);
            let mut ring = Ring::<Only>::EMPTY;
            let mut model = VecDeque::new();
            for (step, index) in steps {
                let position = model.iter().position(|&entry| entry == index);
                match (step, position) {
                    (0, None) => {
                        ring.insert(&mut table, index);
                        model.rotate_left(usize::from(!model.is_empty()));
                        model.push_front(index);
                    }
                    (1, Some(position)) => {
                        model.rotate_left(position);
                        model.pop_front();
                        model.rotate_right(usize::from(!model.is_empty()));
                        let before = Ring::unlink(&mut table, index);
                        prop_assert_eq!(before, model.front().copied());
                        ring.turn_to(before);
                    }
                    (2, Some(position)) => {
                        model.rotate_left(position);
                        ring.turn_to(Some(index));
                    }
                    _ => {}
                }
                let mut walk: Vec<u32> = ring.at().into_iter().collect();
                while let Some(next) = walk.last().and_then(|last| Ring::after(&mut table, *last)) {
                    if Some(next) == ring.at() { break; }
                    walk.push(next);
                }
                prop_assert_eq!(walk, model.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
