//! The making and ending of connections: what the machines of [`stream`](aldis_protocols::stream)
//! ask for, done with sockets.

use core::time::Duration;
use std::io::ErrorKind;

use aldis_hal::{Cause, Instant, PeerId, Resource};
use aldis_protocols::stream::{Dial, Handshake, Node, StreamEvent, StreamRefusal, chooses};
use aldis_sys::socket::TcpStream;
use aldis_sys::{Call, CallFailure, Errno, errno_of};

use super::connection::{Connection, ConnectionStage, Denial, TcpLink};
use super::engine::{MESSAGE_BYTES_MAX, TcpEngine};
use super::peer::{NONE, Presence};
use super::wire::{Moved, Wire};
use super::{address, socket};
use crate::platform::monotonic_ns;

/// Connections in their handshake that may be of no rank, besides one for each link of the job.
const STRANGERS_MAX: usize = 32;

/// Connections that one look takes from a listener.
const ACCEPTS: u32 = 16;

/// Bytes that one turn of a handshake reads.
const GREETING_READ_BYTES: usize = 512;

/// Bytes that wait for a socket at most: a long message and some short ones.
const OUTGOING_BYTES: usize = MESSAGE_BYTES_MAX + (64 << 10);

fn now() -> Instant {
    Instant(monotonic_ns())
}

/// Connections that are wanted.
impl TcpEngine {
    /// Asks for a connection: this rank waits for a peer, or wants to send to it.
    #[cold]
    pub(super) fn want(&mut self, peer: PeerId) {
        self.want_link(peer, 0);
    }

    fn want_link(&mut self, peer: PeerId, number: u8) {
        if self.has_left(peer) {
            return self.lose(peer, Cause::PeerLeft);
        }
        let setup = self.setup;
        let mut node = self.node();
        let Some(way) = node.link(peer, number) else { return };
        if way.is_open() || !way.want(&setup, now()) || self.wanted.contains(&(peer, number)) {
            return;
        }
        let waits = self.is_in_line(peer);
        self.wanted.push((peer, number));
        self.attention.wake();
        let asks = if waits { self.defer(peer) } else { self.dial(peer, number) };
        if asks {
            self.ask_for_room();
        }
    }

    /// Begins a connection if the link wants one now. Returns true if a message waits for it and
    /// there is no room.
    fn dial(&mut self, peer: PeerId, number: u8) -> bool {
        if !self.node().link(peer, number).is_some_and(|way| way.wants_dial()) {
            return false;
        }
        if !self.may_dial() {
            return self.defer(peer);
        }
        let Some(row) = self.peers.get(peer.index()) else { return false };
        let addresses = address::decode(&row.addresses).unwrap_or_default();
        let Some(&address) = addresses.get(usize::from(row.next) % addresses.len().max(1)) else {
            return false;
        };
        self.counters.begun += 1;
        let dial = Dial { key: self.new_key(), peer, link: number, nonce: self.nonces.next() };
        match socket::begin(address, &self.options) {
            Ok(stream) => {
                if let Some(handshake) = Handshake::dial(&mut self.node(), dial, now()) {
                    if let Some(row) = self.peers.get_mut(peer.index()) {
                        row.crowded = false;
                    }
                    self.begin(stream, handshake);
                }
            }
            Err(failure @ CallFailure { errno: Errno::EMFILE | Errno::ENFILE, .. }) => {
                self.counters.crowded += 1;
                self.room.deny();
                self.blame_attempt(peer, Some(failure));
                if self.room.is_limited() {
                    return self.defer(peer);
                }
                self.lose(peer, Cause::Full(Resource::Descriptors));
            }
            Err(failure) => {
                self.blame_attempt(peer, Some(failure));
                if let Some(mut handshake) = Handshake::dial(&mut self.node(), dial, now()) {
                    handshake.hang_up(&mut self.node(), now());
                }
                self.failed(peer, None);
            }
        }
        false
    }

