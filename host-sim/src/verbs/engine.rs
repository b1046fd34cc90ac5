//! A rank's connections: credits, slots, and what a poll does.

use core::fmt;
use std::rc::Rc;

use aldis_hal::cause::Malformed;
use aldis_hal::copy::copy;
use aldis_hal::{Again, Caps, Cause, Epoch, Features, Limits, PeerId, Post, Refusal, Sink};
use aldis_protocols::credit::{Grant, Window};

use super::COST;
use super::address::{Address, RANKS_MAX};
use super::choice::{self, Choice, Config};
use super::error::VerbsError;
use super::sys::{BATCH, Completions, Device, Domain, Done, Ending, Pair, Receives, Remote};

/// Bytes of a slot: the longest message.
pub(super) const SLOT_BYTES: usize = 16 << 10;
/// Messages to or from a peer that can be under way.
const WINDOW: u16 = 16;
/// Messages besides that tell limits alone. A peer tells one when half of the window is free again, and no more than twice
/// before it has to hear of this side; one more is on its way to be counted.
const BARE_MAX: u16 = 3;
/// Bytes that are asked for inline.
const INLINE_BYTES: u32 = 64;
/// The bit of an immediate value that says that there is a message; the low half is a limit.
const IS_MESSAGE: u32 = 1 << 16;
/// Bits of the number of a packet.
const PACKET_MASK: u32 = 0xFF_FFFF;

/// Everything there is of a rank's transport. The fields are dropped in this order, and each part holds what it needs.
pub(super) struct Engine {
    me: PeerId,
    epoch: Epoch,
    choice: Choice,
    peers: Vec<Peer>,
    receives: Receives,
    sent: Rc<Completions>,
    received: Rc<Completions>,
    domain: Rc<Domain>,
    caps: Caps,
}

/// A peer's row.
struct Peer {
    state: State,
    pair: Option<Pair>,
    /// The number of its queue pair here, also when that is gone.
    number: u32,
    epoch: Epoch,
    window: Window,
    grant: Grant,
    /// The slot of the next message.
    next: u16,
    /// Messages of slots, and bare ones, that are under way.
    flying: u16,
    bare: u16,
    /// A post was refused since the sink last heard that the peer is ready.
    waiting: bool,
    /// Its loss is to be told.
    lost: bool,
}

/// Whether a peer can be talked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unknown,
    Connected,
    Gone(Cause),
}

impl Peer {
    fn new(pair: Option<Pair>) -> Self {
        let number = pair.as_ref().map_or(0, Pair::number);
        let window = Window::new(WINDOW).unwrap_or(Window::NONE);
        let grant = Grant::new(WINDOW).unwrap_or(Grant::NONE);
        let (state, epoch) = (State::Unknown, Epoch(0));
        Self {
            state,
            pair,
            number,
            epoch,
            window,
            grant,
            next: 0,
            flying: 0,
            bare: 0,
            waiting: false,
            lost: false,
        }
    }

    /// Nothing more goes to it or comes from it. Its queue pair is destroyed, so that the device touches its memory no more.
    fn part(&mut self, cause: Cause) {
        if self.state == State::Connected {
            (self.state, self.lost) = (State::Gone(cause), true);
            (self.pair, self.flying, self.bare, self.waiting) = (None, 0, 0, false);
        }
    }
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
        let receives_needed = (others * u32::from(WINDOW + BARE_MAX)).max(1);
        let requests = u32::from(WINDOW + BARE_MAX);
        let sends_needed = (others * requests).max(1);
        let limits = domain.device().limits()?;
        for (what, need, have) in [
            ("queue pairs", others, limits.pairs),
            ("shared receives", receives_needed, limits.receives),
            ("completions of a queue", receives_needed, limits.completions),
            ("sends of a queue pair", requests, limits.sends),
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
            let shape = (u32::from(WINDOW), SLOT_BYTES, requests);
            let make = || Pair::new(&domain, &receives, (&sent, &received), shape, INLINE_BYTES);
            Ok(Peer::new(if rank == me.0 { None } else { Some(make()?) }))
        };
        let peers = (0..ranks).map(peer).collect::<Result<_, VerbsError>>()?;
        Ok(Self { me, epoch, choice, peers, receives, sent, received, domain, caps: caps() })
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
        let remote = Remote {
            gid: address.gid,
            lid: address.lid,
            mtu: address.mtu,
            pair: number,
            numbers: (epoch.0 & PACKET_MASK, self.epoch.0 & PACKET_MASK),
        };
        pair.connect(&self.choice, &remote).map_err(|_| Cause::Device)?;
        (row.state, row.epoch) = (State::Connected, epoch);
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

