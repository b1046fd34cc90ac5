//! From sockets to the sink.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, PeerId, Sink};
use aldis_protocols::stream::{End, StreamFrame as Kind};
use aldis_sys::CallFailure;

use super::connection::{Connection, ConnectionStage};
use super::engine::TcpEngine;
use super::peer::NONE;
use super::wire::Moved;

/// Reads of one connection before it is the next one's turn.
const READS: u32 = 8;

/// The reason why a turn of a connection is over.
enum TurnEnd {
    /// There is nothing more for now.
    Idle,
    /// There may be more.
    More,
    /// A message has come that has to wait for messages of other links.
    Parked,
    /// The peer has sent its bye.
    Left,
    /// The peer sends nothing more over this connection.
    Rests,
    /// The stream is at its end, or broken.
    Ended { reset: bool },
    /// The bytes that came are nothing that a peer sends.
    Malformed(Malformed),
}

/// Returns `Ok` if a message is the next one of its peer, and otherwise what to do.
#[inline]
fn in_turn(number: u32, next: u32, links: u8) -> Result<(), TurnEnd> {
    let ahead = number.wrapping_sub(next).cast_signed();
    match ahead {
        0 => Ok(()),
        1.. if links > 1 => Err(TurnEnd::Parked),
        _ => Err(TurnEnd::Malformed(Malformed::Sequence { got: number as u16, need: next as u16 })),
    }
}

impl TcpEngine {
    /// Gives a connection its turn: delivers at most `budget` messages of it, or takes its
    /// handshake further.
    #[inline]
    pub(super) fn serve<S: Sink>(&mut self, slot: u32, budget: u32, sink: &mut S) -> u32 {
        let Some(connection) = self.connections.get(slot) else { return 0 };
        let ConnectionStage::Open(link) = &connection.stage else { return self.greet(slot) };
        let peer = link.peer;
        let mut left = budget;
        let turn = self.deliver(slot, peer, &mut left, sink);
        let events = budget - left;
        if events > 0 {
            self.counters.messages_received += u64::from(events);
            self.attention.found(slot);
            if self.setup.links > 1 {
                self.unpark(peer);
            }
        }
        match turn {
            TurnEnd::Idle => {}
            TurnEnd::More => self.enqueue(slot),
            TurnEnd::Parked => self.park(slot, peer),
            TurnEnd::Rests => self.hear_rest(slot),
            TurnEnd::Left | TurnEnd::Ended { .. } | TurnEnd::Malformed(_) => self.over(slot, peer, &turn),
        }
        events
    }

    /// Delivers messages of a connection, as long as any are `left` of its budget.
    fn deliver<S: Sink>(&mut self, slot: u32, peer: PeerId, left: &mut u32, sink: &mut S) -> TurnEnd {
        let polls = self.polls;
        let Self { connections, peers, counters, setup, .. } = self;
        let (Some(connection), Some(row)) = (connections.get(slot), peers.get_mut(peer.index())) else {
            return TurnEnd::Idle;
        };
        let mut reads = READS;
        loop {
            let ConnectionStage::Open(link) = &mut connection.stage else { return TurnEnd::Idle };
            match link.incoming.next() {
                Err(what) => return TurnEnd::Malformed(what),
                Ok(Some((frame, message))) => {
                    if let Err(turn) = in_turn(frame.number, row.received, setup.links) {
                        return turn;
                    }
                    if let Kind::Data(_) = frame.kind {
                        if *left == 0 {
                            return TurnEnd::More;
                        }
                        if !link.rest.may_receive() {
                            return TurnEnd::Malformed(Malformed::Control);
                        }
                        sink.arrived(peer, message);
                        link.used_at = polls;
                        row.received = row.received.wrapping_add(1);
                        *left -= 1;
                    } else if frame.kind == Kind::Rest && setup.links > 1 {
                        // It would leave the other links without their first.
                        return TurnEnd::Malformed(Malformed::Control);
                    } else if let Err(what) =
                        link.farewell.handle(frame.kind).and_then(|()| link.rest.handle(frame.kind))
                    {
                        return TurnEnd::Malformed(what);
                    } else if link.farewell.peer_leaves() {
                        return TurnEnd::Left;
                    }
                    link.incoming.pass(frame);
                    if frame.kind == Kind::Rest {
                        return TurnEnd::Rests;
                    }
                    continue;
                }
                Ok(None) => {}
            }
            if !connection.may_read {
                return TurnEnd::Idle;
            }
            if *left == 0 || reads == 0 {
                return TurnEnd::More;
            }
            connection.begin_landing(row.received, sink);
            reads -= 1;
            counters.receive_calls += 1;
            let moved = connection.land(sink).unwrap_or_else(|| connection.receive());
            match moved {
                Moved::Bytes(0) => return TurnEnd::Ended { reset: false },
                Moved::Bytes(bytes) => counters.bytes_received += bytes as u64,
                Moved::Broken(_) => return TurnEnd::Ended { reset: true },
                Moved::Blocked | Moved::Denied(_) => {
                    counters.empty_receives += 1;
                    return TurnEnd::Idle;
                }
            }
            if connection.end_landing(peer, sink) {
                row.received = row.received.wrapping_add(1);
                *left -= 1;
                if let Some(link) = connection.link() {
                    link.used_at = polls;
                }
            }
        }
    }

