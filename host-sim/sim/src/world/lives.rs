//! Lives and deaths of nodes, and what a launcher or a discovery service would tell the others of
//! them.

use aldis_kernel::hal::{Cause, Epoch, PeerId};
use aldis_kernel::protocols::Card;
use aldis_kernel::protocols::card::Room;

use super::{EventKind, Node, Random, Record, RunnerStep, Wire, World};
use crate::nic;
use crate::queue::Delivery;

/// On the wire of messages a death is noticed within so many ns.
const DETECT_NS_MAX: u64 = 200_000;

/// The state of a node and its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Alive,
    /// Its program is over, but it still serves the others.
    Lingering,
    /// Its program has returned.
    Over,
    Dead,
}

impl Life {
    /// Returns true if the node does anything at all.
    pub(crate) const fn runs(self) -> bool {
        matches!(self, Self::Alive | Self::Lingering)
    }
}

/// The epoch of a node that has booted `boots` times before.
pub(super) fn epoch(seed: u64, node: u32, boots: u32) -> Epoch {
    Epoch::from_entropy(Random::new(seed ^ 6, u64::from(boots) << 32 | u64::from(node)).draw())
}

impl World {
    /// The card of a node's latest life; `None` for one that there is not. `room` is what every
    /// rank sets aside.
    pub(crate) fn card(&self, index: u32, room: Room) -> Option<Card> {
        let node = self.nodes.get(index as usize)?;
        let mut card = Card::new(PeerId(index), node.epoch, room);
        if self.config.wire == Wire::Frames {
            card.address.extend_from_slice(&nic::mac(index).0).ok()?;
        }
        Some(card)
    }

    /// The peers whose cards a node needs at its start. On the wire of messages a node can be found
    /// by its rank; where its peers have fewer rows than there are ranks, a card tells them nothing
    /// that they keep but the life of a node that has booted again.
    pub(crate) fn strangers(&self, node: u32, has_fewer: bool) -> Vec<u32> {
        let is_other = |peer: &u32| *peer != node;
        if has_fewer && self.config.wire == Wire::Messages {
            return self.reborn.iter().copied().filter(is_other).collect();
        }
        (0..self.config.ranks).filter(is_other).collect()
    }

    /// The peers that a node may have a row for: those that it has sent to, where it has fewer rows
    /// than there are ranks.
    pub(crate) fn met(&self, node: u32, has_fewer: bool) -> Vec<u32> {
        if has_fewer && self.config.wire == Wire::Messages {
            return self.nodes[node as usize].lanes.keys().copied().collect();
        }
        (0..self.config.ranks).collect()
    }

    /// The node's program is over and has done its part; the node goes on to serve the others.
    pub(crate) fn linger(&mut self, node: u32) {
        self.nodes[node as usize].life = Life::Lingering;
        self.programs -= 1;
    }

    /// The node's program ends by itself, well or not.
    pub(crate) fn end(&mut self, node: u32, well: bool) {
        if well {
            self.nodes[node as usize].life = Life::Over;
            self.programs -= 1;
            self.empty(node);
            for other in (0..self.config.ranks).filter(|other| *other != node) {
                self.tell_end(other, node);
            }
        } else {
            self.die(node, None);
        }
    }

    /// The node is gone, until `back` if that is known.
    pub(super) fn die(&mut self, index: u32, back: Option<u64>) -> RunnerStep {
        let node = &mut self.nodes[index as usize];
        if !node.life.runs() {
            return RunnerStep::Nothing;
        }
        // One that comes back has its program to run again.
        match (node.life, back) {
            (Life::Alive, None) => self.programs -= 1,
            (Life::Lingering, Some(_)) => self.programs += 1,
            _ => {}
        }
        node.life = Life::Dead;
        self.watch.died(index);
        let (epoch, at) = (node.epoch, self.now);
        self.record(|| Record::Crash { node: index, at });
        self.empty(index);
        for other in (0..self.config.ranks).filter(|other| *other != index) {
            self.tell_death(other, index, epoch);
        }
        if let Some(back) = back {
            self.push(back, EventKind::Boot(index));
        }
        RunnerStep::Kill(index)
    }

    /// On the wire of messages a node learns after a while that this life of another is over. On
    /// that of frames it is told nothing, and finds out.
    pub(super) fn tell_death(&mut self, node: u32, peer: u32, epoch: Epoch) {
        if self.config.wire == Wire::Messages {
            let at = self.now + self.random.below(DETECT_NS_MAX);
            let delivery = Delivery::Lost { peer, epoch, cause: Cause::PeerDead };
            self.push(at, EventKind::Deliver { node, delivery });
        }
    }

    /// The node boots again, as another.
    pub(super) fn boot(&mut self, index: u32) {
        let boots = self.nodes[index as usize].boots + 1;
        let mut node = Node::new(self.config.seed, index, boots);
        node.clock = self.now;
        self.nodes[index as usize] = node;
        self.reborn.insert(index);
        let at = self.now;
        self.record(|| Record::Boot { node: index, at });
        for peer in 0..self.config.ranks {
            let other = &self.nodes[peer as usize];
            match other.life {
                Life::Dead => self.tell_death(index, peer, other.epoch),
                Life::Over => self.tell_end(index, peer),
                Life::Alive | Life::Lingering => {}
            }
        }
        self.sleep(index, self.now);
    }

    /// Drops what has come for a node that is no more.
    fn empty(&mut self, index: u32) {
        for delivery in core::mem::take(&mut self.nodes[index as usize].inbox) {
            if let Delivery::Message(message) = delivery {
                self.made_room(message.from, message.epoch, index);
            }
        }
    }
}
