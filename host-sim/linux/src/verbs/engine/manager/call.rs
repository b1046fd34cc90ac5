//! A connection with a peer in the hands of rdma_cm.
//!
//! ```text
//! who needs it                                      the other
//!   | -- offer: resolve, route, request (REQ) -------> |
//!   | <---------------------- answer: reply (REP) -- |
//!   | -- go: ready to use (RTU) ---------------------> |
//! ```
//!
//! Refusing is a rejection (REJ), closing a disconnection (DREQ), or a rejection before it is made.
//! [`PeerConnection`](super::super::connection) gets its control messages delivered so: a request
//! that finds no answer is made again, under the same number, for as long as a peer may compute; so
//! an answer may be asked for twice, and the first one has [lapsed](Heard::Lapsed) then. So has one
//! that finds no answer itself; a peer that reads it after all, because it has computed for so
//! long, asks again.
//!
//! The tests take two sides through every order of steps, with what is not answered in time.

#[cfg(test)]
mod tests;

use core::time::Duration;

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Epoch, Instant, PeerId};

use super::super::super::sys::{LETTER_BYTES, ManagerEventKind};
use super::super::control::{ControlKind, ControlMessage};
use super::Heard;
use super::letter::Letter;

/// The time for which an answer surely waits to be read: Linux repeats it 16 times, every 4.3 s
/// (`CMA_MAX_CM_RETRIES` and `CMA_CM_RESPONSE_TIMEOUT` of its drivers/infiniband/core/cma.c).
const ANSWER_NS: u64 = Duration::from_secs(64).as_nanos() as u64;
/// The time after which what could not be asked is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection as the system makes it; dropped, the other side is told of it.
pub(super) trait Connecting: Sized {
    /// The data that a new connection needs.
    type To;

    /// Begins to look for the way to a peer.
    fn resolve(to: &Self::To) -> Result<Self, Cause>;
    fn route(&self) -> Result<(), Cause>;
    /// Asks for a connection with the queue pair of a control message.
    fn ask(&self, letter: &Letter) -> Result<(), Cause>;
    /// Accepts it, with another, and so many reads. If the peer that asked has given it up
    /// meanwhile, an event will tell.
    fn accept(&self, letter: &Letter, depth: u8);
    fn reject(&self, letter: &Letter);
    fn establish(&self);
    fn disconnect(&self);
    /// The key that tells it from all others that there are.
    fn key(&self) -> usize;
}

/// The two ranks of a connection, and the time.
pub(super) struct Parties<'a, L: Connecting> {
    /// This rank and the peer.
    pub(super) ranks: (PeerId, PeerId),
    /// Their lives.
    pub(super) epochs: (Epoch, Epoch),
    pub(super) to: &'a L::To,
    pub(super) now: Instant,
    /// The time for which a peer may not answer.
    pub(super) patience_ns: u64,
    /// The time before `now` for which no event was looked for here.
    pub(super) deaf_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum CallStage {
    /// This side asks: the way is looked for, or will be at that time.
    Resolving,
    Routing,
    Asked,
    Later(Instant),
    /// The peer has answered this side's request, and the connection was told.
    Replied,
    /// The peer has asked, and the connection was told.
    Asking,
    /// This side has answered.
    Answered,
    Up,
}

/// The connection of a lane.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ConnectCall<L> {
    now: Option<Current<L>>,
    /// A connection that is being ended.
    parting: Option<L>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Current<L> {
    stage: CallStage,
    /// The offer: this side's if it asked.
    control: ControlMessage,
    /// Since when it has been asked, and when it was for the last time.
    since: Instant,
    asked: Instant,
    /// `None` until it is asked again.
    line: Option<L>,
}

impl<L: Connecting> ConnectCall<L> {
    pub(super) const fn new() -> Self {
        Self { now: None, parting: None }
    }

    /// Carries out a control message of this side.
    pub(super) fn say(&mut self, control: &ControlMessage, parties: &Parties<'_, L>) {
        match control.kind {
            ControlKind::Offer => {
                self.retire(None);
                let since = parties.now;
                let stage = CallStage::Later(since);
                let mut asked = Current { stage, control: *control, since, asked: since, line: None };
                asked.dial(parties);
                self.now = Some(asked);
            }
            ControlKind::Answer => {
                if let Some(asked) = self.at(control, CallStage::Asking) {
                    let depth = control.depth.min(asked.control.depth);
                    asked.line.iter().for_each(|line| line.accept(&parties.letter(control), depth));
                    asked.stage = CallStage::Answered;
                }
            }
            ControlKind::Go => {
                if let Some(replied) = self.at(control, CallStage::Replied) {
                    replied.line.iter().for_each(L::establish);
                    replied.stage = CallStage::Up;
                }
            }
            ControlKind::Close | ControlKind::Refuse => {
                let is_it =
                    |now: &Current<L>| now.control.serial.wrapping_sub(control.serial).cast_signed() <= 0;
                if self.now.as_ref().is_some_and(is_it) {
                    self.retire(Some(&parties.letter(control)));
                }
            }
        }
    }

