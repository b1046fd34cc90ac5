//! A rank's connections: credits, slots, and what a poll does.

mod connection;
mod control;
mod direct;
mod due;
mod maker;
mod manager;
mod memory;
mod peer;
mod poll;
mod tools;

use core::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use aldis_hal::copy::copy;
use aldis_hal::transport::Quiesce;
use aldis_hal::{Again, Caps, Cause, Epoch, Features, Instant, Limits, PeerId, Post, Refusal};
use aldis_sys::event::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use self::control::CONTROL_BYTES;
use self::direct::ORDERS;
use self::due::Due;
use self::manager::{News, Rdma};
pub(super) use self::memory::MemoryRequest;
use self::peer::{DeviceAddress, IS_MESSAGE, PeerState, VerbsPeer};
use self::tools::{CompletionQueue, DeviceQueues, Tools};
use super::address::Address;
use super::choice::{Manager, Mode, VerbsConfig};
use super::error::VerbsError;
use super::open_device::OpenDevice;
use super::regions::{KEY_BYTES, REGIONS_MAX, Regions};
use super::sys::{self, Done, Ending, REQUESTS_OF_ORDER, Receives, ReliablePair, SentKind};
use super::watch::PollWatch;
use super::wire::{Identity, Wire, WireShape};
use super::{COST, READ_COST, WRITE_COST};

/// Bytes of a slot: the longest message.
pub(super) const SLOT_BYTES: usize = 16 << 10;
/// Messages to or from a peer that can be under way.
const WINDOW: u16 = 16;
/// Messages besides that tell limits alone. A peer tells one when half of the window is free again,
/// and no more than twice before it must receive something of this side; one more is on its way to
/// be counted.
const BARE_MAX: u16 = 3;
/// Messages to or from a peer, all together.
const MESSAGES: u32 = WINDOW as u32 + BARE_MAX as u32;
/// Questions whether a peer lives that are under way with it.
const PROBES: u32 = 1;
/// Completions of what went to a peer: of messages, questions, and the orders of a second
/// connection, also of one that was cut off.
const SENDS: u32 = MESSAGES + PROBES + 2 * ORDERS * REQUESTS_OF_ORDER;
/// The least time between two looks at whether peers and the device live, in nanoseconds.
pub(super) const PROBE_NS: u64 = 500_000_000;
/// Control messages to a peer that can be under way.
const WORDS: usize = 4;
/// Polls that find something, after which control messages are looked for all the same.
const BUSY_POLLS: u32 = 16;
/// Bytes that are asked for inline.
const INLINE_BYTES: u32 = 64;
/// Bits of the number of a packet.
const PACKET_MASK: u32 = 0xFF_FFFF;
/// Reads and atomics that a queue pair has under way at most, where the device can do so many.
const DEPTH_MAX: u8 = 16;
/// Bytes of one read or write at most: a gigabyte, where the device can do so many.
const DIRECT_BYTES_MAX: u64 = 1 << 30;
/// The features of a device that updates words.
const ATOMICS: Features = Features::ATOMIC_ADD.union(Features::ATOMIC_CAS);

/// Everything there is of a rank's transport. The fields are dropped in this order, and each part
/// holds what it needs.
pub(super) struct VerbsEngine {
    me: PeerId,
    peers: Vec<VerbsPeer>,
    tools: Tools,
    regions: Regions,
    /// The manager by which ranks tell each other how to connect.
    manager: Box<dyn manager::Manager>,
    heard: News,
    /// Peers to be looked at.
    due: Due,
    /// Peers that can be connected to at a time.
    connections_most: usize,
    /// Polls since control messages were last looked for.
    busy: u32,
    probed: Instant,
    watch: PollWatch,
    caps: Caps,
}

