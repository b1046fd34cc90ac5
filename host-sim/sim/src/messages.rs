//! The transport over the wire of messages.

use core::fmt;

use aldis_kernel::hal::transport::Quiesce;
use aldis_kernel::hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, Limits, PeerId, Post, Refusal, RemoteMemory, Sink, Slot,
    Transport,
};

use super::config::Network;
use super::node::Cpu;
use super::queue::Delivery;

/// Largest short message, bytes: the longest header with 24 bytes of payload.
const SHORT_BYTES: u32 = 56;

/// A node's end of the wire of messages: ordered and reliable to each peer, with little room.
pub(crate) struct Messages<'a> {
    cpu: Cpu<'a>,
    ranks: u32,
    caps: Caps,
}

impl<'a> Messages<'a> {
    pub(crate) fn new(cpu: Cpu<'a>) -> Self {
        let (ranks, network) = {
            let world = cpu.world.borrow();
            (world.config.ranks, world.config.network)
        };
        Self { cpu, ranks, caps: caps(&network) }
    }

    /// Fails unless `peer` takes a message of `len` bytes now.
    fn admit(&self, peer: PeerId, len: usize, max: u32) -> Result<(), Refusal> {
        if len > max as usize {
            return Err(Refusal::Never(Cause::TooBig { len: len as u64, max: u64::from(max) }));
        }
        if peer.0 >= self.ranks {
            return Err(Refusal::Never(Cause::Unreachable));
        }
        self.cpu.world.borrow_mut().admit(self.cpu.node, peer.0)
    }

    fn post(&self, peer: PeerId, bytes: Vec<u8>) {
        self.cpu.world.borrow_mut().post(self.cpu.node, peer.0, bytes);
    }
}

fn caps(network: &Network) -> Caps {
    Caps {
        features: Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE,
        limits: Limits {
            short_bytes_max: SHORT_BYTES,
            bcopy_bytes_max: network.bcopy_bytes_max,
            ..Limits::default()
        },
        cost: network.cost(),
        ..Caps::default()
    }
}

/// A message being written. Nothing is taken before [`commit`](Slot::commit).
pub(crate) struct MessageSlot<'t, 'a> {
    transport: &'t Messages<'a>,
    peer: PeerId,
    bytes: Vec<u8>,
}

impl Slot for MessageSlot<'_, '_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn commit(self) {
        self.transport.post(self.peer, self.bytes);
    }
}

impl<'a> Transport for Messages<'a> {
    type Slot<'t>
        = MessageSlot<'t, 'a>
    where
        Self: 't;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn features(&self) -> Features {
        self.caps.features
    }

    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        if peer.0 >= self.ranks {
            return Err(Cause::Unreachable);
        }
        self.cpu.world.borrow().goes_to(self.cpu.node, peer.0).map(|()| &self.caps)
    }

    fn introduce(&mut self, peer: PeerId, _epoch: Epoch, _address: &[u8]) -> Result<(), Cause> {
        if peer.0 < self.ranks { Ok(()) } else { Err(Cause::Unreachable) }
    }

    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match self.admit(peer, header.len() + payload.len(), SHORT_BYTES) {
            Ok(()) => {
                self.post(peer, [header, payload].concat());
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }

    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<MessageSlot<'_, 'a>, Refusal> {
        self.admit(peer, len, self.caps.limits.bcopy_bytes_max)?;
        // Bytes that no sender wrote are to be noticed.
        Ok(MessageSlot { transport: self, peer, bytes: vec![0xEE; len] })
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        let Quiesce::Peer(peer) = what else { return Err(Cause::Stale) };
        self.cpu.world.borrow_mut().let_go(self.cpu.node, peer.0);
        Ok(())
    }

    fn poll<S: Sink>(&mut self, budget: u32, _now: Instant, sink: &mut S) -> u32 {
        let mut events = 0;
        while events < budget {
            // Not in the loop's condition: that would keep the world borrowed.
            let taken = self.cpu.world.borrow_mut().take(self.cpu.node);
            match taken {
                Some(Delivery::Message(message)) => sink.arrived(PeerId(message.from), &message.bytes),
                Some(Delivery::Ready(peer)) => sink.ready(PeerId(peer)),
                Some(Delivery::Lost { peer, cause, .. }) => sink.lost(PeerId(peer), cause),
                Some(Delivery::Frame(_)) | None => break,
            }
            events += 1;
        }
        events
    }
}

impl Extras for Messages<'_> {}

impl RemoteMemory for Messages<'_> {}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("node", &self.cpu.node).field("caps", &self.caps).finish()
    }
}
