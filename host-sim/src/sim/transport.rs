//! [`SimTransport`]: what the kernel of a virtual node talks over, and what its node knows of the others.

use core::fmt;

use aldis_kernel::hal::transport::{Quiesce, Route};
use aldis_kernel::hal::{
    Caps, Cause, Epoch, Features, Instant, PeerId, Post, Refusal, Sink, Slot, Transport,
};
use aldis_kernel::protocols::Card;
use aldis_kernel::protocols::card::Room;

use super::messages::{MessageSlot, Messages};
use super::node::Cpu;
use super::world::Life;

/// A node's end of the virtual network.
pub struct SimTransport<'a> {
    cpu: Cpu<'a>,
    /// What every rank's storage sets aside for a peer.
    room: Room,
    wire: Messages<'a>,
}

impl<'a> SimTransport<'a> {
    pub(crate) fn new(cpu: Cpu<'a>, room: Room) -> Self {
        Self { wire: Messages::new(cpu.clone()), cpu, room }
    }

    /// The card of a peer as it is now: what a launcher or a discovery service would tell. `None` while it is dead.
    pub fn card_of(&self, peer: PeerId) -> Option<Card> {
        let world = self.cpu.world.borrow();
        let lives = world.nodes.get(peer.index()).is_some_and(|node| node.life != Life::Dead);
        if lives { world.card(peer.0, self.room) } else { None }
    }

    /// The node's own time, ns since the run began.
    pub fn now(&self) -> Instant {
        Instant(self.cpu.world.borrow_mut().clock(self.cpu.node))
    }

    /// How often a node has booted again, this one or another.
    pub fn boots(&self, peer: PeerId) -> u32 {
        self.cpu.world.borrow().nodes.get(peer.index()).map_or(0, |node| node.boots)
    }
}

/// A message being written. Nothing is taken before [`commit`](Slot::commit).
pub struct SimSlot<'t, 'a>(MessageSlot<'t, 'a>);

impl Slot for SimSlot<'_, '_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.0.bytes()
    }

    fn commit(self) {
        self.0.commit();
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
        self.wire.features()
    }

    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.wire.reach(peer)
    }

    fn survey(&self, peer: PeerId, visit: impl FnMut(Route<'_>)) {
        self.wire.survey(peer, visit);
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.wire.introduce(peer, epoch, address)
    }

    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        self.wire.short(peer, header, payload)
    }

    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<SimSlot<'_, 'a>, Refusal> {
        self.wire.reserve(peer, len).map(SimSlot)
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        self.wire.quiesce(what)
    }

    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let events = self.wire.poll(budget, now, sink);
        self.cpu.polled(events);
        events
    }
}

impl fmt::Debug for SimTransport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTransport").field("node", &self.cpu.node).finish()
    }
}