    /// Destroys the queue pair of a peer: what was under way is over.
    pub(super) fn quiesce(&mut self, peer: PeerId) -> Result<(), Cause> {
        let row = self.peers.get_mut(peer.index()).filter(|row| row.state != State::Unknown);
        let row = row.ok_or(Cause::Stale)?;
        row.part(Cause::PeerDead);
        row.lost = false;
        Ok(())
    }

    /// See [`Transport::poll`](aldis_hal::Transport::poll).
    pub(super) fn poll<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut events = self.take_arrivals(budget as usize, sink);
        events += self.take_sent((budget - events) as usize);
        for (rank, row) in self.peers.iter_mut().enumerate() {
            tell_limit(row);
            let peer = PeerId(rank as u32);
            if events < budget && row.lost {
                row.lost = false;
                let State::Gone(cause) = row.state else { continue };
                sink.lost(peer, cause);
                events += 1;
            }
            if events < budget && row.waiting && row.window.available() > 0 && row.flying < WINDOW {
                row.waiting = false;
                sink.ready(peer);
                events += 1;
            }
        }
        events
    }

    /// Whether everything that was posted has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.peers.iter().all(|row| row.flying == 0)
    }

    fn take_arrivals<S: Sink>(&mut self, budget: usize, sink: &mut S) -> u32 {
        let mut events = 0;
        let Self { received, receives, peers, .. } = self;
        let polled = received.poll(budget.min(BATCH), |done| {
            events += 1;
            let slot = receives.take(&done);
            if let Some((peer, row)) = row_of(peers, &done) {
                match accept(row, &done) {
                    Ok(true) => sink.arrived(peer, receives.bytes(slot, done.len)),
                    Ok(false) => {}
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

    fn take_sent(&mut self, budget: usize) -> u32 {
        let mut events = 0;
        let Self { sent, peers, .. } = self;
        let polled = sent.poll(budget.min(BATCH), |done| {
            events += 1;
            let Some((_, row)) = row_of(peers, &done) else { return };
            let Some(pair) = &mut row.pair else { return };
            match pair.take(&done) {
                true => row.flying = row.flying.saturating_sub(1),
                false => row.bare = row.bare.saturating_sub(1),
            }
            match done.ending {
                Ending::Good => {}
                Ending::NoAnswer => row.part(Cause::PeerDead),
                Ending::NotReady => row.part(Cause::Malformed(Malformed::Credit)),
                Ending::Flushed | Ending::Failed => row.part(Cause::Device),
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

/// Whose queue pair a request was of, unless that is gone.
fn row_of<'a>(peers: &'a mut [Peer], done: &Done) -> Option<(PeerId, &'a mut Peer)> {
    let is_of = |row: &Peer| row.number == done.pair && row.state == State::Connected;
    let rank = peers.iter().position(is_of)?;
    Some((PeerId(rank as u32), peers.get_mut(rank)?))
}

/// Takes in what came with an arrival; whether it is a message.
fn accept(row: &mut Peer, done: &Done) -> Result<bool, Cause> {
    if done.ending != Ending::Good {
        return Err(Cause::Device);
    }
    row.window.raise(done.immediate as u16).map_err(Cause::Malformed)?;
    let is_message = done.immediate & IS_MESSAGE != 0;
    if done.immediate & !(IS_MESSAGE | 0xFFFF) != 0 || (!is_message && done.len != 0) {
        return Err(Cause::Malformed(Malformed::Reserved));
    }
    if is_message {
        row.grant.accept().map_err(Cause::Malformed)?;
    }
    Ok(is_message)
}

/// Tells a peer its limit by a message of its own, when that is due.
fn tell_limit(row: &mut Peer) {
    if !row.grant.is_due() || row.bare == BARE_MAX {
        return;
    }
    let Some(pair) = row.pair.as_mut().filter(|_| row.state == State::Connected) else { return };
    if pair.send_bare(row.grant.limit().into()).is_err() {
        return row.part(Cause::Device);
    }
    row.grant.told();
    row.bare += 1;
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("me", &self.me).field("choice", &self.choice).finish_non_exhaustive()
    }
}

fn caps() -> Caps {
    let features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
    let bytes = SLOT_BYTES as u32;
    let limits = Limits { short_bytes_max: bytes, bcopy_bytes_max: bytes, ..Limits::default() };
    Caps { features, limits, cost: COST, ..Caps::default() }
}
