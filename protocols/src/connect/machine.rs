//! The machine of one peer.

use aldis_hal::{Epoch, Instant};

use super::setup::GENERATION;
use super::{
    ConnectionNumbers, HandshakeEvent, HandshakeKind, HandshakeRefusal, HandshakeSetup, LinkOffer, Message,
    MessageEnds, Opened, yields,
};
use crate::VERSION;
use crate::reliable::{LinkEnds, WINDOW_MAX};
use crate::sabotage::{Defect, planted};
use crate::timer::Timer;

/// The most doublings of the interval between repetitions.
const DOUBLINGS_MAX: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum ConnectPhase {
    #[default]
    Closed,
    Asking,
    Answering,
    Open,
    /// The peer has ended the connection, and this side not yet.
    Left,
    /// This side has ended the connection, and waits for the other to do so.
    Closing,
}

/// A message that answers one that came: `kind`, `number` and `echo`.
type Reply = (HandshakeKind, u32, u32);

/// The handshake with one peer; see the [module](super) for how it is driven.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Connect {
    pub(super) phase: ConnectPhase,
    /// True if this side has asked for the connection, and gets an event if it cannot be had.
    pub(super) wanted: bool,
    /// A hello, a welcome or a close is to be sent.
    pub(super) due: bool,
    pub(super) doublings: u8,
    pub(super) reply: Option<Reply>,
    peer: u32,
    /// The life of the peer that may connect; zero: none.
    pub(super) admitted: u32,
    /// The number after this is the next to be chosen.
    pub(super) chosen: u32,
    /// The number of this attempt or connection; zero: none since the peer was introduced.
    pub(super) ours: u32,
    /// The newest number of the admitted life; zero: none known.
    pub(super) theirs: u32,
    /// The peer's limits, as it offered them.
    offer: LinkOffer,
    pub(super) retry: Timer,
    pub(super) deadline: Timer,
}

const _: () = assert!(size_of::<Connect>() <= 56, "the state of a peer is small and constant");

/// The part of a handshake that outlives its connections: enough to go on from, for the caller that
/// keeps a [`Connect`] for those peers alone with which it has a connection or makes one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ConnectRecord {
    admitted: u32,
    theirs: u32,
    /// The generation of the number that was chosen last.
    generation: u16,
    /// That number is this side's since the peer was introduced.
    is_ours: bool,
}

const _: () = assert!(size_of::<ConnectRecord>() <= 12, "a peer without a connection is small");

impl ConnectRecord {
    /// No peer. All bits zero.
    pub const NONE: Self = Self { admitted: 0, theirs: 0, generation: 0, is_ours: false };

    /// A peer of which nothing is admitted yet.
    #[must_use]
    pub const fn new(setup: &HandshakeSetup) -> Self {
        Self { generation: ((setup.epoch.0 >> 16) ^ setup.epoch.0) as u16, ..Self::NONE }
    }

    /// The life that may connect, if any.
    #[must_use]
    pub const fn admitted(&self) -> Option<Epoch> {
        if self.admitted == 0 { None } else { Some(Epoch(self.admitted)) }
    }

    /// This life of the peer may connect from now on, and no other. True if that is news.
    pub const fn introduce(&mut self, epoch: Epoch) -> bool {
        if self.admitted == epoch.0 {
            return false;
        }
        (self.admitted, self.theirs, self.is_ours) = (epoch.0, 0, false);
        true
    }

    /// Nothing connects until the peer is introduced anew.
    pub const fn abandon(&mut self) {
        self.admitted = 0;
    }
}

/// Returns true if `number` was chosen after `other` by the same life.
const fn newer(number: u32, other: u32) -> bool {
    other == 0 || (number.wrapping_sub(other) as i32) > 0
}

impl Connect {
    /// No peer. All bits zero.
    pub const NONE: Self = Self {
        phase: ConnectPhase::Closed,
        wanted: false,
        due: false,
        doublings: 0,
        reply: None,
        peer: 0,
        admitted: 0,
        chosen: 0,
        ours: 0,
        theirs: 0,
        offer: LinkOffer { window: 0, frame_bytes: 0 },
        retry: Timer::OFF,
        deadline: Timer::OFF,
    };

    /// The peer with this rank, in this slot of the caller's table; nothing is admitted yet.
    #[must_use]
    pub const fn new(setup: &HandshakeSetup, peer: u32, slot: u16) -> Self {
        Self::resume(ConnectRecord::new(setup), peer, slot)
    }

