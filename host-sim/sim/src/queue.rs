//! Events in the order of virtual time and, where that ties, in the order in which they were made.

use core::cmp::Reverse;
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
    /// A node goes on.
    Wake(u32),
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

/// The place of an event in the order in which they happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EventTime {
    at: u64,
    /// Its number in the order of making.
    sequence: u64,
}

/// The events that are going to happen. They stand apart from their order, which a heap moves about
/// all the time; and so do wakings, of which a node has one at a time: one that is made for another
/// time is no other event.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    order: BinaryHeap<Reverse<(EventTime, u32)>>,
    /// Events by the index that the heap has of them, and the indices that are free.
    events: Vec<Option<EventKind>>,
    free: Vec<u32>,
    wakings: WakingHeap,
    made: u64,
}

impl EventQueue {
    /// Makes `what` happen at `at`.
    pub(crate) fn push(&mut self, at: u64, what: EventKind) {
        let time = self.time(at);
        let index = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() as u32 - 1
        });
        self.events[index as usize] = Some(what);
        self.order.push(Reverse((time, index)));
    }

    /// Makes a node go on at `at`, and not at the time that was said before.
    pub(crate) fn wake(&mut self, at: u64, node: u32) {
        let time = self.time(at);
        self.wakings.set(node, time);
    }

    fn time(&mut self, at: u64) -> EventTime {
        self.made += 1;
        EventTime { at, sequence: self.made }
    }

    /// The next thing to happen, and when.
    pub(crate) fn pop(&mut self) -> Option<(u64, EventKind)> {
        let next = self.order.peek().map(|Reverse((time, _))| *time);
        if let Some(Waking { time, node }) = self.wakings.first()
            && next.is_none_or(|next| time < next)
        {
            self.wakings.remove_first();
            return Some((time.at, EventKind::Wake(node)));
        }
        let Reverse((time, index)) = self.order.pop()?;
        self.free.push(index);
        Some((time.at, self.events[index as usize].take()?))
    }
}

/// The next time at which a node goes on.
#[derive(Clone, Copy, Debug)]
struct Waking {
    time: EventTime,
    node: u32,
}

/// The time at which each node goes on, the next one first: a binary heap that knows the place of
/// every node, so that its time can be changed (Cormen et al., Introduction to Algorithms, section
/// 6.5).
#[derive(Debug, Default)]
struct WakingHeap {
    heap: Vec<Waking>,
    /// The place of each node in the heap; [`NO_PLACE`] of one that is not there.
    places: Vec<u32>,
}

const NO_PLACE: u32 = u32::MAX;

impl WakingHeap {
    fn first(&self) -> Option<Waking> {
        self.heap.first().copied()
    }

    /// Puts a node there, or moves it.
    fn set(&mut self, node: u32, time: EventTime) {
        if self.places.len() <= node as usize {
            self.places.resize(node as usize + 1, NO_PLACE);
        }
        let place = match self.places[node as usize] {
            NO_PLACE => {
                self.heap.push(Waking { time, node });
                self.heap.len() - 1
            }
            place => {
                self.heap[place as usize].time = time;
                place as usize
            }
        };
        let place = self.sift_up(place);
        self.sift_down(place);
    }

    fn remove_first(&mut self) {
        let Some(&Waking { node, .. }) = self.heap.first() else { return };
        self.heap.swap_remove(0);
        self.places[node as usize] = NO_PLACE;
        if !self.heap.is_empty() {
            self.sift_down(0);
        }
    }

    /// Moves what stands at a place to the front as far as it belongs; returns its place then.
    fn sift_up(&mut self, mut place: usize) -> usize {
        let moved = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].time <= moved.time {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, moved);
        place
    }

    fn sift_down(&mut self, mut place: usize) {
        let moved = self.heap[place];
        loop {
            let children = self.heap.iter().enumerate().skip(2 * place + 1).take(2);
            let Some((child, &least)) = children.min_by_key(|(_, waking)| waking.time) else { break };
            if moved.time <= least.time {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, moved);
    }

    fn put(&mut self, place: usize, waking: Waking) {
        self.heap[place] = waking;
        self.places[waking.node as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map from times to what happens then, and to which nodes wake when.
        #[test]
        fn events_and_wakings_happen_in_their_order(
            steps in proptest::collection::vec((0_u32..5, 0_u64..20, 0_u32..12), 0..300),
        ) {
            let mut queue = EventQueue::default();
            let (mut model, mut waking) = (BTreeMap::new(), BTreeMap::<u32, (u64, u64)>::new());
            for (made, (step, at, node)) in (0_u64..).zip(steps) {
                match step {
                    0 => {
                        queue.push(at, EventKind::Boot(node));
                        model.insert((at, made), (false, node));
                    }
                    1 | 2 => {
                        queue.wake(at, node);
                        if let Some(before) = waking.insert(node, (at, made)) {
                            model.remove(&before);
                        }
                        model.insert((at, made), (true, node));
                    }
                    _ => {
                        let due = model.pop_first().map(|((at, _), what)| (at, what));
                        if let Some((_, (true, node))) = due {
                            waking.remove(&node);
                        }
                        let came = queue.pop().map(|(at, what)| match what {
                            EventKind::Wake(node) => (at, (true, node)),
                            EventKind::Boot(node) => (at, (false, node)),
                            _ => unreachable!(),
                        });
                        prop_assert_eq!(came, due);
                    }
                }
            }
        }
    }

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
