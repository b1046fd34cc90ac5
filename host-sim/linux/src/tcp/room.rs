//! The limit of connections: which of them are closed, by agreement, to make room for others, and
//! what is known of peers without one.
//!
//! The part of the limit that only connections of others may use sees to it that ranks that are all
//! full of connections which they have begun take each other's.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use aldis_hal::{Cause, Instant, PeerId};
use aldis_protocols::stream::{Handshake, Node, StreamFrame, StreamRefusal};
use aldis_sys::file::{dup, names_in};
use aldis_sys::limits::{Resource, getrlimit};
use aldis_sys::socket::TcpListener;

use super::config::{CONNECTIONS_MIN, TcpConfig};
use super::connection::{Connection, ConnectionStage, TcpLink};
use super::engine::TcpEngine;
use super::error::TcpError;
use super::frame::TcpFrame;
use super::peer::{NONE, Presence};
use super::wire::{Moved, Wire};
use crate::platform::monotonic_ns;

/// Descriptors that are left to the rest of the process.
const RESERVE: u64 = 16;

/// Descriptors that are thought to be open if the system does not tell.
const OPEN_GUESS: u64 = 64;

/// Polls without a use after which a connection counts as idle: a rank that was told that it can
/// send does so before.
const QUIET_POLLS: u32 = 8;

/// The time in which a peer that was asked for a rest should have answered, before others are asked
/// in its place.
const ANSWER_NS: u64 = 20_000_000;

/// The time after the system's refusal of a descriptor until it is asked for the next.
const DENIED_NS: u64 = 1_000_000;

/// The time for which connections of others may wait for room before they are told that there is
/// none.
const FULL_NS: u64 = 2_000_000_000;

/// The time that an unknown side may take to say who it is while others wait for room.
const STRANGER_NS: u64 = 1_000_000_000;

/// The time after which a peer that was asked for a rest and has not answered does not count among
/// those that may.
const SILENT_NS: u64 = 1_000_000_000;

/// The most connections that are kept for others to make.
const KEPT_MAX: usize = 16;

/// The interval at which peers that are waited for without a connection are looked at.
const WATCH_NS: u64 = 5_000_000;

/// The interval at which one of them is connected to, to see that it lives.
const PROBE_NS: u64 = 500_000_000;

/// A connection about whose rest the two sides are agreeing.
#[derive(Debug)]
struct Resting {
    slot: u32,
    /// The time at which this side asked, if it was the first.
    asked: Option<Instant>,
}

/// The limit, and what waits for room within it.
#[derive(Debug)]
pub(super) struct Room {
    /// Connections at a time; `None`: no connection is closed for another.
    limit: Option<usize>,
    resting: Vec<Resting>,
    /// Peers that are waited for without a connection.
    watched: VecDeque<PeerId>,
    watched_at: Instant,
    probed_at: Instant,
    /// The time at which the system last refused a descriptor.
    denied_at: Option<Instant>,
    /// The time since which connections of others find no room.
    full_since: Option<Instant>,
    /// A descriptor to tell others by that there is none.
    spare: Option<OwnedFd>,
}

fn now() -> Instant {
    Instant(monotonic_ns())
}

/// Connections of so many that are kept for others to make.
fn kept(limit: usize) -> usize {
    (limit / 8).clamp(1, KEPT_MAX)
}

impl Room {
    /// The limit by the configuration and by what the system allows this process, of whose
    /// descriptors those of the listeners are open, `any` among them. A job of few ranks needs one
    /// for each link, and one for the link that both sides begin.
    ///
    /// # Errors
    /// [`TcpError::Connections`] if it is too low.
    pub(super) fn new(config: &TcpConfig, ranks: u32, any: Option<&TcpListener>) -> Result<Self, TcpError> {
        let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        let open = names_in("/proc/self/fd").map_or(OPEN_GUESS, |files| files.len() as u64);
        let (most, least) = (allowed.saturating_sub(open), u64::from(CONNECTIONS_MIN));
        let all = u64::from(ranks.saturating_sub(1)) * u64::from(config.links);
        let need = least.min(all + 1);
        if most < need {
            return Err(TcpError::Connections { need: open.saturating_add(need), have: allowed });
        }
        let asked = config.connections.map_or(u64::MAX, u64::from);
        let limit = most.saturating_sub(RESERVE).min(asked).max(least);
        let limit = (config.links == 1).then(|| usize::try_from(limit).unwrap_or(usize::MAX));
        let spare = limit.and(any).filter(|_| most > need).and_then(|any| dup(any).ok());
        Ok(Self {
            limit,
            resting: Vec::new(),
            watched: VecDeque::new(),
            watched_at: Instant(0),
            probed_at: Instant(0),
            denied_at: None,
            full_since: None,
            spare,
        })
    }

