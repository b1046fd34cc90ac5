//! The order in which calls of one process make communicators, where several do so at a time.
//!
//! The members of a new communicator agree on a slot that is free on all of them. Two calls that
//! offered the same slots could be promised the same one; so a process offers slots for one call at
//! a time, and the others offer none and try again. All processes let the calls go first in one
//! order, as in an MPI of many threads (Gropp and Thakur, "Thread-safety in an MPI
//! implementation", 2007): of the calls that are under way, the first in order cannot be refused
//! for ever.
//!
//! Most processes make one communicator at a time, all with the same slots free. So a call whose
//! order is not agreed yet may be promised one slot early, which no other call is offered
//! meanwhile: where that is the first free slot of all, the first agreement is the last.

/// The turn of a process.
#[derive(Debug)]
pub(crate) struct ContextTurns {
    taken: bool,
    /// The slot that is promised early; zero, which is the world's, if there is none.
    early: u16,
    /// Of the calls that were refused, the first in order that is known.
    first: u32,
}

impl ContextTurns {
    pub(crate) const fn new() -> Self {
        Self { taken: false, early: 0, first: u32::MAX }
    }

    /// Takes the turn, unless another call has it or is first in order.
    pub(crate) const fn take(&mut self, order: u32) -> bool {
        if self.taken || self.first < order {
            return false;
        }
        self.taken = true;
        true
    }

    /// Promises a slot early, unless a call has the turn, which has offered all of them, or another
    /// one is promised.
    pub(crate) const fn promise(&mut self, slot: u16) -> bool {
        if self.taken || self.early != 0 {
            return false;
        }
        self.early = slot;
        true
    }

    /// Ends the promise.
    pub(crate) const fn end_promise(&mut self) {
        self.early = 0;
    }

    /// Returns true if a slot is promised early.
    pub(crate) const fn is_promised(&self, slot: u32) -> bool {
        slot != 0 && self.early as u32 == slot
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
        let mut turns = ContextTurns::new();
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

    #[test]
    fn one_slot_is_promised_early_while_no_call_has_the_turn() {
        let mut turns = ContextTurns::new();
        assert!(!turns.is_promised(0) && turns.promise(3) && turns.is_promised(3));
        assert!(!turns.promise(4), "one at a time");
        assert!(turns.take(7), "who has its turn offers the others");
        turns.end_promise();
        assert!(!turns.is_promised(3) && !turns.promise(4), "the other one has offered all");
        turns.end(7, true);
        assert!(turns.promise(4));
    }
}
