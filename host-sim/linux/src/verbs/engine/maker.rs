//! Queue pairs for the two connections with a peer.

use std::rc::Rc;

use aldis_hal::{Cause, Epoch, PeerId};

use super::super::choice::VerbsChoice;
use super::super::sys::{
    CompletionQueues, DirectPair, Domain, Flush, PairShape, Receives, ReliablePair, Remote,
};
use super::connection::ConnectionEnd;
use super::control::ControlMessage;
use super::direct::ORDERS;
use super::manager::Manager;
use super::memory::cause_of;
use super::{DeviceAddress, INLINE_BYTES, MESSAGES, PACKET_MASK, PROBES, SLOT_BYTES, WINDOW};

/// The resources that queue pairs are made from.
pub(super) struct Maker<'a> {
    pub(super) manager: &'a dyn Manager,
    pub(super) peer: PeerId,
    pub(super) domain: &'a Rc<Domain>,
    pub(super) receives: &'a Receives,
    pub(super) queues: CompletionQueues<'a>,
    pub(super) choice: &'a VerbsChoice,
    pub(super) flush: &'a Flush,
    /// The place of the peer's device.
    pub(super) place: DeviceAddress,
    /// True if a new queue pair can be told from all that there have been.
    pub(super) is_clean: bool,
    /// The lives of the peer and of this rank.
    pub(super) epochs: (Epoch, Epoch),
    /// Reads that a queue pair here can have under way.
    pub(super) depth: u8,
}

impl Maker<'_> {
    /// The largest packet.
    fn mtu(&self) -> u16 {
        self.place.mtu.min(self.choice.mtu)
    }

    /// The other end of a connection, whose packets begin with numbers that no other connection of
    /// the two begins with soon, so that late ones of another are nothing.
    fn remote(&self, word: &ControlMessage, depth: u8) -> Remote {
        let DeviceAddress { gid, lid, mtu, .. } = self.place;
        let first = |epoch: Epoch| epoch.0.wrapping_add(u32::from(word.serial) << 12) & PACKET_MASK;
        let numbers = (first(self.epochs.0), first(self.epochs.1));
        Remote { gid, lid, mtu, pair: word.number, numbers, depth }
    }
}

impl ConnectionEnd for ReliablePair {
    type Maker<'a> = Maker<'a>;

    fn make(maker: &Maker<'_>) -> Result<Self, Cause> {
        let Maker { domain, receives, queues, .. } = maker;
        let shape = PairShape {
            slots: u32::from(WINDOW),
            slot_bytes: SLOT_BYTES,
            requests: MESSAGES + PROBES,
            inline_bytes: INLINE_BYTES,
        };
        Self::new(domain, receives, *queues, shape).map_err(cause_of)
    }

    fn number(&self, _maker: &Maker<'_>) -> (u32, u8) {
        (self.number(), 0)
    }

    fn connect(&mut self, maker: &Maker<'_>, word: &ControlMessage) -> Result<(), Cause> {
        let connected = match maker.manager.line(maker.peer, word) {
            Some(line) => self.connect_by(line, maker.mtu()),
            None => Self::connect(self, maker.choice, &maker.remote(word, 0)),
        };
        connected.map_err(cause_of)
    }
}

impl ConnectionEnd for DirectPair {
    type Maker<'a> = Maker<'a>;

    fn make(maker: &Maker<'_>) -> Result<Self, Cause> {
        Self::new(maker.domain, maker.receives, maker.queues, ORDERS).map_err(cause_of)
    }

    fn number(&self, maker: &Maker<'_>) -> (u32, u8) {
        (self.number(), maker.depth)
    }

    fn connect(&mut self, maker: &Maker<'_>, word: &ControlMessage) -> Result<(), Cause> {
        let depth = maker.depth.min(word.depth).max(1);
        let connected = match maker.manager.line(maker.peer, word) {
            Some(line) => self.connect_by(line, maker.mtu(), depth),
            None => Self::connect(self, maker.choice, &maker.remote(word, depth)),
        };
        connected.map_err(cause_of)
    }
}
