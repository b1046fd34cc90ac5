//! A peer: its two connections, and what is promised and under way.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Epoch, PeerId, Post, Sink};
use aldis_protocols::credit::{CreditWindow, Grant};

use super::super::sys::FlushKey;
use super::connection::{ConnectionState as Bonded, News, PeerConnection};
use super::control::{ControlLane, ControlMessage};
use super::direct::DirectSide;
use super::maker::Maker;
use super::{BARE_MAX, Done, Ending, ReliablePair, SentKind, WINDOW};

/// The bit of an immediate value that says that there is a message; the low half is a limit.
pub(super) const IS_MESSAGE: u32 = 1 << 16;

/// The place of a peer's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct DeviceAddress {
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u16,
    /// Its word that is read behind what is written.
    pub(super) flush: FlushKey,
}

/// A peer's row.
pub(super) struct VerbsPeer {
    pub(super) state: PeerState,
    pub(super) connection: PeerConnection<ReliablePair>,
    pub(super) direct: DirectSide,
    pub(super) epoch: Epoch,
    pub(super) place: DeviceAddress,
    pub(super) window: CreditWindow,
    pub(super) grant: Grant,
    /// The slot of the next message.
    pub(super) next: u16,
    /// Messages of slots, and bare ones, that are under way.
    pub(super) flying: u16,
    bare: u16,
    /// True while something is expected of it: it is asked now and then whether it lives.
    pub(super) expected: bool,
    /// Set while it is being asked.
    probed: bool,
    /// A post was refused since the sink was last told that the peer is ready.
    pub(super) waiting: bool,
    /// Its loss is to be told.
    pub(super) lost: bool,
}

/// The state of a peer: whether it can be sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerState {
    Unknown,
    /// The peer has been introduced; a connection is made when it is needed.
    Known,
    Gone(Cause),
}

impl VerbsPeer {
    /// Returns a peer of which nothing is known. `is_lower` if this rank is lower than its.
    pub(super) fn new(is_lower: bool) -> Self {
        Self {
            state: PeerState::Unknown,
            connection: PeerConnection::new(ControlLane::Messages, is_lower),
            direct: DirectSide::new(is_lower),
            epoch: Epoch(0),
            place: DeviceAddress::default(),
            window: CreditWindow::new(WINDOW).unwrap_or(CreditWindow::NONE),
            grant: Grant::new(WINDOW).unwrap_or(Grant::NONE),
            next: 0,
            flying: 0,
            bare: 0,
            expected: false,
            probed: false,
            waiting: false,
            lost: false,
        }
    }

