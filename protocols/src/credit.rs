//! Credits: the receiver's bound, kept by both sides.
//!
//! A receiver has, for every peer, room for a fixed number of unmatched messages (envelopes) and
//! eager payloads (blocks). It tells the peer how far it may send as a running *limit*: the count,
//! modulo 2^16, of messages that the peer may ever have sent. Limits are absolute, so that a lost,
//! repeated or reordered one does no harm; every header carries the two of the opposite direction,
//! and a message of its own ([`Kind::Credit`](crate::Kind)) is sent only when half of the room has
//! been freed without one. That suffices: a sender that has run dry has filled the whole room, so
//! freeing it crosses the half.

use aldis_hal::cause::Malformed;

/// Most messages a receiver can grant a peer at a time, so that differences of 16-bit counts keep
/// their sign.
pub const WINDOW_MAX: u16 = 1 << 14;

/// The two running limits that a header carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CreditLimits {
    /// Matchable messages.
    pub envelopes: u16,
    /// Eager messages that need a block.
    pub blocks: u16,
}

/// The sender's side: how much more may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CreditWindow {
    sent: u16,
    limit: u16,
    size: u16,
}

impl CreditWindow {
    /// A window onto a receiver that takes nothing.
    pub const NONE: Self = Self { sent: 0, limit: 0, size: 0 };

    /// A window onto a receiver with room for `size` messages.
    ///
    /// # Errors
    /// [`Malformed::Credit`] above [`WINDOW_MAX`].
    pub const fn new(size: u16) -> Result<Self, Malformed> {
        if size > WINDOW_MAX { Err(Malformed::Credit) } else { Ok(Self { sent: 0, limit: size, size }) }
    }

    /// A window onto a receiver with room for `size` messages, `limit` of which may be sent at
    /// first: the other places are taken.
    ///
    /// # Errors
    /// [`Malformed::Credit`] for a size above [`WINDOW_MAX`], or a limit above the size.
    pub const fn limited(size: u16, limit: u16) -> Result<Self, Malformed> {
        if size > WINDOW_MAX || limit > size {
            return Err(Malformed::Credit);
        }
        Ok(Self { sent: 0, limit, size })
    }

    /// Messages that may be sent now.
    #[inline]
    pub const fn available(&self) -> u16 {
        self.limit.wrapping_sub(self.sent)
    }

    /// Messages sent so far, modulo 2^16.
    pub const fn sent(&self) -> u16 {
        self.sent
    }

    /// The receiver's limit as far as it is known.
    pub const fn limit(&self) -> u16 {
        self.limit
    }

    /// Messages that the receiver has room for.
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Uses up one of the credits that there are by [`available`](Self::available).
    #[inline]
    pub const fn spend(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Learns the receiver's limit; true if it was news. An older one than known changes nothing.
    ///
    /// # Errors
    /// [`Malformed::Credit`] for a limit that grants more than the receiver has.
    #[inline]
    pub const fn raise(&mut self, limit: u16) -> Result<bool, Malformed> {
        if (limit.wrapping_sub(self.limit) as i16) <= 0 {
            return Ok(false);
        }
        if limit.wrapping_sub(self.sent) > self.size {
            return Err(Malformed::Credit);
        }
        self.limit = limit;
        Ok(true)
    }
}

/// The receiver's side: what was promised, what is taken, what is to be announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Grant {
    received: u16,
    announced: u16,
    /// The number that the peer may ever have sent; `announced` is how much of that it knows.
    limit: u16,
    size: u16,
}

impl Grant {
    /// A grant that promises nothing.
    pub const NONE: Self = Self { received: 0, limit: 0, announced: 0, size: 0 };

    /// Room for `size` messages, promised to one peer.
    ///
    /// # Errors
    /// [`Malformed::Credit`] above [`WINDOW_MAX`].
    pub const fn new(size: u16) -> Result<Self, Malformed> {
        if size > WINDOW_MAX {
            Err(Malformed::Credit)
        } else {
            Ok(Self { received: 0, limit: size, announced: size, size })
        }
    }

    /// Room for `size` messages, promised to one peer, of which `taken` hold messages already.
    ///
    /// # Errors
    /// [`Malformed::Credit`] for a size above [`WINDOW_MAX`], or below what is taken.
    pub const fn partly(size: u16, taken: u16) -> Result<Self, Malformed> {
        if size > WINDOW_MAX || taken > size {
            return Err(Malformed::Credit);
        }
        let limit = size.wrapping_sub(taken);
        Ok(Self { received: 0, limit, announced: limit, size })
    }

    /// Promises places for so many messages more to the same peer, whose window has to be as large.
    pub const fn grow(&mut self, places: u16) {
        self.size = self.size.wrapping_add(places);
        self.limit = self.limit.wrapping_add(places);
    }

    /// Returns true if the peer had credit for one more message.
    #[inline]
    pub const fn has_room(&self) -> bool {
        self.received != self.limit
    }

