//! The resources that connections are made from, and the owners of queue pairs.

use std::collections::HashMap;
use std::rc::Rc;

use aldis_hal::{Epoch, PeerId};

use super::super::error::VerbsError;
use super::super::open_device::OpenDevice;
use super::super::sys::{CompletionQueues, Completions, Flush, Receives};
use super::super::wire::Identity;
use super::control::ControlLane;
use super::maker::Maker;
use super::manager::Manager;
use super::peer::VerbsPeer;

/// The parts of the device that all connections share.
pub(super) struct Tools {
    pub(super) here: Rc<OpenDevice>,
    pub(super) epoch: Epoch,
    pub(super) receives: Receives,
    pub(super) sent: CompletionQueue,
    pub(super) received: CompletionQueue,
    pub(super) flush: Rc<Flush>,
    /// Reads that a queue pair has under way at most.
    pub(super) depth: u8,
    /// The owners of the queue pairs that there are, by their numbers.
    owners: HashMap<u32, (PeerId, ControlLane)>,
    /// The numbers of each peer's, by lane; zero for none.
    numbers: Vec<[u32; 2]>,
}

/// A queue of completions, and how many there may still be of queue pairs that are gone.
pub(super) struct CompletionQueue {
    pub(super) completions: Rc<Completions>,
    entries: u32,
    stale: u32,
}

/// The queues that all queue pairs share.
pub(super) struct DeviceQueues {
    pub(super) receives: Receives,
    /// Completions of sends, and of receives.
    pub(super) sent: CompletionQueue,
    pub(super) received: CompletionQueue,
}

impl CompletionQueue {
    pub(super) fn new(here: &OpenDevice, entries: u32) -> Result<Self, VerbsError> {
        Ok(Self { completions: Completions::new(&here.domain, &here.channel, entries)?, entries, stale: 0 })
    }

    /// Notes that so many were found of those that were asked for.
    pub(super) const fn note(&mut self, found: usize, asked: usize) {
        self.stale = if found < asked { 0 } else { self.stale.saturating_sub(found as u32) };
    }
}

impl Tools {
    pub(super) fn new(
        here: &Rc<OpenDevice>,
        who: Identity,
        queues: DeviceQueues,
        depth: u8,
    ) -> Result<Self, VerbsError> {
        let (owners, numbers) = (HashMap::new(), vec![[0; 2]; who.ranks as usize]);
        let (epoch, DeviceQueues { receives, sent, received }) = (who.epoch, queues);
        let flush = Flush::new(&here.domain)?;
        Ok(Self { here: Rc::clone(here), epoch, receives, sent, received, flush, depth, owners, numbers })
    }

    /// For connections with a peer.
    pub(super) fn maker<'a>(&'a self, peer: PeerId, row: &VerbsPeer, manager: &'a dyn Manager) -> Maker<'a> {
        Maker {
            manager,
            peer,
            domain: &self.here.domain,
            receives: &self.receives,
            queues: CompletionQueues { sent: &self.sent.completions, received: &self.received.completions },
            choice: &self.here.choice,
            flush: &self.flush,
            place: row.place,
            is_clean: self.is_clean(),
            epochs: (row.epoch, self.epoch),
            depth: self.depth,
        }
    }

    /// Returns true if a new queue pair can be told from all that there have been: numbers come
    /// again.
    pub(super) const fn is_clean(&self) -> bool {
        self.sent.stale == 0 && self.received.stale == 0
    }

    /// Takes note of the queue pairs that a peer has now.
    pub(super) fn note(&mut self, peer: PeerId, row: &VerbsPeer) {
        let now = [
            (ControlLane::Messages, row.connection.end().map_or(0, |pair| pair.number())),
            (ControlLane::Memory, row.direct.connection.end().map_or(0, |pair| pair.number())),
        ];
        let Some(numbers) = self.numbers.get_mut(peer.index()) else { return };
        for (known, (lane, number)) in numbers.iter_mut().zip(now) {
            if *known == number {
                continue;
            }
            if *known != 0 {
                self.owners.remove(known);
                (self.sent.stale, self.received.stale) = (self.sent.entries, self.received.entries);
            }
            if number != 0 {
                self.owners.insert(number, (peer, lane));
            }
            *known = number;
        }
    }

    /// The owner of the queue pair of this number.
    #[inline]
    pub(super) fn owner(&self, number: u32) -> Option<(PeerId, ControlLane)> {
        self.owners.get(&number).copied()
    }

    /// Other peers than this with which messages are exchanged.
    pub(super) fn connections_beside(&self, peer: PeerId) -> usize {
        let has_one = |(rank, [messages, _]): &(usize, &[u32; 2])| *rank != peer.index() && *messages != 0;
        self.numbers.iter().enumerate().filter(has_one).count()
    }
}
