//! Time as a value. No protocol reads a clock: `now` is handed in, in nanoseconds.

use core::time::Duration;

/// A point on the platform's monotonic clock, in nanoseconds since an arbitrary origin (584 years
/// of range).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Instant(pub u64);

impl Instant {
    /// The latest representable instant: a deadline that never passes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This instant moved later by `span`, saturating at [`NEVER`](Self::NEVER).
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let nanos =
            span.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(span.subsec_nanos()));
        Self(self.0.saturating_add(nanos))
    }

    /// Nanoseconds from `earlier` to here; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant(5).after(Duration::from_nanos(7)), Instant(12));
        assert_eq!(Instant(5).after(Duration::MAX), Instant::NEVER);
        assert_eq!(Instant(5).since(Instant(9)), 0);
    }
}