impl VerbsEngine {
    pub(super) fn open(here: &Rc<OpenDevice>, who: Identity, manager: Manager) -> Result<Self, VerbsError> {
        let Identity { me, ranks, .. } = who;
        let limits = here.limits()?;
        here.need(&[
            ("queue pairs", 3, limits.pairs),
            ("shared receives", MESSAGES, limits.receives),
            ("completions of a queue", SENDS, limits.completions),
            ("sends of a queue pair", MESSAGES + PROBES, limits.sends),
        ])?;
        // As many as the device has room for; there is one queue pair besides.
        let room = [
            (limits.pairs - 1) / 2,
            limits.receives / u64::from(MESSAGES),
            limits.completions / u64::from(SENDS),
        ];
        let others = ranks.saturating_sub(1).max(1);
        let most = room.iter().fold(others, |most, room| most.min(u32::try_from(*room).unwrap_or(u32::MAX)));
        let queues = DeviceQueues {
            receives: Receives::new(&here.domain, most * MESSAGES, MESSAGES, SLOT_BYTES)?,
            sent: CompletionQueue::new(here, most * SENDS)?,
            received: CompletionQueue::new(here, most * MESSAGES)?,
        };
        let manager: Box<dyn manager::Manager> = match manager {
            Manager::OutOfBand => {
                let mode = Mode::Connected(manager);
                let shape = WireShape { mode, window: WORDS, message_bytes: CONTROL_BYTES, cost: COST };
                Box::new(Wire::open(here, who, shape)?)
            }
            Manager::Rdma => Box::new(Rdma::open(here, who)?),
        };
        let tools = Tools::new(here, who, queues, limits.reads.min(DEPTH_MAX))?;
        let peers = (0..ranks).map(|rank| VerbsPeer::new(me.0 < rank)).collect();
        let (regions, caps) = (Regions::new(), caps(&limits, &here.config));
        let (heard, due, connections_most) = (News::new(), Due::new(ranks as usize), most as usize);
        let (busy, probed, watch) = (0, Instant(0), PollWatch::default());
        Ok(Self {
            me,
            peers,
            tools,
            regions,
            manager,
            heard,
            due,
            connections_most,
            busy,
            probed,
            watch,
            caps,
        })
    }

    pub(super) fn address(&self) -> Address {
        Address { flush: self.tools.flush.key(), ..self.manager.address() }
    }

    pub(super) fn here(&self) -> &OpenDevice {
        &self.tools.here
    }

    /// A file that can be read when the device or the manager of connections has something to tell.
    pub(super) fn bell(&self) -> Option<OwnedFd> {
        let device = self.here().channel.bell().ok()?;
        let Some(manager) = self.manager.file() else { return Some(device) };
        let both = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok()?;
        both.add(device, EpollEvent::new(EpollFlags::EPOLLIN, 0)).ok()?;
        both.add(manager, EpollEvent::new(EpollFlags::EPOLLIN, 0)).ok()?;
        Some(both.into())
    }

    pub(super) fn features(&self) -> Features {
        self.caps.features
    }

