//! A counter of 24 bits that runs down, extended to 64 bits by looking at it.

/// Values of the counter: it runs from the last of them to zero and begins again.
pub(super) const PERIOD: u32 = 1 << 24;

/// The ticks since the start, as far as the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct DownCounter {
    ticks: u64,
    last: u32,
}

impl DownCounter {
    /// A counter that has just been reset: it shows zero and is about to begin.
    pub(super) const fn new() -> Self {
        Self { ticks: 0, last: 0 }
    }

    /// The ticks since the start, when the counter shows `value`. Two looks are less than
    /// [`PERIOD`] ticks apart: of a longer time whole periods are missing.
    #[inline]
    pub(super) fn look(&mut self, value: u32) -> u64 {
        let value = value % PERIOD;
        self.ticks = self.ticks.wrapping_add(u64::from(self.last.wrapping_sub(value) % PERIOD));
        self.last = value;
        self.ticks
    }

    /// The counter was reset, and so many ticks have passed otherwise.
    pub(super) fn reset(&mut self, passed: u64) {
        self.ticks = self.ticks.wrapping_add(passed);
        self.last = 0;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    /// Returns what the counter shows after so many ticks.
    fn shown(ticks: u64) -> u32 {
        (u64::from(PERIOD) - ticks % u64::from(PERIOD)) as u32 % PERIOD
    }

    #[test]
    fn a_wrap_between_two_looks_is_seen() {
        let mut counter = DownCounter::new();
        assert_eq!(counter.look(PERIOD - 1), 1);
        assert_eq!(counter.look(5), u64::from(PERIOD) - 5);
        assert_eq!(counter.look(PERIOD - 5), u64::from(PERIOD) + 5);
        assert_eq!(counter.look(PERIOD - 5), u64::from(PERIOD) + 5);
        counter.reset(100);
        assert_eq!(counter.look(PERIOD - 2), u64::from(PERIOD) + 107);
    }

    proptest! {
        #[test]
        fn no_tick_is_lost_while_looks_are_less_than_a_period_apart(
            steps in proptest::collection::vec(0..u64::from(PERIOD), 0..50),
        ) {
            let (mut counter, mut ticks) = (DownCounter::new(), 0);
            for step in steps {
                ticks += step;
                prop_assert_eq!(counter.look(shown(ticks)), ticks);
            }
        }
    }
}
