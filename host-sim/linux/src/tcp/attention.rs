//! The choice of where to look for what has come: at the one socket in use, straight, or by asking
//! the system which of all are ready. Either costs a system call, so a poll should make one and not
//! both.

use aldis_hal::Instant;

/// Reads in a row on the same connection, without any other between, after which it is the one.
const STREAK: u32 = 3;
/// Reads in a row on it after which the system need not look after it at all.
const LONG_STREAK: u32 = 64;
/// Polls of the one without anything, after which it is none.
const PATIENCE: u32 = 4096;
/// Polls that ask the system each, after something has come.
const ALERT: u32 = 1024;
/// While all is quiet the system is asked every so many polls, so that other transports' polls stay
/// cheap; and every so many while there is the one.
const SPARSE: u32 = 32;
/// Polls for each one that asks the system, while something waits to be sent.
const PRESSING: u32 = 4;
/// The time after which the system is asked while no connection is the one, ns, if the caller tells
/// the time.
const REST_NS: u64 = 10_000;

/// The choice of what the next poll looks at. See the [module](self).
#[derive(Debug)]
pub(super) struct Attention {
    /// The connection that is read without asking.
    one: Option<u32>,
    last: u32,
    streak: u32,
    /// Polls since the one had anything.
    fruitless: u32,
    alert: u32,
    polls: u32,
    asked: Instant,
}

impl Attention {
    pub(super) const fn new() -> Self {
        Self { one: None, last: 0, streak: 0, fruitless: 0, alert: 0, polls: 0, asked: Instant(0) }
    }

    /// The connection to read without asking.
    #[inline]
    pub(super) const fn one(&self) -> Option<u32> {
        self.one
    }

    /// The connection to read without asking, if it has been the one for long.
    #[inline]
    pub(super) fn alone(&self) -> Option<u32> {
        self.one.filter(|_| self.streak >= LONG_STREAK)
    }

    /// Returns true if this poll is to ask the system. `pressing`: something waits for room in a
    /// socket.
    #[inline]
    pub(super) fn is_due(&mut self, now: Instant, pressing: bool) -> bool {
        self.polls = self.polls.wrapping_add(1);
        let every = match () {
            () if self.one.is_none() && self.alert > 0 => {
                self.alert -= 1;
                return true;
            }
            () if pressing => PRESSING,
            () => SPARSE,
        };
        if self.polls.is_multiple_of(every) || (self.one.is_none() && now.since(self.asked) >= REST_NS) {
            self.asked = now;
            return true;
        }
        false
    }

    /// Notes that something came over a connection.
    #[inline]
    pub(super) const fn found(&mut self, connection: u32) {
        self.fruitless = 0;
        if self.last == connection {
            self.streak = self.streak.saturating_add(1);
            if self.streak >= STREAK {
                self.one = Some(connection);
            }
        } else {
            (self.last, self.streak, self.one) = (connection, 0, None);
        }
        self.alert = ALERT;
    }

    /// The one had nothing.
    #[inline]
    pub(super) const fn missed(&mut self) {
        self.fruitless += 1;
        if self.fruitless >= PATIENCE {
            (self.one, self.fruitless, self.streak, self.alert) = (None, 0, 0, 0);
        }
    }

    /// A connection is no more, or another stands in its place.
    pub(super) fn forget(&mut self, connection: u32) {
        if self.last == connection {
            (self.one, self.streak) = (None, 0);
        }
    }

    /// Notes that something is expected: the next polls ask.
    pub(super) const fn wake(&mut self) {
        self.alert = ALERT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(attention: &mut Attention, polls: u32, pressing: bool) -> usize {
        (0..polls).filter(|_| attention.is_due(Instant(0), pressing)).count()
    }

    #[test]
    fn the_one_that_talks_is_read_without_asking() {
        let mut attention = Attention::new();
        attention.found(7);
        assert_eq!((attention.one(), asks(&mut attention, 64, false)), (None, 64));
        (0..STREAK).for_each(|_| attention.found(7));
        assert_eq!((attention.one(), asks(&mut attention, 64, false)), (Some(7), 2));
        assert_eq!(attention.alone(), None);
        (0..LONG_STREAK).for_each(|_| attention.found(7));
        assert_eq!(attention.alone(), Some(7));
        assert_eq!(asks(&mut attention, 64, true), 16, "what waits for room is asked for more often");
        attention.found(8);
        assert_eq!(
            (attention.one(), asks(&mut attention, 9, false)),
            (None, 9),
            "two that talk are asked for"
        );
        assert_eq!(attention.alone(), None);
    }

    #[test]
    fn silence_makes_polls_cheap_and_time_asks_all_the_same() {
        let mut attention = Attention::new();
        (0..=STREAK).for_each(|_| attention.found(7));
        (0..PATIENCE).for_each(|_| attention.missed());
        assert_eq!((attention.one(), asks(&mut attention, 320, false)), (None, 10));
        let mut now = Instant(0);
        for _ in 0..10 {
            now = Instant(now.0 + REST_NS);
            assert!(attention.is_due(now, false));
        }
    }

    #[test]
    fn one_that_is_gone_is_not_read() {
        let mut attention = Attention::new();
        (0..=STREAK).for_each(|_| attention.found(7));
        attention.forget(6);
        assert_eq!(attention.one(), Some(7));
        attention.forget(7);
        assert_eq!(attention.one(), None);
    }
}
