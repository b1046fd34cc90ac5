//! The retransmission time-out: RFC 6298, with times in nanoseconds and the delay of
//! acknowledgements in place of the clock's granularity.

use super::LinkConfig;

/// The most doublings of the time-out that are counted; [`LinkConfig::rto_max_ns`] is usually met
/// before.
const BACK_OFF_MAX: u8 = 32;

/// Smoothed round-trip time, its variation, and how often the time-out has been doubled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Rtt {
    smoothed: u64,
    variation: u64,
    doublings: u8,
}

impl Rtt {
    pub(super) const UNKNOWN: Self = Self { smoothed: 0, variation: 0, doublings: 0 };

    /// A round trip was measured, on a frame that was sent once (Karn's rule is the caller's). It
    /// ends the back-off.
    pub(super) fn sample(&mut self, ns: u64) {
        let ns = ns.clamp(1, u64::MAX >> 3);
        if self.smoothed == 0 {
            (self.smoothed, self.variation) = (ns, ns / 2);
        } else {
            let error = self.smoothed.abs_diff(ns);
            self.variation = self.variation - self.variation / 4 + error / 4;
            self.smoothed = (self.smoothed - self.smoothed / 8 + ns / 8).max(1);
        }
        self.doublings = 0;
    }

    /// A time-out has passed: the next one is twice as long (RFC 6298, 5.5).
    pub(super) fn back_off(&mut self) {
        self.doublings = self.doublings.saturating_add(1).min(BACK_OFF_MAX);
    }

    /// The time-out now.
    #[inline]
    pub(super) fn rto(&self, config: &LinkConfig) -> u64 {
        self.doubled(config, self.doublings)
    }

    /// The time-out after so many doublings.
    #[inline]
    pub(super) fn doubled(&self, config: &LinkConfig, doublings: u8) -> u64 {
        let plain = if self.smoothed == 0 {
            config.rto_first_ns
        } else {
            self.smoothed.saturating_add((4 * self.variation).max(config.ack_delay_ns))
        };
        let plain = plain.clamp(config.rto_min_ns, config.rto_max_ns.max(config.rto_min_ns));
        plain.saturating_mul(1 << doublings.min(BACK_OFF_MAX)).min(config.rto_max_ns).max(1)
    }

    /// The smoothed round-trip time, if one has been measured.
    pub(super) fn smoothed(&self) -> Option<u64> {
        (self.smoothed != 0).then_some(self.smoothed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: LinkConfig = LinkConfig {
        rto_first_ns: 5000,
        rto_min_ns: 1000,
        rto_max_ns: 9000,
        ack_delay_ns: 100,
        ..LinkConfig::DEFAULT
    };

    #[test]
    fn the_numbers_of_rfc_6298() {
        let mut rtt = Rtt::UNKNOWN;
        assert_eq!((rtt.rto(&CONFIG), rtt.smoothed()), (5000, None));
        rtt.sample(1600);
        assert_eq!((rtt.rto(&CONFIG), rtt.smoothed()), (1600 + 4 * 800, Some(1600)));
        rtt.sample(800);
        assert_eq!((rtt.variation, rtt.smoothed), (600 + 200, 1400 + 100));
        (0..60).for_each(|_| rtt.sample(1500));
        assert_eq!(rtt.rto(&CONFIG), 1500 + 100, "an acknowledgement may be delayed where none was yet");
    }

    #[test]
    fn it_doubles_to_the_longest_and_a_sample_ends_that() {
        let mut rtt = Rtt::UNKNOWN;
        rtt.sample(1200);
        rtt.sample(1200);
        let before = rtt.rto(&CONFIG);
        rtt.back_off();
        assert_eq!(rtt.rto(&CONFIG), 2 * before);
        (0..200).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(&CONFIG), 9000);
        rtt.sample(1200);
        assert!(rtt.rto(&CONFIG) < before, "and the variation has fallen");
    }

    #[test]
    fn extremes_neither_overflow_nor_reach_zero() {
        let mut rtt = Rtt::UNKNOWN;
        for ns in [0, u64::MAX, 0, u64::MAX, u64::MAX, 0, 0, 0] {
            rtt.sample(ns);
            assert!((1000..=9000).contains(&rtt.rto(&CONFIG)));
        }
        let never = LinkConfig { rto_max_ns: u64::MAX, ..CONFIG };
        (0..200).for_each(|_| rtt.back_off());
        assert!(rtt.rto(&never) > 0);
    }
}
