//! The state that is kept of a peer.

use core::net::SocketAddr;

use aldis_hal::{Cause, Epoch};
use aldis_sys::CallFailure;

/// The presence of a peer: whether it can be sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    /// Not introduced.
    Unknown,
    /// Introduced.
    Known,
    /// Over, and why.
    Gone(Cause),
}

/// No connection.
pub(super) const NONE: u32 = u32::MAX;

/// A peer's row.
#[derive(Clone, Debug)]
pub(super) struct TcpPeer {
    pub(super) presence: Presence,
    pub(super) epoch: Epoch,
    /// The addresses at which it listens.
    pub(super) addresses: Vec<SocketAddr>,
    /// The number of the one that is tried next.
    pub(super) next: usize,
    /// The last call for it that failed here.
    pub(super) failed: Option<CallFailure>,
    /// The number of attempts in a row that were told that it is not there.
    pub(super) denied: usize,
    /// The connection of each link that is open, or [`NONE`].
    pub(super) links: Vec<u32>,
    /// The link that takes the next long message.
    pub(super) turn: usize,
    /// The number of the next message to it.
    pub(super) sent: u32,
    /// The number of the next message from it.
    pub(super) received: u32,
    /// Links whose next frame is not the next message.
    pub(super) parked: u32,
    /// A post was refused since the sink was last told that the peer is ready.
    pub(super) waiting: bool,
    /// Its loss is to be told.
    pub(super) lost: bool,
    /// Set while it stands in the line for the sink.
    pub(super) in_line: bool,
}

impl TcpPeer {
    pub(super) fn new(links: u8) -> Self {
        Self {
            presence: Presence::Unknown,
            epoch: Epoch(0),
            addresses: Vec::new(),
            next: 0,
            failed: None,
            denied: 0,
            links: vec![NONE; links.into()],
            turn: 0,
            sent: 0,
            received: 0,
            parked: 0,
            waiting: false,
            lost: false,
            in_line: false,
        }
    }

    /// Forgets what belonged to its connections.
    pub(super) fn reset(&mut self) {
        self.links.fill(NONE);
        (self.next, self.denied, self.turn, self.sent, self.received, self.parked) = (0, 0, 0, 0, 0, 0);
    }

    /// Fails with the reason if nothing can be sent to it.
    #[inline]
    pub(super) const fn check(&self) -> Result<(), Cause> {
        match self.presence {
            Presence::Known => Ok(()),
            Presence::Unknown => Err(Cause::Unreachable),
            Presence::Gone(cause) => Err(cause),
        }
    }
}