    /// The system has refused a descriptor.
    pub(super) fn deny(&mut self) {
        self.denied_at = Some(now());
    }

    /// A connection of another was taken, or none waits.
    pub(super) const fn relieve(&mut self) {
        self.full_since = None;
    }

    /// Returns true if connections are closed for others.
    pub(super) const fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns true if agreements about rests are under way.
    #[inline]
    pub(super) const fn is_agreeing(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Returns true if peers are waited for without a connection.
    #[inline]
    pub(super) fn is_watching(&self) -> bool {
        !self.watched.is_empty()
    }

    /// A connection is no more.
    pub(super) fn forget(&mut self, slot: u32) {
        self.resting.retain(|resting| resting.slot != slot);
    }

    /// Returns true if there is room for one more beside `count`, of which `kept` are kept for
    /// connections that others make.
    fn has_room(&self, count: usize, kept: fn(usize) -> usize) -> bool {
        let Some(limit) = self.limit else { return true };
        let denied = self.denied_at.is_some_and(|at| now().since(at) < DENIED_NS);
        count + kept(limit) < limit && !denied
    }
}

/// The limit.
impl TcpEngine {
    /// Returns true if this side may begin a connection.
    pub(super) fn may_dial(&self) -> bool {
        self.room.has_room(self.connections.count(), kept)
    }

    /// Returns true if this side may take a connection.
    pub(super) fn may_accept(&self) -> bool {
        self.room.has_room(self.connections.count(), |_| 0)
    }

    /// Returns true if a message to a peer is to wait for a connection until those have one that
    /// have waited for room before.
    pub(super) fn is_in_line(&self, peer: PeerId) -> bool {
        let row = |peer: PeerId| self.peers.get(peer.index());
        row(peer).is_some_and(|row| row.waiting) && (self.room.full_since.is_some() || self.lacking() > 0)
    }

    /// The number of links that are wanted and wait for room.
    fn lacking(&self) -> usize {
        let is_crowded = |peer: &PeerId| self.peers.get(peer.index()).is_some_and(|row| row.crowded);
        self.wanted.iter().filter(|(peer, _)| is_crowded(peer)).count()
    }

    /// A connection came about, or went: those that wait for room have their time anew.
    pub(super) fn allow_time(&mut self) {
        let now = now();
        let Self { wanted, peers, setup, key, ways, .. } = self;
        let mut node = Node { setup, mac: key, links: ways };
        for &(peer, number) in wanted.iter() {
            if peers.get(peer.index()).is_some_and(|row| row.crowded)
                && let Some(way) = node.link(peer, number)
            {
                way.postpone(setup, now);
            }
        }
    }

    /// There is no room for a connection to a peer: it waits, if a message does, until another is
    /// closed; true is returned, and room is to be [asked for](Self::ask_for_room). If the peer is
    /// only waited for, it can connect from its side.
    #[cold]
    pub(super) fn defer(&mut self, peer: PeerId) -> bool {
        let Some(row) = self.peers.get_mut(peer.index()) else { return false };
        row.crowded = true;
        if row.waiting {
            return true;
        }
        if let Some(way) = self.node().link(peer, 0) {
            way.unwant();
        }
        self.wanted.retain(|other| *other != (peer, 0));
        self.watch(peer);
        false
    }

