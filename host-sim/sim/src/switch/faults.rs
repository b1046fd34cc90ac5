//! The faults on the way, and their rates.

use core::fmt;
use core::str::FromStr;

use serde::Serialize;

use crate::Random;

/// A rate: so many in a million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub struct Rate(u32);

/// All of them.
const MILLION: u32 = 1_000_000;

impl Rate {
    /// The rate of no frames.
    pub const NEVER: Self = Self(0);

    /// `percent` of a hundred; more than that is a hundred.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        if percent >= 100 { Self(MILLION) } else { Self(percent * (MILLION / 100)) }
    }

    /// Returns the rate as a share of one.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(MILLION)
    }

    /// Returns true if it happens this time. Draws one number, whatever the rate.
    pub(super) fn happens(self, random: &mut Random) -> bool {
        random.below(u64::from(MILLION)) < u64::from(self.0)
    }
}

/// A text that is no [`Rate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRate(String);

impl fmt::Display for BadRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a percentage from 0 to 100, such as 5 or 0.25", self.0)
    }
}

impl core::error::Error for BadRate {}

impl FromStr for Rate {
    type Err = BadRate;

    /// A percentage, with or without its sign.
    fn from_str(text: &str) -> Result<Self, BadRate> {
        let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
        let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
        let percent = percent.ok_or_else(|| BadRate(text.into()))?;
        Ok(Self((percent * f64::from(MILLION / 100)).round() as u32))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.share() * 100.0)
    }
}

/// The faults of one direction of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PortFaults {
    /// Frames that vanish.
    pub loss: Rate,
    /// Frames that come twice.
    pub duplicate: Rate,
    /// Frames that one to four later ones overtake.
    pub reorder: Rate,
    /// Frames that are late, by up to [`delay_ns_max`](Self::delay_ns_max).
    pub delay: Rate,
    /// The longest delay, ns.
    pub delay_ns_max: u64,
    /// Frames with up to four bytes changed, as if the card's check sequence had been fooled.
    pub corrupt: Rate,
    /// Malformed frames put among the others, as a share of those; see
    /// [`Malformed`](super::Malformed).
    pub malformed: Rate,
}

impl PortFaults {
    /// A perfect wire.
    pub const NONE: Self = Self {
        loss: Rate::NEVER,
        duplicate: Rate::NEVER,
        reorder: Rate::NEVER,
        delay: Rate::NEVER,
        delay_ns_max: 2_000_000,
        corrupt: Rate::NEVER,
        malformed: Rate::NEVER,
    };
}

impl Default for PortFaults {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_percentages() {
        assert_eq!("5".parse(), Ok(Rate::percent(5)));
        assert_eq!("0.25%".parse(), Ok(Rate(2_500)));
        assert_eq!(("100".parse(), Rate::percent(1000)), (Ok(Rate(MILLION)), Rate(MILLION)));
        for bad in ["", "-1", "100.5", "nan", "many"] {
            let refusal = bad.parse::<Rate>().unwrap_err().to_string();
            assert!(refusal.contains("such as 5 or 0.25"), "{refusal}");
        }
        assert_eq!(Rate(2_500).to_string(), "0.25 %");
    }

    #[test]
    fn never_and_always_are_that() {
        let mut random = Random::new(1, 1);
        assert!(
            (0..1000).all(|_| !Rate::NEVER.happens(&mut random) && Rate::percent(100).happens(&mut random))
        );
    }
}
