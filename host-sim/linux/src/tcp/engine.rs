//! A rank's sockets: what all parts of the transport share, and what a poll does.

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use aldis_hal::{Caps, Cause, Epoch, Features, Instant, Limits, PeerId, Sink, Token};
use aldis_protocols::header::DATA_HEADER_BYTES;
use aldis_protocols::stream::{self, Node, StreamSetup, job_name};
use aldis_sys::event::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use aldis_sys::file::dup;
use aldis_sys::socket::TcpListener;
use aldis_sys::{Call, CallFailure, Errno, errno_of};

use super::attention::Attention;
use super::config::{LINKS_MAX, TcpConfig};
use super::connection::{Connection, ConnectionStage, Connections};
use super::counters::Counters;
use super::error::TcpError;
use super::interfaces::{self, InterfaceNetwork};
use super::key::{JobKey, Nonces};
use super::lent::Regions;
use super::peer::{NONE, Presence, TcpPeer};
use super::room::Room;
use super::socket::{self, Options};
use super::tls::Tls;
use super::wire::Moved;
use super::{COST, TcpIdentity, address};
use crate::board::StatusBoard;
use crate::segment::Departures;

/// The longest message: a fragment of a long one, with its header.
pub(super) const MESSAGE_BYTES_MAX: usize = (256 << 10) + DATA_HEADER_BYTES;

/// Answers of the system that one look takes.
const EVENTS: usize = 64;

/// The interval, in nanoseconds, at which connections are tried of which it is only assumed that
/// there is nothing to do.
const DOUBT_NS: u64 = 5_000_000;

/// The name by which the system knows listeners; connections have their place and key.
const LISTENER: u64 = u64::MAX;

/// Everything there is of a transport that is not vacant.
#[derive(Debug)]
pub(super) struct TcpEngine {
    pub(super) setup: StreamSetup,
    pub(super) key: JobKey,
    pub(super) caps: Caps,
    pub(super) options: Options,
    pub(super) epoll: Epoll,
    /// The system looks after every connection, also after one that is read without asking.
    pub(super) watches_all: bool,
    events: Box<[EpollEvent; EVENTS]>,
    pub(super) listeners: Vec<TcpListener>,
    /// The addresses at which they listen.
    pub(super) addresses: Vec<SocketAddr>,
    /// The networks that this side is in.
    networks: Vec<InterfaceNetwork>,
    /// The settings by which connections are encrypted, if they are.
    pub(super) tls: Option<Tls>,
    pub(super) peers: Vec<TcpPeer>,
    /// The handshake's view of the links, for each rank as many as there are.
    pub(super) ways: Vec<stream::StreamLink>,
    pub(super) links: LinkTable,
    pub(super) connections: Connections,
    /// The key of the next one.
    pub(super) next_key: u32,
    pub(super) nonces: Nonces,
    /// The limit of connections.
    pub(super) room: Room,
    /// Connections in their handshake.
    pub(super) greetings: Vec<u32>,
    /// Links that are wanted and not there.
    pub(super) wanted: Vec<(PeerId, u8)>,
    /// Connections with something to read.
    pub(super) ready: VecDeque<u32>,
    /// Peers that the sink is to be told of.
    pub(super) news: VecDeque<PeerId>,
    /// Links with something to send that the socket has no room for.
    pub(super) blocked: u32,
    /// True while what is posted waits for what follows.
    pub(super) corked: bool,
    /// Links with something that waits so.
    pub(super) held: Vec<u32>,
    /// The number of the last poll.
    pub(super) polls: u32,
    /// Memory that is lent to be sent from.
    pub(super) regions: Regions,
    /// The pieces of it that have been sent and are to be told.
    pub(super) done: VecDeque<Token>,
    pub(super) attention: Attention,
    /// The time at which connections were last [doubted](Self::doubt).
    doubted: Instant,
    /// The connection that is read at every poll and that the system does not look after meanwhile.
    pub(super) alone: Option<u32>,
    pub(super) counters: Counters,
    /// The last call that failed here for a peer that is not known, or for all.
    pub(super) failed: Option<CallFailure>,
    /// The board on which calls that fail for a peer are noted.
    pub(super) board: Option<&'static StatusBoard>,
    /// The table of the ranks that have left, if the launcher has one.
    pub(super) departures: Option<&'static Departures>,
}

