//! The machine of one link: both halves, the timers that belong to neither, and the caller's view.

use aldis_hal::cause::Malformed;
use aldis_hal::{Again, Cause, Instant};
use zerocopy::little_endian::{U32, U64};

use super::incoming::IncomingFrames;
use super::outgoing::OutgoingFrames;
use super::{Frame, FrameKind, LinkConfig};
use crate::sabotage::{Defect, planted};
use crate::timer::Timer;

/// The numbers that the handshake has settled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinkEnds {
    /// The number that this side chose: on every frame that comes in.
    pub ours: u32,
    /// The number that the peer chose: on every frame that is sent.
    pub theirs: u32,
    /// The peer's window: frames that it takes at first, and the most that it ever grants ahead.
    pub peer_window: u8,
}

/// A frame to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its header, complete but for what [`seal`](super::seal) fills in.
    pub frame: Frame,
    /// The number of the payload that is sent with it; none: the frame is a header only.
    pub payload: Option<u32>,
}

/// The fate of the payload of a frame that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FrameFate {
    /// Next in order: hand it up now, then whatever [`next_stored`](Link::next_stored) names.
    Deliver,
    /// Too early: keep it in its slot and say so with [`stored`](Link::stored), or drop it and it
    /// will come again.
    Store,
    /// Already received: drop it.
    Duplicate,
    /// The frame has no payload.
    None,
    /// The frame is of another connection; nothing in it counts.
    Stale,
}

/// The changes that a frame has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Taken {
    /// So many of this side's payloads, from the oldest on, have arrived: their slots are free.
    pub released: u32,
    /// The fate of the frame's payload.
    pub fate: FrameFate,
}

/// Counters of a link since it was opened. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinkCounters {
    /// Data frames sent, repetitions included.
    pub sent: u32,
    /// Data frames sent again.
    pub repeated: u32,
    /// Time-outs that passed.
    pub timeouts: u32,
    /// Frames sent for nothing but their acknowledgement.
    pub acks: u32,
    /// Probes sent.
    pub probes: u32,
    /// Payloads handed up.
    pub delivered: u32,
    /// Data frames that came again.
    pub duplicates: u32,
    /// Frames of another connection.
    pub stale: u32,
}

impl LinkCounters {
    const NONE: Self =
        Self { sent: 0, repeated: 0, timeouts: 0, acks: 0, probes: 0, delivered: 0, duplicates: 0, stale: 0 };
}

/// A link: one end of a connection; see the [module](super) for how it is driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Link {
    outgoing: OutgoingFrames,
    incoming: IncomingFrames,
    ours: u32,
    theirs: u32,
    /// The time at which the peer is asked whether it is alive, or whether it takes more.
    probe: Timer,
    /// The time at which the peer is dead: set by what asks for an answer, until anything is
    /// received.
    give_up: Timer,
    counters: LinkCounters,
    /// Probes since anything was last received from the peer.
    probes: u8,
    probe_due: bool,
    open: bool,
}

const _: () = assert!(size_of::<Link>() <= 192, "the state of a peer is small and constant");

impl Link {
    /// No connection: it sends nothing, and every frame is stale. All bits zero.
    pub const CLOSED: Self = Self {
        outgoing: OutgoingFrames::NONE,
        incoming: IncomingFrames::NONE,
        ours: 0,
        theirs: 0,
        probe: Timer::OFF,
        give_up: Timer::OFF,
        counters: LinkCounters::NONE,
        probes: 0,
        probe_due: false,
        open: false,
    };

    /// A connection that the handshake has opened. Payloads are numbered from the receiver's
    /// connection number on, so that both sides know the first number and a frame of another
    /// connection seldom even looks right.
    #[must_use]
    pub fn open(config: &LinkConfig, ends: LinkEnds, now: Instant) -> Self {
        let mut link = Self {
            outgoing: OutgoingFrames::new(ends.theirs, ends.peer_window),
            incoming: IncomingFrames::new(ends.ours, config.window),
            ours: ends.ours,
            theirs: ends.theirs,
            open: true,
            ..Self::CLOSED
        };
        link.rest(config, now);
        link
    }

