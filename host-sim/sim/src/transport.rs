//! [`SimTransport`]: the transport of a virtual node's kernel, and what its node knows of the
//! others.

use core::fmt;

use aldis_drivers::Loopback;
use aldis_drivers::ethernet::{Ethernet, EthernetCounters};
use aldis_kernel::hal::transport::{Quiesce, Route};
use aldis_kernel::hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, PeerId, Post, Refusal, RemoteMemory, Sink, Slot, Token,
    Transport,
};
use aldis_kernel::protocols::Card;
use aldis_kernel::protocols::card::Room;
use aldis_kernel::{Composite, Either};

use super::links::{self, LinkMemory};
use super::messages::Messages;
use super::nic::SimNic;
use super::node::Cpu;
use super::world::Life;

/// The transport of a rank's messages on the wire of frames: to itself through its memory, to the
/// others over Ethernet.
type Frames<'a> = Composite<Loopback<'a>, Ethernet<'a, SimNic<'a>>>;

/// A node's end of the virtual network.
pub struct SimTransport<'a> {
    cpu: Cpu<'a>,
    /// The room that every rank's storage sets aside for a peer.
    room: Room,
    wire: TransportEnd<'a>,
}

#[expect(clippy::large_enum_variant, reason = "one a node")]
enum TransportEnd<'a> {
    Messages(Messages<'a>),
    Frames(Frames<'a>),
}

impl<'a> SimTransport<'a> {
    pub(crate) fn new(cpu: Cpu<'a>, room: Room, memory: Option<LinkMemory<'a>>) -> Result<Self, Cause> {
        let wire = match memory {
            None => TransportEnd::Messages(Messages::new(cpu.clone())),
            Some(LinkMemory { ethernet, loopback, message_bytes }) => {
                let me = PeerId(cpu.node);
                let config = {
                    let world = cpu.world.borrow();
                    let epoch = world.nodes[me.index()].epoch;
                    links::config(&world.config, me, epoch, world.config.network.cost())
                };
                let loopback = Loopback::new(me, loopback, message_bytes)?;
                TransportEnd::Frames(Composite::new(
                    loopback,
                    Ethernet::new(SimNic::new(cpu.clone()), ethernet, config)?,
                ))
            }
        };
        Ok(Self { cpu, room, wire })
    }

    /// The card of a peer as it is now: what a launcher or a discovery service would tell. `None`
    /// while it is dead.
    pub fn card_of(&self, peer: PeerId) -> Option<Card> {
        let world = self.cpu.world.borrow();
        let lives = world.nodes.get(peer.index()).is_some_and(|node| node.life != Life::Dead);
        if lives { world.card(peer.0, self.room) } else { None }
    }

    /// The node's own time, ns since the run began.
    pub fn now(&self) -> Instant {
        Instant(self.cpu.world.borrow_mut().clock(self.cpu.node))
    }

    /// Returns the number of times that a node has booted again, this one or another.
    pub fn boots(&self, peer: PeerId) -> u32 {
        self.cpu.world.borrow().nodes.get(peer.index()).map_or(0, |node| node.boots)
    }

    /// On the wire of frames, what the Ethernet transport has seen.
    pub fn ethernet(&self) -> Option<EthernetCounters> {
        match &self.wire {
            TransportEnd::Messages(_) => None,
            TransportEnd::Frames(frames) => Some(frames.second().counters()),
        }
    }
}

/// A message being written. Nothing is taken before [`commit`](Slot::commit).
pub struct SimSlot<'t, 'a: 't> {
    reserved: Reserved<'t, 'a>,
    cpu: &'t Cpu<'a>,
    peer: PeerId,
}

type Reserved<'t, 'a> = Either<<Messages<'a> as Transport>::Slot<'t>, <Frames<'a> as Transport>::Slot<'t>>;

impl<'t, 'a: 't> Slot for SimSlot<'t, 'a> {
    fn bytes(&mut self) -> &mut [u8] {
        self.reserved.bytes()
    }

    fn commit(mut self) {
        let Cpu { world, node, .. } = self.cpu;
        world.borrow_mut().posted(*node, self.peer.0, self.reserved.bytes());
        self.reserved.commit();
    }
}

/// Hands on what arrives, after the observer has looked at it.
struct Watching<'w, 'a, S> {
    sink: &'w mut S,
    cpu: &'w Cpu<'a>,
}

impl<S: Sink> Sink for Watching<'_, '_, S> {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        self.cpu.world.borrow_mut().watch.delivered(from.0, self.cpu.node, message);
        self.sink.arrived(from, message);
    }

    fn completed(&mut self, token: Token, result: Result<(), Cause>) {
        self.sink.completed(token, result);
    }

    fn ready(&mut self, peer: PeerId) {
        self.sink.ready(peer);
    }

    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.sink.lost(peer, cause);
    }
}

/// Does the same on either wire.
macro_rules! on {
    ($wire:expr, $end:ident => $do:expr) => {
        match $wire {
            TransportEnd::Messages($end) => $do,
            TransportEnd::Frames($end) => $do,
        }
    };
}

impl<'a> Transport for SimTransport<'a> {
    type Slot<'t>
        = SimSlot<'t, 'a>
    where
        Self: 't;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn is_idle(&self) -> bool {
        on!(&self.wire, end => end.is_idle())
    }

    fn features(&self) -> Features {
        on!(&self.wire, end => end.features())
    }

    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        on!(&self.wire, end => end.reach(peer))
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        on!(&mut self.wire, end => end.introduce(peer, epoch, address))?;
        if peer.index() < self.cpu.world.borrow().nodes.len() {
            self.cpu.world.borrow_mut().introduce(self.cpu.node, peer.0, epoch);
        }
        Ok(())
    }

    fn expect(&mut self, peer: PeerId) {
        on!(&mut self.wire, end => end.expect(peer));
    }

    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let post = on!(&mut self.wire, end => end.short(peer, header, payload));
        if let Post::Done | Post::Queued = post {
            let message = [header, payload].concat();
            self.cpu.world.borrow_mut().posted(self.cpu.node, peer.0, &message);
        }
        post
    }

    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<SimSlot<'_, 'a>, Refusal> {
        let reserved = match &mut self.wire {
            TransportEnd::Messages(end) => end.reserve(peer, len).map(Either::First),
            TransportEnd::Frames(end) => end.reserve(peer, len).map(Either::Second),
        }?;
        Ok(SimSlot { reserved, cpu: &self.cpu, peer })
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        on!(&mut self.wire, end => end.quiesce(what))
    }

    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let watching = &mut Watching { sink, cpu: &self.cpu };
        let events = on!(&mut self.wire, end => end.poll(budget, now, watching));
        if let TransportEnd::Frames(frames) = &self.wire {
            self.cpu.world.borrow_mut().nodes[self.cpu.node as usize].timer = frames.second().poll_at().0;
        }
        self.cpu.polled(events);
        events
    }
}

impl Extras for SimTransport<'_> {
    fn survey(&self, peer: PeerId, visit: impl FnMut(Route<'_>)) {
        on!(&self.wire, end => end.survey(peer, visit));
    }

    fn cork(&mut self) {
        on!(&mut self.wire, end => end.cork());
    }

    fn uncork(&mut self, more: bool) {
        on!(&mut self.wire, end => end.uncork(more));
    }
}

impl RemoteMemory for SimTransport<'_> {}

impl fmt::Debug for SimTransport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTransport").field("node", &self.cpu.node).finish()
    }
}