    pub(super) fn new_key(&mut self) -> u32 {
        self.next_key = self.next_key.wrapping_add(1);
        self.next_key
    }

    /// An attempt came to nothing, and the next address is tried. `denied`: who is there will never
    /// be the peer, and why. Once that is so at all of them, it is nowhere. An address where no
    /// process listens says nothing: it may be of a network that the machines do not share, and the
    /// peer may connect from its side.
    fn failed(&mut self, peer: PeerId, denied: Option<Cause>) {
        self.counters.failed += 1;
        let Some(row) = self.peers.get_mut(peer.index()) else { return };
        row.next = row.next.wrapping_add(1);
        row.denied = if denied.is_some() { row.denied.saturating_add(1) } else { 0 };
        if let Some(cause) = denied
            && row.denied >= address::count(&row.addresses)
        {
            self.lose(peer, cause);
        }
    }

    /// A connection begins its handshake.
    fn begin(&mut self, stream: TcpStream, mut handshake: Handshake) {
        let Some(wire) = Wire::new(stream, self.tls.as_ref(), handshake.is_dialled()) else {
            handshake.refuse(&mut self.node(), StreamRefusal::Untrusted, now());
            self.counters.refused[StreamRefusal::Untrusted.index()] += 1;
            return;
        };
        let connection = Connection {
            wire,
            key: handshake.key(),
            stage: ConnectionStage::Greeting(Box::new(handshake)),
            greeted_by: now().after(Duration::from_nanos(self.setup.handshake_ns)),
            may_read: false,
            is_assumed: false,
            at_end: false,
            queued: false,
            failed: None,
            denial: Denial::default(),
        };
        if let Some(slot) = self.admit(connection) {
            self.greetings.push(slot);
            self.enqueue(slot);
        }
    }
}

/// Connections that come.
impl TcpEngine {
    /// Takes the connections that wait at the listeners. `is_called`: the system has said that
    /// there are any. It says so again of those that are left when there is no more room.
    #[cold]
    pub(super) fn accept(&mut self, is_called: bool) {
        let mut taken = 0;
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTS {
                if !self.may_accept() {
                    return self.no_room_after(taken, is_called);
                }
                let Some(listener) = self.listeners.get(at) else { break };
                match listener.accept() {
                    Ok((stream, _)) => {
                        taken += 1;
                        self.room.relieve();
                        self.accepted(stream);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => {
                        self.counters.crowded += 1;
                        let errno = errno_of(error);
                        self.failed = Some(CallFailure { call: Call::Accept, errno });
                        if self.room.is_limited() && matches!(errno, Errno::EMFILE | Errno::ENFILE) {
                            self.room.deny();
                            return self.no_room_after(taken, is_called);
                        }
                        break;
                    }
                }
            }
        }
    }

    /// No room is left once so many connections were taken. If that is none, and only then, it is
    /// known that others wait.
    fn no_room_after(&mut self, taken: u32, is_called: bool) {
        if taken == 0 && is_called {
            self.crowd_out();
        }
    }

    fn accepted(&mut self, stream: TcpStream) {
        self.counters.accepted += 1;
        let failed = |error| CallFailure { call: Call::Ioctl, errno: errno_of(error) };
        let set = stream.set_nonblocking(true).map_err(failed);
        if let Err(failure) = set.and_then(|()| socket::prepare(&stream, &self.options)) {
            self.counters.crowded += 1;
            self.failed = Some(failure);
            return;
        }
        self.make_room();
        let (key, nonce) = (self.new_key(), self.nonces.next());
        let handshake = Handshake::accept(key, &self.setup, nonce, now());
        self.attention.wake();
        self.begin(stream, handshake);
    }

