//! Exchanges by the digits of a radix k: for each of the distances 1, k, k^2, .. a rank exchanges
//! with the ranks 1, 2, .. k - 1 times as far away, a few at a time.

use super::{WIDTH_MAX, Work};

/// The digits of the exchanges of a round, at one power of the radix.
#[derive(Clone, Copy)]
pub(crate) struct RoundDigits {
    /// The power of the radix.
    pub(crate) distance: u32,
    /// The first digit.
    first: u32,
    /// The number of digits, one after the other: at least 1.
    pub(crate) count: u32,
}

impl RoundDigits {
    /// The digit of the exchange with `index`.
    pub(crate) const fn digit(&self, index: u32) -> u32 {
        self.first.saturating_add(index)
    }

    /// Returns the distance that the exchange with `index` reaches: less than the size.
    pub(crate) const fn reach(&self, index: u32) -> u32 {
        self.digit(index).saturating_mul(self.distance)
    }
}

/// The rounds of `size` ranks. Distances of the size and more are left out.
pub(crate) fn rounds(size: u32, radix: u32) -> impl Iterator<Item = RoundDigits> {
    let mut next = (1_u32, 1);
    core::iter::from_fn(move || {
        let (distance, first) = next;
        let all = size.saturating_sub(1).checked_div(distance)?.min(radix - 1);
        let digits = (all + 1).checked_sub(first).filter(|digits| *digits > 0)?.min(WIDTH_MAX);
        next = match first + digits {
            // Without a distance, it is over.
            past if past > all => (distance.checked_mul(radix).unwrap_or(0), 1),
            more => (distance, more),
        };
        Some(RoundDigits { distance, first, count: digits })
    })
}

/// The rounds, and the exchanges beyond the first of each.
pub(crate) fn work(size: u32, radix: u32) -> Work {
    rounds(size, radix).fold(Work::default(), |all, digits| Work {
        rounds: all.rounds + 1,
        fan: all.fan + u64::from(digits.count - 1),
        ..all
    })
}
