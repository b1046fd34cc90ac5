//! From posts to sockets.

use std::collections::VecDeque;
use std::io::IoSlice;

use aldis_hal::memory::Gather;
use aldis_hal::{Again, Cause, PeerId, Post, Refusal, RegionId, Token};
use aldis_sys::CallFailure;

use super::connection::{Connection, ConnectionStage, TcpLink};
use super::counters::Counters;
use super::engine::{MESSAGE_BYTES_MAX, TcpEngine};
use super::frame::{HEAD_BYTES, TcpFrame};
use super::outgoing::{SLICES, StreamWriter};
use super::peer::NONE;
use super::wire::Moved;

/// Messages of at most so many bytes are put together with their head first: that is cheaper than a
/// list of pieces.
const GATHER_BYTES_MIN: usize = 2048;

/// Messages of at least so many bytes are dealt out to all links.
const STRIPE_BYTES_MIN: usize = 16 << 10;

/// Room for a head and a header before a payload that is sent from where it is.
const PREFIX_BYTES: usize = HEAD_BYTES + 64;

impl TcpEngine {
    /// See [`Transport::short`](aldis_hal::Transport::short).
    #[inline]
    pub(super) fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let length = header.len() + payload.len();
        let slot = match self.route(peer, length, |outgoing| outgoing.has_room(length)) {
            Ok(slot) => slot,
            Err(refusal) => return refusal.into(),
        };
        let head = self.head(peer, length);
        let Some(connection) = self.connections.get(slot) else { return Post::Never(Cause::PeerDead) };
        let ConnectionStage::Open(link) = &mut connection.stage else { return Post::Never(Cause::PeerDead) };
        link.used_at = self.polls;
        let (first, blocked) = (link.outgoing.is_empty(), link.blocked);
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
        self.send_soon(slot, first, blocked);
        Post::Done
    }

    /// See [`RemoteMemory::zcopy`](aldis_hal::RemoteMemory::zcopy).
    pub(super) fn zcopy(&mut self, peer: PeerId, header: &[u8], gather: &[Gather], token: Token) -> Post {
        let [piece] = gather else { return Post::Never(Cause::Unsupported) };
        let length = header.len() + piece.len;
        let Some(piece) = self.regions.piece(peer, *piece, token) else {
            return Post::Never(Cause::BadRegion);
        };
        let slot = match self.route(peer, length, |outgoing| outgoing.has_room_for_lent(header.len())) {
            Ok(slot) => slot,
            Err(refusal) => return refusal.into(),
        };
        let head = self.head(peer, length);
        let Some(link) = self.connections.get(slot).and_then(Connection::link) else {
            return Post::Never(Cause::PeerDead);
        };
        link.used_at = self.polls;
        let (first, blocked) = (link.outgoing.is_empty(), link.blocked);
        link.outgoing.room(header.len()).copy_from_slice(header);
        link.outgoing.commit(head, header.len());
        link.outgoing.lend(piece);
        self.send_soon(slot, first, blocked);
        Post::Queued
    }

    /// Takes a region back: what waits to be sent of it goes out without a meaning.
    pub(super) fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        let peer = self.regions.take_back(region)?;
        for &slot in self.links.of(peer) {
            if let Some(link) = self.connections.get(slot).and_then(Connection::link) {
                link.outgoing.let_go(region);
            }
        }
        Ok(())
    }

    /// See [`Extras::uncork`](aldis_hal::Extras::uncork).
    #[inline]
    pub(super) fn uncork(&mut self, more: bool) {
        self.corked = false;
        if more {
            self.send_first();
        } else {
            self.send_held();
        }
    }

    /// Sends all that waits for what follows it.
    #[inline]
    pub(super) fn send_held(&mut self) {
        while let Some(slot) = self.held.pop() {
            self.flush(slot);
        }
    }

    /// Sends what waits on links over which nothing has been sent since the last poll.
    fn send_first(&mut self) {
        let polls = self.polls;
        for at in (0..self.held.len()).rev() {
            let slot = self.held[at];
            let link = self.connections.get(slot).and_then(Connection::link);
            if link.is_none_or(|link| core::mem::replace(&mut link.sent_at, polls) != polls) {
                self.held.swap_remove(at);
                self.flush(slot);
            }
        }
    }

    /// Sends what has been put behind what waits, or `first` if nothing did: now, or with what
    /// follows, unless it waits for the socket.
    #[inline]
    fn send_soon(&mut self, slot: u32, first: bool, blocked: bool) {
        match self.corked {
            true if first => self.held.push(slot),
            false if !blocked => self.flush(slot),
            _ => {}
        }
    }

    /// The place of the next message to a peer, in the memory that it is sent from.
    pub(super) fn room(&mut self, slot: u32, length: usize) -> &mut [u8] {
        let link = self.connections.get(slot).and_then(Connection::link);
        link.map(|link| link.outgoing.room(length)).unwrap_or_default()
    }

    /// Sends the message that was written to [`room`](Self::room).
    pub(super) fn commit(&mut self, peer: PeerId, slot: u32, length: usize) {
        let head = self.head(peer, length);
        let Some(link) = self.connections.get(slot).and_then(Connection::link) else { return };
        link.used_at = self.polls;
        let (first, blocked) = (link.outgoing.is_empty(), link.blocked);
        link.outgoing.commit(head, length);
        self.send_soon(slot, first, blocked);
    }

    /// The head of the next message to a peer, which takes its number.
    #[inline]
    fn head(&mut self, peer: PeerId, length: usize) -> [u8; HEAD_BYTES] {
        self.counters.messages_sent += 1;
        let Some(row) = self.peers.get_mut(peer.index()) else { return TcpFrame::data(length, 0).emit() };
        let number = row.sent;
        row.sent = number.wrapping_add(1);
        TcpFrame::data(length, number).emit()
    }

    /// The connection that takes a message of `length` bytes to `peer`, if it `has_room`.
    ///
    /// # Errors
    /// Why none does, now or ever.
    #[inline]
    pub(super) fn route(
        &mut self,
        peer: PeerId,
        length: usize,
        has_room: impl Fn(&StreamWriter) -> bool,
    ) -> Result<u32, Refusal> {
        let row = self.peers.get(peer.index()).ok_or(Refusal::Never(Cause::Unreachable))?;
        row.check().map_err(Refusal::Never)?;
        if length > MESSAGE_BYTES_MAX {
            let (len, max) = (length as u64, MESSAGE_BYTES_MAX as u64);
            return Err(Refusal::Never(Cause::TooBig { len, max }));
        }
        let mut slot = self.links.first_of(peer);
        if slot == NONE || row.rests {
            return Err(Refusal::Again(self.not_connected(peer)));
        }
        if length >= STRIPE_BYTES_MIN && self.setup.links > 1 {
            slot = self.stripe(peer, &has_room).unwrap_or(slot);
        }
        let link = self.connections.get(slot).and_then(Connection::link);
        if link.is_some_and(|link| has_room(&link.outgoing)) {
            return Ok(slot);
        }
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.waiting = true;
        }
        Err(Refusal::Again(Again::NoSlot))
    }

    #[cold]
    fn not_connected(&mut self, peer: PeerId) -> Again {
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.waiting = true;
        }
        self.want(peer);
        Again::Connecting
    }

    /// The next link in turn that nothing waits for, or else the next that has room.
    fn stripe(&mut self, peer: PeerId, has_room: &impl Fn(&StreamWriter) -> bool) -> Option<u32> {
        let (row, links) = (self.peers.get_mut(peer.index())?, self.links.of(peer));
        let (count, turn) = (links.len(), usize::from(row.turn));
        let mut best = None;
        for step in 1..=count {
            let at = (turn + step) % count;
            let Some(&slot) = links.get(at).filter(|slot| **slot != NONE) else { continue };
            let Some(link) = self.connections.get(slot).and_then(Connection::link) else { continue };
            if link.outgoing.is_empty() {
                row.turn = at as u8;
                return Some(slot);
            }
            if best.is_none() && has_room(&link.outgoing) {
                best = Some((at, slot));
            }
        }
        let (at, slot) = best?;
        row.turn = at as u8;
        Some(slot)
    }

    /// Sends what waits for the socket of a link: it has room again, or may have.
    #[inline]
    pub(super) fn flush(&mut self, slot: u32) {
        let Some(connection) = self.connections.get(slot) else { return };
        let ConnectionStage::Open(TcpLink { peer, blocked: was, .. }) = connection.stage else { return };
        let is = connection.send_waiting(&mut self.counters, &mut self.done);
        self.blocked = self.blocked + u32::from(is) - u32::from(was);
        if !is && self.peers.get(peer.index()).is_some_and(|row| row.waiting) {
            self.announce(peer);
        }
    }
}