    /// Refuses the oldest connection that may be of no rank, if there are too many.
    fn make_room(&mut self) {
        let most = STRANGERS_MAX + self.ways.len();
        if self.greetings.len() < most {
            return;
        }
        let stranger = self.greetings.iter().copied().find(|slot| {
            self.handshake(*slot).is_some_and(|handshake| !handshake.is_proven() && !handshake.is_dialled())
        });
        if let Some(slot) = stranger {
            self.refuse(slot, StreamRefusal::Busy);
        }
    }
}

/// Handshakes, and what becomes of connections.
impl TcpEngine {
    fn handshake(&self, slot: u32) -> Option<&Handshake> {
        match &self.connections.peek(slot)?.stage {
            ConnectionStage::Greeting(handshake) => Some(handshake),
            ConnectionStage::Open(_) => None,
        }
    }

    /// Returns true if a handshake is under way that is known to be with this peer.
    pub(super) fn is_greeted(&self, peer: PeerId) -> bool {
        let mut claims = self.greetings.iter().filter_map(|slot| self.handshake(*slot)?.claim());
        claims.any(|(claimed, _)| claimed == peer)
    }

    /// Returns true if a handshake is under way behind which messages of this peer may wait: one in
    /// which it has proven who it is. None can wait behind another. A peer sends messages on a
    /// connection that it holds for open: the higher rank once it has been told that the lower has
    /// chosen it, the lower once it has been told that the higher has taken it. This side says
    /// either after the proof of the other.
    pub(super) fn may_be_in_touch(&self, peer: PeerId) -> bool {
        let mut handshakes = self.greetings.iter().filter_map(|slot| self.handshake(*slot));
        handshakes.any(|handshake| {
            handshake.is_proven() && handshake.claim().is_some_and(|(claimed, _)| claimed == peer)
        })
    }

    /// Returns true if a peer may hold a connection for open that this side does not yet. If this
    /// side ended now, the peer would take that for a death. No peer is waited for longer than a
    /// handshake may take.
    pub(super) fn awaits_confirmation(&self) -> bool {
        let mut chosen =
            self.greetings.iter().filter(|slot| self.handshake(**slot).is_some_and(Handshake::is_chosen));
        chosen.any(|slot| self.connections.peek(*slot).is_some_and(|one| now() < one.greeted_by))
    }

    /// Takes a handshake further, with what has come; one event if anything has.
    #[cold]
    pub(super) fn greet(&mut self, slot: u32) -> u32 {
        let Self { connections, setup, key, ways, .. } = self;
        let mut node = Node { setup, mac: key, links: ways };
        let Some(Connection { wire, stage: ConnectionStage::Greeting(handshake), may_read, failed, .. }) =
            connections.get(slot)
        else {
            return 0;
        };
        let mut bytes = [0; GREETING_READ_BYTES];
        let claim = handshake.claim();
        let spoken = speak(wire, handshake);
        if let Moved::Denied(failure) = spoken {
            *failed = Some(failure);
        }
        let moved = match spoken {
            broken @ Moved::Broken(_) => broken,
            _ if !*may_read => return 0,
            _ => wire.receive(&mut bytes),
        };
        let (rest, event) = match moved {
            Moved::Blocked | Moved::Denied(_) => {
                if let Moved::Denied(failure) = moved {
                    *failed = Some(failure);
                }
                *may_read = false;
                return 0;
            }
            Moved::Bytes(count) if count > 0 => {
                let (used, event) = handshake.handle(&mut node, &bytes[..count], now());
                (&bytes[used..count], event)
            }
            Moved::Bytes(_) | Moved::Broken(_) => {
                if let Moved::Broken(failure) = moved {
                    *failed = failure.or(*failed);
                }
                let event = match wire.refusal() {
                    Some(why) => handshake.refuse(&mut node, why, now()),
                    None => handshake.hang_up(&mut node, now()),
                };
                (&[][..], event)
            }
        };
        speak(wire, handshake);
        match event {
            None => self.enqueue(slot),
            Some(StreamEvent::Opened { peer, link }) => self.opened(slot, peer, link, rest),
            Some(StreamEvent::Ended { why, .. }) => {
                let failed = *failed;
                // The other side may have kept it, and takes its end for this rank's.
                if let Some((peer, _)) = claim {
                    self.blame_attempt(peer, failed);
                }
                self.ended(slot, why);
            }
        }
        1
    }

