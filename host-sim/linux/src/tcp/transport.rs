//! This module holds `unsafe` code, a function that is `unsafe` to call: `Tcp` as the kernel sees
//! it.

use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::transport::{Quiesce, Slot};
use aldis_hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, PeerId, Post, Refusal, RegionId, RemoteMemory, Sink,
    Token, Transport,
};

use super::Tcp;
use super::engine::TcpEngine;

/// A message being written, in the memory of the connection that will carry it. Nothing is taken
/// before [`commit`](Slot::commit).
#[derive(Debug)]
pub struct TcpSlot<'a> {
    engine: &'a mut TcpEngine,
    peer: PeerId,
    slot: u32,
    length: usize,
}

impl Slot for TcpSlot<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        self.engine.room(self.slot, self.length)
    }

    #[inline]
    fn commit(self) {
        self.engine.commit(self.peer, self.slot, self.length);
    }
}

impl Transport for Tcp {
    type Slot<'a>
        = TcpSlot<'a>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        "tcp"
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.engine.as_ref().ok_or(Cause::Unreachable)?.reach(peer)
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.engine.as_mut().ok_or(Cause::Unreachable)?.introduce(peer, epoch, address)
    }

    #[inline]
    fn expect(&mut self, peer: PeerId) {
        if let Some(engine) = &mut self.engine {
            engine.expect(peer);
        }
    }

    #[inline]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match &mut self.engine {
            Some(engine) => engine.short(peer, header, payload),
            None => Post::Never(Cause::Unreachable),
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<TcpSlot<'_>, Refusal> {
        let engine = self.engine.as_mut().ok_or(Refusal::Never(Cause::Unreachable))?;
        let slot = engine.route(peer, len, |outgoing| outgoing.has_room(len))?;
        Ok(TcpSlot { engine, peer, slot, length: len })
    }

    /// Letting go of a peer drops its connections, and what was under way with them.
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match (what, &mut self.engine) {
            (Quiesce::Peer(peer), Some(engine)) => engine.quiesce(peer),
            _ => Err(Cause::Stale),
        }
    }

    #[inline]
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        match &mut self.engine {
            Some(engine) => engine.poll(budget, now, sink),
            None => 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| engine.is_idle())
    }

    #[inline]
    fn features(&self) -> Features {
        self.engine.as_ref().map_or(Features::empty(), |engine| engine.caps.features)
    }
}

impl Extras for Tcp {
    #[inline]
    fn cork(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.corked = true;
        }
    }

    #[inline]
    fn uncork(&mut self, more: bool) {
        if let Some(engine) = &mut self.engine {
            engine.uncork(more);
        }
    }

    /// Returns true of a peer without a connection: who waits for this rank makes one. If it is too
    /// late for that, nobody listens any more, which the launcher tells, or else the end of the
    /// time for connections.
    fn tells_departure(&self, peer: PeerId) -> bool {
        self.engine.as_ref().is_none_or(|engine| !engine.is_in_touch(peer))
    }
}

impl RemoteMemory for Tcp {
    const HAS_REMOTE_MEMORY: bool = true;

    fn zcopy(&mut self, peer: PeerId, header: &[u8], gather: &[Gather], token: Token) -> Post {
        match &mut self.engine {
            Some(engine) => engine.zcopy(peer, header, gather, token),
            None => Post::Never(Cause::Unreachable),
        }
    }

    /// Memory can be sent from, and nothing else.
    unsafe fn register(&mut self, peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        match &mut self.engine {
            // SAFETY: the same promises, of the caller's.
            Some(engine) if access == Access::LOCAL_READ => unsafe { engine.regions.register(peer, memory) },
            _ => Err(Cause::Unsupported),
        }
    }

    /// Deregisters a region: what waits to be sent of it goes out without a meaning.
    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        self.engine.as_mut().ok_or(Cause::Stale)?.deregister(region)
    }
}