    /// A message arrived for which there [is room](Self::has_room), and its place is free again at
    /// once.
    #[inline]
    pub const fn pass(&mut self) {
        self.received = self.received.wrapping_add(1);
        self.limit = self.limit.wrapping_add(1);
    }

    /// A message arrived and takes its place.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if the peer had no credit for it.
    pub const fn accept(&mut self) -> Result<(), Malformed> {
        if !self.has_room() {
            return Err(Malformed::Credit);
        }
        self.received = self.received.wrapping_add(1);
        Ok(())
    }

    /// A place is free again.
    pub const fn free(&mut self) {
        self.limit = self.limit.wrapping_add(1);
    }

    /// Places taken.
    pub const fn taken(&self) -> u16 {
        self.received.wrapping_sub(self.freed())
    }

    /// Messages that have arrived so far, modulo 2^16.
    pub const fn received(&self) -> u16 {
        self.received
    }

    /// Places that have become free again so far, modulo 2^16.
    pub const fn freed(&self) -> u16 {
        self.limit.wrapping_sub(self.size)
    }

    /// The number of places that have become free and been announced to the peer, modulo 2^16.
    pub const fn announced(&self) -> u16 {
        self.announced.wrapping_sub(self.size)
    }

    /// Messages that there is room for.
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// The limit to put into a header.
    #[inline]
    pub const fn limit(&self) -> u16 {
        self.limit
    }

    /// A header with the limit is on its way.
    #[inline]
    pub const fn announce(&mut self) {
        self.announced = self.limit;
    }

    /// Returns true if so much is freed and unannounced that a message of its own is due.
    #[inline]
    pub const fn is_due(&self) -> bool {
        let unannounced = self.limit.wrapping_sub(self.announced);
        unannounced != 0 && unannounced >= self.size / 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(window: &mut CreditWindow) -> bool {
        let some = window.available() > 0;
        if some {
            window.spend();
        }
        some
    }

    #[test]
    fn a_sender_stops_at_the_limit_and_resumes() {
        let (mut window, mut grant) = (CreditWindow::new(2).unwrap(), Grant::new(2).unwrap());
        for _ in 0..2 {
            assert!(take(&mut window));
            grant.accept().unwrap();
        }
        assert!(!take(&mut window));
        assert_eq!(grant.accept(), Err(Malformed::Credit), "a third message broke the promise");
        grant.free();
        assert!(grant.is_due());
        window.raise(grant.limit()).unwrap();
        grant.announce();
        assert!(!grant.is_due());
        assert!(take(&mut window) && !take(&mut window));
    }

    #[test]
    fn an_impossible_limit_is_refused_and_an_old_one_ignored() {
        let mut window = CreditWindow::new(4).unwrap();
        assert_eq!(window.raise(5), Err(Malformed::Credit), "nothing was sent yet");
        assert!(take(&mut window));
        window.raise(5).unwrap();
        window.raise(4).unwrap();
        assert_eq!(window.available(), 4);
        assert_eq!(CreditWindow::new(WINDOW_MAX + 1), Err(Malformed::Credit));
    }

    #[test]
    fn a_grant_that_grows_is_announced_and_within_the_window() {
        let (mut window, mut grant) = (CreditWindow::limited(4, 0).unwrap(), Grant::partly(0, 0).unwrap());
        assert!(!take(&mut window) && !grant.is_due());
        for places in [1, 3] {
            grant.grow(places);
            assert!(grant.is_due());
            window.raise(grant.limit()).unwrap();
            grant.announce();
            assert_eq!((window.available(), grant.taken(), grant.announced()), (grant.size(), 0, 0));
        }
        (0..4).for_each(|_| assert!(take(&mut window) && grant.accept().is_ok()));
        assert!(!take(&mut window) && grant.accept().is_err());
    }

    proptest! {
        /// Over any interleaving, also across the wrap of the counters: the bound holds, credits
        /// are conserved and a dry sender always gets a message once everything is freed.
        #[test]
        fn credits_are_conserved(size in 1u16..40, start in any::<u16>(), moves in proptest::collection::vec(0u8..4, 0..400)) {
            let mut window = CreditWindow { sent: start, limit: start.wrapping_add(size), size };
            let limit = start.wrapping_add(size);
            let mut grant = Grant { received: start, limit, announced: limit, size };
            let mut limits_in_flight = std::vec::Vec::new();
            for step in moves {
                match step {
                    0 => if take(&mut window) { prop_assert!(grant.accept().is_ok()); },
                    1 => if grant.taken() > 0 { grant.free(); },
                    2 => {
                        limits_in_flight.push(grant.limit());
                        grant.announce();
                    }
                    _ => for limit in limits_in_flight.drain(..).rev() {
                        prop_assert!(window.raise(limit).is_ok());
                    },
                }
                prop_assert!(window.available() + grant.taken() <= size);
            }
            for limit in limits_in_flight { window.raise(limit).unwrap(); }
            while grant.taken() > 0 { grant.free(); }
            if window.available() == 0 { prop_assert!(grant.is_due()); }
            window.raise(grant.limit()).unwrap();
            prop_assert_eq!(window.available(), size);
        }
    }
}