impl Connection {
    /// Sends what waits, as far as the socket takes it; whether anything still waits.
    #[inline]
    pub(super) fn send_waiting(&mut self, counters: &mut Counters, done: &mut VecDeque<Token>) -> bool {
        let Self { wire, stage: ConnectionStage::Open(link), .. } = self else { return false };
        link.blocked = false;
        while !link.outgoing.is_empty() {
            let (moved, all) = match link.outgoing.plain() {
                Some(bytes) => (wire.send(bytes), bytes.len()),
                None => {
                    let mut list = [IoSlice::new(&[]); SLICES];
                    let count = link.outgoing.pieces(&mut list);
                    let pieces = list.get(..count).unwrap_or_default();
                    (wire.send_all(pieces), pieces.iter().map(|piece| piece.len()).sum())
                }
            };
            match moved {
                Moved::Bytes(sent) => {
                    counters.sent(sent, all);
                    link.outgoing.taken(sent, done);
                }
                Moved::Blocked | Moved::Denied(_) => {
                    counters.sent(0, all);
                    link.blocked = true;
                    if let Moved::Denied(failure) = moved {
                        self.deny(failure);
                        return true;
                    }
                    break;
                }
                Moved::Broken(failure) => {
                    self.break_off(failure);
                    return false;
                }
            }
        }
        link.blocked
    }

