//! The schedule by which rows' timers are looked at: the earliest deadline of all rows is kept as a
//! lower bound, and a walk over the rows begins when it has passed and goes on a few rows each
//! poll.

use aldis_hal::Instant;

/// Rows that one poll looks at for time-outs at most. A walk over all rows takes as many polls as
/// it needs; that much later a timer may be found.
pub(super) const ROWS_PER_POLL: usize = 32;

/// The cached deadline and the walk.
#[derive(Debug)]
pub(super) struct Timers {
    /// No row's timer passes before this, but for rows that the walk has yet to see.
    earliest: Instant,
    /// The row that the walk looks at next, while there is one.
    walk: Option<usize>,
}

impl Timers {
    pub(super) const fn new() -> Self {
        Self { earliest: Instant::NEVER, walk: None }
    }

    /// The time of the next look, as far as is known: nothing is due before.
    pub(super) fn earliest(&self) -> Instant {
        if self.walk.is_some() { Instant(0) } else { self.earliest }
    }

    /// A row's timer passes then.
    #[inline]
    pub(super) fn note(&mut self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.earliest = self.earliest.min(deadline);
        }
    }

    /// The rows to look at now, of `rows` many: whatever timers they have afterwards is to be
    /// [`note`](Self::note)d.
    #[inline]
    pub(super) fn walk(&mut self, now: Instant, rows: usize) -> core::ops::Range<usize> {
        if self.walk.is_none() && now < self.earliest {
            return 0..0;
        }
        let start = self.walk.unwrap_or_else(|| {
            self.earliest = Instant::NEVER;
            0
        });
        let end = rows.min(start + ROWS_PER_POLL);
        self.walk = (end < rows).then_some(end);
        start..end
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_walk_sees_every_row_and_forgets_no_deadline() {
        let mut timers = Timers::new();
        assert!(timers.walk(Instant(9), 70).is_empty() && timers.earliest() == Instant::NEVER);
        timers.note(Some(Instant(20)));
        timers.note(Some(Instant(10)));
        timers.note(None);
        assert!(timers.walk(Instant(9), 70).is_empty());
        assert_eq!(timers.walk(Instant(10), 70), 0..32);
        timers.note(Some(Instant(20)));
        assert_eq!((timers.walk(Instant(10), 70), timers.earliest()), (32..64, Instant(0)));
        timers.note(Some(Instant(15)));
        assert_eq!(timers.walk(Instant(10), 70), 64..70);
        assert_eq!(timers.earliest(), Instant(15));
        assert!(timers.walk(Instant(14), 70).is_empty());
    }
}
