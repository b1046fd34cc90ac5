//! `Ethernet`: the device and the engine put together as a transport.

use core::fmt;

use aldis_hal::copy::copy;
use aldis_hal::nic::RxFrame;
use aldis_hal::transport::{Quiesce, Sink, Slot, Transport};
use aldis_hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, Limits, Nic, PeerId, Post, Refusal, RemoteMemory,
};
use aldis_protocols::connect::MESSAGE_BYTES_MAX;

use super::engine::EthernetEngine;
use super::framing::CardAddress;
use super::storage::EthernetMemory;
use super::{Config, EthernetCounters};

/// The transport of one rank over an Ethernet device. See the [module](super).
pub struct Ethernet<'m, N> {
    pub(super) nic: N,
    pub(super) engine: EthernetEngine<'m>,
}

impl<'m, N: Nic> Ethernet<'m, N> {
    /// The transport of the rank that `config` names, over its device and its memory. Peers are
    /// reached once they have been introduced.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a device whose frames do not hold the storage's messages, with the MTU
    /// that they need and the one there is; [`Cause::Incompatible`] for an epoch of zero; and what
    /// is wrong with the times ([`checked`](aldis_protocols::reliable::LinkConfig::checked)).
    pub fn new(nic: N, memory: EthernetMemory<'m>, config: Config) -> Result<Self, Cause> {
        let need = memory.outgoing.message_bytes.max(MESSAGE_BYTES_MAX) + config.framing.mtu_overhead_bytes();
        if need > nic.mtu() {
            return Err(Cause::TooBig { len: need as u64, max: nic.mtu() as u64 });
        }
        let features =
            Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE | Features::TIMED;
        let bytes = memory.outgoing.message_bytes as u32;
        let limits = Limits { short_bytes_max: bytes, bcopy_bytes_max: bytes, ..Limits::default() };
        let caps = Caps { features, limits, cost: config.cost, ..Caps::default() };
        let engine = EthernetEngine::new(&nic, memory, config, caps)?;
        Ok(Self { nic, engine })
    }

    /// The address to put on this rank's card: what peers hand to `introduce`. With UDP it has the
    /// IPv4 address too.
    pub fn address(&self) -> CardAddress {
        self.engine.framing.address(self.engine.port.station)
    }

    /// Returns the counters.
    pub fn counters(&self) -> EthernetCounters {
        self.engine.counters
    }

    /// The time at which [`poll`](Transport::poll) is to be called next at the latest, if no frame
    /// comes before: [`Instant::NEVER`] while no timer runs.
    pub fn poll_at(&self) -> Instant {
        self.engine.poll_at()
    }

    /// Gives the device up for good: every peer is lost for that `cause`, which the next polls
    /// report.
    pub fn abandon(&mut self, cause: Cause) {
        self.engine.lose_all(cause);
    }

    /// The device.
    pub const fn nic(&self) -> &N {
        &self.nic
    }

    /// The device, for what it needs besides frames.
    pub const fn nic_mut(&mut self) -> &mut N {
        &mut self.nic
    }
}

/// A message being written, in the slot of the retransmission ring that the next sequence number of
/// the peer stands for. The number is taken by [`commit`](Slot::commit): dropped, the slot has
/// changed nothing but bytes that are never read.
pub struct EthernetSlot<'a, 'm, N: Nic> {
    ethernet: &'a mut Ethernet<'m, N>,
    link: usize,
    slot: usize,
    len: usize,
}

impl<N: Nic> Slot for EthernetSlot<'_, '_, N> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        self.ethernet.engine.outgoing.fill(self.link, self.slot, self.len)
    }

    #[inline]
    fn commit(self) {
        let Self { ethernet, link, slot, len } = self;
        ethernet.engine.commit(link, slot, len);
        match &mut ethernet.engine.corked {
            Some(posted) if CORKS => *posted = posted.saturating_add(1),
            _ => ethernet.pump(1),
        }
    }
}

impl<N: Nic> fmt::Debug for EthernetSlot<'_, '_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EthernetSlot")
            .field("link", &self.link)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<'m, N: Nic> Transport for Ethernet<'m, N> {
    type Slot<'a>
        = EthernetSlot<'a, 'm, N>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        "ethernet"
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.engine.reach(peer)
    }

    /// `address` is the six bytes of [`Ethernet::address`].
    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.engine.introduce(peer, epoch, address)
    }

    #[inline]
    fn expect(&mut self, peer: PeerId) {
        self.engine.expect(peer);
    }

    #[inline]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let len = header.len() + payload.len();
        match self.reserve(peer, len) {
            Ok(mut slot) => {
                if let Some((first, second)) = slot.bytes().split_at_mut_checked(header.len()) {
                    copy(first, header);
                    copy(second, payload);
                }
                slot.commit();
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<EthernetSlot<'_, 'm, N>, Refusal> {
        let (link, slot) = self.engine.admit(peer, len)?;
        Ok(EthernetSlot { ethernet: self, link, slot, len })
    }

    /// Lets go of a peer: its connection is dropped without a word, and later posts answer
    /// [`Cause::PeerDead`] until it is introduced again.
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match what {
            Quiesce::Peer(peer) => self.engine.quiesce(peer),
            Quiesce::Region(_) | Quiesce::Post(_) => Err(Cause::Stale),
        }
    }

    /// Polls the device. An event is a frame received, a message that had waited for an earlier
    /// one, or a report on a peer. At most `budget` frames are sent besides, and an answer for each
    /// that was received.
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.engine.tell_the_time(now);
        // News come of frames and time-outs alone, a bounded number of each: they cannot starve
        // arrivals.
        let mut left = budget - self.engine.notify_sink(budget, sink);
        let mut drained = false;
        while left != 0 && !drained {
            match self.nic.receive() {
                Some(frame) => left -= self.engine.take_in(frame.bytes(), frame.checked(), left, sink),
                None => drained = true,
            }
            self.answer();
        }
        left -= self.engine.notify_sink(left, sink);
        self.engine.expire(drained);
        self.pump(budget);
        budget - left
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }

    fn features(&self) -> Features {
        self.engine.caps.features
    }
}

/// Messages of a poll leave together, so that neither the caller's instructions nor those by which
/// frames go are fetched anew for each. Small images do without.
const CORKS: bool = cfg!(target_pointer_width = "64");

impl<N: Nic> Extras for Ethernet<'_, N> {
    #[inline]
    fn cork(&mut self) {
        if CORKS {
            self.engine.corked.get_or_insert(0);
        }
    }

    #[inline]
    fn uncork(&mut self, _more: bool) {
        if let Some(posted) = self.engine.corked.take() {
            self.pump(posted);
        }
    }
}

impl<N: Nic> RemoteMemory for Ethernet<'_, N> {}

impl<N> fmt::Debug for Ethernet<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ethernet").field("engine", &self.engine).finish_non_exhaustive()
    }
}
