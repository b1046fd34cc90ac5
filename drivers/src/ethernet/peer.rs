//! The state that the transport keeps for each peer.

use core::fmt;

use aldis_hal::{Cause, Instant};
use aldis_protocols::connect::Connect;
use aldis_protocols::reliable::Link;

use super::framing::Station;
use super::queue::{QueueLine, QueueLinks};

/// The transport's knowledge of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerPresence {
    /// The peer has not been introduced.
    Unknown = 0,
    /// The peer can be talked to; a connection is made when there is something to say.
    Known,
    /// The peer was lost, or let go of.
    Gone,
}

/// A peer's state. The memory is the caller's; its contents are the transport's.
#[derive(Clone)]
pub struct PeerRow {
    pub(super) link: Link,
    pub(super) connect: Connect,
    /// The peer's station.
    pub(super) station: Station,
    pub(super) presence: PeerPresence,
    /// True if a post was refused since the sink was last notified that the peer is ready.
    pub(super) waiting: bool,
    /// Stored messages are next in order and have not been delivered, for want of budget.
    pub(super) backlog: bool,
    /// The reason why it was lost, until that is reported to the sink.
    pub(super) lost: Option<Cause>,
    /// A connection is wanted: the next poll begins the handshake.
    pub(super) asked: bool,
    due: QueueLinks,
    news: QueueLinks,
    posted: QueueLinks,
}

impl PeerRow {
    /// No peer. All-zero, so that a static table takes no room in an image.
    pub const EMPTY: Self = Self {
        link: Link::CLOSED,
        connect: Connect::NONE,
        station: Station::NONE,
        presence: PeerPresence::Unknown,
        waiting: false,
        backlog: false,
        lost: None,
        asked: false,
        due: QueueLinks::NONE,
        news: QueueLinks::NONE,
        posted: QueueLinks::NONE,
    };

    /// The row's place in a queue.
    #[inline]
    pub(super) fn place(&mut self, line: QueueLine) -> &mut QueueLinks {
        match line {
            QueueLine::Due => &mut self.due,
            QueueLine::News => &mut self.news,
            QueueLine::Posted => &mut self.posted,
        }
    }

    /// The time at which the first of its timers passes.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.link.poll_timeout().into_iter().chain(self.connect.poll_timeout()).min()
    }

    /// Ends the connection and forgets what was under way; the row keeps its places in the queues.
    pub(super) fn close(&mut self, presence: PeerPresence) {
        self.link = Link::CLOSED;
        self.presence = presence;
        self.asked = false;
        self.waiting = false;
        self.backlog = false;
        self.lost = None;
    }
}

impl fmt::Debug for PeerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { station, presence, .. } = self;
        f.debug_struct("Row").field("station", station).field("presence", presence).finish_non_exhaustive()
    }
}