/// Bytes that are kept of each rank, of one address of IP version 6 and one link.
pub(crate) const BYTES_PER_PEER: usize =
    size_of::<TcpPeer>() + size_of::<stream::StreamLink>() + 1 + address::BYTES_MAX + size_of::<u32>();

/// The connections of the links.
#[derive(Debug)]
pub(super) struct LinkTable {
    /// Those of each rank one behind the other: the connection of each that is open, or [`NONE`].
    slots: Vec<u32>,
    each: usize,
}

impl LinkTable {
    /// The links of a rank.
    #[inline]
    pub(super) fn of(&self, peer: PeerId) -> &[u32] {
        let first = peer.index().saturating_mul(self.each);
        self.slots.get(first..first.saturating_add(self.each)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn of_mut(&mut self, peer: PeerId) -> &mut [u32] {
        let first = peer.index().saturating_mul(self.each);
        self.slots.get_mut(first..first.saturating_add(self.each)).unwrap_or_default()
    }

    /// The connection of the first link of a rank, or [`NONE`].
    #[inline]
    pub(super) fn first_of(&self, peer: PeerId) -> u32 {
        self.slots.get(peer.index().saturating_mul(self.each)).copied().unwrap_or(NONE)
    }
}

impl TcpEngine {
    /// Returns a file that can be read when something has come that [`poll`](Self::poll) has not
    /// asked for yet.
    pub(super) fn bell(&self) -> Option<OwnedFd> {
        dup(&self.epoll).ok()
    }

    pub(super) fn listen(identity: TcpIdentity, config: &TcpConfig) -> Result<Self, TcpError> {
        let TcpIdentity { me, epoch, ranks, key } = identity;
        let links = config.links;
        if links == 0 || links > LINKS_MAX {
            return Err(TcpError::Links { links });
        }
        if me.0 >= ranks || epoch == Epoch(0) {
            return Err(TcpError::Identity);
        }
        let options = Options {
            send_buffer: config.send_buffer,
            receive_buffer: config.receive_buffer,
            keep_alive: config.keep_alive,
        };
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(TcpError::system("epoll_create1"))?;
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        let networks = interfaces::select(&config.interfaces)?;
        for network in &networks {
            let listener = socket::listen_at(network.ip, &config.ports, &options)?;
            let address = listener.local_addr().map_err(errno_of);
            addresses.push(address.map_err(TcpError::system("getsockname"))?);
            epoll
                .add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))
                .map_err(TcpError::system("epoll_ctl"))?;
            listeners.push(listener);
        }
        let room = Room::new(config, ranks, listeners.first())?;
        let deadline_ns = u64::try_from(config.connect_timeout.as_nanos()).unwrap_or(u64::MAX).max(1);
        let handshake_ns = StreamSetup::DEFAULT.handshake_ns.min(deadline_ns);
        let job = job_name(&key);
        let setup = StreamSetup {
            job,
            ranks,
            links,
            rank: me,
            epoch,
            handshake_ns,
            deadline_ns,
            ..StreamSetup::DEFAULT
        };
        Ok(Self {
            setup,
            key,
            caps: caps(config.tls.is_some()),
            options,
            epoll,
            watches_all: false,
            events: Box::new([EpollEvent::empty(); EVENTS]),
            listeners,
            addresses,
            networks,
            tls: config.tls.as_ref().map(Tls::load).transpose().map_err(TcpError::Tls)?,
            peers: vec![TcpPeer::new(); ranks as usize],
            ways: vec![stream::StreamLink::NONE; ranks as usize * usize::from(links)],
            links: LinkTable { slots: vec![NONE; ranks as usize * usize::from(links)], each: links.into() },
            connections: Connections::default(),
            next_key: 0,
            nonces: Nonces::new().map_err(TcpError::Entropy)?,
            room,
            greetings: Vec::new(),
            wanted: Vec::new(),
            ready: VecDeque::new(),
            news: VecDeque::new(),
            blocked: 0,
            corked: false,
            held: Vec::new(),
            polls: 0,
            regions: Regions::default(),
            done: VecDeque::new(),
            attention: Attention::new(),
            doubted: Instant(0),
            alone: None,
            counters: Counters::default(),
            failed: None,
            board: None,
            departures: None,
        })
    }

