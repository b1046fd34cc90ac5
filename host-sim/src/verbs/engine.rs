//! A rank's connections: credits, slots, and what a poll does.

mod direct;
mod memory;
mod peer;

use core::fmt;
use std::rc::Rc;

use aldis_hal::copy::copy;
use aldis_hal::transport::Quiesce;
use aldis_hal::{Again, Caps, Cause, Epoch, Features, Limits, PeerId, Post, Refusal, Sink};

use self::direct::{Maker, ORDERS, Word};
use self::peer::{Arrival, IS_MESSAGE, Peer, Place, State};
use super::address::{Address, RANKS_MAX};
use super::choice::{self, Choice, Config};
use super::error::VerbsError;
use super::regions::{KEY_BYTES, REGIONS_MAX, Regions};
use super::sys::{self, BATCH, Completions, Device, Domain, Done, Ending, Pair, Receives, Remote};
use super::{COST, READ_COST};

/// Bytes of a slot: the longest message.
pub(super) const SLOT_BYTES: usize = 16 << 10;
/// Messages to or from a peer that can be under way.
const WINDOW: u16 = 16;
/// Messages besides that tell limits alone. A peer tells one when half of the window is free again, and no more than twice
/// before it has to hear of this side; one more is on its way to be counted.
const BARE_MAX: u16 = 3;
/// Messages besides that are words about the second connection: a peer says no more than three before it has to hear an
/// answer - that one is made, that it is closed, and the offer of the next - and one more is on its way to be counted.
const WORDS_MAX: u16 = 4;
/// Messages to or from a peer, all together.
const MESSAGES: u32 = WINDOW as u32 + BARE_MAX as u32 + WORDS_MAX as u32;
/// The slot that words are sent from.
const WORD_SLOT: u16 = WINDOW;
/// Bytes that are asked for inline.
const INLINE_BYTES: u32 = 64;
/// Bits of the number of a packet.
const PACKET_MASK: u32 = 0xFF_FFFF;
/// Reads and atomics that a queue pair has under way at most, where the device can do so many.
const DEPTH_MAX: u8 = 16;
/// Bytes of one read or write at most: a gigabyte, where the device can do so many.
const DIRECT_BYTES_MAX: u64 = 1 << 30;
/// What a device does that updates words.
const ATOMICS: Features = Features::ATOMIC_ADD.union(Features::ATOMIC_CAS);

/// Everything there is of a rank's transport. The fields are dropped in this order, and each part holds what it needs.
pub(super) struct Engine {
    me: PeerId,
    epoch: Epoch,
    choice: Choice,
    peers: Vec<Peer>,
    receives: Receives,
    sent: Rc<Completions>,
    received: Rc<Completions>,
    regions: Regions,
    domain: Rc<Domain>,
    /// Reads that a queue pair has under way at most.
    depth: u8,
    caps: Caps,
}

impl Engine {
    pub(super) fn open(me: PeerId, epoch: Epoch, ranks: u32, config: &Config) -> Result<Self, VerbsError> {
        if me.0 >= ranks || epoch == Epoch(0) {
            return Err(VerbsError::Identity);
        }
        if ranks > RANKS_MAX {
            return Err(VerbsError::Ranks { ranks, max: RANKS_MAX });
        }
        let mut devices = Device::all()?;
        let descriptions: Vec<_> = devices.iter().map(Device::describe).collect::<Result<_, _>>()?;
        let choice = choice::choose(&descriptions, config)?;
        let domain = Domain::new(Rc::new(devices.swap_remove(choice.device)))?;
        let others = ranks - 1;
        let receives_needed = (others * MESSAGES).max(1);
        // Orders of a second connection that was cut off may still be told while those of the next one are.
        let sends_needed = (others * (MESSAGES + 2 * ORDERS)).max(1);
        let limits = domain.device().limits(choice.port)?;
        for (what, need, have) in [
            ("queue pairs", 2 * others, limits.pairs),
            ("shared receives", receives_needed, limits.receives),
            ("completions of a queue", sends_needed, limits.completions),
            ("sends of a queue pair", MESSAGES, limits.sends),
        ] {
            if u64::from(need) > have {
                return Err(VerbsError::Limit { what, need: need.into(), have });
            }
        }
        let sent = Completions::new(&domain, sends_needed)?;
        let received = Completions::new(&domain, receives_needed)?;
        let mut receives = Receives::new(&domain, receives_needed, SLOT_BYTES)?;
        (0..receives_needed as usize).try_for_each(|slot| receives.post(slot))?;
        let peer = |rank| {
            let shape = (u32::from(WINDOW) + 1, SLOT_BYTES, MESSAGES);
            let make = || Pair::new(&domain, &receives, (&sent, &received), shape, INLINE_BYTES);
            Ok(Peer::new(if rank == me.0 { None } else { Some(make()?) }))
        };
        let peers = (0..ranks).map(peer).collect::<Result<_, VerbsError>>()?;
        let (regions, depth, caps) = (Regions::new(), limits.reads.min(DEPTH_MAX), caps(&limits, config));
        Ok(Self { me, epoch, choice, peers, receives, sent, received, regions, domain, depth, caps })
    }

