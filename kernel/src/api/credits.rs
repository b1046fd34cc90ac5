//! The credits of two ranks for each other: a look at them, for status displays and for checks that
//! none is lost.

use core::fmt;

use aldis_hal::PeerId;
use aldis_protocols::credit::{CreditWindow, Grant};

use crate::api::diagnostics::Diagnostics;
use crate::tables::peer::{Peer, Presence};

/// The credits of one kind between this rank and a peer. The counts run since the peer was
/// introduced and wrap after 2^16; only their differences mean something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Account {
    /// Messages sent to the peer.
    pub sent: u16,
    /// Messages that may ever have been sent to it, as far as it has granted.
    pub limit: u16,
    /// Places that the peer has for this rank's messages.
    pub room_there: u16,
    /// Messages received from the peer.
    pub received: u16,
    /// The number of them that have left their places again.
    pub freed: u16,
    /// The number of those that has been announced to the peer.
    pub announced: u16,
    /// Places that this rank has for the peer's messages.
    pub room_here: u16,
}

impl Account {
    const fn new(out: &CreditWindow, into: &Grant) -> Self {
        Self {
            sent: out.sent(),
            limit: out.limit(),
            room_there: out.size(),
            received: into.received(),
            freed: into.freed(),
            announced: into.announced(),
            room_here: into.size(),
        }
    }

    /// Messages that may be sent to the peer now.
    pub const fn available(&self) -> u16 {
        self.limit.wrapping_sub(self.sent)
    }

    /// Messages of the peer that hold a place here.
    pub const fn held(&self) -> u16 {
        self.received.wrapping_sub(self.freed)
    }

    /// Places free again that have not been announced to the peer.
    pub const fn unannounced(&self) -> u16 {
        self.freed.wrapping_sub(self.announced)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, limit, room_there, received, freed, announced, room_here } = self;
        write!(f, "sent {sent} of {limit} with room for {room_there} there; ")?;
        write!(f, "received {received}, freed {freed}, announced {announced} with room for {room_here} here")
    }
}

/// All credits between this rank and a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Credits {
    /// Messages that take part in matching: each needs an envelope until it is received.
    pub envelopes: Account,
    /// Eager messages among them that need a block for their payload.
    pub blocks: Account,
}

impl Credits {
    const fn new(peer: &Peer) -> Self {
        Self {
            envelopes: Account::new(&peer.envelopes_out, &peer.envelopes_in),
            blocks: Account::new(&peer.blocks_out, &peer.blocks_in),
        }
    }
}

impl Diagnostics<'_, '_> {
    /// The credits between this rank and a peer at this moment; `None` for a peer that has not been
    /// introduced or is lost.
    ///
    /// While nothing is under way between two ranks their accounts agree: what one has sent the
    /// other has received, what one knows of as freed the other has announced, and what one may
    /// send, what the other holds and what it has freed and not announced are all the room there
    /// is.
    pub fn credits(&self, peer: PeerId) -> Option<Credits> {
        let row = self.engine.peers.get(peer)?;
        matches!(row.presence, Presence::Connected).then(|| Credits::new(row))
    }
}
