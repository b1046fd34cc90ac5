//! The wire of messages: from each node to each other a lane that keeps order, loses nothing and
//! has little room. It joins two lives of two nodes that know each other; what belongs to another
//! life is dropped.

use std::collections::VecDeque;

use aldis_kernel::hal::{Again, Cause, Epoch, Refusal};

use super::{Delivery, EventKind, Life, Record, Wire, World, lives};
use crate::queue::Message;

/// The messages from one node to another.
#[derive(Debug, Default)]
pub(super) struct NodeLane {
    /// Under way or arrived and not taken.
    held: u32,
    /// A post was refused since the sender was last told that there is room.
    waiting: bool,
    /// The time at which the last one arrives.
    last_ns: u64,
}

impl World {
    /// The life in which `node` knows `peer`: the first, until it was introduced to another.
    pub(crate) fn knows(&self, node: u32, peer: u32) -> Epoch {
        let known = self.nodes[node as usize].known.get(&peer);
        known.copied().unwrap_or_else(|| lives::epoch(self.config.seed, peer, 0))
    }

    /// Introduces this life of `peer`, to which the node sends from now on.
    pub(crate) fn introduce(&mut self, index: u32, peer: u32, epoch: Epoch) {
        if epoch == self.knows(index, peer) {
            return;
        }
        let node = &mut self.nodes[index as usize];
        node.gone.remove(&peer);
        node.known.insert(peer, epoch);
        let is_stale = |delivery: &Delivery| match delivery {
            Delivery::Message(message) => message.from == peer && message.epoch != epoch,
            Delivery::Lost { peer: lost, epoch: old, .. } => *lost == peer && *old != epoch,
            Delivery::Ready(_) | Delivery::Frame(_) => false,
        };
        self.discard(index, is_stale);
        let of = &self.nodes[peer as usize];
        // This life may have been over before it was known here.
        match of.life {
            Life::Dead => self.tell_death(index, peer, epoch),
            _ if of.epoch != epoch => self.tell_death(index, peer, epoch),
            Life::Over => self.tell_end(index, peer),
            Life::Alive | Life::Lingering => {}
        }
        // It may have tried before it was known here.
        self.tell_ready(peer, index);
    }

    /// Fails if `from` lets nothing more to `to` through.
    pub(crate) fn goes_to(&self, from: u32, to: u32) -> Result<(), Cause> {
        self.nodes[from as usize].gone.get(&to).map_or(Ok(()), |cause| Err(*cause))
    }

    /// `from` lets go of `to`.
    pub(crate) fn let_go(&mut self, from: u32, to: u32) {
        self.nodes[from as usize].gone.entry(to).or_insert(Cause::PeerDead);
        self.discard(from, |delivery| matches!(delivery, Delivery::Message(message) if message.from == to));
    }

    /// Drops some of what has come for a node.
    fn discard(&mut self, index: u32, is_void: impl Fn(&Delivery) -> bool) {
        if self.nodes[index as usize].inbox.is_empty() {
            return;
        }
        let all = core::mem::take(&mut self.nodes[index as usize].inbox);
        let (void, kept): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(is_void);
        self.nodes[index as usize].inbox = kept;
        for delivery in void {
            if let Delivery::Message(message) = delivery {
                self.made_room(message.from, message.epoch, index);
            }
        }
    }

    /// Returns true if a message that arrives is taken in: both lives are those that were to be
    /// joined.
    pub(super) fn is_welcome(&self, index: u32, message: &Message) -> bool {
        let node = &self.nodes[index as usize];
        let is_meant = message.to_epoch == node.epoch && message.epoch == self.knows(index, message.from);
        node.life.runs() && is_meant && !node.gone.contains_key(&message.from)
    }

    /// A message has made room behind it, if its sender still lives that life.
    pub(super) fn made_room(&mut self, from: u32, epoch: Epoch, to: u32) {
        let sender = &mut self.nodes[from as usize];
        if sender.epoch != epoch {
            return;
        }
        if let Some(lane) = sender.lanes.get_mut(&to) {
            lane.held = lane.held.saturating_sub(1);
            self.tell_ready(from, to);
        }
    }

    /// On the wire of messages a node learns that the program of another has returned, once all
    /// that it has sent has come: as of a process that ends, of which its own goodbyes tell none
    /// but those that are in contact with it.
    pub(super) fn tell_end(&mut self, node: u32, peer: u32) {
        if self.config.wire != Wire::Messages {
            return;
        }
        let of = &self.nodes[peer as usize];
        let epoch = of.epoch;
        let last_ns = of.lanes.get(&node).map_or(0, |lane| lane.last_ns);
        let at = last_ns.max(self.now.max(of.clock) + self.config.network.latency_ns);
        let delivery = Delivery::Lost { peer, epoch, cause: Cause::PeerLeft };
        self.push(at, EventKind::Deliver { node, delivery });
    }

    /// Tells `from` that it can try again to send to `to`, if it wants to know.
    fn tell_ready(&mut self, from: u32, to: u32) {
        let at = self.now.max(self.nodes[to as usize].clock) + self.config.network.latency_ns;
        let Some(lane) = self.nodes[from as usize].lanes.get_mut(&to) else { return };
        if core::mem::take(&mut lane.waiting) {
            self.push(at, EventKind::Deliver { node: from, delivery: Delivery::Ready(to) });
        }
    }

    /// Fails unless there is room for one more message; the sender is told later when there is.
    pub(crate) fn admit(&mut self, from: u32, to: u32) -> Result<(), Refusal> {
        self.goes_to(from, to).map_err(Refusal::Never)?;
        let (one, other) = (self.nodes[from as usize].epoch, self.nodes[to as usize].epoch);
        let met = self.knows(from, to) == other && self.knows(to, from) == one;
        let depth = self.config.network.depth;
        let lane = self.nodes[from as usize].lanes.entry(to).or_default();
        if met && lane.held < depth {
            return Ok(());
        }
        lane.waiting = true;
        self.totals.refusals += 1;
        Err(Refusal::Again(if met { Again::NoSlot } else { Again::Connecting }))
    }

    /// Sends a message for which there is room.
    pub(crate) fn post(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        let at = self.work(from);
        let len = bytes.len();
        self.record(|| Record::Sent { from, to, at, bytes: len });
        let (_, arrival) = self.carry(from, to, len, at);
        let arrival = arrival + self.plan.clogged_ns(self.now, from, to);
        let (epoch, to_epoch) = (self.nodes[from as usize].epoch, self.nodes[to as usize].epoch);
        let Some(lane) = self.nodes[from as usize].lanes.get_mut(&to) else { return };
        let at = arrival.max(lane.last_ns);
        lane.last_ns = at;
        lane.held += 1;
        self.totals.messages += 1;
        self.totals.bytes += len as u64;
        let message = Message { from, epoch, to_epoch, bytes };
        self.push(at, EventKind::Deliver { node: to, delivery: Delivery::Message(message) });
    }
}
