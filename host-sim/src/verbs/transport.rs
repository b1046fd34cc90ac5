//! `Verbs` as the kernel sees it.

use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::transport::{Atomic, Quiesce, Remote, Slot};
use aldis_hal::{
    Caps, Cause, Epoch, Features, Instant, PeerId, Post, Refusal, RegionId, Sink, Token, Transport,
};

use super::Verbs;
use super::engine::Engine;
use super::sys::Act;

/// A message being written, in the registered memory that it will be sent from. Nothing is taken before
/// [`commit`](Slot::commit).
#[derive(Debug)]
pub struct VerbsSlot<'a> {
    engine: &'a mut Engine,
    peer: PeerId,
    slot: u16,
    length: usize,
}

impl Slot for VerbsSlot<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        self.engine.room(self.peer, self.slot, self.length)
    }

    #[inline]
    fn commit(self) {
        self.engine.commit(self.peer, self.slot, self.length);
    }
}

impl Verbs {
    fn act(&mut self, peer: PeerId, act: Act, local: Gather, remote: Remote<'_>, token: Token) -> Post {
        match &mut self.engine {
            Some(engine) => engine.act(peer, act, local, remote, token),
            None => Post::Never(Cause::Unreachable),
        }
    }
}

impl Transport for Verbs {
    type Slot<'a>
        = VerbsSlot<'a>
    where
        Self: 'a;

    const DIRECT: bool = true;

    fn name(&self) -> &'static str {
        "verbs"
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.engine.as_ref().ok_or(Cause::Unreachable)?.reach(peer)
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.engine.as_mut().ok_or(Cause::Unreachable)?.introduce(peer, epoch, address)
    }

    #[inline]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match &mut self.engine {
            Some(engine) => engine.short(peer, header, payload),
            None => Post::Never(Cause::Unreachable),
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<VerbsSlot<'_>, Refusal> {
        let engine = self.engine.as_mut().ok_or(Refusal::Never(Cause::Unreachable))?;
        let slot = engine.admit(peer, len)?;
        Ok(VerbsSlot { engine, peer, slot, length: len })
    }

    /// A read is not ordered with messages. Completed by [`Cause::Stale`] if the peer's device refused it.
    fn get(&mut self, peer: PeerId, local: Gather, remote: Remote<'_>, token: Token) -> Post {
        self.act(peer, Act::Read, local, remote, token)
    }

    /// A completion means that the peer's device has it.
    fn put(&mut self, peer: PeerId, local: Gather, remote: Remote<'_>, token: Token) -> Post {
        self.act(peer, Act::Write, local, remote, token)
    }

    fn atomic(&mut self, peer: PeerId, op: Atomic, local: Gather, remote: Remote<'_>, token: Token) -> Post {
        self.act(peer, Act::Update(op), local, remote, token)
    }

    /// Any peer that is given the key can use it. [`Cause::TooBig`] says how much was to be locked, and how much may be.
    fn register(&mut self, _peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        self.engine.as_mut().ok_or(Cause::Unreachable)?.register(memory, access)
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        self.engine.as_mut().ok_or(Cause::Stale)?.deregister(region)
    }

    fn pack_key(&self, region: RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        self.engine.as_ref().ok_or(Cause::Stale)?.pack_key(region, key)
    }

    /// Letting go of a peer destroys its queue pairs; letting go of a region or a post, the one that all reads, writes and
    /// atomics of that peer are on.
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        self.engine.as_mut().ok_or(Cause::Stale)?.quiesce(what)
    }

    #[inline]
    fn poll<S: Sink>(&mut self, budget: u32, _now: Instant, sink: &mut S) -> u32 {
        match &mut self.engine {
            Some(engine) => engine.poll(budget, sink),
            None => 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| engine.is_idle())
    }

    #[inline]
    fn features(&self) -> Features {
        self.engine.as_ref().map_or(Features::empty(), |engine| engine.features())
    }
}
