//! Events in the order of virtual time and, where that ties, in the order in which they were made.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use aldis_kernel::hal::{Cause, Epoch};

/// A message under way, from one life of a node to one life of another.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: u32,
    pub(crate) epoch: Epoch,
    pub(crate) to_epoch: Epoch,
    pub(crate) bytes: Vec<u8>,
}

/// A frame under way. A second arrival of it has the same id.
#[derive(Debug)]
pub(crate) struct FlyingFrame {
    pub(crate) id: u64,
    pub(crate) from: u32,
    pub(crate) bytes: Vec<u8>,
}

/// An item in a node's inbox.
#[derive(Debug)]
pub(crate) enum Delivery {
    Message(Message),
    Frame(FlyingFrame),
    /// There is room for a message to this node.
    Ready(u32),
    /// This life of a node is over, and nothing more comes of it.
    Lost {
        peer: u32,
        epoch: Epoch,
        cause: Cause,
    },
}

/// The kinds of event.
#[derive(Debug)]
pub(crate) enum EventKind {
    /// A node goes on, unless it has been woken otherwise since its turn `turn`.
    Wake {
        node: u32,
        turn: u64,
    },
    Deliver {
        node: u32,
        delivery: Delivery,
    },
    Pause {
        node: u32,
        until: u64,
    },
    /// A node dies, until `back` if that is known.
    Crash {
        node: u32,
        back: Option<u64>,
    },
    Boot(u32),
    /// A node that waits for a place in its network card has one.
    Departed(u32),
}

#[derive(Debug)]
struct QueuedEvent {
    at: u64,
    sequence: u64,
    what: EventKind,
}

impl Ord for QueuedEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for QueuedEvent {}

/// The events that are going to happen.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<QueuedEvent>>,
    made: u64,
}

impl EventQueue {
    /// Makes `what` happen at `at`.
    pub(crate) fn push(&mut self, at: u64, what: EventKind) {
        self.made += 1;
        self.heap.push(Reverse(QueuedEvent { at, sequence: self.made, what }));
    }

    /// The next thing to happen, and when.
    pub(crate) fn pop(&mut self) -> Option<(u64, EventKind)> {
        self.heap.pop().map(|Reverse(event)| (event.at, event.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_first_and_the_order_of_making_second() {
        let mut queue = EventQueue::default();
        for (at, node) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            queue.push(at, EventKind::Boot(node));
        }
        let order = core::iter::from_fn(|| queue.pop()).map(|(at, what)| match what {
            EventKind::Boot(node) => (at, node),
            _ => unreachable!(),
        });
        assert_eq!(order.collect::<Vec<_>>(), [(3, 1), (3, 3), (5, 0), (5, 2)]);
    }
}