    /// Connections that others make find no room.
    #[cold]
    pub(super) fn crowd_out(&mut self) {
        let now = now();
        let since = *self.room.full_since.get_or_insert(now);
        self.ask_for_room();
        let latest = self.setup.handshake_ns.saturating_sub(STRANGER_NS);
        let stranger = self.greetings.iter().copied().find(|slot| {
            self.connections.peek(*slot).is_some_and(|connection| {
                let ConnectionStage::Greeting(handshake) = &connection.stage else { return false };
                let is_stranger = !handshake.is_proven() && !handshake.is_dialled();
                is_stranger && connection.greeted_by.since(now) < latest
            })
        });
        if let Some(slot) = stranger {
            self.refuse(slot, StreamRefusal::Busy);
        }
        if now.since(since) >= FULL_NS {
            self.turn_away();
            self.room.full_since = None;
        }
    }

    /// Tells those who wait at the listeners that there is no room.
    fn turn_away(&mut self) {
        self.room.spare = None;
        for at in 0..self.listeners.len() {
            let Some(Ok((stream, _))) = self.listeners.get(at).map(|listener| listener.accept()) else {
                continue;
            };
            self.counters.accepted += 1;
            self.counters.refused[StreamRefusal::Busy.index()] += 1;
            if self.tls.is_some() || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (key, nonce) = (self.new_key(), self.nonces.next());
            let mut handshake = Handshake::accept(key, &self.setup, nonce, now());
            handshake.refuse(&mut self.node(), StreamRefusal::Busy, now());
            let mut wire = Wire::Plain(stream);
            // What it does not take is of no use to who is gone.
            let _: Moved = wire.send(handshake.output());
            wire.finish();
        }
        self.room.spare = self.listeners.first().and_then(|listener| dup(listener).ok());
    }

    /// Asks the peer of the connection that has been idle for longest to close it, unless as many
    /// have been asked as are wanted.
    #[cold]
    pub(super) fn ask_for_room(&mut self) {
        let Some(limit) = self.room.limit else { return };
        self.attention.wake();
        let now = now();
        let asked_within = |ns: u64| {
            let is_one = |resting: &&Resting| resting.asked.is_some_and(|at| now.since(at) < ns);
            self.room.resting.iter().filter(is_one).count()
        };
        let waiting = self.lacking() + usize::from(self.room.full_since.is_some());
        if asked_within(ANSWER_NS) > self.wanted.len().min(limit / 8) || asked_within(SILENT_NS) > 2 * waiting
        {
            return;
        }
        let polls = self.polls;
        let idle = (0..self.connections.slots()).filter_map(|slot| {
            let ConnectionStage::Open(link) = &self.connections.peek(slot)?.stage else { return None };
            let row = self.peers.get(link.peer.index())?;
            let age = polls.wrapping_sub(link.used_at);
            (link.may_rest() && !row.waiting && age >= QUIET_POLLS).then_some((age, slot))
        });
        let Some((_, slot)) = idle.max() else { return };
        if let Some(link) = self.connections.get(slot).and_then(Connection::link) {
            link.rest.ask();
            self.room.resting.push(Resting { slot, asked: Some(now) });
            self.say_rest(slot);
        }
    }
}

/// Rests.
impl TcpEngine {
    /// Says that nothing follows over a link of which nothing waits for the socket.
    fn say_rest(&mut self, slot: u32) {
        let Some(link) = self.connections.get(slot).and_then(Connection::link) else { return };
        let Some(row) = self.peers.get_mut(link.peer.index()) else { return };
        link.outgoing.commit(TcpFrame { kind: StreamFrame::Rest, number: row.sent }.emit(), 0);
        link.rest.transmitted();
        row.rests = true;
        self.flush(slot);
    }

    /// The peer of a link says that nothing follows over it.
    #[cold]
    pub(super) fn hear_rest(&mut self, slot: u32) {
        if !self.room.resting.iter().any(|resting| resting.slot == slot) {
            self.room.resting.push(Resting { slot, asked: None });
        }
        // Behind it comes the end, or the word that the peer leaves.
        self.enqueue(slot);
        self.agree();
    }

