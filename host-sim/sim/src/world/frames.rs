//! The wire of frames: what a network card sends comes late, twice, damaged or not at all, in any
//! order.

use aldis_kernel::hal::nic::Mac;

use super::{Delivery, EventKind, Record, World};
use crate::nic;
use crate::queue::FlyingFrame;

/// The shortest frame without its check sequence (IEEE 802.3 clause 3): shorter ones are filled up
/// on the wire.
const FRAME_BYTES_MIN: usize = 60;
/// The byte that they are filled up with. Real cards take zeros; a receiver that reads it by
/// mistake is to notice.
const PADDING: u8 = 0xEE;

impl World {
    /// Returns true if the node's network card can take one more frame to send; if not, the node is
    /// woken when it can.
    pub(crate) fn has_descriptor(&mut self, index: u32) -> bool {
        let limit = self.config.network.tx_frames as usize;
        let node = &mut self.nodes[index as usize];
        while node.departures.front().is_some_and(|at| *at <= node.clock) {
            node.departures.pop_front();
        }
        let Some(next) = node.departures.front().copied().filter(|_| node.departures.len() >= limit) else {
            return true;
        };
        self.totals.refusals += 1;
        if !core::mem::replace(&mut self.nodes[index as usize].full, true) {
            self.push(next, EventKind::Departed(index));
        }
        false
    }

    /// Sends a frame to wherever its destination address says.
    pub(crate) fn transmit(&mut self, from: u32, mut bytes: Vec<u8>) {
        bytes.resize(bytes.len().max(FRAME_BYTES_MIN), PADDING);
        let at = self.work(from);
        let Some(mac) = bytes.first_chunk().copied().map(Mac) else { return };
        let mut left = at;
        if mac == nic::BROADCAST {
            for to in (0..self.config.ranks).filter(|to| *to != from) {
                left = left.max(self.send_frame(from, to, at, bytes.clone()));
            }
        } else if let Some(to) = nic::owner(mac).filter(|to| *to < self.config.ranks && *to != from) {
            left = self.send_frame(from, to, at, bytes);
        }
        self.nodes[from as usize].departures.push_back(left);
    }

    /// Sends a frame to a node; when it has left.
    fn send_frame(&mut self, from: u32, to: u32, at: u64, mut bytes: Vec<u8>) -> u64 {
        let len = bytes.len();
        self.totals.frames += 1;
        self.totals.bytes += len as u64;
        let id = self.totals.frames;
        self.record(|| Record::FrameSent { frame: id, from, to, at, bytes: len });
        let (left, arrival) = self.carry(from, to, len, at);
        let fate = self.plan.fate(self.now, from, to, &mut bytes);
        self.totals.damaged += u64::from(fate.damaged);
        let arrival = arrival + fate.extra_ns;
        if fate.lost {
            self.totals.lost += 1;
            self.record(|| Record::FrameLost { frame: id, from, to, at: arrival });
            return left;
        }
        if let Some(echo_ns) = fate.echo_ns {
            self.totals.duplicated += 1;
            let frame = FlyingFrame { id, from, bytes: bytes.clone() };
            let delivery = Delivery::Frame(frame);
            self.push(arrival + echo_ns, EventKind::Deliver { node: to, delivery });
        }
        let delivery = Delivery::Frame(FlyingFrame { id, from, bytes });
        self.push(arrival, EventKind::Deliver { node: to, delivery });
        left
    }

    /// Returns true if a frame that arrives is taken in.
    pub(super) fn is_caught(&mut self, index: u32, frame: &FlyingFrame) -> bool {
        let node = &self.nodes[index as usize];
        if !node.life.runs() {
            return false;
        }
        if node.inbox.len() < self.config.network.rx_frames as usize {
            return true;
        }
        self.totals.overflowed += 1;
        let (id, from, at) = (frame.id, frame.from, self.now);
        self.record(|| Record::FrameLost { frame: id, from, to: index, at });
        false
    }
}
