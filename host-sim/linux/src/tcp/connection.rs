//! Connections, in a table whose places are used again.

use aldis_hal::{Instant, PeerId};
use aldis_protocols::stream::{Farewell, Handshake, Rest};
use aldis_sys::CallFailure;

use super::incoming::{Incoming, READ_BYTES};
use super::landing::Landing;
use super::outgoing::StreamWriter;
use super::wire::{Moved, Wire};

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wire: Wire,
    /// Its name, which no other of this transport has; its place in the table may have had others.
    pub(super) key: u32,
    pub(super) stage: ConnectionStage,
    /// The time until which its handshake may take.
    pub(super) greeted_by: Instant,
    /// The system has said that there is something to read, or has not been asked since there was.
    pub(super) may_read: bool,
    /// True if it was concluded that there is nothing more to read from a read of less than there
    /// was room for.
    pub(super) is_assumed: bool,
    /// The system has said that nothing more comes: the end is to be read even if there is less
    /// than room for.
    pub(super) at_end: bool,
    /// Set while it stands in the line of those to be read.
    pub(super) queued: bool,
    /// The last call of it that failed.
    pub(super) failed: Option<CallFailure>,
    pub(super) denial: Denial,
}

/// The system's refusal to move bytes of a connection that is in order otherwise.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Denial {
    /// Set if it refused since the last look.
    is_new: bool,
    /// Since when it does at every look.
    since: Option<Instant>,
}

impl Denial {
    /// The time for which it may refuse.
    const LIMIT_NS: u64 = 10_000_000_000;

    /// A look, before which whatever was refused was tried again; whether it has lasted too long.
    pub(super) fn is_too_long(&mut self, now: Instant) -> bool {
        self.since = core::mem::take(&mut self.is_new).then(|| self.since.unwrap_or(now));
        self.since.is_some_and(|since| now.since(since) >= Self::LIMIT_NS)
    }
}

/// The progress of a connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are open, and each message would take one step more"
)]
pub(super) enum ConnectionStage {
    /// The peer is not settled yet.
    Greeting(Box<Handshake>),
    /// The connection carries messages.
    Open(TcpLink),
}

/// A connection that carries messages.
#[derive(Debug)]
pub(super) struct TcpLink {
    pub(super) peer: PeerId,
    pub(super) incoming: Incoming,
    pub(super) outgoing: StreamWriter,
    pub(super) farewell: Farewell,
    pub(super) rest: Rest,
    /// The long message that is being read to where it belongs.
    pub(super) landing: Option<Landing>,
    /// The last long message that the sink did not want so.
    pub(super) refused: Option<u32>,
    /// Bytes to read when it is not known what comes.
    pub(super) read_bytes: usize,
    /// The poll at which something was last sent, received, or could be again.
    pub(super) used_at: u32,
    /// The poll since which something has been sent.
    pub(super) sent_at: u32,
    /// True while something waits for the socket, which takes nothing now.
    pub(super) blocked: bool,
    /// Its next frame has to wait for messages of other links.
    pub(super) parked: bool,
    /// The socket takes nothing any more. What can be read from it still tells why.
    pub(super) broken: bool,
}

impl TcpLink {
    pub(super) fn new(peer: PeerId, outgoing_bytes: usize, message_bytes_max: usize) -> Self {
        Self {
            peer,
            incoming: Incoming::new(message_bytes_max),
            outgoing: StreamWriter::new(outgoing_bytes),
            farewell: Farewell::NONE,
            rest: Rest::NONE,
            landing: None,
            refused: None,
            read_bytes: READ_BYTES,
            used_at: 0,
            sent_at: 0,
            blocked: false,
            parked: false,
            broken: false,
        }
    }
}

impl Connection {
    /// Notes that a call has failed for now.
    #[cold]
    pub(super) fn deny(&mut self, failure: CallFailure) {
        self.failed = Some(failure);
        self.denial.is_new = true;
        // The system will not say when it no longer refuses.
        self.is_assumed = true;
    }

    /// The link, once it carries messages.
    #[inline]
    pub(super) const fn link(&mut self) -> Option<&mut TcpLink> {
        match &mut self.stage {
            ConnectionStage::Open(link) => Some(link),
            ConnectionStage::Greeting(_) => None,
        }
    }

    /// Reads what is there; at its end, or if there is less than room, there is nothing more for
    /// now.
    #[inline]
    pub(super) fn receive(&mut self) -> Moved {
        let ConnectionStage::Open(link) = &mut self.stage else { return Moved::Blocked };
        let room = link.incoming.room(link.read_bytes);
        let asked = room.len();
        let moved = self.wire.receive(room);
        match moved {
            Moved::Bytes(bytes) => {
                link.incoming.read(bytes);
                self.may_read = bytes == asked || self.at_end;
                self.is_assumed = !self.may_read;
                if bytes == asked {
                    link.read_bytes = READ_BYTES.min(8 * link.read_bytes);
                }
            }
            Moved::Blocked => self.may_read = false,
            Moved::Denied(failure) => {
                self.may_read = false;
                self.deny(failure);
            }
            Moved::Broken(failure) => {
                self.may_read = false;
                self.failed = self.failed.or(failure);
            }
        }
        moved
    }
}

/// The connections that there are.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Vec<Option<Connection>>,
    free: Vec<u32>,
}

impl Connections {
    #[inline]
    pub(super) fn get(&mut self, slot: u32) -> Option<&mut Connection> {
        self.places.get_mut(slot as usize)?.as_mut()
    }

    #[inline]
    pub(super) fn peek(&self, slot: u32) -> Option<&Connection> {
        self.places.get(slot as usize)?.as_ref()
    }

    /// Returns the number of connections.
    pub(super) const fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns the number of places.
    pub(super) const fn slots(&self) -> u32 {
        self.places.len() as u32
    }

    /// The place that the next one gets.
    pub(super) fn next_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    /// Puts one in at [`next_slot`](Self::next_slot).
    pub(super) fn insert(&mut self, connection: Connection) -> u32 {
        let slot = self.next_slot();
        if self.free.pop().is_none() {
            self.places.push(None);
        }
        if let Some(place) = self.places.get_mut(slot as usize) {
            *place = Some(connection);
        }
        slot
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Connection> {
        let connection = self.places.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(connection)
    }
}
