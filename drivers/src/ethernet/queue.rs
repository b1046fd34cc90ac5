//! Queues of rows, first in, first out, whose links stand in the rows: bounded work needs no walk
//! over all peers.

use super::peer::PeerRow;

/// A row's place in one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueueLinks {
    next: u32,
    queued: bool,
}

impl QueueLinks {
    pub(super) const NONE: Self = Self { next: 0, queued: false };
}

/// The queues that a row can stand in, one place each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueLine {
    /// Rows with something to transmit.
    Due,
    /// Rows with something to tell the sink.
    News,
    /// Rows that were posted to since the last poll.
    Posted,
}

/// A queue of rows; a row stands in it once at most.
#[derive(Debug)]
pub(super) struct RowQueue {
    line: QueueLine,
    len: u32,
    first: u32,
    last: u32,
}

impl RowQueue {
    pub(super) const fn new(line: QueueLine) -> Self {
        Self { line, len: 0, first: 0, last: 0 }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Puts a row at the end. Nothing if it is in already.
    #[inline]
    pub(super) fn push(&mut self, rows: &mut [PeerRow], index: u32) {
        let line = self.line;
        let Some(place) = rows.get_mut(index as usize).map(|row| row.place(line)) else { return };
        if place.queued {
            return;
        }
        place.queued = true;
        if self.len == 0 {
            self.first = index;
        } else if let Some(last) = rows.get_mut(self.last as usize) {
            last.place(line).next = index;
        }
        self.last = index;
        self.len += 1;
    }

    /// Takes the first row out.
    #[inline]
    pub(super) fn pop(&mut self, rows: &mut [PeerRow]) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let index = self.first;
        let place = rows.get_mut(index as usize)?.place(self.line);
        place.queued = false;
        self.first = place.next;
        self.len -= 1;
        Some(index)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn rows_come_out_as_they_went_in_and_stand_in_two_queues_at_a_time() {
        let mut rows = [const { PeerRow::EMPTY }; 4];
        let (mut due, mut news) = (RowQueue::new(QueueLine::Due), RowQueue::new(QueueLine::News));
        for index in [2, 0, 2, 3, 9] {
            due.push(&mut rows, index);
            news.push(&mut rows, index);
        }
        assert_eq!(due.len(), 3);
        assert_eq!(due.pop(&mut rows), Some(2));
        due.push(&mut rows, 2);
        let order: Vec<_> = core::iter::from_fn(|| due.pop(&mut rows)).collect();
        assert_eq!(order, [0, 3, 2]);
        assert_eq!(core::iter::from_fn(|| news.pop(&mut rows)).collect::<Vec<_>>(), [2, 0, 3]);
        assert_eq!((due.pop(&mut rows), due.len()), (None, 0));
    }
}