    /// The connection that a control message is about, if it is at this stage.
    fn at(&mut self, control: &ControlMessage, stage: CallStage) -> Option<&mut Current<L>> {
        self.now.as_mut().filter(|now| now.stage == stage && now.control.serial == control.serial)
    }

    /// Ends what there is, with this letter if there is still room for one.
    fn retire(&mut self, letter: Option<&Letter>) {
        let Some(Current { stage, line: Some(line), .. }) = self.now.take() else { return };
        match (stage, letter) {
            (CallStage::Up, _) => {
                line.disconnect();
                self.parting = Some(line);
            }
            (CallStage::Asking | CallStage::Replied, Some(letter)) => line.reject(letter),
            // It is dropped.
            _ => {}
        }
    }

    /// A peer asks for a connection.
    pub(super) fn request(
        &mut self,
        line: L,
        letter: Letter,
        parties: &Parties<'_, L>,
        mut tell: impl FnMut(Heard),
    ) {
        let control = letter.control;
        if let Some(now) = &self.now {
            let ahead = control.serial.wrapping_sub(now.control.serial).cast_signed();
            let comes_again = ahead == 0 && matches!(now.stage, CallStage::Asking | CallStage::Answered);
            if ahead < 0 || (ahead == 0 && !comes_again) {
                return line.reject(&parties.letter(&ControlMessage::bare(
                    control.lane,
                    ControlKind::Close,
                    control.serial,
                )));
            }
            if now.stage == CallStage::Answered {
                tell(Heard::Lapsed(control.lane, now.control.serial));
            }
        }
        self.retire(None);
        let (since, stage) = (parties.now, CallStage::Asking);
        self.now = Some(Current { stage, control, since, asked: since, line: Some(line) });
        tell(Heard::ControlMessage(control));
    }

    /// Rejects what was asked, to which the connection has no answer: it is about one that is over.
    pub(super) fn settle(&mut self, parties: &Parties<'_, L>) {
        if let Some(Current { stage: CallStage::Asking, control, .. }) = self.now {
            self.retire(Some(&parties.letter(&ControlMessage::bare(
                control.lane,
                ControlKind::Close,
                control.serial,
            ))));
        }
    }

    /// Returns the connection that knows the way for a queue pair to the other end that a control
    /// message names.
    pub(super) fn line(&self, control: &ControlMessage) -> Option<&L> {
        let now = self.now.as_ref().filter(|now| now.control.serial == control.serial);
        now.filter(|now| matches!(now.stage, CallStage::Replied | CallStage::Asking))?.line.as_ref()
    }

    /// Returns true if there is something to be asked again, or will be.
    pub(super) fn is_put_off(&self) -> bool {
        matches!(self.now, Some(Current { stage: CallStage::Later(_), .. }))
    }

    /// Asks again what is due.
    pub(super) fn resume(&mut self, parties: &Parties<'_, L>, mut tell: impl FnMut(Heard)) {
        let Some(now) = &mut self.now else { return };
        if !matches!(now.stage, CallStage::Later(at) if at <= parties.now) {
            return;
        }
        if parties.now.since(now.since) >= parties.patience_ns {
            self.now = None;
            return tell(Heard::Lost(Cause::PeerDead));
        }
        now.dial(parties);
    }

