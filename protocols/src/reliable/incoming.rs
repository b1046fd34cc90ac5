//! The receiving half of a link: what has arrived, what is promised, when to acknowledge.

use aldis_hal::Instant;
use aldis_hal::cause::Malformed;

use super::config::DeliveryOrder;
use super::outgoing::ahead;
use super::{FrameFate, LinkConfig};
use crate::sabotage::{Defect, planted};
use crate::timer::Timer;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct IncomingFrames {
    /// The lowest number that has not been handed up.
    expected: u32,
    /// The first number that the peer may not send yet. It never moves back.
    limit: u32,
    /// Bit `i`: `expected + i` has arrived; in order it is stored, else handed up.
    arrived: u64,
    /// The time at which the acknowledgement has waited long enough.
    pub(super) delay: Timer,
    /// Frames that the caller can take.
    room: u8,
    /// Arrivals that no frame has acknowledged yet.
    unacknowledged: u8,
    /// An acknowledgement is due at once.
    pub(super) due: bool,
}

impl IncomingFrames {
    pub(super) const NONE: Self = Self::new(0, 0);

    pub(super) const fn new(first: u32, window: u8) -> Self {
        Self {
            expected: first,
            limit: first.wrapping_add(window as u32),
            arrived: 0,
            delay: Timer::OFF,
            room: window,
            unacknowledged: 0,
            due: false,
        }
    }

    /// Checks that the peer may send this number, or may have sent it long ago.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if it was not promised a place.
    #[inline]
    pub(super) fn check(&self, sequence: u32) -> Result<(), Malformed> {
        if ahead(sequence, self.limit) >= 0 { Err(Malformed::Credit) } else { Ok(()) }
    }

    /// Takes a checked number in, of a peer with this window.
    #[inline]
    pub(super) fn take(
        &mut self,
        config: &LinkConfig,
        sequence: u32,
        peer_window: u8,
        now: Instant,
    ) -> FrameFate {
        let offset = ahead(sequence, self.expected);
        let bit = u32::try_from(offset).ok().and_then(|offset| 1u64.checked_shl(offset)).unwrap_or(0);
        if bit == 0 || self.arrived & bit != 0 {
            self.due = true;
            return FrameFate::Duplicate;
        }
        let gap = self.arrived != 0;
        if config.order == DeliveryOrder::InOrder && offset != 0 {
            self.due = true;
            return FrameFate::Store;
        }
        self.arrived |= bit;
        match config.order {
            DeliveryOrder::InOrder => self.advance(1),
            DeliveryOrder::Unordered => self.advance(self.arrived.trailing_ones()),
        }
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.due |= gap
            || self.arrived != 0
            || self.unacknowledged >= config.frames_per_ack(peer_window)
            || config.ack_delay_ns == 0;
        if !self.due && !planted(Defect::NoDelayTimer) {
            self.delay.start(now, config.ack_delay_ns);
        }
        FrameFate::Deliver
    }

    #[inline]
    fn advance(&mut self, by: u32) {
        self.expected = self.expected.wrapping_add(by);
        self.arrived = self.arrived.checked_shr(by).unwrap_or(0);
        self.promise();
    }

    #[inline]
    fn promise(&mut self) {
        let limit = self.expected.wrapping_add(u32::from(self.room));
        if ahead(limit, self.limit) > 0 {
            self.limit = limit;
        }
    }

    /// The caller keeps the payload with this number.
    #[inline]
    pub(super) fn stored(&mut self, sequence: u32) {
        let Ok(offset) = u32::try_from(ahead(sequence, self.expected)) else { return };
        if offset > 0 && self.check(sequence).is_ok() {
            self.arrived |= 1u64.checked_shl(offset).unwrap_or(0);
        }
    }

    /// The stored payload that is next in order.
    #[inline]
    pub(super) fn next_stored(&mut self) -> Option<u32> {
        let sequence = self.expected;
        if self.arrived & 1 == 0 {
            return None;
        }
        self.advance(1);
        Some(sequence)
    }

