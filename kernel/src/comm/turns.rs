//! Who makes a communicator next, where several calls of one process do so at a time.
//!
//! The members of a new communicator agree on a slot that is free on all of them. Two calls that offered the same slots could be
//! promised the same one; so a process offers slots for one call at a time, and the others offer none and try again. All
//! processes let the calls go first in one order, as in an MPI of many threads (Gropp and Thakur, "Thread-safety in an MPI
//! implementation", 2007): of the calls that are under way, the first in order cannot be refused for ever.

/// The turn of a process.
#[derive(Debug)]
pub(crate) struct Turns {
    taken: bool,
    /// Of the calls that were refused, the first in order that is known.
    first: u32,
}

impl Turns {
    pub(crate) const fn new() -> Self {
        Self { taken: false, first: u32::MAX }
    }

    /// Takes the turn, unless another call has it or goes first.
    pub(crate) const fn take(&mut self, order: u32) -> bool {
        if self.taken || self.first < order {
            return false;
        }
        self.taken = true;
        true
    }

    /// Gives it back, if this call has it, and goes on later: before all that come behind in order.
    pub(crate) const fn put_off(&mut self, order: u32, held: bool) {
        self.taken &= !held;
        if order < self.first {
            self.first = order;
        }
    }

    /// The call is over, or needs it no more.
    pub(crate) const fn end(&mut self, order: u32, held: bool) {
        self.taken &= !held;
        if self.first == order {
            self.first = u32::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_and_the_first_in_order_is_the_next() {
        let mut turns = Turns::new();
        assert!(turns.take(7));
        assert!(!turns.take(5));
        turns.put_off(5, false);
        turns.put_off(7, true);
        assert!(!turns.take(7), "another goes first");
        assert!(turns.take(5));
        turns.end(5, true);
        assert!(turns.take(u32::MAX));
        turns.end(u32::MAX, true);
    }
}
