//! A deadline that may be unset, in eight bytes of which zero is unset.

use core::num::NonZeroU64;

use aldis_hal::Instant;

/// A deadline. The instant zero, the clock's origin, is rounded up to its first nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Timer(Option<NonZeroU64>);

impl Timer {
    /// A deadline that never passes.
    pub(crate) const OFF: Self = Self(None);

    /// Passes `span` nanoseconds after `now`.
    #[inline]
    pub(crate) const fn set(&mut self, now: Instant, span: u64) {
        self.0 = NonZeroU64::new(match now.0.saturating_add(span) {
            0 => 1,
            at => at,
        });
    }

    /// Sets the timer like [`set`](Self::set), unless it is set already.
    #[inline]
    pub(crate) const fn start(&mut self, now: Instant, span: u64) {
        if self.0.is_none() {
            self.set(now, span);
        }
    }

    /// If it was set `span` after `then`, it is set `span` after `now`, less a nanosecond: it is
    /// not moved again from there, or a caller that retimes for ever would keep it from passing.
    #[inline]
    pub(crate) fn retime(&mut self, then: Instant, now: Instant, span: u64) {
        let mut set_then = Self::OFF;
        set_then.set(then, span);
        if *self == set_then {
            self.set(now, span.saturating_sub(1));
        }
    }

    /// Returns true if it has passed; it is off then.
    #[inline]
    pub(crate) fn fire(&mut self, now: Instant) -> bool {
        let due = self.at().is_some_and(|at| at <= now);
        if due {
            *self = Self::OFF;
        }
        due
    }

    /// The time at which it passes.
    #[inline]
    pub(crate) fn at(self) -> Option<Instant> {
        self.0.map(|at| Instant(at.get()))
    }

    /// The first of several to pass.
    #[inline]
    pub(crate) fn earliest<const N: usize>(timers: [Self; N]) -> Option<Instant> {
        timers.into_iter().filter_map(Self::at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fires_once_and_the_origin_is_a_time() {
        let mut timer = Timer::OFF;
        assert!(!timer.fire(Instant::NEVER));
        timer.set(Instant(0), 0);
        timer.start(Instant(5), 5);
        assert_eq!(timer.at(), Some(Instant(1)));
        assert!(!timer.fire(Instant(0)) && timer.fire(Instant(1)) && !timer.fire(Instant(1)));
    }

    #[test]
    fn only_what_was_set_then_is_retimed() {
        let mut timer = Timer::OFF;
        timer.retime(Instant(0), Instant(9), 5);
        assert_eq!(timer, Timer::OFF);
        timer.set(Instant(2), 5);
        timer.retime(Instant(3), Instant(9), 5);
        assert_eq!(timer.at(), Some(Instant(7)));
        timer.retime(Instant(2), Instant(9), 5);
        assert_eq!(timer.at(), Some(Instant(13)));
        timer.retime(Instant(9), Instant(20), 5);
        assert_eq!(timer.at(), Some(Instant(13)), "once");
    }

    #[test]
    fn the_earliest_of_those_that_are_set() {
        let mut timers = [Timer::OFF; 3];
        assert_eq!(Timer::earliest(timers), None);
        timers[2].set(Instant(7), u64::MAX);
        assert_eq!(Timer::earliest(timers), Some(Instant::NEVER));
        timers[1].set(Instant(7), 1);
        assert_eq!(Timer::earliest(timers), Some(Instant(8)));
    }
}