    /// The caller's room has changed.
    pub(super) fn set_room(&mut self, room: u8) {
        let exhausted = self.limit == self.expected;
        self.room = room;
        self.promise();
        self.due |= exhausted && room > 0;
    }

    /// `cumulative`, `bitmap` and `limit` of a frame.
    #[inline]
    pub(super) fn acknowledgement(&self) -> (u32, u64, u32) {
        let run = self.arrived.trailing_ones();
        let bitmap = self.arrived.checked_shr(run + 1).unwrap_or(0);
        (self.expected.wrapping_add(run), bitmap, self.limit)
    }

    /// Returns true if an acknowledgement is still to be sent.
    pub(super) const fn owes(&self) -> bool {
        self.due || self.unacknowledged > 0
    }

    /// An acknowledgement was sent, by itself or with a payload.
    #[inline]
    pub(super) const fn acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.due = false;
        self.delay = Timer::OFF;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: LinkConfig = LinkConfig::DEFAULT;
    const FIRST: u32 = u32::MAX - 1;
    const NOW: Instant = Instant(50);

    fn take(incoming: &mut IncomingFrames, index: u32) -> FrameFate {
        incoming.take(&CONFIG, FIRST.wrapping_add(index), CONFIG.window, NOW)
    }

    #[test]
    fn arrivals_of_half_a_window_are_acknowledged_at_once_and_fewer_after_a_delay() {
        const PEER_WINDOW: u8 = 4;
        let mut incoming = IncomingFrames::new(FIRST, CONFIG.window);
        let take = |incoming: &mut IncomingFrames, index| {
            incoming.take(&CONFIG, FIRST.wrapping_add(index), PEER_WINDOW, NOW)
        };
        for index in [0, 2] {
            assert_eq!(take(&mut incoming, index), FrameFate::Deliver);
            assert!(!incoming.due);
            assert_eq!(incoming.delay.at(), Some(Instant(NOW.0 + CONFIG.ack_delay_ns)));
            assert_eq!(take(&mut incoming, index + 1), FrameFate::Deliver);
            assert!(incoming.due);
            incoming.acknowledged();
            assert!(!incoming.due && incoming.delay.at().is_none());
        }
        let hasty = LinkConfig { ack_delay_ns: 0, ..CONFIG };
        assert_eq!(incoming.take(&hasty, FIRST.wrapping_add(4), PEER_WINDOW, NOW), FrameFate::Deliver);
        assert!(incoming.due);
    }

    #[test]
    fn a_gap_is_told_at_once_and_so_is_that_it_is_filled() {
        let mut incoming = IncomingFrames::new(FIRST, CONFIG.window);
        assert_eq!(take(&mut incoming, 1), FrameFate::Store);
        incoming.stored(FIRST.wrapping_add(1));
        assert!(incoming.due);
        incoming.acknowledged();
        assert_eq!(incoming.acknowledgement(), (FIRST, 1, FIRST.wrapping_add(32)));
        assert_eq!(take(&mut incoming, 0), FrameFate::Deliver);
        assert!(incoming.due);
        // What is stored has arrived, though it may not be handed up for a while.
        assert_eq!(incoming.acknowledgement(), (FIRST.wrapping_add(2), 0, FIRST.wrapping_add(33)));
        assert_eq!(take(&mut incoming, 1), FrameFate::Duplicate);
        assert_eq!(incoming.next_stored(), Some(FIRST.wrapping_add(1)));
        assert_eq!(incoming.next_stored(), None);
    }

    #[test]
    fn what_is_promised_stays_promised() {
        let mut incoming = IncomingFrames::new(FIRST, 4);
        incoming.set_room(0);
        assert!(!incoming.due, "the peer may still send");
        assert!((0..4).all(|index| take(&mut incoming, index) == FrameFate::Deliver));
        assert_eq!(incoming.check(FIRST.wrapping_add(4)), Err(Malformed::Credit));
        incoming.acknowledged();
        incoming.set_room(2);
        assert!(incoming.due && incoming.check(FIRST.wrapping_add(5)).is_ok());
    }
}