    #[inline]
    pub(super) fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match self.peers.get(peer.index()).map(|row| row.state) {
            Some(PeerState::Known) => Ok(&self.caps),
            Some(PeerState::Gone(cause)) => Err(cause),
            Some(PeerState::Unknown) | None => Err(Cause::Unreachable),
        }
    }

    /// Introduces this life of a peer, as the one to connect to; what there was of another is
    /// dropped without a message.
    pub(super) fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        let address = Address::decode(address, self.here().config.mode).ok_or(Cause::Unreachable)?;
        let row = self.peers.get_mut(peer.index()).filter(|_| peer != self.me).ok_or(Cause::Unreachable)?;
        if row.state != PeerState::Unknown && row.epoch == epoch {
            return Ok(());
        }
        self.manager.introduce(peer, epoch, &address)?;
        row.direct.finish();
        let cut_off = core::mem::take(&mut row.direct.cut_off);
        let Address { gid, lid, mtu, flush, .. } = address;
        *row = VerbsPeer::new(self.me < peer);
        (row.state, row.epoch, row.place) = (PeerState::Known, epoch, DeviceAddress { gid, lid, mtu, flush });
        row.direct.cut_off = cut_off;
        self.heard.retain(|(from, _)| *from != peer);
        self.note(peer);
        Ok(())
    }

    /// Notes what may have changed of a peer.
    fn note(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get(peer.index()) {
            self.tools.note(peer, row);
            self.due.insert(peer.index());
        }
    }

    /// Notes that something is to come from a peer: it is connected to, and asked whether it lives.
    pub(super) fn expect(&mut self, peer: PeerId) {
        if let Some(row) = self.peers.get_mut(peer.index()).filter(|row| row.state == PeerState::Known) {
            row.expected = true;
            self.due.insert(peer.index());
        }
    }

    /// Has the device fail the queue pair of messages with a peer.
    pub(super) fn stop(&self, peer: PeerId) -> Result<(), Cause> {
        let pair = self.peers.get(peer.index()).and_then(|row| row.connection.end()).ok_or(Cause::Stale)?;
        pair.stop().map_err(|_| Cause::Device)
    }

    /// The slot for a message of `len` bytes, if it can be sent now.
    #[inline]
    pub(super) fn admit(&mut self, peer: PeerId, len: usize) -> Result<u16, Refusal> {
        self.reach(peer).map_err(Refusal::Never)?;
        if len > SLOT_BYTES {
            return Err(Refusal::Never(Cause::TooBig { len: len as u64, max: SLOT_BYTES as u64 }));
        }
        let Some(row) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::Never(Cause::Unreachable));
        };
        let again = match () {
            () if !row.is_open() => Again::Connecting,
            () if row.window.available() == 0 => Again::NoCredit,
            () if row.flying == WINDOW => Again::NoSlot,
            () => return Ok(row.next),
        };
        row.waiting = true;
        self.due.insert(peer.index());
        Err(Refusal::Again(again))
    }

    /// Room in a slot that was admitted.
    #[inline]
    pub(super) fn room(&mut self, peer: PeerId, slot: u16, len: usize) -> &mut [u8] {
        let pair = self.peers.get_mut(peer.index()).and_then(|row| row.connection.end_mut());
        pair.map_or(&mut [], |pair| pair.bytes_mut(slot.into(), len))
    }

    /// Sends a slot that was admitted. A device that refuses it has failed, and the peer is lost.
    #[inline]
    pub(super) fn commit(&mut self, peer: PeerId, slot: u16, len: usize) {
        let Some(row) = self.peers.get_mut(peer.index()) else { return };
        let immediate = IS_MESSAGE | u32::from(row.grant.limit());
        let Some(pair) = row.connection.end_mut() else { return };
        if pair.send(slot.into(), len, immediate).is_err() {
            row.part(Cause::Device);
            return self.note(peer);
        }
        row.window.spend();
        row.grant.announce();
        (row.next, row.flying) = ((slot + 1) % WINDOW, row.flying + 1);
    }

    #[inline]
    pub(super) fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let len = header.len() + payload.len();
        let slot = match self.admit(peer, len) {
            Ok(slot) => slot,
            Err(refusal) => return refusal.into(),
        };
        if let Some((first, second)) = self.room(peer, slot, len).split_at_mut_checked(header.len()) {
            copy(first, header);
            copy(second, payload);
        }
        self.commit(peer, slot, len);
        Post::Done
    }

    /// Destroys the queue pairs of a peer, or the one that touches a region or is at work on a
    /// post: what was under way is over.
    pub(super) fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match what {
            Quiesce::Peer(peer) => {
                let row = self.peers.get_mut(peer.index()).filter(|row| row.state != PeerState::Unknown);
                let row = row.ok_or(Cause::Stale)?;
                row.part(Cause::PeerDead);
                row.lost = false;
                self.note(peer);
                Ok(())
            }
            Quiesce::Region(region) => self.quiesce_region(region),
            Quiesce::Post(token) => self.quiesce_post(token),
        }
    }

    /// Returns true if everything that was posted has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.peers.iter().all(|row| row.flying == 0 && row.direct.is_idle())
    }
}

impl fmt::Debug for VerbsEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { me, tools, .. } = self;
        f.debug_struct("VerbsEngine")
            .field("me", me)
            .field("choice", &tools.here.choice)
            .finish_non_exhaustive()
    }
}

fn caps(device: &sys::DeviceLimits, config: &VerbsConfig) -> Caps {
    let mut features =
        Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE | Features::TIMED;
    features.set(Features::GET | Features::PUT | Features::REMOTE_COMPLETION, device.reads > 0);
    features.set(ATOMICS, device.reads > 0 && device.has_atomics);
    let bytes = SLOT_BYTES as u32;
    let limits = Limits {
        short_bytes_max: bytes,
        bcopy_bytes_max: bytes,
        direct_bytes_max: if device.reads > 0 { device.bytes.min(DIRECT_BYTES_MAX) } else { 0 },
        regions_max: REGIONS_MAX,
        key_bytes: KEY_BYTES as u16,
        align: 1,
        ..Limits::default()
    };
    let read_cost = config.read_cost.unwrap_or(READ_COST);
    let write_cost = config.write_cost.unwrap_or(WRITE_COST);
    Caps { features, limits, cost: COST, read_cost, write_cost, ..Caps::default() }
}
