//! From posts to sockets.

use aldis_hal::{Again, Cause, PeerId, Post, Refusal};

use super::connection::{Connection, Stage};
use super::counters::Counters;
use super::engine::{Engine, MESSAGE_BYTES_MAX};
use super::frame::{Frame, HEAD_BYTES};
use super::peer::NONE;
use super::wire::Moved;

/// Messages of at most so many bytes are put together with their head first: that is cheaper than a list of pieces.
const GATHER_BYTES_MIN: usize = 2048;

/// Messages of at least so many bytes are dealt out to all links.
const STRIPE_BYTES_MIN: usize = 16 << 10;

/// Room for a head and a header before a payload that is sent from where it is.
const PREFIX_BYTES: usize = HEAD_BYTES + 64;

impl Engine {
    /// See [`Transport::short`](aldis_hal::Transport::short).
    #[inline]
    pub(super) fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let length = header.len() + payload.len();
        let slot = match self.route(peer, length) {
            Ok(slot) => slot,
            Err(refusal) => return refusal.into(),
        };
        let head = self.head(peer, length);
        let Some(connection) = self.connections.get(slot) else { return Post::Never(Cause::PeerDead) };
        let Stage::Open(link) = &mut connection.stage else { return Post::Never(Cause::PeerDead) };
        let first = link.outgoing.is_empty();
        if first && length >= GATHER_BYTES_MIN && header.len() <= PREFIX_BYTES - HEAD_BYTES {
            let mut prefix = [0; PREFIX_BYTES];
            prefix[..HEAD_BYTES].copy_from_slice(&head);
            prefix[HEAD_BYTES..HEAD_BYTES + header.len()].copy_from_slice(header);
            let parts = [&prefix[..HEAD_BYTES + header.len()], payload];
            let blocked = connection.send_parts(parts, &mut self.counters);
            self.blocked += u32::from(blocked);
            return Post::Done;
        }
        let (start, end) = link.outgoing.room(length).split_at_mut(header.len());
        start.copy_from_slice(header);
        end.copy_from_slice(payload);
        link.outgoing.commit(head, length);
        if first {
            let blocked = connection.send_waiting(&mut self.counters);
            self.blocked += u32::from(blocked);
        }
        Post::Done
    }

    /// The place of the next message to a peer, in the memory that it is sent from.
    pub(super) fn room(&mut self, slot: u32, length: usize) -> &mut [u8] {
        let link = self.connections.get(slot).and_then(Connection::link);
        link.map(|link| link.outgoing.room(length)).unwrap_or_default()
    }

    /// Sends the message that was written to [`room`](Self::room).
    pub(super) fn commit(&mut self, peer: PeerId, slot: u32, length: usize) {
        let head = self.head(peer, length);
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(link) = connection.link() else { return };
        let first = link.outgoing.is_empty();
        link.outgoing.commit(head, length);
        if first {
            let blocked = connection.send_waiting(&mut self.counters);
            self.blocked += u32::from(blocked);
        }
    }

    /// The head of the next message to a peer, which takes its number.
    #[inline]
    fn head(&mut self, peer: PeerId, length: usize) -> [u8; HEAD_BYTES] {
        self.counters.messages_sent += 1;
        let Some(row) = self.peers.get_mut(peer.index()) else { return Frame::data(length, 0).emit() };
        let number = row.sent;
        row.sent = number.wrapping_add(1);
        Frame::data(length, number).emit()
    }

    /// The connection that takes a message of `length` bytes to `peer`.
    ///
    /// # Errors
    /// Why none does, now or ever.
    #[inline]
    pub(super) fn route(&mut self, peer: PeerId, length: usize) -> Result<u32, Refusal> {
        let row = self.peers.get(peer.index()).ok_or(Refusal::Never(Cause::Unreachable))?;
        row.check().map_err(Refusal::Never)?;
        if length > MESSAGE_BYTES_MAX {
            let (len, max) = (length as u64, MESSAGE_BYTES_MAX as u64);
            return Err(Refusal::Never(Cause::TooBig { len, max }));
        }
        let mut slot = row.links.first().copied().unwrap_or(NONE);
        if slot == NONE {
            return Err(Refusal::Again(self.not_connected(peer)));
        }
        if length >= STRIPE_BYTES_MIN && self.setup.links > 1 {
            slot = self.stripe(peer, length).unwrap_or(slot);
        }
        let link = self.connections.get(slot).and_then(Connection::link);
        if link.is_some_and(|link| link.outgoing.has_room(length)) {
            return Ok(slot);
        }
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.waiting = true;
        }
        Err(Refusal::Again(Again::NoSlot))
    }

    #[cold]
    fn not_connected(&mut self, peer: PeerId) -> Again {
        self.want(peer);
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.waiting = true;
        }
        Again::Connecting
    }

    /// The next link in turn that nothing waits for, or else the next that has room.
    fn stripe(&mut self, peer: PeerId, length: usize) -> Option<u32> {
        let row = self.peers.get_mut(peer.index())?;
        let count = row.links.len();
        let mut best = None;
        for step in 1..=count {
            let at = (row.turn + step) % count;
            let Some(&slot) = row.links.get(at).filter(|slot| **slot != NONE) else { continue };
            let Some(link) = self.connections.get(slot).and_then(Connection::link) else { continue };
            if link.outgoing.is_empty() {
                row.turn = at;
                return Some(slot);
            }
            if best.is_none() && link.outgoing.has_room(length) {
                best = Some((at, slot));
            }
        }
        let (at, slot) = best?;
        row.turn = at;
        Some(slot)
    }

    /// The socket of a link has room again.
    pub(super) fn flush(&mut self, slot: u32) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Stage::Open(link) = &connection.stage else { return };
        let peer = link.peer;
        if link.outgoing.is_empty() || connection.send_waiting(&mut self.counters) {
            return;
        }
        self.blocked -= 1;
        if self.peers.get(peer.index()).is_some_and(|row| row.waiting) {
            self.announce(peer);
        }
    }
}

