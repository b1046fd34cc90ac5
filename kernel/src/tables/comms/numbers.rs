//! The numbers of a communicator's collectives, and the check whether any two can have the same
//! one.

/// Collective calls of a communicator are numbered below this, then from zero again. What of a tag
/// is above is for what else it tells, and for calls that name their own.
pub const COLLECTIVES_MAX: u32 = 1 << 15;

/// Calls that a rank may have made before another one makes the first of them. A rank that waits
/// for no other, as the root of a broadcast, gets ahead of those that it sends to until its
/// messages have taken all envelopes there; they get ahead of others in turn.
const AHEAD_MAX: u32 = COLLECTIVES_MAX / 2;

/// The numbers of one communicator. All-zero is before the first call.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Calls so far, and those of persistent collectives, which keep their number: these are
    /// counted apart.
    calls: u32,
    persistent: u32,
    /// The tag of the last collective that began, or zero.
    last: u32,
    /// Collectives that have begun and have not ended.
    under_way: u32,
    /// Calls there had been when the first of them began.
    since: u32,
}

impl Numbers {
    pub(super) const EMPTY: Self = Self { calls: 0, persistent: 0, last: 0, under_way: 0, since: 0 };

    /// The next call's.
    #[inline]
    pub(super) const fn take(&mut self) -> u32 {
        let number = self.coming();
        self.calls = self.calls.wrapping_add(1);
        number
    }

    /// The next call's number, which is not taken.
    #[inline]
    pub(super) const fn coming(&self) -> u32 {
        self.calls & (COLLECTIVES_MAX - 1)
    }

    /// The number of the next persistent collective, counted without end.
    pub(super) const fn take_persistent(&mut self) -> u32 {
        let number = self.persistent;
        self.persistent = number.wrapping_add(1);
        number
    }

    /// A collective of the last call begins, with this tag; gives that of the one that began before
    /// it.
    #[inline]
    pub(super) const fn begin(&mut self, tag: u32) -> Option<u32> {
        if self.under_way == 0 {
            self.since = self.calls;
        }
        self.under_way = self.under_way.saturating_add(1);
        let before = core::mem::replace(&mut self.last, tag);
        if before == 0 { None } else { Some(before) }
    }

    /// Accounts for the end of a collective that has begun.
    #[inline]
    pub(super) const fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Returns true if no collective that is under way here can have the number of another one, or
    /// of what a rank has called that is [ahead](AHEAD_MAX). One that was dropped is under way for
    /// good.
    #[inline]
    pub(super) const fn are_distinct(&self) -> bool {
        self.under_way == 0 || self.calls.wrapping_sub(self.since) < COLLECTIVES_MAX - AHEAD_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_round_and_are_distinct_while_nothing_is_under_way_for_half_a_round() {
        let mut numbers = Numbers::EMPTY;
        for call in 0..3 * COLLECTIVES_MAX {
            assert_eq!(numbers.take(), call % COLLECTIVES_MAX);
            assert_eq!(numbers.begin(call + 1), call.checked_sub(1).map(|_| call));
            assert!(numbers.are_distinct());
            numbers.end();
        }
        numbers.take();
        numbers.begin(7);
        // Those of the ranks ahead are others as well.
        for _ in 1..COLLECTIVES_MAX - AHEAD_MAX {
            numbers.take();
            numbers.begin(8);
            assert!(numbers.are_distinct());
            numbers.end();
        }
        numbers.take();
        assert!(!numbers.are_distinct());
        numbers.end();
        assert!(numbers.are_distinct());
    }
}
