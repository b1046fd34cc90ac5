//! What a rank's program is given of its virtual machine: [`SimTransport`] and [`SimPlatform`].

use core::cell::RefCell;
use core::fmt;
use std::rc::Rc;

use aldis_kernel::hal::transport::Quiesce;
use aldis_kernel::hal::{
    Activity, Again, Caps, Cause, Cost, Features, Instant, Limits, PeerId, Platform, Post, Refusal, Sink,
    Slot, Transport,
};
use corosensei::Yielder;

use super::config::Network;
use super::queue::Delivery;
use super::world::World;

/// Largest short message, bytes: the longest header with 24 bytes of payload.
const SHORT_BYTES: u32 = 56;
/// How long an idle node rests at most, unless something arrives: first and in the long run, ns.
const NAP_NS: u64 = 50_000;
const NAP_DOUBLINGS: u32 = 5;
/// Idle polls after which it rests twice as long.
const NAPS_A_DOUBLING: u32 = 16;

/// A node as its program's coroutine sees it.
#[derive(Clone)]
pub(crate) struct Cpu<'a> {
    pub(crate) world: Rc<RefCell<World>>,
    pub(crate) node: u32,
    pub(crate) yielder: &'a Yielder<(), ()>,
}

impl Cpu<'_> {
    /// Lets the others run: until something arrives here or `ns` have passed.
    pub(crate) fn rest(&self, ns: u64) {
        self.world.borrow_mut().rest(self.node, ns);
        self.yielder.suspend(());
    }

    /// Rests after so many polls that found nothing.
    pub(crate) fn nap(&self, idle: u32) {
        self.rest(NAP_NS << (idle / NAPS_A_DOUBLING).min(NAP_DOUBLINGS));
    }
}

/// A node's end of the virtual network: ordered and reliable to each peer, with little room.
pub struct SimTransport<'a> {
    cpu: Cpu<'a>,
    ranks: u32,
    caps: Caps,
}

impl<'a> SimTransport<'a> {
    pub(crate) fn new(cpu: Cpu<'a>) -> Self {
        let (ranks, network) = {
            let world = cpu.world.borrow();
            (world.config.ranks, world.config.network)
        };
        Self { cpu, ranks, caps: caps(&network) }
    }

    /// Whether `peer` takes a message of `len` bytes now.
    fn admit(&self, peer: PeerId, len: usize, max: u32) -> Result<(), Refusal> {
        let mut world = self.cpu.world.borrow_mut();
        if len > max as usize {
            return Err(Refusal::Never(Cause::TooBig { len: len as u64, max: u64::from(max) }));
        }
        if peer.0 >= self.ranks {
            return Err(Refusal::Never(Cause::Unreachable));
        }
        if world.is_gone(self.cpu.node, peer.0) {
            return Err(Refusal::Never(Cause::PeerDead));
        }
        match world.has_room(self.cpu.node, peer.0) {
            true => Ok(()),
            false => Err(Refusal::Again(Again::NoSlot)),
        }
    }

    fn post(&self, peer: PeerId, bytes: Vec<u8>) {
        self.cpu.world.borrow_mut().post(self.cpu.node, peer.0, bytes);
    }
}

fn caps(network: &Network) -> Caps {
    let clamped = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
    Caps {
        features: Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE,
        limits: Limits {
            short_bytes_max: SHORT_BYTES,
            bcopy_bytes_max: network.bcopy_bytes_max,
            ..Limits::default()
        },
        cost: Cost {
            overhead_ns: clamped(network.overhead_ns),
            latency_ns: clamped(network.latency_ns),
            per_kib_ns: clamped(network.per_kib_ns),
        },
    }
}

/// A message being written. Nothing is taken before [`commit`](Slot::commit).
pub struct SimSlot<'t, 'a> {
    transport: &'t SimTransport<'a>,
    peer: PeerId,
    bytes: Vec<u8>,
}

impl Slot for SimSlot<'_, '_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn commit(self) {
        self.transport.post(self.peer, self.bytes);
    }
}

impl<'a> Transport for SimTransport<'a> {
    type Slot<'t>
        = SimSlot<'t, 'a>
    where
        Self: 't;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn features(&self) -> Features {
        self.caps.features
    }

    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match peer.0 < self.ranks {
            false => Err(Cause::Unreachable),
            true if self.cpu.world.borrow().is_gone(self.cpu.node, peer.0) => Err(Cause::PeerDead),
            true => Ok(&self.caps),
        }
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

    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<SimSlot<'_, 'a>, Refusal> {
        self.admit(peer, len, self.caps.limits.bcopy_bytes_max)?;
        // Bytes that nobody wrote are to be noticed.
        Ok(SimSlot { transport: self, peer, bytes: vec![0xEE; len] })
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        let Quiesce::Peer(peer) = what else { return Err(Cause::Stale) };
        self.cpu.world.borrow_mut().let_go(self.cpu.node, peer.0);
        Ok(())
    }

    /// A second poll in a row that finds nothing, with no rest in between, is a rest: programs that only test and
    /// poll let the others run too.
    fn poll<S: Sink>(&mut self, budget: u32, _now: Instant, sink: &mut S) -> u32 {
        let mut events = 0;
        while events < budget {
            // Not in the loop's condition: that would keep the world borrowed.
            let taken = self.cpu.world.borrow_mut().take(self.cpu.node);
            match taken {
                Some(Delivery::Message(from, bytes)) => sink.arrived(PeerId(from), &bytes),
                Some(Delivery::Ready(peer)) => sink.ready(PeerId(peer)),
                Some(Delivery::Lost(peer)) => sink.lost(PeerId(peer), Cause::PeerDead),
                None => break,
            }
            events += 1;
        }
        let idle = {
            let node = &mut self.cpu.world.borrow_mut().nodes[self.cpu.node as usize];
            node.idle_polls = if events == 0 { node.idle_polls + 1 } else { 0 };
            node.idle_polls
        };
        if idle > 1 {
            self.cpu.rest(1_000);
        }
        events
    }
}

impl fmt::Debug for SimTransport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTransport").field("node", &self.cpu.node).field("caps", &self.caps).finish()
    }
}

/// A node's clock, rest and entropy. [`relax`](Platform::relax) is where the other nodes get their turn.
pub struct SimPlatform<'a> {
    pub(crate) cpu: Cpu<'a>,
}

impl Platform for SimPlatform<'_> {
    fn now(&self) -> Instant {
        Instant(self.cpu.world.borrow_mut().clock(self.cpu.node))
    }

    fn relax(&mut self, idle: u32) {
        self.cpu.nap(idle);
    }

    fn entropy(&mut self) -> u64 {
        self.cpu.world.borrow_mut().nodes[self.cpu.node as usize].entropy.draw()
    }

    fn note(&mut self, activity: Activity) {
        self.cpu.world.borrow_mut().nodes[self.cpu.node as usize].activity = activity;
    }
}

impl fmt::Debug for SimPlatform<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimPlatform").field("node", &self.cpu.node).finish()
    }
}
