//! This module holds `unsafe` code, a function that is `unsafe` to call. The network of a rank:
//! TCP, or frames of a card.
//!
//! An enum of the two, so that a rank that has neither asks a single question in each of its polls.

use aldis_drivers::ethernet::EthernetSlot;
use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::transport::Quiesce;
use aldis_hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, PeerId, Post, Refusal, RegionId, RemoteMemory, Sink, Slot,
    Token, Transport,
};

use crate::ethernet::{Wired, WiredNic};
use crate::tcp::{Tcp, TcpSlot};

/// The transport to ranks of other machines, but for RDMA.
#[derive(Debug)]
pub enum Network {
    /// There are no such ranks.
    Vacant,
    /// Over TCP.
    Tcp(Tcp),
    /// Over frames of a card.
    Ethernet(Wired),
}

/// A message being written.
#[derive(Debug)]
pub enum NetworkSlot<'a> {
    /// Over TCP.
    Tcp(TcpSlot<'a>),
    /// Over frames of a card.
    Ethernet(EthernetSlot<'a, 'static, WiredNic>),
}

impl Slot for NetworkSlot<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Tcp(slot) => slot.bytes(),
            Self::Ethernet(slot) => slot.bytes(),
        }
    }

    #[inline]
    fn commit(self) {
        match self {
            Self::Tcp(slot) => slot.commit(),
            Self::Ethernet(slot) => slot.commit(),
        }
    }
}

impl Transport for Network {
    type Slot<'a>
        = NetworkSlot<'a>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        match self {
            Self::Vacant => "tcp",
            Self::Tcp(tcp) => tcp.name(),
            Self::Ethernet(wired) => wired.ethernet().name(),
        }
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match self {
            Self::Vacant => Err(Cause::Unreachable),
            Self::Tcp(tcp) => tcp.reach(peer),
            Self::Ethernet(wired) => wired.ethernet().reach(peer),
        }
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        match self {
            Self::Vacant => Err(Cause::Unreachable),
            Self::Tcp(tcp) => tcp.introduce(peer, epoch, address),
            Self::Ethernet(wired) => wired.introduce(peer, epoch, address),
        }
    }

    #[inline]
    fn expect(&mut self, peer: PeerId) {
        match self {
            Self::Vacant => {}
            Self::Tcp(tcp) => tcp.expect(peer),
            Self::Ethernet(wired) => wired.ethernet_mut().expect(peer),
        }
    }

    #[inline]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match self {
            Self::Vacant => Post::Never(Cause::Unreachable),
            Self::Tcp(tcp) => tcp.short(peer, header, payload),
            Self::Ethernet(wired) => wired.ethernet_mut().short(peer, header, payload),
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<NetworkSlot<'_>, Refusal> {
        match self {
            Self::Vacant => Err(Refusal::Never(Cause::Unreachable)),
            Self::Tcp(tcp) => tcp.reserve(peer, len).map(NetworkSlot::Tcp),
            Self::Ethernet(wired) => wired.ethernet_mut().reserve(peer, len).map(NetworkSlot::Ethernet),
        }
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match self {
            Self::Vacant => Err(Cause::Stale),
            Self::Tcp(tcp) => tcp.quiesce(what),
            Self::Ethernet(wired) => wired.ethernet_mut().quiesce(what),
        }
    }

    #[inline]
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        match self {
            Self::Vacant => 0,
            Self::Tcp(tcp) => tcp.poll(budget, now, sink),
            Self::Ethernet(wired) => wired.poll(budget, now, sink),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Self::Vacant => true,
            Self::Tcp(tcp) => tcp.is_idle(),
            Self::Ethernet(wired) => wired.ethernet().is_idle(),
        }
    }

    #[inline]
    fn features(&self) -> Features {
        match self {
            Self::Vacant => Features::empty(),
            Self::Tcp(tcp) => tcp.features(),
            Self::Ethernet(wired) => wired.ethernet().features(),
        }
    }
}

impl Extras for Network {
    #[inline]
    fn cork(&mut self) {
        match self {
            Self::Vacant => {}
            Self::Tcp(tcp) => tcp.cork(),
            Self::Ethernet(wired) => wired.ethernet_mut().cork(),
        }
    }

    #[inline]
    fn uncork(&mut self, more: bool) {
        match self {
            Self::Vacant => {}
            Self::Tcp(tcp) => tcp.uncork(more),
            Self::Ethernet(wired) => wired.ethernet_mut().uncork(more),
        }
    }

    fn tells_departure(&self, peer: PeerId) -> bool {
        matches!(self, Self::Tcp(tcp) if tcp.tells_departure(peer))
    }
}

impl RemoteMemory for Network {
    const HAS_REMOTE_MEMORY: bool = Tcp::HAS_REMOTE_MEMORY;

    fn zcopy(&mut self, peer: PeerId, header: &[u8], gather: &[Gather], token: Token) -> Post {
        match self {
            Self::Vacant => Post::Never(Cause::Unreachable),
            Self::Tcp(tcp) => tcp.zcopy(peer, header, gather, token),
            Self::Ethernet(_) => Post::Never(Cause::Unsupported),
        }
    }

    unsafe fn register(&mut self, peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        match self {
            // SAFETY: the same promises, of the caller's.
            Self::Tcp(tcp) => unsafe { tcp.register(peer, memory, access) },
            Self::Vacant | Self::Ethernet(_) => Err(Cause::Unsupported),
        }
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        match self {
            Self::Tcp(tcp) => tcp.deregister(region),
            Self::Vacant | Self::Ethernet(_) => Err(Cause::Stale),
        }
    }
}