    /// The next frame of a link has to wait.
    fn park(&mut self, slot: u32, peer: PeerId) {
        if let (Some(link), Some(row)) =
            (self.connections.get(slot).and_then(Connection::link), self.peers.get_mut(peer.index()))
            && !core::mem::replace(&mut link.parked, true)
        {
            row.parked += 1;
        }
    }

    /// Messages of a peer have been delivered: what waited for them is looked at again.
    fn unpark(&mut self, peer: PeerId) {
        if self.peers.get(peer.index()).is_none_or(|row| row.parked == 0) {
            return;
        }
        for number in 0..usize::from(self.setup.links) {
            let links = self.links.of(peer);
            let Some(slot) = links.get(number).copied().filter(|slot| *slot != NONE) else { continue };
            let Some(row) = self.peers.get_mut(peer.index()) else { return };
            if let Some(link) = self.connections.get(slot).and_then(Connection::link)
                && core::mem::take(&mut link.parked)
            {
                row.parked -= 1;
                self.enqueue(slot);
            }
        }
    }

    /// Keeps for a peer the call for it that has failed, if any has.
    #[cold]
    pub(super) fn blame(&mut self, peer: PeerId, failure: Option<CallFailure>) {
        let Some(failure) = failure else { return };
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.blame(failure);
        }
        if let Some(board) = self.board {
            board.note_failure(peer, failure);
        }
    }

    /// Keeps for a peer the call that failed when it was to be connected; not in place of the one
    /// by which a link broke, of which this may well have come.
    #[cold]
    pub(super) fn blame_attempt(&mut self, peer: PeerId, failure: Option<CallFailure>) {
        if self.peers.get(peer.index()).is_none_or(|row| row.failed().is_none()) {
            self.blame(peer, failure);
        }
    }

    /// A link is over, as the system has refused to move its bytes for too long.
    #[cold]
    pub(super) fn give_up(&mut self, slot: u32) {
        let Some(link) = self.connections.get(slot).and_then(Connection::link) else { return };
        let peer = link.peer;
        self.over(slot, peer, &TurnEnd::Ended { reset: true });
    }

    /// A link is over, and so is its peer.
    #[cold]
    fn over(&mut self, slot: u32, peer: PeerId, turn: &TurnEnd) {
        let Some(link) = self.connections.get(slot).and_then(Connection::link) else { return };
        let orderly = link.farewell.ended() == End::Orderly;
        let whole = link.incoming.is_empty() && link.landing.is_none();
        // Only the first link brings the bye: another that ends between two frames leaves the last
        // word to it.
        let first = self.links.first_of(peer);
        if whole && matches!(turn, TurnEnd::Ended { reset: false }) && first != NONE && first != slot {
            return;
        }
        // The peer had this side's word that none follows, and was faster to close it.
        let is_agreed = link.rest.is_over() && link.outgoing.is_empty() && !link.broken;
        if whole && is_agreed && !orderly && matches!(turn, TurnEnd::Ended { reset: false }) {
            return self.rested(slot, peer);
        }
        let counters = &mut self.counters;
        let (counter, cause) = match turn {
            _ if orderly => (&mut counters.left, Cause::PeerLeft),
            TurnEnd::Malformed(what) => (&mut counters.malformed, Cause::Malformed(*what)),
            TurnEnd::Ended { reset: true } => (&mut counters.reset, Cause::PeerDead),
            _ if whole => (&mut counters.ended, Cause::PeerDead),
            _ => (&mut counters.cut, Cause::PeerDead),
        };
        *counter += 1;
        let failed = self.connections.peek(slot).and_then(|connection| connection.failed);
        self.blame(peer, failed);
        self.lose(peer, cause);
    }
}
