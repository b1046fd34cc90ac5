//! Messages of communicators that have been freed: turned away, so that their peers have their
//! credits back.

use aldis_hal::PeerId;
use aldis_protocols::rendezvous::Announcement;

use crate::counters::count;
use crate::engine::matching::{Envelope, Payload};
use crate::engine::state::Engine;
use crate::memory::buffer::UserBuffer;
use crate::rank::WILD;
use crate::tables::comm::{Comm, PLANE};
use crate::tables::request::{Key, Request, State};

impl Engine<'_> {
    /// Ends an announcement that no receive will match: its data is asked for in no length by an
    /// orphan, so that the sender comes to its end. False if there is no request slot for that.
    pub(crate) fn turn_away_announced(&mut self, peer: PeerId, announcement: &Announcement) -> bool {
        if self.presence(peer).is_err() {
            return true;
        }
        let Ok(handle) = self.request(State::Receiving, Key::NONE, peer, 0, UserBuffer::NONE) else {
            return false;
        };
        if let Some(request) = self.requests.get(handle) {
            request.orphan = true;
        }
        self.fetch(handle.slot, peer, &Announcement::plain(announcement.sender), 0);
        true
    }

    /// Drops what has arrived in a context, on both planes. An announcement that finds no request
    /// slot stays until the context's slot is used again. Work is bounded by the envelopes.
    pub(crate) fn purge(&mut self, context: u32) {
        self.end_probe();
        for context in [context, context | PLANE] {
            let pattern = Key { context, source: WILD, tag: WILD };
            while let Some(index) = self.matcher.find_unexpected(&pattern) {
                let Some(&Envelope { peer, ref payload, .. }) = self.matcher.peek(index) else { return };
                if let Payload::Announced(announcement) = *payload
                    && !self.turn_away_announced(peer, &announcement)
                {
                    break;
                }
                let Some(payload) = self.matcher.remove(index) else { return };
                count(&mut self.counters.stale_contexts);
                self.free_envelope(peer);
                if let Payload::Block(block) = payload {
                    self.blocks.give(block);
                    self.free_block(peer);
                }
            }
        }
    }

    /// Returns true if a request of this rank, with an owner or without, still needs a
    /// communicator: every one but those that are over. Walks over the request table until it has
    /// met all that are in use.
    pub(crate) fn is_used(&mut self, comm: &Comm) -> bool {
        let mut left = self.requests.in_use();
        for index in 0..self.requests.used_end() {
            if left == 0 {
                return false;
            }
            if self.requests.handle(index).is_none() {
                continue;
            }
            left -= 1;
            let needs = |request: &mut Request| {
                request.key.context & !PLANE == comm.user().context()
                    && !matches!(request.state, State::Free | State::Complete | State::Closing)
            };
            if self.requests.at(index).is_some_and(needs) {
                return true;
            }
        }
        false
    }

    /// Takes a communicator out of the table, and its companion, and what has arrived in them.
    pub(crate) fn discard(&mut self, comm: &Comm) -> Result<(), aldis_hal::Cause> {
        let companion = self.comms.companion(comm).ok();
        for comm in [Some(*comm), companion].into_iter().flatten() {
            self.comms.remove(&comm)?;
            self.delete_attributes(&comm, None);
            self.purge(comm.user().context());
        }
        Ok(())
    }
}