    pub(super) fn address(&self) -> Address {
        let pairs = self.peers.iter().map(|peer| peer.number).collect();
        let Choice { gid, lid, mtu, .. } = &self.choice;
        Address { gid: gid.raw, lid: *lid, mtu: *mtu, pairs }
    }

    pub(super) fn place(&self) -> (&str, u8, u32) {
        (self.domain.device().name(), self.choice.port, self.choice.gid.index)
    }

    pub(super) fn features(&self) -> Features {
        self.caps.features
    }

    #[inline]
    pub(super) fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match self.peers.get(peer.index()).map(|peer| peer.state) {
            Some(State::Connected) => Ok(&self.caps),
            Some(State::Gone(cause)) => Err(cause),
            Some(State::Unknown) | None => Err(Cause::Unreachable),
        }
    }

    /// Connects to a peer. Its first life is the only one that its queue pair knows.
    pub(super) fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        let address = Address::decode(address, self.peers.len()).ok_or(Cause::Unreachable)?;
        let number = address.pairs.get(self.me.index()).copied().unwrap_or(0);
        let row = self.peers.get_mut(peer.index()).ok_or(Cause::Unreachable)?;
        if row.state != State::Unknown {
            return if row.epoch == epoch { Ok(()) } else { Err(Cause::Unreachable) };
        }
        let pair = row.pair.as_ref().ok_or(Cause::Unreachable)?;
        let Address { gid, lid, mtu, .. } = address;
        let numbers = (epoch.0 & PACKET_MASK, self.epoch.0 & PACKET_MASK);
        let remote = Remote { gid, lid, mtu, pair: number, numbers, depth: 0 };
        pair.connect(&self.choice, &remote).map_err(|_| Cause::Device)?;
        (row.state, row.epoch, row.place) = (State::Connected, epoch, Some(Place { gid, lid, mtu }));
        Ok(())
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
            () if row.window.available() == 0 => Again::NoCredit,
            () if row.flying == WINDOW => Again::NoSlot,
            () => return Ok(row.next),
        };
        row.waiting = true;
        Err(Refusal::Again(again))
    }

    /// Room in a slot that was admitted.
    #[inline]
    pub(super) fn room(&mut self, peer: PeerId, slot: u16, len: usize) -> &mut [u8] {
        let pair = self.peers.get_mut(peer.index()).and_then(|row| row.pair.as_mut());
        pair.map_or(&mut [], |pair| pair.bytes_mut(slot.into(), len))
    }

    /// Sends a slot that was admitted. A device that refuses it has failed, and the peer is lost.
    #[inline]
    pub(super) fn commit(&mut self, peer: PeerId, slot: u16, len: usize) {
        let Some(row) = self.peers.get_mut(peer.index()) else { return };
        let Some(pair) = &mut row.pair else { return };
        let immediate = IS_MESSAGE | u32::from(row.grant.limit());
        if pair.send(slot.into(), len, immediate).is_err() {
            return row.part(Cause::Device);
        }
        row.window.spend();
        row.grant.told();
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

    /// Destroys the queue pairs of a peer, or the one that touches a region or is at work on a post: what was under way is over.
    pub(super) fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match what {
            Quiesce::Peer(peer) => {
                let row = self.peers.get_mut(peer.index()).filter(|row| row.state != State::Unknown);
                let row = row.ok_or(Cause::Stale)?;
                row.part(Cause::PeerDead);
                row.lost = false;
                Ok(())
            }
            Quiesce::Region(region) => self.quiesce_region(region),
            Quiesce::Post(token) => self.quiesce_post(token),
        }
    }

    /// See [`Transport::poll`](aldis_hal::Transport::poll).
    pub(super) fn poll<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut events = self.take_arrivals(budget as usize, sink);
        events += self.take_sent((budget - events) as usize, sink);
        for (rank, row) in self.peers.iter_mut().enumerate() {
            row.speak();
            events += row.tell(PeerId(rank as u32), budget - events, sink);
        }
        events
    }

    /// Whether everything that was posted has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.peers.iter().all(|row| row.flying == 0 && row.direct.is_idle())
    }

    fn take_arrivals<S: Sink>(&mut self, budget: usize, sink: &mut S) -> u32 {
        let mut events = 0;
        let Self { me, received, receives, peers, domain, sent, choice, depth, .. } = self;
        let polled = received.poll(budget.min(BATCH), |done| {
            events += 1;
            let slot = receives.take(&done);
            if let Some((peer, row)) = row_of(peers, &done) {
                let bytes = receives.bytes(slot, done.len);
                match row.accept(&done) {
                    Ok(Arrival::Message) => sink.arrived(peer, bytes),
                    Ok(Arrival::Word) => {
                        let maker = |place| Maker {
                            domain,
                            receives,
                            queues: (sent, received),
                            choice,
                            place,
                            depth: *depth,
                        };
                        match (Word::decode(bytes), row.place) {
                            (Ok(word), Some(place)) => row.direct.hear(&word, *me < peer, &maker(place)),
                            (Err(malformed), _) => row.part(Cause::Malformed(malformed)),
                            (Ok(_), None) => {}
                        }
                    }
                    Ok(Arrival::Bare) => {}
                    Err(cause) => row.part(cause),
                }
            }
            // Before its place is granted again.
            let is_posted = receives.post(slot).is_ok();
            if let Some((_, row)) = row_of(peers, &done) {
                match is_posted {
                    true if done.immediate & IS_MESSAGE != 0 => row.grant.free(),
                    true => {}
                    false => row.part(Cause::Device),
                }
            }
        });
        if polled.is_err() {
            self.fail();
        }
        events
    }

    fn take_sent<S: Sink>(&mut self, budget: usize, sink: &mut S) -> u32 {
        let mut events = 0;
        let Self { sent, peers, .. } = self;
        let polled = sent.poll(budget.min(BATCH), |done| {
            events += 1;
            if let Some((_, row)) = row_of(peers, &done) {
                row.sent(&done);
            } else if let Some(row) = peers.iter_mut().find(|row| row.direct.is_of(done.pair))
                && let Some((token, result)) = row.direct.ended(&done)
            {
                sink.completed(token, result);
            }
        });
        if polled.is_err() {
            self.fail();
        }
        events
    }

    /// The device does not answer: nobody can be reached any more.
    #[cold]
    fn fail(&mut self) {
        self.peers.iter_mut().for_each(|row| row.part(Cause::Device));
    }
}

/// Whose queue pair of messages a request was of, unless that is gone.
fn row_of<'a>(peers: &'a mut [Peer], done: &Done) -> Option<(PeerId, &'a mut Peer)> {
    let is_of = |row: &Peer| row.number == done.pair && row.state == State::Connected;
    let rank = peers.iter().position(is_of)?;
    Some((PeerId(rank as u32), peers.get_mut(rank)?))
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("me", &self.me).field("choice", &self.choice).finish_non_exhaustive()
    }
}

fn caps(device: &sys::Limits, config: &Config) -> Caps {
    let mut features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
    features.set(Features::GET | Features::PUT, device.reads > 0);
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
    Caps { features, limits, cost: COST, read_cost, ..Caps::default() }
}
