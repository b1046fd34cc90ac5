//! Events in the order of virtual time and, where that ties, in the order in which they were made.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What a transport hands to its sink.
#[derive(Debug)]
pub(crate) enum Delivery {
    Message(u32, Vec<u8>),
    Ready(u32),
    Lost(u32),
}

/// What happens.
#[derive(Debug)]
pub(crate) enum What {
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
    Crash(u32),
}

#[derive(Debug)]
struct Event {
    at: u64,
    sequence: u64,
    what: What,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

/// What is going to happen.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Event>>,
    made: u64,
}

impl Queue {
    /// Makes `what` happen at `at`.
    pub(crate) fn push(&mut self, at: u64, what: What) {
        self.made += 1;
        self.heap.push(Reverse(Event { at, sequence: self.made, what }));
    }

    /// The next thing to happen, and when.
    pub(crate) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|Reverse(event)| (event.at, event.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_first_and_the_order_of_making_second() {
        let mut queue = Queue::default();
        for (at, node) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            queue.push(at, What::Crash(node));
        }
        let order = core::iter::from_fn(|| queue.pop()).map(|(at, what)| match what {
            What::Crash(node) => (at, node),
            _ => unreachable!(),
        });
        assert_eq!(order.collect::<Vec<_>>(), [(3, 1), (3, 3), (5, 0), (5, 2)]);
    }
}
