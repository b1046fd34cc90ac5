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
    /// A hello or a welcome is to be sent.
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
        let generation = (setup.epoch.0 >> 16) ^ setup.epoch.0;
        Self { peer, chosen: generation.wrapping_mul(GENERATION) | slot as u32, ..Self::NONE }
    }

    /// This life of the peer may connect from now on, and no other. If that is news, whatever was
    /// open or under way is dropped without an event, and true is returned.
    pub fn introduce(&mut self, epoch: Epoch) -> bool {
        if self.admitted == epoch.0 {
            return false;
        }
        self.close();
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
        if !self.wanted && self.phase != ConnectPhase::Open {
            self.wanted = true;
            self.deadline.set(now, setup.deadline_ns);
            if self.phase == ConnectPhase::Closed {
                self.ask();
            }
        }
        true
    }

    /// The caller gives the connection up: its link found the peer dead. The peer has to be
    /// introduced anew.
    pub fn abandon(&mut self) {
        self.close();
        self.admitted = 0;
    }

    /// Returns true if the connection is there.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, ConnectPhase::Open)
    }

    /// Returns true if the handshake is under way.
    #[must_use]
    pub const fn is_connecting(&self) -> bool {
        matches!(self.phase, ConnectPhase::Asking | ConnectPhase::Answering)
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
            _ => return None,
        };
        let sides = MessageEnds { job: setup.job, rank: setup.rank, epoch: setup.epoch, to: self.peer };
        Some(Message::new(kind, ConnectionNumbers { own: number, echo }, sides, setup.offer))
    }

    /// The device has taken what [`poll_transmit`](Self::poll_transmit) named.
    pub fn transmitted(&mut self, setup: &HandshakeSetup, message: &Message, now: Instant) {
        if !matches!(message.kind, HandshakeKind::Hello | HandshakeKind::Welcome) {
            self.reply = None;
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
            let wanted = self.wanted;
            self.close();
            return wanted.then_some(HandshakeEvent::TimedOut);
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
                self.close();
                self.refuse(why, self.ours, message.number);
                Some(HandshakeEvent::Refused(why))
            }
            (HandshakeKind::Refuse(why), objection) if objection.is_some() || self.is_admitted(message) => {
                self.refused(message, why)
            }
            (_, Some(_)) => None,
            (_, None) if !self.is_admitted(message) => self.stranger(message),
            (HandshakeKind::Hello | HandshakeKind::Welcome | HandshakeKind::Confirm, None)
                if self.is_old(message) =>
            {
                None
            }
            (HandshakeKind::Hello, None) => self.hello(setup, message, now),
            (HandshakeKind::Welcome, None) => self.welcome(message),
            (HandshakeKind::Confirm, None) => self.confirm(message),
            (HandshakeKind::Refuse(_), None) => None,
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
            HandshakeKind::Welcome | HandshakeKind::Confirm => self.disown(message),
            HandshakeKind::Refuse(_) => {}
        }
        event
    }

    fn hello(&mut self, setup: &HandshakeSetup, message: &Message, now: Instant) -> Option<HandshakeEvent> {
        let again = message.number == self.theirs;
        match self.phase {
            ConnectPhase::Open => self.after(again, message),
            ConnectPhase::Asking if !yields(setup.rank, self.peer) || planted(Defect::BothInsist) => None,
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
        (self.phase, self.due, self.doublings) = (ConnectPhase::Answering, true, 0);
        (self.theirs, self.offer) = (message.number, message.offer);
        if !self.wanted {
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
            ConnectPhase::Open => self.after(again, message),
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
            ConnectPhase::Open => self.after(again, message),
            _ => {
                self.disown(message);
                None
            }
        }
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

    fn refused(&mut self, message: &Message, why: HandshakeRefusal) -> Option<HandshakeEvent> {
        if !self.is_echoed(message) {
            return None;
        }
        let pair = message.number == self.theirs;
        match (why, self.phase) {
            (HandshakeRefusal::Stale, ConnectPhase::Open) if pair => Some(self.end(message.epoch())),
            (HandshakeRefusal::Stale, ConnectPhase::Answering) if pair => {
                if self.wanted {
                    self.ask();
                } else {
                    self.close();
                }
                None
            }
            (HandshakeRefusal::Unknown, ConnectPhase::Asking)
                if message.number != 0 && newer(message.number, self.theirs) =>
            {
                (self.theirs, self.due) = (message.number, true);
                None
            }
            (HandshakeRefusal::Stale | HandshakeRefusal::Unknown, _) => None,
            (_, ConnectPhase::Asking | ConnectPhase::Answering) => {
                self.close();
                Some(HandshakeEvent::Refused(why))
            }
            _ => None,
        }
    }

    fn refuse(&mut self, why: HandshakeRefusal, number: u32, echo: u32) {
        self.reply = Some((HandshakeKind::Refuse(why), number, echo));
    }

    fn open(&mut self) -> HandshakeEvent {
        self.close();
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

    fn close(&mut self) {
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
