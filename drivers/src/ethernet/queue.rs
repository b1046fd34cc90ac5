//! Queues of links and of rows, first in, first out, whose places stand in the links and rows:
//! bounded work needs no walk over all peers.

use super::peer::{PeerLink, PeerRow, WantState};

/// A link's place in one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueueLinks {
    next: u32,
    queued: bool,
}

impl QueueLinks {
    pub(super) const NONE: Self = Self { next: 0, queued: false };
}

/// The queues that a link can stand in, one place each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkLine {
    /// Links with something to transmit.
    Due,
    /// Links with something to tell the sink.
    News,
    /// Links that were posted to since the last poll.
    Posted,
    /// Links that a row has given back.
    Free,
}

/// A queue of links; a link stands in it once at most.
#[derive(Debug)]
pub(super) struct LinkQueue {
    line: LinkLine,
    len: u32,
    first: u32,
    last: u32,
}

impl LinkQueue {
    pub(super) const fn new(line: LinkLine) -> Self {
        Self { line, len: 0, first: 0, last: 0 }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Puts a link at the end. Nothing if it is in already.
    #[inline]
    pub(super) fn push(&mut self, links: &mut [PeerLink], index: u32) {
        let line = self.line;
        let Some(place) = links.get_mut(index as usize).map(|link| link.place(line)) else { return };
        if place.queued {
            return;
        }
        place.queued = true;
        if self.len == 0 {
            self.first = index;
        } else if let Some(last) = links.get_mut(self.last as usize) {
            last.place(line).next = index;
        }
        self.last = index;
        self.len += 1;
    }

    /// Takes the first link out.
    #[inline]
    pub(super) fn pop(&mut self, links: &mut [PeerLink]) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let index = self.first;
        let place = links.get_mut(index as usize)?.place(self.line);
        place.queued = false;
        self.first = place.next;
        self.len -= 1;
        Some(index)
    }
}

/// The queue of rows that want a link; a row stands in it once at most.
#[derive(Debug)]
pub(super) struct WantQueue {
    len: u32,
    /// Those of them that want none any more.
    served: u32,
    first: u16,
    last: u16,
}

impl WantQueue {
    pub(super) const EMPTY: Self = Self { len: 0, served: 0, first: 0, last: 0 };

    /// Rows that want a link.
    pub(super) const fn len(&self) -> u32 {
        self.len - self.served
    }

    /// The first row.
    pub(super) fn front(&self) -> Option<usize> {
        (self.len != 0).then_some(self.first.into())
    }

    /// Puts a row at the end. One that is in already keeps its place; false if it wants a link
    /// already, or there is no such row.
    pub(super) fn push(&mut self, rows: &mut [PeerRow], index: usize) -> bool {
        let Some(row) = rows.get_mut(index) else { return false };
        match core::mem::replace(&mut row.want, WantState::Wanted) {
            WantState::Out => {}
            WantState::Wanted => return false,
            WantState::Served => {
                self.served -= 1;
                return true;
            }
        }
        let at = index as u16;
        if self.len == 0 {
            self.first = at;
        } else if let Some(last) = rows.get_mut(usize::from(self.last)) {
            last.next = at;
        }
        self.last = at;
        self.len += 1;
        true
    }

    /// Notes that a row has been given a link: it wants none any more, wherever it stands.
    pub(super) fn serve(&mut self, rows: &mut [PeerRow], index: usize) {
        if let Some(row) = rows.get_mut(index).filter(|row| row.want == WantState::Wanted) {
            row.want = WantState::Served;
            self.served += 1;
        }
    }

    /// Takes the first row out.
    pub(super) fn pop(&mut self, rows: &mut [PeerRow]) {
        let Some(row) = self.front().and_then(|index| rows.get_mut(index)) else { return };
        if core::mem::replace(&mut row.want, WantState::Out) == WantState::Served {
            self.served -= 1;
        }
        self.first = row.next;
        self.len -= 1;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn links_come_out_as_they_went_in_and_stand_in_two_queues_at_a_time() {
        let mut links = [const { PeerLink::EMPTY }; 4];
        let (mut due, mut news) = (LinkQueue::new(LinkLine::Due), LinkQueue::new(LinkLine::News));
        for index in [2, 0, 2, 3, 9] {
            due.push(&mut links, index);
            news.push(&mut links, index);
        }
        assert_eq!(due.len(), 3);
        assert_eq!(due.pop(&mut links), Some(2));
        due.push(&mut links, 2);
        let order: Vec<_> = core::iter::from_fn(|| due.pop(&mut links)).collect();
        assert_eq!(order, [0, 3, 2]);
        assert_eq!(core::iter::from_fn(|| news.pop(&mut links)).collect::<Vec<_>>(), [2, 0, 3]);
        assert_eq!((due.pop(&mut links), due.len()), (None, 0));
    }

    #[test]
    fn rows_that_want_a_link_are_served_in_order_and_once() {
        let mut rows = [const { PeerRow::EMPTY }; 4];
        let mut wanted = WantQueue::EMPTY;
        let served = |wanted: &mut WantQueue, rows: &mut [PeerRow]| {
            let front = wanted.front();
            wanted.pop(rows);
            front
        };
        for index in [3, 1, 3, 9, 0] {
            wanted.push(&mut rows, index);
        }
        assert_eq!((wanted.len(), served(&mut wanted, &mut rows)), (3, Some(3)));
        wanted.push(&mut rows, 3);
        wanted.serve(&mut rows, 1);
        assert_eq!(wanted.len(), 2, "the one that was served otherwise does not count");
        wanted.serve(&mut rows, 0);
        assert!(wanted.push(&mut rows, 0) && !wanted.push(&mut rows, 3), "one of them wants again");
        let order: Vec<_> = core::iter::from_fn(|| served(&mut wanted, &mut rows)).collect();
        assert_eq!((order, wanted.len()), (std::vec![1, 0, 3], 0));
    }
}
