//! Settings of a link that the user chooses.

use aldis_hal::Cause;
use aldis_hal::cause::Malformed;

/// The largest window, in frames: what one acknowledgement bitmap describes.
pub const WINDOW_MAX: u8 = 64;

/// Frames that are acknowledged together at most, unless a delay, a gap or a frame in return comes
/// first: half a window, so that the other half is under way meanwhile. More than the two of RFC
/// 5681, 4.2, as receivers of fast networks do: an acknowledgement costs what a frame costs.
pub const FRAMES_PER_ACK_MAX: u8 = 8;

/// In which order arrivals are handed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DeliveryOrder {
    /// In the order in which they were queued; the caller keeps what comes too early.
    #[default]
    InOrder,
    /// In the order of arrival, each once.
    Unordered,
}

/// The limits and times of a link; one for all links of a transport. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinkConfig {
    /// Frames that may be unacknowledged in either direction: a power of two, so that slots of a
    /// ring stay distinct where sequence numbers wrap; at most [`WINDOW_MAX`].
    pub window: u8,
    /// In which order arrivals are handed up.
    pub order: DeliveryOrder,
    /// The retransmission time-out before anything has been measured.
    pub rto_first_ns: u64,
    /// The shortest retransmission time-out; more than `ack_delay_ns`.
    pub rto_min_ns: u64,
    /// The longest retransmission time-out, back-off included.
    pub rto_max_ns: u64,
    /// The longest time that an acknowledgement may wait for company; zero: not at all.
    pub ack_delay_ns: u64,
    /// After this long without a word from the peer it is asked; zero: never, and then a peer that
    /// dies while nothing is outstanding is not missed.
    pub silence_ns: u64,
    /// So long after data or a probe was sent, if no word has come since, the peer is dead; more
    /// than `rto_max_ns`.
    pub give_up_ns: u64,
}

impl LinkConfig {
    /// For a local network: round trips of microseconds to a few milliseconds, a dead peer missed
    /// within 10 s. (RFC 6298 starts with 1 s and allows no less: that is for the Internet.)
    pub const DEFAULT: Self = Self {
        window: 32,
        order: DeliveryOrder::InOrder,
        rto_first_ns: 10_000_000,
        rto_min_ns: 1_000_000,
        rto_max_ns: 500_000_000,
        ack_delay_ns: 100_000,
        silence_ns: 1_000_000_000,
        give_up_ns: 10_000_000_000,
    };

    /// The configuration itself, if its fields fit each other as they say.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a window above [`WINDOW_MAX`]; [`Cause::Malformed`] with
    /// [`Malformed::Length`] for one that is no power of two, with [`Malformed::Reserved`] for
    /// times that contradict each other.
    pub const fn checked(self) -> Result<Self, Cause> {
        if self.window > WINDOW_MAX {
            return Err(Cause::TooBig { len: self.window as u64, max: WINDOW_MAX as u64 });
        }
        if !self.window.is_power_of_two() {
            return Err(Cause::Malformed(Malformed::Length));
        }
        let sound = self.ack_delay_ns < self.rto_min_ns
            && self.rto_min_ns <= self.rto_first_ns
            && self.rto_first_ns <= self.rto_max_ns
            && self.rto_max_ns < self.give_up_ns;
        if sound { Ok(self) } else { Err(Cause::Malformed(Malformed::Reserved)) }
    }

    /// Frames that are acknowledged together, of a peer that sends no more than its window ahead.
    #[inline]
    #[must_use]
    pub const fn frames_per_ack(&self, peer_window: u8) -> u8 {
        let window = if peer_window < self.window { peer_window } else { self.window };
        match window / 2 {
            0 => 1,
            half if half > FRAMES_PER_ACK_MAX => FRAMES_PER_ACK_MAX,
            half => half,
        }
    }

    /// The caller's slot, of `window` many, for the payload with this number.
    #[inline]
    #[must_use]
    pub const fn slot(&self, sequence: u32) -> usize {
        (sequence & (self.window as u32).wrapping_sub(1)) as usize
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let fine = LinkConfig::DEFAULT;
        assert_eq!(fine.checked(), Ok(fine));
        assert!(matches!(LinkConfig { window: 128, ..fine }.checked(), Err(Cause::TooBig { max: 64, .. })));
        for window in [0, 3, 63] {
            assert_eq!(LinkConfig { window, ..fine }.checked(), Err(Cause::Malformed(Malformed::Length)));
        }
        for contradiction in [
            LinkConfig { ack_delay_ns: fine.rto_min_ns, ..fine },
            LinkConfig { rto_min_ns: fine.rto_first_ns + 1, ..fine },
            LinkConfig { rto_max_ns: fine.rto_first_ns - 1, ..fine },
            LinkConfig { give_up_ns: fine.rto_max_ns, ..fine },
        ] {
            assert_eq!(contradiction.checked(), Err(Cause::Malformed(Malformed::Reserved)));
        }
    }

    #[test]
    fn an_acknowledgement_covers_half_a_window_and_at_most_eight_frames() {
        for (window, peer, frames) in
            [(32, 32, 8), (64, 16, 8), (8, 32, 4), (32, 4, 2), (2, 2, 1), (1, 32, 1)]
        {
            let config = LinkConfig { window, ..LinkConfig::DEFAULT };
            assert_eq!(config.frames_per_ack(peer), frames);
        }
    }

    #[test]
    fn neighbours_have_different_slots_where_numbers_wrap() {
        for window in [1u8, 2, 8, 64] {
            let config = LinkConfig { window, ..LinkConfig::DEFAULT };
            let mut slots: std::vec::Vec<_> =
                (0..u32::from(window)).map(|i| config.slot((u32::MAX - 1).wrapping_add(i))).collect();
            slots.sort_unstable();
            assert!(slots.iter().copied().eq(0..usize::from(window)));
        }
    }
}
