//! Receives: from what has arrived already and is kept, or posted for what is to come.

use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::ACTIVE;
use aldis_protocols::header::Label;

use crate::engine::matching::{Envelope, Payload};
use crate::engine::state::{Engine, Started, status};
use crate::memory::buffer::UserBuffer;
use crate::rank::Status;
use crate::tables::blocks::BlockIndex;
use crate::tables::request::{Key, State};

impl Engine<'_> {
    /// Starts a receive: from what has arrived already, or posted.
    pub(crate) fn receive(
        &mut self,
        pattern: Key,
        peer: Option<PeerId>,
        buffer: UserBuffer,
    ) -> Result<Started, Cause> {
        self.end_probe();
        match self.matcher.find_unexpected(&pattern) {
            Some(index) => self.receive_kept(index, buffer, None),
            None => self.post(pattern, peer, buffer).map(Started::Pending),
        }
    }

    fn post(&mut self, pattern: Key, peer: Option<PeerId>, buffer: UserBuffer) -> Result<Handle, Cause> {
        self.may_come(pattern.context, peer)?;
        let named = peer.unwrap_or_default();
        let handle = self.request(State::Posted, pattern, named, pattern.source, buffer)?;
        self.post_slot(handle.slot, peer);
        Ok(handle)
    }

    /// Checks that a message of `peer`, or of any rank on that communicator, may still come; fails
    /// with the cause if not.
    pub(crate) fn may_come(&mut self, context: u32, peer: Option<PeerId>) -> Result<(), Cause> {
        match peer {
            Some(peer) => self.presence(peer),
            None if self.bereft || ACTIVE && self.peers.is_active() => self.is_left_alone(context),
            None => Ok(()),
        }
    }

    pub(crate) fn post_slot(&mut self, index: u32, peer: Option<PeerId>) {
        self.matcher.post(&mut self.requests, index);
        if self.overflowing {
            self.seek_for(peer);
        }
    }

    /// Receives the kept message `index`; `own` is the slot of a persistent receive.
    pub(crate) fn receive_kept(
        &mut self,
        index: u32,
        buffer: UserBuffer,
        own: Option<Handle>,
    ) -> Result<Started, Cause> {
        let Some(&Envelope { key, peer, length, ref payload, label, .. }) = self.matcher.peek(index) else {
            return Err(Cause::Stale);
        };
        let announced = matches!(payload, Payload::Announced(_));
        let room = buffer.len() as u64;
        let misfit = length > room || (length < room && self.must_fit(key.context));
        if announced && let Err(cause) = self.presence(peer) {
            // Its data will never come; the next receive is not to stumble over it.
            self.matcher.remove(index);
            return Err(cause);
        }
        // What does not succeed here and now needs a slot; without one the message stays where it
        // is.
        let slot = match own {
            None if announced || misfit || !label.is_none() => {
                Some(self.request(State::Receiving, key, peer, key.source, buffer)?)
            }
            slot => slot,
        };
        if let Some(request) = own.and_then(|own| self.requests.get(own)) {
            (request.peer, request.rank, request.tag) = (peer, key.source, key.tag);
        }
        let Some(payload) = self.matcher.remove(index) else { return Err(Cause::Stale) };
        self.free_envelope(peer);
        if let Payload::Announced(announcement) = payload {
            if let Some(handle) = slot {
                self.fetch(handle.slot, peer, &announcement, length);
                self.compare_announced(handle.slot, length, &label);
                if let Some(request) = self.requests.get(handle) {
                    request.late = true;
                }
            }
        } else {
            self.unload(slot, peer, length, &label, payload, buffer);
        }
        let Some(handle) = slot else { return Ok(Started::Done(status(key, length))) };
        if !announced {
            self.received(handle.slot, length, &label);
        }
        Ok(Started::Pending(handle))
    }

    /// Puts what has arrived of a message of `peer` where its receive says, and frees its block.
    #[inline]
    pub(crate) fn unload(
        &mut self,
        slot: Option<Handle>,
        peer: PeerId,
        length: u64,
        label: &Label,
        payload: Payload,
        buffer: UserBuffer,
    ) {
        match payload {
            Payload::Inline(bytes) => {
                let bytes = bytes.get(..length as usize).unwrap_or(&bytes);
                if !buffer.write(0, bytes) {
                    self.unpack(slot, bytes, label);
                }
            }
            Payload::Block(block) => {
                let kept = self.blocks.buffer(&block);
                let bytes = kept.read(0, length as usize);
                if !buffer.write(0, bytes) {
                    self.unpack(slot, bytes, label);
                }
                self.blocks.give(block);
                self.free_block(peer);
            }
            Payload::Announced(_) | Payload::Recalled(_) => {}
        }
    }

    /// Takes the block of the kept message `index` over for the user, if it has one and a pooled
    /// place is free: the payload is not copied again.
    pub(crate) fn adopt(&mut self, index: u32) -> Option<(BlockIndex, Status)> {
        let is_block =
            |envelope: &Envelope| matches!(envelope.payload, Payload::Block(_)) && envelope.label.is_none();
        if !self.matcher.peek(index).is_some_and(is_block) || !self.blocks.adopt() {
            return None;
        }
        self.end_probe();
        let &Envelope { key, peer, length, .. } = self.matcher.peek(index)?;
        let payload = self.matcher.remove(index)?;
        self.free_envelope(peer);
        self.free_block(peer);
        match payload {
            Payload::Block(block) => Some((block, status(key, length))),
            Payload::Inline(_) | Payload::Announced(_) | Payload::Recalled(_) => None,
        }
    }

    /// The receive in slot `index` has all it can take of a message of `length` bytes.
    pub(crate) fn received_all(&mut self, index: u32, length: u64) {
        let Some(request) = self.requests.at(index) else { return };
        request.length = length;
        let room = request.buffer.len() as u64;
        let context = request.key.context;
        let cause = if length == room { None } else { self.misfit(context, length, room) };
        self.complete(index, cause);
    }
}
