//! This module holds `unsafe` code, a function that is `unsafe` to call: `Verbs` as the kernel sees
//! it.

use aldis_drivers::ethernet::EthernetSlot;
use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::remote_memory::{AtomicUpdate, RemoteAddress};
use aldis_hal::transport::{Quiesce, Slot};
use aldis_hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, PeerId, Post, Refusal, RegionId, RemoteMemory, Sink,
    Token, Transport,
};

use super::address::Address;
use super::choice::Mode;
use super::engine::{MemoryRequest, VerbsEngine};
use super::nic::DatagramNic;
use super::sys::DirectOperation;
use super::{MessagePath, Verbs};

/// A message being written, in the memory that it will be sent from. Nothing is taken before
/// [`commit`](Slot::commit).
#[derive(Debug)]
pub struct VerbsSlot<'a>(SlotPlace<'a>);

#[derive(Debug)]
enum SlotPlace<'a> {
    Connected { engine: &'a mut VerbsEngine, peer: PeerId, slot: u16, length: usize },
    Datagrams(EthernetSlot<'a, 'static, DatagramNic>),
}

impl Slot for VerbsSlot<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        match &mut self.0 {
            SlotPlace::Connected { engine, peer, slot, length } => engine.room(*peer, *slot, *length),
            SlotPlace::Datagrams(slot) => slot.bytes(),
        }
    }

    #[inline]
    fn commit(self) {
        match self.0 {
            SlotPlace::Connected { engine, peer, slot, length } => engine.commit(peer, slot, length),
            SlotPlace::Datagrams(slot) => slot.commit(),
        }
    }
}

impl Verbs {
    /// Returns the engine of connections, which alone reach memory.
    const fn engine(&self) -> Option<&VerbsEngine> {
        match &self.0 {
            MessagePath::Connected(engine) => Some(engine),
            MessagePath::None | MessagePath::Datagrams(_) => None,
        }
    }

    const fn engine_mut(&mut self) -> Option<&mut VerbsEngine> {
        match &mut self.0 {
            MessagePath::Connected(engine) => Some(engine),
            MessagePath::None | MessagePath::Datagrams(_) => None,
        }
    }

    fn act(&mut self, peer: PeerId, request: MemoryRequest<'_>, token: Token) -> Post {
        let unsupported = Post::Never(Cause::Unsupported);
        self.engine_mut().map_or(unsupported, |engine| engine.act(peer, request, token))
    }
}

impl Transport for Verbs {
    type Slot<'a>
        = VerbsSlot<'a>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        match self.0 {
            MessagePath::None | MessagePath::Connected(_) => "verbs",
            MessagePath::Datagrams(_) => "verbs-ud",
        }
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match &self.0 {
            MessagePath::None => Err(Cause::Unreachable),
            MessagePath::Connected(engine) => engine.reach(peer),
            MessagePath::Datagrams(wire) => wire.seen().reach(peer),
        }
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        match &mut self.0 {
            MessagePath::None => Err(Cause::Unreachable),
            MessagePath::Connected(engine) => engine.introduce(peer, epoch, address),
            MessagePath::Datagrams(wire) => {
                let address = Address::decode(address, Mode::Datagrams).ok_or(Cause::Unreachable)?;
                wire.introduce(peer, epoch, &address)
            }
        }
    }

    #[inline]
    fn expect(&mut self, peer: PeerId) {
        match &mut self.0 {
            MessagePath::None => {}
            MessagePath::Connected(engine) => engine.expect(peer),
            MessagePath::Datagrams(wire) => wire.messages().expect(peer),
        }
    }

    #[inline]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match &mut self.0 {
            MessagePath::None => Post::Never(Cause::Unreachable),
            MessagePath::Connected(engine) => engine.short(peer, header, payload),
            MessagePath::Datagrams(wire) => wire.messages().short(peer, header, payload),
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<VerbsSlot<'_>, Refusal> {
        match &mut self.0 {
            MessagePath::None => Err(Refusal::Never(Cause::Unreachable)),
            MessagePath::Connected(engine) => {
                let slot = engine.admit(peer, len)?;
                Ok(VerbsSlot(SlotPlace::Connected { engine, peer, slot, length: len }))
            }
            MessagePath::Datagrams(wire) => {
                wire.messages().reserve(peer, len).map(SlotPlace::Datagrams).map(VerbsSlot)
            }
        }
    }

    /// Letting go of a peer destroys its queue pairs; letting go of a region or a post, the one
    /// that all reads, writes and atomics of that peer are on.
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match &mut self.0 {
            MessagePath::None => Err(Cause::Stale),
            MessagePath::Connected(engine) => engine.quiesce(what),
            MessagePath::Datagrams(wire) => wire.messages().quiesce(what),
        }
    }

    #[inline]
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        match &mut self.0 {
            MessagePath::None => 0,
            MessagePath::Connected(engine) => engine.poll(budget, now, sink),
            MessagePath::Datagrams(wire) => wire.poll(budget, now, sink),
        }
    }

    fn is_idle(&self) -> bool {
        match &self.0 {
            MessagePath::None => true,
            MessagePath::Connected(engine) => engine.is_idle(),
            MessagePath::Datagrams(wire) => wire.seen().is_idle(),
        }
    }

    #[inline]
    fn features(&self) -> Features {
        match &self.0 {
            MessagePath::None => Features::empty(),
            MessagePath::Connected(engine) => engine.features(),
            MessagePath::Datagrams(wire) => wire.seen().features(),
        }
    }
}

impl Extras for Verbs {
    /// Returns little: what is longer is read or written by the card.
    fn eager_bytes_max(&self, _peer: PeerId) -> u32 {
        8 << 10
    }
}

impl RemoteMemory for Verbs {
    const HAS_REMOTE_MEMORY: bool = true;

    /// A read is not ordered with messages. Completed by [`Cause::Stale`] if the peer's device
    /// refused it.
    fn get(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        self.act(peer, MemoryRequest { operation: DirectOperation::Read, local, remote }, token)
    }

    /// A completion means that the bytes can be seen there.
    fn put(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        self.act(peer, MemoryRequest { operation: DirectOperation::Write, local, remote }, token)
    }

    fn atomic(&mut self, peer: PeerId, update: AtomicUpdate<'_>, token: Token) -> Post {
        let AtomicUpdate { op, word, fetched } = update;
        let operation = DirectOperation::Update(op);
        self.act(peer, MemoryRequest { operation, local: fetched, remote: word }, token)
    }

    /// Any peer that is given the key can use it. [`Cause::TooBig`] says how much was to be locked,
    /// and how much may be.
    unsafe fn register(&mut self, _peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        let engine = self.engine_mut().ok_or(Cause::Unsupported)?;
        // SAFETY: the same promises, of the caller's.
        unsafe { engine.register(memory, access) }
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        self.engine_mut().ok_or(Cause::Stale)?.deregister(region)
    }

    fn pack_key(&self, region: RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        self.engine().ok_or(Cause::Stale)?.pack_key(region, key)
    }
}