    /// Returns true if messages can be sent.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.connection.state() == Bonded::Open
    }

    /// Returns true if there is to be a connection, and is none.
    pub(super) fn needs_connection(&self) -> bool {
        (self.waiting || self.expected)
            && self.state == PeerState::Known
            && self.connection.state() == Bonded::Closed
    }

    /// Gives up the peer: nothing more goes to it or comes from it. Its queue pairs are destroyed,
    /// so that the device touches its memory no more, and the peer is told of it.
    pub(super) fn part(&mut self, cause: Cause) {
        if self.state == PeerState::Known {
            (self.state, self.lost) = (PeerState::Gone(cause), true);
            self.connection.finish();
            self.direct.finish();
            (self.flying, self.bare) = (0, 0);
            (self.waiting, self.expected, self.probed) = (false, false, false);
        }
    }

    /// Handles a control message of the peer about its connections.
    pub(super) fn hear(&mut self, control: &ControlMessage, maker: &Maker<'_>) {
        match control.lane {
            ControlLane::Memory => self.direct.hear(control, maker),
            ControlLane::Messages => match self.connection.hear(control, maker) {
                News::Nothing | News::Opened => {}
                // Messages may have been under way.
                News::Ended(_) => self.part(Cause::PeerDead),
                News::Refused(cause) => self.part(cause),
            },
        }
    }

    /// Notes that what was answered has not reached the peer.
    pub(super) fn lapse(&mut self, lane: ControlLane, serial: u16) {
        match lane {
            ControlLane::Messages => self.connection.lapse(serial),
            ControlLane::Memory => self.direct.connection.lapse(serial),
        }
    }

    /// Returns true if it has nothing to say of its connections.
    pub(super) const fn is_silent(&self) -> bool {
        self.connection.is_silent() && self.direct.connection.is_silent()
    }

    /// Reads what came with an arrival. Returns true if it is a message.
    pub(super) fn accept(&mut self, done: &Done) -> Result<bool, Cause> {
        if done.ending != Ending::Good {
            return Err(Cause::Device);
        }
        // A peer that sends can use the connection.
        self.connection.go();
        self.window.raise(done.immediate as u16).map_err(Cause::Malformed)?;
        match done.immediate & !0xFFFF {
            IS_MESSAGE => {
                self.grant.accept().map_err(Cause::Malformed)?;
                Ok(true)
            }
            0 if done.len == 0 => Ok(false),
            _ => Err(Cause::Malformed(Malformed::Reserved)),
        }
    }

    /// Accounts for an order that is over: its message has been sent, or has not.
    pub(super) fn sent(&mut self, done: &Done) {
        match self.connection.end_mut().map(|pair| pair.take(done)) {
            Some(SentKind::Slot) => self.flying = self.flying.saturating_sub(1),
            Some(SentKind::Bare) => self.bare = self.bare.saturating_sub(1),
            Some(SentKind::Probe) => self.probed = false,
            None => return,
        }
        match done.ending {
            Ending::Good => {}
            Ending::NoAnswer => self.part(Cause::PeerDead),
            Ending::NotReady => self.part(Cause::Malformed(Malformed::Credit)),
            Ending::Flushed | Ending::Refused | Ending::Failed => self.part(Cause::Device),
        }
    }

    /// Asks whether it lives, if anything is expected of it.
    pub(super) fn probe(&mut self) {
        let is_due = self.expected && !self.probed && self.is_open() && self.flying == 0;
        if let Some(pair) = self.connection.end_mut().filter(|_| is_due) {
            self.probed = true;
            if pair.probe().is_err() {
                self.part(Cause::Device);
            }
        }
    }

    /// Sends what the peer is to be told: of the connections, by `say`, and a limit that no message
    /// has told it.
    pub(super) fn speak(&mut self, mut say: impl FnMut(&ControlMessage) -> Post) {
        let Self { connection, direct, .. } = self;
        if let Some(control) = connection.control() {
            match say(&control) {
                Post::Again(_) => connection.unsay(control),
                Post::Never(cause) => self.part(cause),
                Post::Done | Post::Queued => {}
            }
        } else if let Some(control) = direct.connection.control()
            && let Post::Again(_) = say(&control)
        {
            direct.connection.unsay(control);
        }
        let limit = u32::from(self.grant.limit());
        let is_due = self.grant.is_due() && self.bare < BARE_MAX && self.is_open();
        if let Some(pair) = self.connection.end_mut().filter(|_| is_due) {
            if pair.send_bare(limit).is_err() {
                return self.part(Cause::Device);
            }
            self.bare += 1;
            self.grant.announce();
        }
    }

    /// Returns true if there is nothing to say or to tell.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_silent()
            && !self.needs_connection()
            && !self.lost
            && self.direct.cut_off.is_empty()
            && !self.grant.is_due()
    }

    /// Tells the sink the events of `peer`, in at most so many events: what was cut off,
    /// the peer's loss, and that it can be sent to again.
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
            if let PeerState::Gone(cause) = self.state {
                sink.lost(peer, cause);
                events += 1;
            }
        }
        let has_room = self.is_open() && self.window.available() > 0 && self.flying < WINDOW;
        let is_ready = self.waiting && has_room;
        if events < budget && self.state == PeerState::Known && (is_ready | self.direct.is_ready()) {
            self.waiting &= !is_ready;
            sink.ready(peer);
            events += 1;
        }
        events
    }
}
