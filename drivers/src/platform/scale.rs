//! Nanoseconds of a counter's ticks.

/// Nanoseconds of a tick, as a fixed-point number with 32 fraction bits: converting takes three
/// multiplications of 32 by 32 or 64 bits, no division and no wider word, so that it is cheap on a
/// core of any width.
///
/// The rate is kept to a part in 2^32 of a nanosecond a tick: at 3 GHz the clock is off by at
/// most 0.7 ns a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    whole: u32,
    fraction: u32,
}

impl Scale {
    /// The scale of a counter of so many ticks a second; `None` for none.
    ///
    /// ```
    /// use aldis_drivers::platform::Scale;
    ///
    /// let scale = Scale::of_hz(62_500_000).unwrap();
    /// assert_eq!(scale.ns(62_500_000 * 86_400), 86_400_000_000_000, "a day, exactly");
    /// assert_eq!(Scale::of_hz(0), None);
    /// ```
    #[must_use]
    pub const fn of_hz(hz: u64) -> Option<Self> {
        let Some(fixed) = (1_000_000_000_u64 << 32).checked_div(hz) else { return None };
        // At 1 Hz a tick has 10^9 ns, which fit.
        Some(Self { whole: (fixed >> 32) as u32, fraction: fixed as u32 })
    }

    /// Nanoseconds of `ticks`, rounded down; wraps around after 584 years.
    #[inline]
    #[must_use]
    pub const fn ns(self, ticks: u64) -> u64 {
        let (high, low) = (ticks >> 32, ticks & u32::MAX as u64);
        let fraction = self.fraction as u64;
        ticks
            .wrapping_mul(self.whole as u64)
            .wrapping_add(high.wrapping_mul(fraction))
            .wrapping_add(low.wrapping_mul(fraction) >> 32)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with exact arithmetic at the same scale.
        #[test]
        fn nothing_overflows_on_the_way(ticks: u64, hz in 1..=10_000_000_000_u64) {
            let scale = Scale::of_hz(hz).unwrap();
            let exact = (u128::from(ticks) * ((1_000_000_000_u128 << 32) / u128::from(hz))) >> 32;
            prop_assert_eq!(scale.ns(ticks), exact as u64);
        }

        /// A year of any clock is a year, to a second.
        #[test]
        fn a_year_is_a_year(hz in 1_000..=5_000_000_000_u64) {
            const YEAR_S: u64 = 365 * 86_400;
            let ns = Scale::of_hz(hz).unwrap().ns(YEAR_S * hz);
            prop_assert!(YEAR_S * 1_000_000_000 - ns < 50_000_000, "{} ns short", YEAR_S * 1_000_000_000 - ns);
        }

        #[test]
        fn time_runs_forwards(ticks in 0..u64::MAX >> 1, hz in 1_000_000..=5_000_000_000_u64) {
            let scale = Scale::of_hz(hz).unwrap();
            prop_assume!(u128::from(ticks) * 1_000_000_000 / u128::from(hz) < u128::from(u64::MAX / 2));
            prop_assert!(scale.ns(ticks + 1) >= scale.ns(ticks));
        }
    }
}