    /// This rank waits for a peer: they are to have a connection, by which its end is noticed.
    #[inline]
    pub(super) fn expect(&mut self, peer: PeerId) {
        let Some(row) = self.peers.get_mut(peer.index()) else { return };
        row.expected = true;
        if row.presence() == Presence::Known && self.links.first_of(peer) == NONE {
            self.wait_for(peer);
        }
    }

    /// Returns true if the peer has a connection, or is known to be making one with this rank: by
    /// that it is to be told that this rank leaves. An attempt that was refused is none: nobody is
    /// there to be told.
    pub(super) fn is_in_touch(&self, peer: PeerId) -> bool {
        self.links.first_of(peer) != NONE || self.is_greeted(peer)
    }

    /// Returns true if the peer has left, and no connection is there or being made by which it says
    /// so itself, behind the last of its messages.
    pub(super) fn has_left(&self, peer: PeerId) -> bool {
        self.departures.is_some_and(|departures| departures.has_left(peer.0))
            && self.links.of(peer).iter().all(|slot| *slot == NONE)
            && !self.may_be_in_touch(peer)
    }

    /// Returns what the handshakes share.
    pub(super) fn node(&mut self) -> Node<'_> {
        Node { setup: &self.setup, mac: &self.key, links: &mut self.ways }
    }

    #[inline]
    pub(super) fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        let row = self.peers.get(peer.index()).ok_or(Cause::Unreachable)?;
        row.check().map(|()| &self.caps)
    }

    pub(super) fn introduce(&mut self, peer: PeerId, epoch: Epoch, place: &[u8]) -> Result<(), Cause> {
        let mut addresses = address::decode(place).ok_or(Cause::Unreachable)?;
        interfaces::order(&self.networks, &mut addresses);
        if peer == self.setup.rank || self.peers.get(peer.index()).is_none() {
            return Err(Cause::Unreachable);
        }
        let mut is_news = false;
        for number in 0..self.setup.links {
            is_news |= self.node().link(peer, number).is_some_and(|way| way.introduce(epoch));
        }
        if is_news {
            self.drop_connections(peer);
        }
        if let Some(row) = self.peers.get_mut(peer.index()) {
            row.addresses = address::encode(&addresses).into();
            if is_news {
                row.admit();
                row.reset();
            }
        }
        Ok(())
    }

    pub(super) fn quiesce(&mut self, peer: PeerId) -> Result<(), Cause> {
        let row = self.peers.get(peer.index()).filter(|row| row.presence() != Presence::Unknown);
        row.ok_or(Cause::Stale)?;
        self.part(peer, Cause::PeerDead);
        if let Some(row) = self.peers.get_mut(peer.index()) {
            (row.lost, row.waiting) = (false, false);
        }
        Ok(())
    }

    /// See [`Transport::poll`](aldis_hal::Transport::poll). Not a part of the poll of ranks that
    /// have another transport.
    #[inline(never)]
    pub(super) fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let mut events = 0;
        self.polls = self.polls.wrapping_add(1);
        self.send_held();
        if self.room.is_agreeing() {
            self.agree();
        }
        let alone = self.attention.alone().filter(|_| self.blocked == 0 && !self.watches_all);
        if alone != self.alone {
            self.leave_alone(alone);
        }
        if let Some(slot) = self.attention.one() {
            events = self.read_straight(slot, budget, sink);
        }
        if self.attention.is_due(now, self.blocked > 0) {
            self.look(now);
        }
        if self.ready.is_empty() && self.news.is_empty() && self.done.is_empty() {
            return events;
        }
        events + self.work(budget - events, sink)
    }

    /// Reads the connection in use, without having been told that there is something.
    #[inline]
    fn read_straight<S: Sink>(&mut self, slot: u32, budget: u32, sink: &mut S) -> u32 {
        if let Some(connection) = self.connections.get(slot) {
            connection.may_read = true;
        }
        let events = self.serve(slot, budget, sink);
        if events == 0 {
            self.attention.missed();
        }
        events
    }

    /// Lets the system look after all connections but this one: that it notes every packet takes 3
    /// % of the time of a small message.
    #[cold]
    fn leave_alone(&mut self, alone: Option<u32>) {
        if let Some(slot) = self.alone
            && let Some(connection) = self.connections.get(slot)
            && !matches!(watch(&self.epoll, slot, connection), Ok(()) | Err(Errno::EEXIST))
        {
            // It is tried again at the next poll, and looked at until then.
            connection.may_read = true;
            return self.enqueue(slot);
        }
        if let Some(connection) = alone.and_then(|slot| self.connections.peek(slot)) {
            // One that the system looks after all the same does no harm.
            let _ = self.epoll.delete(connection.wire.socket());
        }
        self.alone = alone;
    }

    /// Works on what has been found, each connection and peer in its turn.
    fn work<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut events = 0;
        while events < budget
            && let Some(token) = self.done.pop_front()
        {
            sink.completed(token, Ok(()));
            events += 1;
        }
        for _ in 0..self.ready.len() {
            if events >= budget {
                return events;
            }
            let Some(slot) = self.ready.pop_front() else { break };
            if let Some(connection) = self.connections.get(slot) {
                connection.queued = false;
                events += self.serve(slot, budget - events, sink);
            }
        }
        for _ in 0..self.news.len() {
            if events >= budget {
                break;
            }
            let Some(peer) = self.news.pop_front() else { break };
            events += self.tell(peer, sink);
        }
        events
    }

    /// Tells the sink what there is to tell of a peer.
    fn tell<S: Sink>(&mut self, peer: PeerId, sink: &mut S) -> u32 {
        let Some(row) = self.peers.get_mut(peer.index()) else { return 0 };
        row.in_line = false;
        let waiting = core::mem::take(&mut row.waiting);
        match (core::mem::take(&mut row.lost), row.presence()) {
            (true, Presence::Gone) => sink.lost(peer, row.cause()),
            _ if waiting => sink.ready(peer),
            _ => return 0,
        }
        self.touch(peer);
        1
    }

    /// Puts a peer in line for the sink.
    pub(super) fn announce(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer.index())
            && !core::mem::replace(&mut row.in_line, true)
        {
            self.news.push_back(peer);
        }
    }

    /// Puts a connection in line to be read.
    pub(super) fn enqueue(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get(slot)
            && !core::mem::replace(&mut connection.queued, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// Asks the system which sockets are ready.
    #[inline(never)]
    fn look(&mut self, now: Instant) {
        self.counters.looks += 1;
        let answer = self.epoll.wait(&mut self.events[..], EpollTimeout::ZERO);
        if let Err(errno) = answer {
            self.failed = Some(CallFailure { call: Call::EpollWait, errno });
        }
        if answer.is_err() || now.since(self.doubted) >= DOUBT_NS {
            self.doubted = now;
            self.doubt(now, answer.is_err());
        }
        let count = answer.unwrap_or(0).min(EVENTS);
        let mut is_called = false;
        for at in 0..count {
            let event = self.events[at];
            if event.data() == LISTENER {
                is_called = true;
            } else {
                self.noticed(event.data(), event.events());
            }
        }
        if is_called {
            self.accept(true);
        } else if answer.is_ok() && count < EVENTS {
            self.room.relieve();
        }
        if !self.wanted.is_empty() || !self.greetings.is_empty() {
            self.pass_time();
        }
        if self.room.is_watching() {
            self.watch_over();
        }
    }

    /// Tries connections without having been told that they are ready: those of which it was only
    /// assumed that they are not, those in their handshake, or all if the system does not answer. A
    /// call that moved less than it could have, for whatever reason, thus costs time and no more.
    #[cold]
    fn doubt(&mut self, now: Instant, is_blind: bool) {
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            if connection.denial.is_too_long(now) {
                self.give_up(slot);
                continue;
            }
            let is_greeting = matches!(connection.stage, ConnectionStage::Greeting(_));
            if core::mem::take(&mut connection.is_assumed) || is_greeting || is_blind {
                connection.may_read = true;
                self.enqueue(slot);
            }
            if self.blocked > 0 {
                self.flush(slot);
            }
        }
        if is_blind {
            self.accept(false);
        }
    }

    /// The system has something to say of a connection, if it is still the one that was meant.
    fn noticed(&mut self, name: u64, events: EpollFlags) {
        let (slot, key) = (name as u32, (name >> 32) as u32);
        let Some(connection) = self.connections.get(slot).filter(|connection| connection.key == key) else {
            return;
        };
        let is_open = matches!(connection.stage, ConnectionStage::Open(_));
        if !is_open || events.intersects(!EpollFlags::EPOLLOUT) {
            connection.may_read = true;
            let last = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
            connection.at_end |= events.intersects(last);
            self.enqueue(slot);
        }
        if is_open && events.contains(EpollFlags::EPOLLOUT) {
            self.flush(slot);
        }
    }

    /// Takes a connection into the table, under the system's eyes. `None`: the system does not take
    /// it.
    pub(super) fn admit(&mut self, connection: Connection) -> Option<u32> {
        let slot = self.connections.next_slot();
        if let Err(errno) = watch(&self.epoll, slot, &connection) {
            self.failed = Some(CallFailure { call: Call::EpollCtl, errno });
            return None;
        }
        self.attention.forget(slot);
        Some(self.connections.insert(connection))
    }

    /// Returns true if everything that was posted is with the system, and the farewell would reach
    /// all who hold a connection with this side for open.
    pub(super) fn is_idle(&self) -> bool {
        self.blocked == 0 && self.held.is_empty() && self.done.is_empty() && !self.awaits_confirmation()
    }
}

