//! A peer: its two connections, and what is promised and under way.

use aldis_hal::cause::Malformed;
use aldis_hal::copy::copy;
use aldis_hal::{Cause, Epoch, PeerId, Sink};
use aldis_protocols::credit::{Grant, Window};

use super::direct::{Direct, WORD_BYTES};
use super::{BARE_MAX, Done, Ending, Pair, WINDOW, WORD_SLOT};

/// The bits of an immediate value that say what there is; the low half is a limit.
pub(super) const IS_MESSAGE: u32 = 1 << 16;
const IS_WORD: u32 = 1 << 17;

/// Where a peer's device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u16,
}

/// A peer's row.
pub(super) struct Peer {
    pub(super) state: State,
    pub(super) pair: Option<Pair>,
    pub(super) direct: Direct,
    /// The number of its queue pair here, also when that is gone.
    pub(super) number: u32,
    pub(super) epoch: Epoch,
    pub(super) place: Option<Place>,
    pub(super) window: Window,
    pub(super) grant: Grant,
    /// The slot of the next message.
    pub(super) next: u16,
    /// Messages of slots, and bare ones, that are under way, and whether a word is.
    pub(super) flying: u16,
    bare: u16,
    is_speaking: bool,
    /// A post was refused since the sink last heard that the peer is ready.
    pub(super) waiting: bool,
    /// Its loss is to be told.
    pub(super) lost: bool,
}

/// Whether a peer can be talked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Unknown,
    Connected,
    Gone(Cause),
}

/// What came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    Message,
    /// About the second connection.
    Word,
    /// A limit alone.
    Bare,
}

impl Peer {
    pub(super) fn new(pair: Option<Pair>) -> Self {
        Self {
            state: State::Unknown,
            number: pair.as_ref().map_or(0, Pair::number),
            pair,
            direct: Direct::new(),
            epoch: Epoch(0),
            place: None,
            window: Window::new(WINDOW).unwrap_or(Window::NONE),
            grant: Grant::new(WINDOW).unwrap_or(Grant::NONE),
            next: 0,
            flying: 0,
            bare: 0,
            is_speaking: false,
            waiting: false,
            lost: false,
        }
    }

    /// Nothing more goes to it or comes from it. Its queue pairs are destroyed, so that the device touches its memory no more.
    pub(super) fn part(&mut self, cause: Cause) {
        if self.state == State::Connected {
            (self.state, self.lost) = (State::Gone(cause), true);
            (self.pair, self.flying, self.bare) = (None, 0, 0);
            (self.is_speaking, self.waiting) = (false, false);
            self.direct.cut();
        }
    }

    /// Takes in what came with an arrival; what it is.
    pub(super) fn accept(&mut self, done: &Done) -> Result<Arrival, Cause> {
        if done.ending != Ending::Good {
            return Err(Cause::Device);
        }
        self.window.raise(done.immediate as u16).map_err(Cause::Malformed)?;
        match done.immediate & !0xFFFF {
            IS_MESSAGE => {
                self.grant.accept().map_err(Cause::Malformed)?;
                Ok(Arrival::Message)
            }
            IS_WORD => Ok(Arrival::Word),
            0 if done.len == 0 => Ok(Arrival::Bare),
            _ => Err(Cause::Malformed(Malformed::Reserved)),
        }
    }

    /// A message has been sent, or has not.
    pub(super) fn sent(&mut self, done: &Done) {
        let Some(pair) = &mut self.pair else { return };
        match pair.take(done) {
            Some(slot) if slot == usize::from(WORD_SLOT) => self.is_speaking = false,
            Some(_) => self.flying = self.flying.saturating_sub(1),
            None => self.bare = self.bare.saturating_sub(1),
        }
        match done.ending {
            Ending::Good => {}
            Ending::NoAnswer => self.part(Cause::PeerDead),
            Ending::NotReady => self.part(Cause::Malformed(Malformed::Credit)),
            Ending::Flushed | Ending::Refused | Ending::Failed => self.part(Cause::Device),
        }
    }

    /// Says what the peer has to hear and no message has told it.
    pub(super) fn speak(&mut self) {
        let Some(pair) = self.pair.as_mut().filter(|_| self.state == State::Connected) else { return };
        let limit = u32::from(self.grant.limit());
        if let Some(word) = self.direct.say.take_if(|_| !self.is_speaking) {
            copy(pair.bytes_mut(WORD_SLOT.into(), WORD_BYTES), &word.encode());
            if pair.send(WORD_SLOT.into(), WORD_BYTES, IS_WORD | limit).is_err() {
                return self.part(Cause::Device);
            }
            self.is_speaking = true;
            self.grant.told();
        } else if self.grant.is_due() && self.bare < BARE_MAX {
            if pair.send_bare(limit).is_err() {
                return self.part(Cause::Device);
            }
            self.bare += 1;
            self.grant.told();
        }
    }

    /// Tells the sink what it has to hear of `peer`, in at most so many events: what was cut off, the peer's loss, and that it
    /// can be sent to again.
    pub(super) fn tell<S: Sink>(&mut self, peer: PeerId, budget: u32, sink: &mut S) -> u32 {
        let mut events = 0;
        while events < budget
            && let Some(token) = self.direct.cut_off.pop()
        {
            sink.completed(token, Err(Cause::Cancelled));
            events += 1;
        }
        if events < budget && self.lost {
            self.lost = false;
            if let State::Gone(cause) = self.state {
                sink.lost(peer, cause);
                events += 1;
            }
        }
        let is_ready = self.waiting && self.window.available() > 0 && self.flying < WINDOW;
        if events < budget && self.state == State::Connected && (is_ready | self.direct.is_ready()) {
            self.waiting &= !is_ready;
            sink.ready(peer);
            events += 1;
        }
        events
    }
}