    /// Answers those who want a link to rest, once all that this side has to send is sent, and
    /// closes links about which both agree.
    #[cold]
    pub(super) fn agree(&mut self) {
        for at in (0..self.room.resting.len()).rev() {
            let Some(&Resting { slot, .. }) = self.room.resting.get(at) else { continue };
            let Some(link) = self.connections.get(slot).and_then(Connection::link) else { continue };
            let Some(row) = self.peers.get(link.peer.index()) else { continue };
            // What has come behind the word, that the peer leaves, comes first.
            let is_between = link.incoming.is_empty() && link.landing.is_none();
            let is_done = link.outgoing.is_empty() && is_between && !link.broken;
            let is_quiet = self.polls.wrapping_sub(link.used_at) >= QUIET_POLLS;
            if link.rest.is_over() && is_done {
                let peer = link.peer;
                self.rested(slot, peer);
            } else if link.rest.is_due() && is_done && is_quiet && !row.waiting && !row.in_line {
                self.say_rest(slot);
            }
        }
    }

    /// Both sides have said that nothing follows, and have taken all that the other sent.
    pub(super) fn rested(&mut self, slot: u32, peer: PeerId) {
        self.counters.rested += 1;
        self.allow_time();
        if let Some(way) = self.node().link(peer, 0) {
            way.rest();
        }
        self.links.of_mut(peer).fill(NONE);
        self.close(slot);
        let Some(row) = self.peers.get_mut(peer.index()) else { return };
        row.rests = false;
        if row.waiting {
            self.want(peer);
        } else if row.expected {
            self.watch(peer);
        }
    }

    /// Notes that a connection is in use, or is about to be.
    pub(super) fn touch(&mut self, peer: PeerId) {
        let (slot, polls) = (self.links.first_of(peer), self.polls);
        if let Some(link) = self.connections.get(slot).and_then(Connection::link) {
            link.used_at = polls;
        }
    }
}

/// Peers that are waited for without a connection.
impl TcpEngine {
    /// This rank waits for a peer with which there is no connection.
    #[cold]
    pub(super) fn wait_for(&mut self, peer: PeerId) {
        let is_watched = self.peers.get(peer.index()).is_some_and(|row| row.watched);
        if is_watched {
            return;
        }
        if self.may_dial() { self.want(peer) } else { self.watch(peer) }
    }

    fn watch(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer.index())
            && !core::mem::replace(&mut row.watched, true)
        {
            if self.room.watched.is_empty() {
                self.room.probed_at = now();
            }
            self.room.watched.push_back(peer);
        }
    }

    /// Looks whether peers that are waited for have left, and now and then by a connection whether
    /// one of them lives.
    #[cold]
    pub(super) fn watch_over(&mut self) {
        let now = now();
        if now.since(self.room.watched_at) < WATCH_NS {
            return;
        }
        self.room.watched_at = now;
        let mut is_probing = now.since(self.room.probed_at) >= PROBE_NS;
        for _ in 0..self.room.watched.len() {
            let Some(peer) = self.room.watched.pop_front() else { break };
            let is_known = self.peers.get(peer.index()).is_some_and(|row| row.presence() == Presence::Known);
            let is_over = !is_known || self.links.first_of(peer) != NONE;
            let (has_left, may_dial) = (!is_over && self.has_left(peer), self.may_dial());
            let stays = !is_over && !has_left;
            if stays && (!is_probing || !may_dial) {
                self.room.watched.push_back(peer);
                if core::mem::take(&mut is_probing) {
                    self.ask_for_room();
                }
                continue;
            }
            if let Some(row) = self.peers.get_mut(peer.index()) {
                row.watched = false;
            }
            if has_left {
                self.lose(peer, Cause::PeerLeft);
            } else if !is_over {
                (self.room.probed_at, is_probing) = (now, false);
                self.want(peer);
            }
        }
    }
}

impl TcpLink {
    /// Returns true if nothing is half sent or half read, and neither side has asked for a rest.
    fn may_rest(&self) -> bool {
        let is_between = self.incoming.is_empty() && self.landing.is_none() && self.outgoing.is_empty();
        is_between && self.rest.is_none() && !self.broken && !self.parked && !self.farewell.peer_leaves()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_is_kept_for_others_to_make() {
        assert_eq!([3, 15, 16, 80, 128, 10_000].map(kept), [1, 1, 2, 10, 16, 16]);
    }
}