    /// Sends a frame from where it lies, and keeps what the socket does not take; whether there is
    /// any.
    fn send_parts(&mut self, parts: [&[u8]; 2], counters: &mut Counters) -> bool {
        let ConnectionStage::Open(link) = &mut self.stage else { return false };
        let all = parts[0].len() + parts[1].len();
        let moved = self.wire.send_both(parts[0], parts[1]);
        let sent = match moved {
            Moved::Bytes(sent) => sent,
            Moved::Blocked | Moved::Denied(_) => 0,
            Moved::Broken(failure) => {
                self.break_off(failure);
                return false;
            }
        };
        counters.sent(sent, all);
        link.outgoing.keep(parts, sent);
        link.blocked = sent < all;
        if let Moved::Denied(failure) = moved {
            self.deny(failure);
        }
        sent < all
    }

    /// The socket takes nothing any more. What came before its end is still to be read, and then
    /// tells why.
    #[cold]
    fn break_off(&mut self, failure: Option<CallFailure>) {
        // What fails after the first call came of it.
        if !matches!(&self.stage, ConnectionStage::Open(link) if link.broken) {
            self.failed = failure.or(self.failed);
        }
        // Not every failure is the connection's end: without this, the read that is to tell why may
        // find nothing for ever.
        self.wire.cut();
        self.may_read = true;
        if let ConnectionStage::Open(link) = &mut self.stage {
            (link.broken, link.blocked) = (true, false);
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