impl Connection {
    /// Sends what waits, as far as the socket takes it; whether anything still waits.
    #[inline]
    pub(super) fn send_waiting(&mut self, counters: &mut Counters) -> bool {
        let Stage::Open(link) = &mut self.stage else { return false };
        loop {
            let waiting = link.outgoing.waiting();
            let all = waiting.len();
            match self.wire.send(waiting) {
                Moved::Bytes(sent) => {
                    counters.sent(sent, all);
                    link.outgoing.taken(sent);
                }
                Moved::Blocked => {
                    counters.sent(0, all);
                    return true;
                }
                Moved::Broken => {
                    self.break_off();
                    return false;
                }
            }
            if link.outgoing.is_empty() {
                return false;
            }
        }
    }

    /// Sends a frame from where it lies, and keeps what the socket does not take; whether there is any.
    fn send_parts(&mut self, parts: [&[u8]; 2], counters: &mut Counters) -> bool {
        let Stage::Open(link) = &mut self.stage else { return false };
        let all = parts[0].len() + parts[1].len();
        let sent = match self.wire.send_both(parts[0], parts[1]) {
            Moved::Bytes(sent) => sent,
            Moved::Blocked => 0,
            Moved::Broken => {
                self.break_off();
                return false;
            }
        };
        counters.sent(sent, all);
        link.outgoing.keep(parts, sent);
        sent < all
    }

    /// The socket takes nothing any more. What came before its end is still to be read, and then tells why.
    #[cold]
    fn break_off(&mut self) {
        self.may_read = true;
        if let Stage::Open(link) = &mut self.stage {
            link.broken = true;
            link.outgoing.clear();
        }
    }
}

impl Counters {
    /// A call has sent so many of so many bytes.
    #[inline]
    const fn sent(&mut self, bytes: usize, all: usize) {
        self.send_calls += 1;
        self.bytes_sent += bytes as u64;
        self.partial_sends += (bytes < all) as u64;
    }
}
