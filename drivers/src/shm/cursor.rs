//! Cursors over the messages of a lane, which stand one after the other: in its ring or in its
//! ping-pong slots; see [`ring`](super::ring).

use super::geometry::PING_PONG_SLOTS;

/// The number of messages ahead at which a receiver asks for a slot's line. On two cores of an AMD
/// EPYC with a cache in common a message of a window costs 45.3 ns with one to four, and 46.3
/// without.
const AHEAD: u16 = 2;

/// The place of the next message of a lane. Each end has its own, and the heads of the messages
/// keep them alike.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The sequence of the last message that is to stand in the ring, or has stood there.
    ring: u32,
    /// The sequence of the last message that is to stand in a ping-pong slot, or has stood there.
    home: u32,
    /// Slots of the ring. Zero while closed.
    pub(super) size: u16,
    /// The slot's index: the ring's come first, then the ping-pong slots.
    pub(super) at: u16,
}

impl Cursor {
    /// Nowhere.
    pub(super) const CLOSED: Self = Self { ring: 0, home: 0, size: 0, at: 0 };

    /// The first message stands in the ring.
    #[inline]
    pub(super) const fn new(size: u32, start: u32) -> Self {
        let size = size as u16;
        Self { ring: start.wrapping_add(1), home: 0, size, at: start as u16 & size.wrapping_sub(1) }
    }

    /// The next message's position.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) const fn position(&self) -> u32 {
        let home = if PING_PONG_SLOTS != 0 { self.home } else { 0 };
        self.ring.wrapping_add(home).wrapping_sub(1)
    }

    /// The next message's sequence.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) const fn sequence(&self) -> u32 {
        if PING_PONG_SLOTS == 0 || self.at < self.size { self.ring } else { self.home }
    }

    /// The slot of the ring that is used [`AHEAD`] messages after the one at hand, which stands at
    /// `at` in the ring.
    #[inline(always)]
    pub(super) const fn ahead(&self, at: u16) -> usize {
        (at.wrapping_add(AHEAD) & self.size.wrapping_sub(1)) as usize
    }

    /// The slot of the ring that is used after the one at hand, if that is one of the ring's too.
    #[cfg(target_pointer_width = "64")]
    #[inline(always)]
    pub(super) const fn after(&self) -> Option<u16> {
        if self.at < self.size { Some(self.at.wrapping_add(1) & self.size.wrapping_sub(1)) } else { None }
    }

    /// Goes on to the message after the next.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) const fn advance(&mut self, home: bool) {
        self.advance_from(*self, home);
    }

    /// Goes on to the message after the next of a copy of this cursor: only what changes is stored,
    /// and nothing is read again.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) const fn advance_from(&mut self, copy: Self, home: bool) {
        if PING_PONG_SLOTS != 0 && home {
            self.at = copy.size.wrapping_add(copy.home as u16 & 1);
            self.home = copy.home.wrapping_add(1);
        } else {
            self.at = copy.ring as u16 & copy.size.wrapping_sub(1);
            self.ring = copy.ring.wrapping_add(1);
        }
    }
}