/// Sends a bye: what ends without it is a death.
impl Drop for TcpEngine {
    fn drop(&mut self) {
        for (row, peer) in self.peers.iter().zip((0..).map(PeerId)) {
            let bye = super::frame::TcpFrame { kind: stream::StreamFrame::Bye, number: row.sent };
            for (number, slot) in self.links.of(peer).iter().enumerate().filter(|(_, slot)| **slot != NONE) {
                let Some(connection) = self.connections.get(*slot) else { continue };
                let Some(link) = connection.link() else { continue };
                if !link.outgoing.is_empty() || link.broken {
                    continue;
                }
                if number == 0 {
                    // It fits: nothing waits.
                    let _: Moved = connection.wire.send(&bye.emit());
                }
                connection.wire.finish();
            }
        }
    }
}

/// Lets the system look after a connection; what there is to say of it already is said at the next
/// look.
fn watch(epoll: &Epoll, slot: u32, connection: &Connection) -> Result<(), Errno> {
    let name = u64::from(slot) | u64::from(connection.key) << 32;
    let what = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
    epoll.add(connection.wire.socket(), EpollEvent::new(what, name))
}

/// Returns what the transport can do. What is encrypted is copied anyway.
fn caps(encrypted: bool) -> Caps {
    let bytes = MESSAGE_BYTES_MAX as u32;
    let mut features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
    features.set(Features::ZCOPY, !encrypted);
    let zcopy_bytes_max = if encrypted { 0 } else { u64::from(bytes) };
    let limits =
        Limits { short_bytes_max: bytes, bcopy_bytes_max: bytes, zcopy_bytes_max, ..Limits::default() };
    Caps { features, limits, cost: COST, ..Caps::default() }
}