    /// This side does not keep a connection that is in its handshake.
    pub(super) fn refuse(&mut self, slot: u32, why: StreamRefusal) {
        let Self { connections, setup, key, ways, .. } = self;
        let mut node = Node { setup, mac: key, links: ways };
        if let Some(Connection { wire, stage: ConnectionStage::Greeting(handshake), .. }) =
            connections.get(slot)
            && handshake.refuse(&mut node, why, now()).is_some()
        {
            speak(wire, handshake);
            self.ended(slot, why);
        }
    }

    /// A connection is not kept.
    fn ended(&mut self, slot: u32, why: StreamRefusal) {
        self.counters.refused[why.index()] += 1;
        let dialled = self.handshake(slot).filter(|handshake| handshake.is_dialled());
        let claim = dialled.and_then(Handshake::claim);
        let failed = self.connections.peek(slot).and_then(|connection| connection.failed);
        self.close(slot);
        if let Some((peer, _)) = claim {
            self.blame_attempt(peer, failed);
        }
        if let Some((peer, _)) = claim
            && !why.is_ordinary()
        {
            self.failed(peer, why.is_final().then(|| cause_of(Some(why))));
        }
    }

    /// Both sides keep a connection for a link. `rest` has come after the handshake.
    fn opened(&mut self, slot: u32, peer: PeerId, number: u8, rest: &[u8]) {
        let Some(connection) = self.connections.get(slot) else { return };
        let mut link = TcpLink::new(peer, OUTGOING_BYTES, MESSAGE_BYTES_MAX);
        link.used_at = self.polls;
        if let Some(room) = link.incoming.room(rest.len()).get_mut(..rest.len()) {
            room.copy_from_slice(rest);
            link.incoming.read(rest.len());
        }
        if let ConnectionStage::Greeting(handshake) = &connection.stage {
            link.outgoing.keep([handshake.output(), &[]], 0);
        }
        connection.stage = ConnectionStage::Open(link);
        self.flush(slot);
        self.greetings.retain(|other| *other != slot);
        self.wanted.retain(|other| *other != (peer, number));
        self.counters.opened += 1;
        let others: Vec<u32> = self.greetings.clone();
        for other in others {
            if self.handshake(other).is_some_and(|handshake| handshake.claim() == Some((peer, number))) {
                self.refuse(other, StreamRefusal::Crossed);
            }
        }
        if let Some(row) = self.peers.get_mut(peer.index()) {
            (row.denied, row.crowded) = (0, false);
        }
        self.allow_time();
        if let Some(place) = self.links.of_mut(peer).get_mut(usize::from(number)) {
            *place = slot;
        }
        if number == 0 {
            self.announce(peer);
            if chooses(self.setup.rank, peer) {
                (1..self.setup.links).for_each(|other| self.want_link(peer, other));
            }
        }
        self.attention.wake();
        self.enqueue(slot);
    }

    /// Handshakes that take too long end; attempts that are due are made.
    #[cold]
    pub(super) fn pass_time(&mut self) {
        let now = now();
        for at in (0..self.greetings.len()).rev() {
            let Some(&slot) = self.greetings.get(at) else { continue };
            let Self { connections, setup, key, ways, .. } = self;
            let mut node = Node { setup, mac: key, links: ways };
            if let Some(Connection { stage: ConnectionStage::Greeting(handshake), .. }) =
                connections.get(slot)
                && let Some(StreamEvent::Ended { why, .. }) = handshake.handle_timeout(&mut node, now)
            {
                self.ended(slot, why);
            }
        }
        // Whoever has waited for longest comes first.
        let (mut at, mut asks) = (0, false);
        while let Some(&(peer, number)) = self.wanted.get(at) {
            asks |= self.pursue(peer, number, now);
            at += usize::from(self.wanted.get(at) == Some(&(peer, number)));
        }
        if asks {
            self.ask_for_room();
        }
    }

