//! The state that the transport keeps for each peer, and for each that it is active with.

use core::fmt;

use aldis_hal::{Cause, Instant};
use aldis_protocols::connect::{Connect, ConnectRecord};
use aldis_protocols::reliable::Link;

use super::framing::Station;
use super::queue::{LinkLine, QueueLinks};

/// The transport's knowledge of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerPresence {
    /// The peer has not been introduced.
    Unknown = 0,
    /// The peer can be talked to; a connection is made when there is something to say.
    Known,
    /// The peer was lost, or let go of.
    Gone,
    /// The peer was lost with the device, which is still to be reported to the sink.
    Untold,
}

/// The place of a row in the queue of those that want a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WantState {
    /// Not in it.
    Out = 0,
    /// In it, for want of a link.
    Wanted,
    /// Still in it, with a link by now.
    Served,
}

/// The state of a peer that outlives its connections. The memory is the caller's; its contents are
/// the transport's.
#[derive(Clone)]
pub struct PeerRow {
    /// The handshake, while the peer has no link.
    pub(super) record: ConnectRecord,
    /// The peer's link, and one more; zero: none.
    link: u32,
    /// The row behind it in the queue of those that want a link.
    pub(super) next: u16,
    /// The peer's station.
    pub(super) station: Station,
    pub(super) presence: PeerPresence,
    /// True if a post was refused since the sink was last notified that the peer is ready.
    pub(super) waiting: bool,
    /// The place in the queue of those that want a link.
    pub(super) want: WantState,
    /// True if the caller may wait for the peer, so that its death is to be noticed.
    pub(super) expected: bool,
}

const _: () = assert!(size_of::<PeerRow>() <= 32, "a peer without a link is small");

impl PeerRow {
    /// No peer. All-zero, so that a static table takes no room in an image.
    pub const EMPTY: Self = Self {
        record: ConnectRecord::NONE,
        link: 0,
        next: 0,
        station: Station::NONE,
        presence: PeerPresence::Unknown,
        waiting: false,
        want: WantState::Out,
        expected: false,
    };

    /// The place of the peer's link, if it has one.
    #[inline]
    pub(super) const fn link(&self) -> Option<usize> {
        if self.link == 0 { None } else { Some(self.link as usize - 1) }
    }

    pub(super) fn set_link(&mut self, link: Option<usize>) {
        self.link = link.map_or(0, |link| link as u32 + 1);
    }
}

impl fmt::Debug for PeerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { station, presence, .. } = self;
        f.debug_struct("Row").field("station", station).field("presence", presence).finish_non_exhaustive()
    }
}

/// The state of a peer that the rank is active with: a connection, one that is being made, or one
/// that ends. The memory is the caller's; its contents are the transport's.
#[derive(Clone)]
pub struct PeerLink {
    pub(super) link: Link,
    pub(super) connect: Connect,
    /// The reason why the peer was lost, until that is reported to the sink.
    pub(super) lost: Option<Cause>,
    /// The time at which the connection was opened, or its end was begun.
    pub(super) since: Instant,
    /// The row whose link it is.
    pub(super) row: u32,
    /// True if it is a row's.
    pub(super) taken: bool,
    /// Stored messages are next in order and have not been delivered, for want of budget.
    pub(super) backlog: bool,
    /// A connection is wanted: the next poll begins the handshake.
    pub(super) asked: bool,
    /// True if it is counted among those that ask.
    pub(super) asking: bool,
    /// The connection is to end: nothing new is taken for it.
    pub(super) closing: bool,
    /// A message went or came since it was last looked at for one to be given up.
    pub(super) used: bool,
    /// The sink was told in this connection that the peer is ready, or a message was posted.
    pub(super) served: bool,
    due: QueueLinks,
    news: QueueLinks,
    posted: QueueLinks,
    free: QueueLinks,
}

impl PeerLink {
    /// The link of no peer. All-zero, so that a static table takes no room in an image.
    pub const EMPTY: Self = Self {
        link: Link::CLOSED,
        connect: Connect::NONE,
        lost: None,
        since: Instant(0),
        row: 0,
        taken: false,
        backlog: false,
        asked: false,
        asking: false,
        closing: false,
        used: false,
        served: false,
        due: QueueLinks::NONE,
        news: QueueLinks::NONE,
        posted: QueueLinks::NONE,
        free: QueueLinks::NONE,
    };

    /// The link's place in a queue.
    #[inline]
    pub(super) fn place(&mut self, line: LinkLine) -> &mut QueueLinks {
        match line {
            LinkLine::Due => &mut self.due,
            LinkLine::News => &mut self.news,
            LinkLine::Posted => &mut self.posted,
            LinkLine::Free => &mut self.free,
        }
    }

    /// The time at which the first of its timers passes.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.link.poll_timeout().into_iter().chain(self.connect.poll_timeout()).min()
    }

    /// Gives it to a row; it keeps its places in the queues.
    pub(super) fn take(&mut self, row: u32, connect: Connect) {
        self.close();
        (self.row, self.taken, self.connect) = (row, true, connect);
    }

    /// Ends the connection and forgets what was under way; it keeps its places in the queues.
    pub(super) fn close(&mut self) {
        self.link = Link::CLOSED;
        self.lost = None;
        self.backlog = false;
        self.asked = false;
        self.closing = false;
        self.used = false;
        self.served = false;
    }

    /// Returns true if nothing is lost when its row gives it back.
    pub(super) fn is_unused(&self) -> bool {
        self.taken && !self.link.is_open() && self.connect.is_over() && self.lost.is_none() && !self.asked
    }

    /// Returns true if all that was posted and all that has come is where it belongs.
    pub(super) fn is_drained(&self) -> bool {
        self.link.is_drained() && !self.backlog
    }
}

impl fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, taken, closing, .. } = self;
        f.debug_struct("PeerLink")
            .field("row", row)
            .field("taken", taken)
            .field("closing", closing)
            .finish_non_exhaustive()
    }
}
