//! `Verbs` as the kernel sees it.

use aldis_hal::transport::{Quiesce, Slot};
use aldis_hal::{Caps, Cause, Epoch, Features, Instant, PeerId, Post, Refusal, Sink, Transport};

use super::Verbs;
use super::engine::Engine;

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

impl Transport for Verbs {
    type Slot<'a>
        = VerbsSlot<'a>
    where
        Self: 'a;

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

    /// Letting go of a peer destroys its queue pair, and what was under way with it.
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match (what, &mut self.engine) {
            (Quiesce::Peer(peer), Some(engine)) => engine.quiesce(peer),
            _ => Err(Cause::Stale),
        }
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