    /// Returns true if the connection is there: opened, and its peer not given up.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Returns true if everything queued has arrived, and everything that came was acknowledged.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.outgoing.held() == 0 && !self.incoming.owes()
    }

    /// Returns true if everything queued has arrived.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.outgoing.held() == 0
    }

    /// The number that the next payload will have, if one of the window's slots is free and the
    /// peer takes one more. Nothing is taken yet: the caller may fill [`LinkConfig::slot`] of it
    /// and [`queue`](Self::queue) it, or let it be.
    ///
    /// # Errors
    /// Why none can be queued now: [`Again::NoSlot`] until one is released, [`Again::NoCredit`]
    /// until the peer takes more (it is asked), [`Again::Connecting`] without a connection.
    #[inline]
    pub fn vacancy(&mut self, config: &LinkConfig, now: Instant) -> Result<u32, Again> {
        if !self.open {
            return Err(Again::Connecting);
        }
        let blocked = self.outgoing.blocked;
        let vacancy = self.outgoing.vacancy(config);
        if self.outgoing.blocked && !blocked {
            self.rest(config, now);
        }
        vacancy
    }

    /// Takes the number of the next payload, if there is a [`vacancy`](Self::vacancy). The caller
    /// has filled [`LinkConfig::slot`] of it before it next asks what to transmit, and keeps it
    /// until it is released.
    #[inline]
    pub fn queue(&mut self, config: &LinkConfig, now: Instant) -> Option<u32> {
        let sequence = self.vacancy(config, now).ok()?;
        self.outgoing.queue(sequence);
        Some(sequence)
    }

    /// Returns what is to be sent now, if anything: a payload again, a new one, a probe, an
    /// acknowledgement. This changes nothing: call [`transmitted`](Self::transmitted) once the
    /// device has the frame, and ask again.
    #[inline]
    #[must_use]
    pub fn poll_transmit(&self) -> Option<Transmit> {
        if !self.open {
            return None;
        }
        let (kind, payload) = match self.outgoing.due() {
            Some((sequence, _)) => (FrameKind::Data, Some(sequence)),
            None if self.probe_due => (FrameKind::Probe, None),
            None if self.incoming.due => (FrameKind::Ack, None),
            None => return None,
        };
        let (cumulative, bitmap, limit) = self.incoming.acknowledgement();
        let frame = Frame {
            connection: U32::new(self.theirs),
            sequence: U32::new(payload.unwrap_or(0)),
            cumulative: U32::new(cumulative),
            limit: U32::new(limit),
            bitmap: U64::new(bitmap),
            ..Frame::new(kind)
        };
        Some(Transmit { frame, payload })
    }

    /// The device has taken what [`poll_transmit`](Self::poll_transmit) named; nothing else may
    /// have been called in between.
    #[inline]
    pub fn transmitted(&mut self, config: &LinkConfig, transmit: &Transmit, now: Instant) {
        self.incoming.acknowledged();
        let counters = &mut self.counters;
        if let Some(sequence) = transmit.payload {
            let Some(again) = self.outgoing.sent_now(config, sequence, now) else { return };
            counters.sent = counters.sent.wrapping_add(1);
            counters.repeated = counters.repeated.wrapping_add(u32::from(again));
        } else if self.probe_due {
            self.probe_due = false;
            counters.probes = counters.probes.wrapping_add(1);
        } else {
            counters.acks = counters.acks.wrapping_add(1);
            return;
        }
        self.give_up.start(now, config.give_up_ns);
    }

    /// Corrects the time of what was queued and transmitted at the time `then`, but happened
    /// between `then` and `now`, by a caller that did not know the time: the timers that this
    /// started count from `now`, and its round trip is not measured. No more than the delay of an
    /// acknowledgement between the two changes nothing.
    #[inline]
    pub fn retime(&mut self, config: &LinkConfig, then: Instant, now: Instant) {
        if now.since(then) <= config.ack_delay_ns {
            return;
        }
        self.outgoing.retime(config, then, now);
        self.probe.retime(then, now, self.outgoing.rtt.doubled(config, self.probes));
        self.give_up.retime(then, now, config.give_up_ns);
    }

    /// Handles a frame that [`open`](super::open) has checked.
    ///
    /// # Errors
    /// [`Malformed`] for what no honest peer sends on this connection; nothing has changed then.
    #[inline]
    pub fn handle_frame(
        &mut self,
        config: &LinkConfig,
        frame: &Frame,
        now: Instant,
    ) -> Result<Taken, Malformed> {
        if !self.open || frame.connection.get() != self.ours {
            self.counters.stale = self.counters.stale.wrapping_add(1);
            return Ok(Taken { released: 0, fate: FrameFate::Stale });
        }
        let (sequence, cumulative) = (frame.sequence.get(), frame.cumulative.get());
        let kind = frame.kind()?;
        match kind {
            FrameKind::Handshake => return Err(Malformed::Kind(frame.kind)),
            FrameKind::Data => self.incoming.check(sequence)?,
            FrameKind::Ack | FrameKind::Probe => {}
        }
        self.outgoing.check(cumulative, frame.bitmap.get(), frame.limit.get())?;

        let released = self.outgoing.acknowledge(config, cumulative, frame.bitmap.get(), now);
        self.outgoing.raise(frame.limit.get());
        self.heard(config, now);
        let fate = match kind {
            FrameKind::Data => self.incoming.take(config, sequence, self.outgoing.peer_window, now),
            _ => FrameFate::None,
        };
        self.incoming.due |= kind == FrameKind::Probe;
        match fate {
            FrameFate::Deliver => self.counters.delivered = self.counters.delivered.wrapping_add(1),
            FrameFate::Duplicate => self.counters.duplicates = self.counters.duplicates.wrapping_add(1),
            _ => {}
        }
        Ok(Taken { released, fate })
    }

    /// The payload with this number, which was to be stored, is in its slot. (Any other number
    /// changes nothing.)
    #[inline]
    pub fn stored(&mut self, sequence: u32) {
        self.incoming.stored(sequence);
    }

    /// The number of a stored payload that is next: hand it up, its slot is free.
    #[inline]
    pub fn next_stored(&mut self) -> Option<u32> {
        let sequence = self.incoming.next_stored()?;
        self.counters.delivered = self.counters.delivered.wrapping_add(1);
        Some(sequence)
    }

    /// Frames that the caller can take from now on, at most the window and at first that many. Less
    /// slows the peer down, zero stops it; what was promised before stays promised.
    pub fn set_room(&mut self, config: &LinkConfig, frames: u8) {
        self.incoming.set_room(frames.min(config.window));
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is to be called next.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Timer::earliest([self.outgoing.timeout, self.incoming.delay, self.probe, self.give_up])
    }

    /// Time has passed. Ask [`poll_transmit`](Self::poll_transmit) afterwards.
    ///
    /// # Errors
    /// [`Cause::PeerDead`], once: the peer has kept silent for too long. The link is closed.
    pub fn handle_timeout(&mut self, config: &LinkConfig, now: Instant) -> Result<(), Cause> {
        if self.give_up.fire(now) {
            *self = Self { counters: self.counters, ..Self::CLOSED };
            return Err(Cause::PeerDead);
        }
        if self.outgoing.timeout.fire(now) {
            self.counters.timeouts = self.counters.timeouts.wrapping_add(1);
            self.outgoing.expire();
        }
        self.incoming.due |= self.incoming.delay.fire(now);
        if self.probe.fire(now) {
            // Data in flight asks by itself.
            self.probe_due = self.outgoing.in_flight() == 0;
            self.probes = self.probes.saturating_add(u8::from(self.probe_due));
            self.probe.set(now, self.outgoing.rtt.doubled(config, self.probes));
        }
        Ok(())
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// The smoothed round-trip time in nanoseconds, once one has been measured.
    #[must_use]
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.outgoing.rtt.smoothed()
    }

    /// The peer is alive.
    #[inline]
    fn heard(&mut self, config: &LinkConfig, now: Instant) {
        self.give_up = Timer::OFF;
        self.rest(config, now);
    }

    /// Sets the probe far ahead, as there is nothing to ask: until the peer has been silent for too
    /// long or, if it takes nothing more, until its permission may have been lost.
    #[inline]
    fn rest(&mut self, config: &LinkConfig, now: Instant) {
        self.probe = Timer::OFF;
        self.probe_due = false;
        if self.outgoing.blocked && !planted(Defect::NoPersistence) {
            self.probe.set(now, self.outgoing.rtt.doubled(config, self.probes));
            return;
        }
        self.probes = 0;
        if config.silence_ns != 0 {
            self.probe.set(now, config.silence_ns);
        }
    }
}
