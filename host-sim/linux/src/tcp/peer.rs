//! The state that is kept of a peer.

use aldis_hal::Cause;
use aldis_sys::CallFailure;

/// The presence of a peer: whether it can be sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    /// Not introduced.
    Unknown,
    /// Introduced.
    Known,
    /// Over.
    Gone,
}

/// No connection.
pub(super) const NONE: u32 = u32::MAX;

/// The trouble with a peer: there is nothing to keep of most.
#[derive(Clone, Copy, Debug, Default)]
struct PeerTrouble {
    /// The reason why it is over.
    cause: Option<Cause>,
    /// The last call for it that failed here.
    failed: Option<CallFailure>,
}

/// A peer's row.
#[derive(Clone, Debug)]
pub(super) struct TcpPeer {
    trouble: Option<Box<PeerTrouble>>,
    /// The addresses at which it listens, as a card tells them, in the order in which they are
    /// tried.
    pub(super) addresses: Box<[u8]>,
    /// The number of the next message to it.
    pub(super) sent: u32,
    /// The number of the next message from it.
    pub(super) received: u32,
    /// The number of the address that is tried next.
    pub(super) next: u8,
    /// The number of attempts in a row that were told that it is not there.
    pub(super) denied: u8,
    /// The link that takes the next long message.
    pub(super) turn: u8,
    /// Links whose next frame is not the next message.
    pub(super) parked: u8,
    presence: Presence,
    /// A post was refused since the sink was last told that the peer is ready.
    pub(super) waiting: bool,
    /// Its loss is to be told.
    pub(super) lost: bool,
    /// This side has said that it sends nothing more in the connection that there is.
    pub(super) rests: bool,
    /// A connection to it wants a descriptor that is not there.
    pub(super) crowded: bool,
    /// This rank has said that it waits for it.
    pub(super) expected: bool,
    /// Set while it stands in the line of those that are waited for without a connection.
    pub(super) watched: bool,
    /// Set while it stands in the line for the sink.
    pub(super) in_line: bool,
}

impl TcpPeer {
    pub(super) fn new() -> Self {
        Self {
            trouble: None,
            addresses: Box::default(),
            sent: 0,
            received: 0,
            next: 0,
            denied: 0,
            turn: 0,
            parked: 0,
            presence: Presence::Unknown,
            waiting: false,
            lost: false,
            rests: false,
            crowded: false,
            expected: false,
            watched: false,
            in_line: false,
        }
    }

    /// Forgets what belonged to its connections.
    pub(super) fn reset(&mut self) {
        (self.next, self.denied, self.turn, self.parked) = (0, 0, 0, 0);
        (self.sent, self.received) = (0, 0);
        (self.rests, self.crowded) = (false, false);
    }

    pub(super) const fn presence(&self) -> Presence {
        self.presence
    }

    /// Records that it is introduced.
    pub(super) fn admit(&mut self) {
        self.presence = Presence::Known;
        (self.waiting, self.lost, self.expected) = (false, false, false);
    }

    /// Records that it is over.
    pub(super) fn end(&mut self, cause: Cause) {
        self.presence = Presence::Gone;
        self.trouble.get_or_insert_default().cause = Some(cause);
    }

    /// The last call for it that failed here.
    pub(super) fn failed(&self) -> Option<CallFailure> {
        self.trouble.as_ref()?.failed
    }

    /// Keeps a call for it that failed here.
    pub(super) fn blame(&mut self, failure: CallFailure) {
        self.trouble.get_or_insert_default().failed = Some(failure);
    }

    /// Fails with the reason if nothing can be sent to it.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Cause> {
        match self.presence {
            Presence::Known => Ok(()),
            Presence::Unknown => Err(Cause::Unreachable),
            Presence::Gone => Err(self.cause()),
        }
    }

    /// The reason why it is over.
    #[cold]
    pub(super) fn cause(&self) -> Cause {
        self.trouble.as_ref().and_then(|trouble| trouble.cause).unwrap_or(Cause::PeerDead)
    }
}