    /// The peer with this rank, in this slot, of which this was kept; there is no connection.
    #[must_use]
    pub const fn resume(record: ConnectRecord, peer: u32, slot: u16) -> Self {
        let ConnectRecord { admitted, theirs, generation, is_ours } = record;
        let chosen = (generation as u32).wrapping_mul(GENERATION) | slot as u32;
        Self { peer, admitted, chosen, theirs, ours: if is_ours { chosen } else { 0 }, ..Self::NONE }
    }

    /// The part to be kept when there is no connection any more.
    #[must_use]
    pub const fn record(&self) -> ConnectRecord {
        let Self { admitted, theirs, chosen, ours, .. } = *self;
        let generation = (chosen / GENERATION) as u16;
        // Zero is no number, so that one with a generation and a slot of zero is not chosen.
        ConnectRecord { admitted, theirs, generation, is_ours: ours != 0 }
    }

    /// Returns true if nothing is lost when all but the [`record`](Self::record) is dropped: there
    /// is no connection, none is under way, and nothing is to be answered.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, ConnectPhase::Closed) && self.reply.is_none()
    }

    /// This life of the peer may connect from now on, and no other. If that is news, whatever was
    /// open or under way is dropped without an event, and true is returned.
    pub fn introduce(&mut self, epoch: Epoch) -> bool {
        if self.admitted == epoch.0 {
            return false;
        }
        self.reset();
        (self.admitted, self.ours, self.theirs, self.reply) = (epoch.0, 0, 0, None);
        true
    }

    /// The life that may connect, if any.
    #[must_use]
    pub const fn admitted(&self) -> Option<Epoch> {
        if self.admitted == 0 { None } else { Some(Epoch(self.admitted)) }
    }

    /// This side wants the connection. False, and nothing is done, if the peer was not introduced.
    pub fn connect(&mut self, setup: &HandshakeSetup, now: Instant) -> bool {
        if self.admitted == 0 {
            return false;
        }
        if !self.wanted && !self.is_open() {
            self.wanted = true;
            self.deadline.set(now, setup.deadline_ns);
            if self.phase == ConnectPhase::Closed {
                self.ask();
            }
        }
        true
    }

    /// Ends an open connection in good order: everything that this side sent has arrived, and it
    /// sends nothing more. True if the connection is over, as the peer has ended it already; else
    /// [`HandshakeEvent::Closed`] follows, and until then the peer's frames are taken.
    pub fn close(&mut self, setup: &HandshakeSetup, now: Instant) -> bool {
        if !self.is_open() {
            return false;
        }
        if self.phase == ConnectPhase::Left || planted(Defect::ClosesAlone) {
            self.end_agreed(true);
            return true;
        }
        (self.phase, self.due, self.doublings) = (ConnectPhase::Closing, true, 0);
        self.deadline.set(now, setup.deadline_ns);
        false
    }

    /// The caller gives the connection up: its link found the peer dead. The peer has to be
    /// introduced anew.
    pub fn abandon(&mut self) {
        self.reset();
        self.admitted = 0;
    }

    /// Returns true if the connection is there.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, ConnectPhase::Open | ConnectPhase::Left)
    }

    /// Returns true if the handshake is under way.
    #[must_use]
    pub const fn is_connecting(&self) -> bool {
        matches!(self.phase, ConnectPhase::Asking | ConnectPhase::Answering)
    }

    /// Returns true if this side has ended the connection, and the peer not yet.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        matches!(self.phase, ConnectPhase::Closing)
    }

    /// Returns true if this side asks, and has had no answer.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        matches!(self.phase, ConnectPhase::Asking)
    }

    /// Returns the answer to a hello for which the caller has no room now: the peer asks again.
    #[must_use]
    pub const fn turn_away(setup: &HandshakeSetup, hello: &Message) -> Message {
        let kind = HandshakeKind::Refuse(HandshakeRefusal::Busy);
        let sides = MessageEnds { job: setup.job, rank: setup.rank, epoch: setup.epoch, to: hello.rank };
        Message::new(kind, ConnectionNumbers { own: 0, echo: hello.number }, sides, setup.offer)
    }

    /// This side's number of the connection or attempt: frames with another are stale. Zero: none.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.ours
    }

    /// The message to send now, if any. This changes nothing: call
    /// [`transmitted`](Self::transmitted) once the device has it, and ask again.
    #[must_use]
    pub fn poll_transmit(&self, setup: &HandshakeSetup) -> Option<Message> {
        let (kind, number, echo) = match (self.reply, self.phase) {
            (Some(reply), _) => reply,
            (None, ConnectPhase::Asking) if self.due => (HandshakeKind::Hello, self.ours, self.theirs),
            (None, ConnectPhase::Answering) if self.due => (HandshakeKind::Welcome, self.ours, self.theirs),
            (None, ConnectPhase::Closing) if self.due => (HandshakeKind::Close, self.ours, self.theirs),
            _ => return None,
        };
        let sides = MessageEnds { job: setup.job, rank: setup.rank, epoch: setup.epoch, to: self.peer };
        Some(Message::new(kind, ConnectionNumbers { own: number, echo }, sides, setup.offer))
    }

    /// The device has taken what [`poll_transmit`](Self::poll_transmit) named.
    pub fn transmitted(&mut self, setup: &HandshakeSetup, message: &Message, now: Instant) {
        let is_answer = matches!(message.kind, HandshakeKind::Confirm | HandshakeKind::Refuse(_));
        if self.reply.take().is_some() || is_answer {
            return;
        }
        self.due = false;
        let interval = setup.retry_first_ns.max(1).saturating_mul(1 << self.doublings.min(DOUBLINGS_MAX));
        self.retry.set(now, interval.min(setup.retry_max_ns).max(1));
        self.doublings = self.doublings.saturating_add(1).min(DOUBLINGS_MAX);
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Timer::earliest([self.retry, self.deadline])
    }

    /// Time has passed. Ask [`poll_transmit`](Self::poll_transmit) afterwards.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<HandshakeEvent> {
        if self.deadline.fire(now) {
            let is_told = self.wanted || self.is_closing();
            self.reset();
            return is_told.then_some(HandshakeEvent::TimedOut);
        }
        self.due |= self.retry.fire(now) && !planted(Defect::NoRepeats);
        None
    }

    /// A frame that bears this number has come, which its sender knows from our welcome: as good as
    /// a confirmation.
    #[inline]
    pub fn handle_data(&mut self, number: u32) -> Option<HandshakeEvent> {
        let confirmed = self.phase == ConnectPhase::Answering && number == self.ours;
        confirmed.then(|| self.open())
    }

    /// Handles a message from the peer's address.
    pub fn handle(
        &mut self,
        setup: &HandshakeSetup,
        message: &Message,
        now: Instant,
    ) -> Option<HandshakeEvent> {
        match (message.kind, self.objection(setup, message)) {
            (HandshakeKind::Hello, Some(why)) => {
                self.refuse(why, self.ours, message.number);
                None
            }
            (HandshakeKind::Welcome, Some(why)) if self.is_connecting() && self.is_echoed(message) => {
                self.reset();
                self.refuse(why, self.ours, message.number);
                Some(HandshakeEvent::Refused(why))
            }
            (HandshakeKind::Refuse(why), objection) if objection.is_some() || self.is_admitted(message) => {
                self.refused(setup, message, why, now)
            }
            (_, Some(_)) => None,
            (_, None) if !self.is_admitted(message) => self.stranger(message),
            (HandshakeKind::Close, None) => self.peer_closed(message),
            (HandshakeKind::Hello | HandshakeKind::Welcome | HandshakeKind::Confirm, None)
                if self.is_old(message) =>
            {
                None
            }
            (kind, None) => {
                // A newer attempt of the peer shows that it has ended this connection.
                let is_newer = message.number != self.theirs;
                let event = (self.is_closing() && is_newer).then(|| self.end_agreed(false));
                let other = match kind {
                    HandshakeKind::Hello => self.hello(setup, message, now),
                    HandshakeKind::Welcome => self.welcome(message),
                    HandshakeKind::Confirm => self.confirm(message),
                    HandshakeKind::Close | HandshakeKind::Refuse(_) => None,
                };
                event.or(other)
            }
        }
    }

    fn objection(&self, setup: &HandshakeSetup, message: &Message) -> Option<HandshakeRefusal> {
        let offer = message.offer;
        let offers = matches!(message.kind, HandshakeKind::Hello | HandshakeKind::Welcome);
        if message.version != VERSION {
            Some(HandshakeRefusal::Version)
        } else if message.job != setup.job {
            Some(HandshakeRefusal::Job)
        } else if message.rank != self.peer || message.to != setup.rank || message.rank == message.to {
            Some(HandshakeRefusal::Rank)
        } else if offers
            && (offer.window == 0 || offer.window > WINDOW_MAX || offer.frame_bytes < setup.frame_bytes_min)
        {
            Some(HandshakeRefusal::Limits)
        } else {
            None
        }
    }

    #[inline]
    fn is_admitted(&self, message: &Message) -> bool {
        message.epoch().0 == self.admitted || planted(Defect::AdmitsAnyLife)
    }

    #[inline]
    fn is_echoed(&self, message: &Message) -> bool {
        self.ours != 0 && message.echo == self.ours
    }

    /// Returns true if the admitted life has sent the message in an attempt before the newest
    /// known.
    #[inline]
    fn is_old(&self, message: &Message) -> bool {
        let known = message.number == self.theirs || newer(message.number, self.theirs);
        !known && !planted(Defect::ForgetsOrder)
    }

    /// A message of a life that is not admitted.
    fn stranger(&mut self, message: &Message) -> Option<HandshakeEvent> {
        let hello = message.kind == HandshakeKind::Hello;
        let proven = self.is_echoed(message) || (hello && planted(Defect::TrustsStrangers));
        let event = (self.admitted != 0 && proven).then(|| self.end(message.epoch()));
        match message.kind {
            HandshakeKind::Hello => {
                if self.ours == 0 {
                    self.choose();
                }
                self.refuse(HandshakeRefusal::Unknown, self.ours, message.number);
            }
            HandshakeKind::Welcome | HandshakeKind::Confirm | HandshakeKind::Close => self.disown(message),
            HandshakeKind::Refuse(_) => {}
        }
        event
    }

    fn hello(&mut self, setup: &HandshakeSetup, message: &Message, now: Instant) -> Option<HandshakeEvent> {
        let again = message.number == self.theirs;
        match self.phase {
            ConnectPhase::Open | ConnectPhase::Left => self.after(again, message),
            ConnectPhase::Asking if !yields(setup.rank, self.peer) || planted(Defect::BothInsist) => {
                // A peer that turned this side away has a link for it now, and yields: it is asked
                // at once, and not when the next repetition is due.
                self.due = true;
                None
            }
            // It has been sent before the connection was there.
            ConnectPhase::Closing => None,
            ConnectPhase::Answering if again => {
                self.due = true;
                None
            }
            ConnectPhase::Asking | ConnectPhase::Answering | ConnectPhase::Closed => {
                // Fresh: what asked with the old number may yet be answered, and open another
                // connection.
                if self.ours == 0 || !planted(Defect::KeepsNumbers) {
                    self.choose();
                }
                self.answer(setup, message, now)
            }
        }
    }

    fn answer(&mut self, setup: &HandshakeSetup, message: &Message, now: Instant) -> Option<HandshakeEvent> {
        let is_first = self.phase != ConnectPhase::Answering;
        (self.phase, self.due, self.doublings) = (ConnectPhase::Answering, true, 0);
        (self.theirs, self.offer) = (message.number, message.offer);
        // A peer that asks anew again and again has no more time than one that asks once.
        if !self.wanted && is_first {
            self.deadline.set(now, setup.deadline_ns);
        }
        None
    }

    fn welcome(&mut self, message: &Message) -> Option<HandshakeEvent> {
        let again = message.number == self.theirs;
        match self.phase {
            ConnectPhase::Asking | ConnectPhase::Answering
                if self.is_echoed(message) || planted(Defect::NoEchoCheck) =>
            {
                (self.theirs, self.offer) = (message.number, message.offer);
                self.reply = Some((HandshakeKind::Confirm, self.ours, self.theirs));
                Some(self.open())
            }
            ConnectPhase::Open if again && self.is_echoed(message) => {
                self.reply = Some((HandshakeKind::Confirm, self.ours, self.theirs));
                None
            }
            ConnectPhase::Open | ConnectPhase::Left => self.after(again, message),
            ConnectPhase::Closing => None,
            _ => {
                self.disown(message);
                None
            }
        }
    }

    fn confirm(&mut self, message: &Message) -> Option<HandshakeEvent> {
        let again = message.number == self.theirs;
        match self.phase {
            ConnectPhase::Answering if again && self.is_echoed(message) => Some(self.open()),
            ConnectPhase::Open | ConnectPhase::Left => self.after(again, message),
            ConnectPhase::Closing => None,
            _ => {
                self.disown(message);
                None
            }
        }
    }

    /// The peer ends a connection, and everything that it sent in it has arrived. A side that does
    /// not hold that connection says so, which is as good as to end it: it has ended it before.
    fn peer_closed(&mut self, message: &Message) -> Option<HandshakeEvent> {
        let is_pair = self.is_echoed(message) && message.number == self.theirs;
        match self.phase {
            ConnectPhase::Open if is_pair => {
                self.phase = ConnectPhase::Left;
                Some(HandshakeEvent::Closing)
            }
            ConnectPhase::Left if is_pair => None,
            ConnectPhase::Closing if is_pair => Some(self.end_agreed(self.due)),
            ConnectPhase::Answering if is_pair => {
                // Nothing was sent in it.
                self.disown(message);
                self.answer_in_vain();
                None
            }
            _ => {
                self.disown(message);
                None
            }
        }
    }

    /// Both sides have ended the connection; the peer is told so, if it may not know.
    fn end_agreed(&mut self, tells: bool) -> HandshakeEvent {
        self.reset();
        if tells {
            self.reply = Some((HandshakeKind::Close, self.ours, self.theirs));
        }
        HandshakeEvent::Closed
    }

    /// A message of the open connection's life: if it is of another attempt, that life has begun
    /// anew.
    fn after(&mut self, again: bool, message: &Message) -> Option<HandshakeEvent> {
        (!again).then(|| self.end(message.epoch()))
    }

    /// This side does not hold the pair of numbers that the message names, and never will.
    fn disown(&mut self, message: &Message) {
        if !planted(Defect::NoStale) {
            self.refuse(HandshakeRefusal::Stale, message.echo, message.number);
        }
    }

    fn refused(
        &mut self,
        setup: &HandshakeSetup,
        message: &Message,
        why: HandshakeRefusal,
        now: Instant,
    ) -> Option<HandshakeEvent> {
        if !self.is_echoed(message) {
            return None;
        }
        let pair = message.number == self.theirs;
        match (why, self.phase) {
            (HandshakeRefusal::Stale, ConnectPhase::Open | ConnectPhase::Left) if pair => {
                Some(self.end(message.epoch()))
            }
            (HandshakeRefusal::Stale, ConnectPhase::Closing) if pair && !planted(Defect::ClosesForEver) => {
                Some(self.end_agreed(false))
            }
            (HandshakeRefusal::Stale, ConnectPhase::Answering) if pair => {
                self.answer_in_vain();
                None
            }
            (HandshakeRefusal::Busy, ConnectPhase::Asking) => {
                self.deadline.set(now, setup.deadline_ns);
                Some(HandshakeEvent::TurnedAway)
            }
            (HandshakeRefusal::Unknown, ConnectPhase::Asking)
                if message.number != 0 && newer(message.number, self.theirs) =>
            {
                (self.theirs, self.due) = (message.number, true);
                None
            }
            (HandshakeRefusal::Stale | HandshakeRefusal::Unknown | HandshakeRefusal::Busy, _) => None,
            (_, ConnectPhase::Asking | ConnectPhase::Answering) => {
                self.reset();
                Some(HandshakeEvent::Refused(why))
            }
            _ => None,
        }
    }

    /// The peer does not hold the attempt that this side answers.
    fn answer_in_vain(&mut self) {
        if self.wanted {
            self.ask();
        } else {
            self.reset();
        }
    }

    fn refuse(&mut self, why: HandshakeRefusal, number: u32, echo: u32) {
        self.reply = Some((HandshakeKind::Refuse(why), number, echo));
    }

    fn open(&mut self) -> HandshakeEvent {
        self.reset();
        self.phase = ConnectPhase::Open;
        HandshakeEvent::Opened(Opened {
            ends: LinkEnds { ours: self.ours, theirs: self.theirs, peer_window: self.offer.window },
            frame_bytes: self.offer.frame_bytes,
            epoch: Epoch(self.admitted),
        })
    }

    /// Ends what was open or under way; `epoch` is the life that showed it.
    fn end(&mut self, epoch: Epoch) -> HandshakeEvent {
        self.abandon();
        HandshakeEvent::Restarted(epoch)
    }

    fn ask(&mut self) {
        self.choose();
        (self.phase, self.due, self.doublings) = (ConnectPhase::Asking, true, 0);
    }

    fn choose(&mut self) {
        self.chosen = self.chosen.wrapping_add(GENERATION);
        if self.chosen == 0 {
            self.chosen = GENERATION;
        }
        self.ours = self.chosen;
    }

    fn reset(&mut self) {
        *self = Self {
            phase: ConnectPhase::Closed,
            wanted: false,
            due: false,
            doublings: 0,
            retry: Timer::OFF,
            deadline: Timer::OFF,
            ..*self
        };
    }
}