    /// Handles an event of one of its connections.
    pub(super) fn hear(
        &mut self,
        key: usize,
        what: ManagerEventKind,
        parties: &Parties<'_, L>,
        mut tell: impl FnMut(Heard),
    ) {
        let is_it = |line: &L| line.key() == key;
        if self.parting.as_ref().is_some_and(is_it) {
            if matches!(
                what,
                ManagerEventKind::Over | ManagerEventKind::Rejected { .. } | ManagerEventKind::Unreachable
            ) {
                self.parting = None;
            }
            return;
        }
        let Some(now) = self.now.as_mut().filter(|now| now.line.as_ref().is_some_and(is_it)) else { return };
        let (lane, serial) = (now.control.lane, now.control.serial);
        let closed = ControlMessage::bare(lane, ControlKind::Close, serial);
        match (what, now.stage) {
            (ManagerEventKind::Resolved, CallStage::Resolving) => {
                now.step(CallStage::Routing, L::route, parties)
            }
            (ManagerEventKind::Routed, CallStage::Routing) => {
                let letter = parties.letter(&now.control);
                now.asked = parties.now;
                now.step(CallStage::Asked, |line| line.ask(&letter), parties);
            }
            (ManagerEventKind::Accepted(_), CallStage::Asked) if now.may_have_lapsed(parties) => {
                now.put_off(parties)
            }
            (ManagerEventKind::Accepted(letter), CallStage::Asked) => match parties.read(&letter, &closed) {
                Some(control) if control.kind == ControlKind::Answer => {
                    now.stage = CallStage::Replied;
                    tell(Heard::ControlMessage(control));
                }
                _ => {
                    self.now = None;
                    tell(Heard::Lost(Cause::Malformed(Malformed::Control)));
                }
            },
            (ManagerEventKind::Established, CallStage::Answered) => {
                now.stage = CallStage::Up;
                tell(Heard::ControlMessage(ControlMessage::bare(lane, ControlKind::Go, serial)));
            }
            (ManagerEventKind::Rejected { is_there, letter }, CallStage::Asked) => {
                self.now = None;
                let said = parties.read(&letter, &closed);
                let said =
                    said.filter(|control| matches!(control.kind, ControlKind::Close | ControlKind::Refuse));
                // Where no process listens, the peer is gone.
                tell(if is_there {
                    Heard::ControlMessage(said.unwrap_or(closed))
                } else {
                    Heard::Lost(Cause::PeerDead)
                });
            }
            (ManagerEventKind::Unreachable, CallStage::Resolving | CallStage::Routing | CallStage::Asked) => {
                now.put_off(parties)
            }
            (
                ManagerEventKind::Rejected { .. } | ManagerEventKind::Over | ManagerEventKind::Unreachable,
                CallStage::Replied | CallStage::Up,
            )
            | (ManagerEventKind::Over, CallStage::Answered) => {
                self.now = None;
                tell(Heard::ControlMessage(closed));
            }
            // The peer that asked has given it up, or does not read: the connection's answer, if
            // there is one, will be asked for again.
            (
                ManagerEventKind::Rejected { .. } | ManagerEventKind::Unreachable,
                CallStage::Asking | CallStage::Answered,
            ) => {
                self.now = None;
                tell(Heard::Lapsed(lane, serial));
            }
            _ => {}
        }
    }
}

impl<L: Connecting> Current<L> {
    fn dial(&mut self, parties: &Parties<'_, L>) {
        match L::resolve(parties.to) {
            Ok(line) => (self.stage, self.line) = (CallStage::Resolving, Some(line)),
            Err(_) => self.put_off(parties),
        }
    }

    /// Returns true if the answer that is read now may have been given up by the peer that said it:
    /// it was said long ago perhaps, and could not be read before.
    fn may_have_lapsed(&self, parties: &Parties<'_, L>) -> bool {
        parties.deaf_ns >= ANSWER_NS / 2 && parties.now.since(self.asked) >= ANSWER_NS
    }

    fn put_off(&mut self, parties: &Parties<'_, L>) {
        (self.stage, self.line) = (CallStage::Later(parties.now.after(AGAIN)), None);
    }

    fn step(&mut self, to: CallStage, take: impl FnOnce(&L) -> Result<(), Cause>, parties: &Parties<'_, L>) {
        self.stage = to;
        if self.line.as_ref().is_some_and(|line| take(line).is_err()) {
            self.put_off(parties);
        }
    }
}

impl<L: Connecting> Parties<'_, L> {
    fn letter(&self, control: &ControlMessage) -> Letter {
        Letter { from: self.ranks.0, epochs: self.epochs, control: *control }
    }

    /// Returns what the peer says of the connection that `of` is about; `None` if that is nothing
    /// of this life of it.
    fn read(&self, bytes: &[u8; LETTER_BYTES], of: &ControlMessage) -> Option<ControlMessage> {
        let Letter { from, epochs, control } = Letter::decode(bytes)?;
        let is_its = (from, epochs) == (self.ranks.1, (self.epochs.1, self.epochs.0));
        (is_its && (control.lane, control.serial) == (of.lane, of.serial)).then_some(control)
    }
}
