//! Messages of middle length that are copied twice, and by both sides at a time: the sender copies
//! into memory of its own that the receiver has mapped, the *staging memory*, and its send is over;
//! the receiver copies what is there already out of it.
//!
//! That is a send in standard mode of a copy, as a buffered one, but the copy is announced before
//! it is made, and its region [grows](aldis_hal::RemoteMemory::grow). Memory is bounded, and no
//! receiver is waited for: a message that finds no room is sent like any other.
//!
//! Messages take their place behind each other, so that each comes to lines that the receiver's own
//! caches have let go of: of two cores with a cache in common that is twice as fast as to use the
//! lines of the message before. After a lap that is long enough for that they begin again at the
//! front, if it is free: a longer one would come to lines and pages that no cache has any more.

use aldis_hal::copy::{Store, publish};
use aldis_hal::memory::Access;
use aldis_hal::{Cause, Handle, PeerId, Transport};
use aldis_protocols::header::Finish;

use crate::counters::count;
use crate::datatype::Form;
use crate::engine::direct::{ExposedMessage, lends};
use crate::engine::state::Engine;
use crate::engine::wire::Injected;
use crate::memory::buffer::UserBuffer;
use crate::tables::request::{Backing, Request, State};

/// Bytes that are copied before the receiver is told of them the first time: it copies them while
/// the next ones are. Each telling makes the sender wait for its stores.
const PIECE_BYTES: usize = 16 << 10;

impl Engine<'_> {
    /// Returns true if the send in slot `index` is to be staged: it is of middle length, in one
    /// piece, and its receiver has the staging memory mapped, but not the message's own.
    pub(crate) fn is_staged<T: Transport>(&mut self, transport: &T, id: PeerId, index: u32) -> bool {
        let most = self.staged_bytes_max(transport, id) as usize;
        let Some(peer) = self.peers.get(id) else { return false };
        let least = peer.thresholds.eager_end.max(peer.thresholds.inline_end) as usize;
        let is_middle = |request: &&mut Request| (least..=most).contains(&request.buffer.len());
        let Some(request) = self.requests.at(index).filter(is_middle) else { return false };
        let Some(own) = request.piece().and_then(|piece| piece.memory()) else { return false };
        let is_typed = matches!(request.backing, Backing::Typed(_));
        let is_alike = self.form_from(id, is_typed) == Form::Native;
        is_alike && !transport.is_mapped(id, own)
    }

    /// Bytes of the longest message that is staged for a peer.
    pub(crate) fn staged_bytes_max<T: Transport>(&self, transport: &T, id: PeerId) -> u64 {
        let staging = &self.buffered.staging;
        let is_mapped = |memory| lends::<T>() && transport.is_mapped(id, memory);
        if staging.memory.memory().is_some_and(is_mapped) { staging.bytes_max() as u64 } else { 0 }
    }

    /// Announces a copy of the message behind `own`, and makes it: the send is over then. `None` if
    /// there is no room for it, or no region or request left, and nothing has been done.
    pub(crate) fn stage<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        own: Handle,
    ) -> Option<Result<Injected, Cause>> {
        if !lends::<T>() || !self.is_staged(transport, id, own.slot) {
            return None;
        }
        let signature = self.label(own.slot, Finish::Complete).signature();
        let request = self.requests.get(own)?;
        let (key, rank, from) = (request.key, request.rank, request.piece()?);
        let room = self.staging_room(from.len())?;
        let copy = self.request(State::Queued, key, id, rank, room).ok()?;
        let access = Access::LOCAL_READ | Access::REMOTE_READ | Access::GROWS;
        let Some(read_key) = self.key(transport, id, copy.slot, access) else {
            self.drop_copy(copy.slot);
            return None;
        };
        let message = ExposedMessage { key, len: from.len(), signature, read_key };
        let injected = self.announce_exposed(transport, id, copy, &message);
        if !matches!(injected, Ok(Injected::Announced)) {
            self.take_back(transport, copy);
            self.drop_copy(copy.slot);
            return Some(injected);
        }
        self.announced(copy.slot);
        self.keep_staged(copy.slot, room);
        self.copy_staged(transport, copy, from);
        count(&mut self.counters.staged);
        Some(Ok(Injected::Sent))
    }

    /// Frees a request that nobody knows of yet.
    fn drop_copy(&mut self, index: u32) {
        if let Some(request) = self.requests.at(index) {
            request.state = State::Free;
        }
        self.requests.give(index);
    }

    /// The room for a message behind the newest one.
    fn staging_room(&mut self, len: usize) -> Option<UserBuffer> {
        let staging = &self.buffered.staging;
        let oldest = staging.messages.front().and_then(|index| self.requests.at(index));
        staging.room(len, oldest.map(|request| request.memory()))
    }

    /// Puts the send in slot `index`, of which this is the room, behind the others.
    fn keep_staged(&mut self, index: u32, room: UserBuffer) {
        let Self { requests, buffered, .. } = self;
        if let Some(request) = requests.at(index) {
            request.orphan = true;
        }
        let staging = &mut buffered.staging;
        staging.take(room);
        staging.messages.push_back(requests, index);
        buffered.count = buffered.count.wrapping_add(1);
        buffered.release = Some(Self::release_buffered);
    }

    /// Copies a message into its room, piece by piece, each of which its peer is told of.
    fn copy_staged<T: Transport>(&mut self, transport: &mut T, copy: Handle, from: UserBuffer) {
        let Some(request) = self.requests.get(copy) else { return };
        let (room, region, store) = (request.buffer, request.region, transport.store(request.peer));
        let mut done = 0;
        while done < from.len() {
            // Past the caches as much as there is already: the receiver is slower, since it reads
            // from memory.
            let bytes = if store == Store::Past { done.max(PIECE_BYTES) } else { PIECE_BYTES };
            let piece = from.read(done as u64, bytes);
            let end = done.saturating_add(piece.len());
            if let Some(part) = room.part(done..end) {
                part.change(|part| publish(part, piece, store));
            }
            transport.grow(region, end as u64);
            done = end;
        }
    }

    /// Takes the message in slot `index`, which is over, out of the staging memory.
    pub(crate) fn release_staged(&mut self, index: u32) {
        let Self { requests, buffered, .. } = self;
        buffered.staging.messages.remove(requests, index);
    }
}
