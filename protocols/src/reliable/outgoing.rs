//! The sending half of a link: what is queued, in flight, lost and acknowledged.
//!
//! Numbers run `base <= fresh <= next`: below `base` all has arrived, from `fresh` on nothing was
//! sent yet, from `next` on nothing is queued. The maps hold one bit for each number from `base`
//! on; `next - base` is at most 64.

use aldis_hal::cause::Malformed;
use aldis_hal::{Again, Instant};

use super::LinkConfig;
use super::rtt::Rtt;
use crate::sabotage::{Defect, planted};
use crate::timer::Timer;

/// Frames that a link sends before it has received an acknowledgement: RFC 6928.
const INITIAL_WINDOW: u8 = 10;
/// The least that half a congestion window is: RFC 5681, 3.1.
const THRESHOLD_MIN: u8 = 2;

/// The lowest `n` bits.
#[inline]
const fn low(n: u32) -> u64 {
    match 1u64.checked_shl(n) {
        Some(bit) => bit.wrapping_sub(1),
        None => u64::MAX,
    }
}

/// Returns how far `to` is ahead of `from`; negative if it is behind. Sequence numbers compare
/// within half of their range.
#[inline]
pub(super) fn ahead(to: u32, from: u32) -> i32 {
    if planted(Defect::PlainCompare) {
        return (to as i64 - from as i64).clamp(i32::MIN as i64, i32::MAX as i64) as i32;
    }
    to.wrapping_sub(from) as i32
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct OutgoingFrames {
    base: u32,
    fresh: u32,
    next: u32,
    /// The first number that the peer does not take yet.
    limit: u32,
    /// A window is halved once: not again before all below this number has arrived.
    recovery: u32,
    /// The number whose round trip is being measured, while `timed_at` is set.
    timed: u32,
    timed_at: Timer,
    /// The time at which all in flight is taken to be lost; set while anything is.
    pub(super) timeout: Timer,
    acked: u64,
    lost: u64,
    /// Sent more than once.
    retried: u64,
    pub(super) rtt: Rtt,
    /// Most frames in flight: the congestion window of RFC 5681, in frames.
    congestion: u8,
    threshold: u8,
    /// Arrivals since `congestion` has last grown by one.
    growth: u8,
    /// `congestion` and `threshold` before a time-out that may have been early; zero: none was.
    before: [u8; 2],
    /// Most that the peer ever grants ahead of what it has.
    pub(super) peer_window: u8,
    /// A payload could not be queued for want of the peer's limit.
    pub(super) blocked: bool,
    /// The first frame that was just found lost is sent whatever is in flight (RFC 6675, 5, 4.3).
    urgent: bool,
}

impl OutgoingFrames {
    pub(super) const NONE: Self = Self::new(0, 0);

    pub(super) const fn new(first: u32, peer_window: u8) -> Self {
        Self {
            base: first,
            fresh: first,
            next: first,
            limit: first.wrapping_add(peer_window as u32),
            recovery: first,
            timed: first,
            timed_at: Timer::OFF,
            timeout: Timer::OFF,
            acked: 0,
            lost: 0,
            retried: 0,
            rtt: Rtt::UNKNOWN,
            congestion: if peer_window == 0 { 0 } else { INITIAL_WINDOW },
            threshold: if peer_window == 0 { 0 } else { super::WINDOW_MAX },
            growth: 0,
            before: [0; 2],
            peer_window,
            blocked: false,
            urgent: false,
        }
    }

    #[inline]
    fn sent(&self) -> u64 {
        low(self.fresh.wrapping_sub(self.base))
    }

    /// The map of what is sent, not acknowledged and not given up.
    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        self.sent() & !self.acked & !self.lost
    }

    /// Payloads queued whose slots are not released.
    #[inline]
    pub(super) const fn held(&self) -> u32 {
        self.next.wrapping_sub(self.base)
    }

    /// The next number, if there is a slot and the peer takes it.
    #[inline]
    pub(super) fn vacancy(&mut self, config: &LinkConfig) -> Result<u32, Again> {
        if self.held() >= u32::from(config.window) {
            return Err(Again::NoSlot);
        }
        if ahead(self.limit, self.next) <= 0 {
            self.blocked = true;
            return Err(Again::NoCredit);
        }
        Ok(self.next)
    }

    /// Takes a [vacant](Self::vacancy) number.
    #[inline]
    pub(super) fn queue(&mut self, sequence: u32) {
        self.next = sequence.wrapping_add(1);
    }

    /// The payload to send next, and whether it was sent before.
    #[inline]
    pub(super) fn due(&self) -> Option<(u32, bool)> {
        if self.in_flight().count_ones() >= u32::from(self.congestion) && !self.urgent {
            None
        } else if self.lost != 0 {
            Some((self.base.wrapping_add(self.lost.trailing_zeros()), true))
        } else {
            (self.fresh != self.next).then_some((self.fresh, false))
        }
    }

    /// The payload was sent: whether it was before. None, and nothing changed, unless it is what is
    /// [`due`](Self::due).
    #[inline]
    pub(super) fn sent_now(&mut self, config: &LinkConfig, sequence: u32, now: Instant) -> Option<bool> {
        let (_, again) = self.due().filter(|&(due, _)| due == sequence)?;
        if again {
            let bit = self.lost & self.lost.wrapping_neg();
            self.lost &= !bit;
            self.retried |= bit;
            self.urgent = false;
            // Karn's rule: an acknowledgement of what was sent twice measures nothing.
            if self.timed == sequence && !planted(Defect::NoKarn) {
                self.timed_at = Timer::OFF;
            }
        } else {
            self.fresh = sequence.wrapping_add(1);
            if self.timed_at == Timer::OFF {
                self.timed = sequence;
                self.timed_at.set(now, 0);
            }
        }
        self.timeout.start(now, self.rtt.rto(config));
        Some(again)
    }

    /// Corrects the time of what was sent at `then`: it was sent between `then` and `now`.
    pub(super) fn retime(&mut self, config: &LinkConfig, then: Instant, now: Instant) {
        let mut sent_then = Timer::OFF;
        sent_then.set(then, 0);
        if self.timed_at == sent_then {
            self.timed_at = Timer::OFF;
        }
        self.timeout.retime(then, now, self.rtt.rto(config));
    }

    /// Checks that an acknowledgement and a limit are possible. An older one than known is.
    ///
    /// # Errors
    /// [`Malformed::Sequence`] for an acknowledgement of what was never sent, [`Malformed::Credit`]
    /// for a limit beyond the peer's window.
    #[inline]
    pub(super) fn check(&self, cumulative: u32, bitmap: u64, limit: u32) -> Result<(), Malformed> {
        let unacknowledged = ahead(self.fresh, cumulative);
        let impossible = match u32::try_from(unacknowledged) {
            // From `cumulative + 1` on, so many may have arrived.
            Ok(span) => bitmap & !(low(span) >> 1) != 0 && ahead(cumulative, self.base) >= 0,
            Err(_) => true,
        };
        if impossible && !planted(Defect::TrustsAcks) {
            return Err(Malformed::Sequence { got: cumulative as u16, need: self.fresh as u16 });
        }
        let generous = ahead(limit, self.fresh) > i32::from(self.peer_window);
        if generous { Err(Malformed::Credit) } else { Ok(()) }
    }

    /// Takes a checked acknowledgement in: how many slots are free again, from the lowest on.
    pub(super) fn acknowledge(
        &mut self,
        config: &LinkConfig,
        cumulative: u32,
        bitmap: u64,
        now: Instant,
    ) -> u32 {
        let Ok(advance) = u32::try_from(ahead(cumulative, self.base)) else { return 0 };
        let arrived = low(advance) | bitmap.checked_shl(advance + 1).unwrap_or(0);
        let news = arrived & self.sent() & !self.acked;
        if news == 0 {
            return 0;
        }
        self.measure(news, now);
        self.acked |= news;
        self.lost &= !news;
        self.urgent &= self.lost != 0;
        self.take_back(news);
        self.grow(config, news.count_ones());
        let released = self.release();
        self.detect();
        self.timeout = Timer::OFF;
        if self.in_flight() != 0 {
            self.timeout.set(now, self.rtt.rto(config));
        }
        released
    }

    /// Takes one sample for each round trip (RFC 6298, 3).
    #[inline]
    fn measure(&mut self, news: u64, now: Instant) {
        let Some(sent) = self.timed_at.at() else { return };
        let bit = 1u64.checked_shl(self.timed.wrapping_sub(self.base)).unwrap_or(0);
        if news & bit != 0 {
            self.rtt.sample(now.since(sent));
            self.timed_at = Timer::OFF;
        }
    }

    /// Slow start to the threshold, then one frame for each window (RFC 5681, 3.1); not while
    /// losses are repaired.
    #[inline]
    fn grow(&mut self, config: &LinkConfig, arrivals: u32) {
        if ahead(self.base, self.recovery) < 0 && self.congestion >= self.threshold {
            return;
        }
        let arrivals = arrivals.min(64) as u8;
        if self.congestion < self.threshold {
            self.congestion = self.congestion.saturating_add(arrivals);
        } else {
            self.growth = self.growth.saturating_add(arrivals);
            if self.growth >= self.congestion {
                self.growth = 0;
                self.congestion = self.congestion.saturating_add(1);
            }
        }
        self.congestion = self.congestion.min(config.window);
    }

    #[inline]
    fn release(&mut self) -> u32 {
        let released = self.acked.trailing_ones();
        self.base = self.base.wrapping_add(released);
        for map in [&mut self.acked, &mut self.lost, &mut self.retried] {
            *map = map.checked_shr(released).unwrap_or(0);
        }
        if ahead(self.base, self.recovery) > 0 {
            self.recovery = self.base;
        }
        released
    }

    /// Fast retransmit: lost is what has three later ones acknowledged and was not repeated yet
    /// (RFC 6675, `IsLost`).
    #[inline]
    fn detect(&mut self) {
        let highest = |map: u64| 63u32.checked_sub(map.leading_zeros());
        let mut later = self.acked;
        for _ in 0..2 {
            let Some(bit) = highest(later) else { return };
            later &= !(1 << bit);
        }
        let Some(third) = highest(later) else { return };
        let lost = low(third) & self.in_flight() & !self.retried;
        if lost == 0 || planted(Defect::NoFastRetransmit) {
            return;
        }
        if ahead(self.base, self.recovery) >= 0 {
            self.halve(self.in_flight().count_ones() as u8);
            self.congestion = self.threshold;
            self.urgent = true;
        }
        self.lost |= lost;
    }

    #[inline]
    fn halve(&mut self, window: u8) {
        self.threshold = (window / 2).max(THRESHOLD_MIN);
        self.growth = 0;
        self.recovery = self.fresh;
    }

    /// Takes a time-out back that was early, as one is whose peer did not answer because it
    /// computed: something has arrived that was not sent again. What is in flight is not lost then,
    /// and the windows are what they were (after RFC 5682).
    #[inline]
    fn take_back(&mut self, news: u64) {
        let [congestion, threshold] = core::mem::take(&mut self.before);
        if congestion != 0 && news & !self.retried != 0 {
            (self.congestion, self.threshold, self.lost) = (congestion, threshold, 0);
        }
    }

    /// The time-out has passed: all in flight is lost, the window is one frame, the next time-out
    /// twice as long. Half the window is reached fast again, and not half of what was in flight (as
    /// RFC 5681 has it): of a rank that waits for one that computes that is a frame or two.
    pub(super) fn expire(&mut self) {
        if self.before == [0; 2] {
            self.before = [self.congestion, self.threshold];
        }
        self.halve(self.congestion);
        self.congestion = if planted(Defect::NoCongestionWindow) { super::WINDOW_MAX } else { 1 };
        if !planted(Defect::NoBackOff) {
            self.rtt.back_off();
        }
        self.lost |= self.in_flight();
    }

    /// Learns a checked limit; an older one than known changes nothing.
    #[inline]
    pub(super) fn raise(&mut self, limit: u32) {
        if ahead(limit, self.limit) > 0 {
            self.limit = limit;
            self.blocked = false;
        }
    }
}

#[cfg(test)]
mod tests;