    /// Does what is due for a link that is wanted. Returns true if a message waits for it and there
    /// is no room.
    fn pursue(&mut self, peer: PeerId, number: u8, now: Instant) -> bool {
        if self.has_left(peer) {
            self.lose(peer, Cause::PeerLeft);
            return false;
        }
        let failed = self.node().link(peer, number).and_then(|way| way.handle_timeout(now));
        let Some(failed) = failed else { return self.dial(peer, number) };
        let is_crowded = self.peers.get(peer.index()).is_some_and(|row| row.crowded);
        self.lose(peer, if is_crowded { Cause::Full(Resource::Descriptors) } else { cause_of(failed.last) });
        false
    }

    /// A peer is lost, and the sink will be told.
    pub(super) fn lose(&mut self, peer: PeerId, cause: Cause) {
        if self.peers.get(peer.index()).is_none_or(|row| row.presence() != Presence::Known) {
            return;
        }
        self.part(peer, cause);
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.lost = true;
            // Perhaps it was a connection of this peer that could not be taken.
            if let (None, Some(failure)) = (row.failed(), self.failed) {
                row.blame(failure);
            }
        }
        self.announce(peer);
    }

    /// Gives up a peer: nothing comes from it or goes to it any more.
    pub(super) fn part(&mut self, peer: PeerId, cause: Cause) {
        for number in 0..self.setup.links {
            if let Some(way) = self.node().link(peer, number) {
                way.forget();
            }
        }
        self.drop_connections(peer);
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.end(cause);
        }
    }

    /// Closes whatever connections there are to a peer, without a word.
    pub(super) fn drop_connections(&mut self, peer: PeerId) {
        self.wanted.retain(|(other, _)| *other != peer);
        let greetings: Vec<u32> = self.greetings.clone();
        for slot in greetings {
            if self.handshake(slot).and_then(Handshake::claim).is_some_and(|(other, _)| other == peer) {
                self.close(slot);
            }
        }
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.reset();
        }
        let links = self.links.of_mut(peer);
        let open = links.to_vec();
        links.fill(NONE);
        open.into_iter().filter(|slot| *slot != NONE).for_each(|slot| self.close(slot));
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, slot: u32) {
        self.attention.forget(slot);
        self.room.forget(slot);
        self.greetings.retain(|other| *other != slot);
        if let Some(Connection { stage: ConnectionStage::Open(link), .. }) = self.connections.remove(slot)
            && link.blocked
        {
            self.blocked -= 1;
        }
    }
}

/// Sends what a handshake has to say. A socket takes the few bytes that there are, or is not
/// connected yet.
fn speak(wire: &mut Wire, handshake: &mut Handshake) -> Moved {
    if handshake.output().is_empty() {
        return Moved::Bytes(0);
    }
    let moved = wire.send(handshake.output());
    if let Moved::Bytes(count) = moved {
        handshake.transmitted(count);
    }
    moved
}

/// The reason why a peer could not be reached, from what its last attempt came to.
const fn cause_of(last: Option<StreamRefusal>) -> Cause {
    match last {
        Some(
            StreamRefusal::Version
            | StreamRefusal::Ranks
            | StreamRefusal::Links
            | StreamRefusal::Key
            | StreamRefusal::Job
            | StreamRefusal::Untrusted,
        ) => Cause::Incompatible,
        Some(StreamRefusal::Unreachable) => Cause::PeerDead,
        // It has no descriptor for this rank.
        Some(StreamRefusal::Busy) => Cause::Full(Resource::Descriptors),
        _ => Cause::Unreachable,
    }
}
