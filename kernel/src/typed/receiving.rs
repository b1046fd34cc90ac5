//! The engine's slow way for received data: what is unpacked, and what has a label.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::INLINE_BYTES;
use aldis_protocols::header::{Header, LABEL_BYTES, Label};

use super::layout::NO_TYPES;
use super::{Conversion, Place, TypedMut};
use crate::arrival::{Keep, key};
use crate::buffer::Buffer;
use crate::datatype::Form;
use crate::engine::{Engine, Started};
use crate::matching::{Envelope, Payload};
use crate::request::{Backing, Key, State};

/// A piece of a message's data.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// Its place in the message.
    pub(crate) offset: u64,
    pub(crate) payload: &'a [u8],
    /// It is in the byte order of its sender.
    pub(crate) typed: bool,
    /// A checksum will come.
    pub(crate) checked: bool,
}

impl Engine<'_> {
    /// Starts a typed receive.
    pub(super) fn receive_typed(
        &mut self,
        pattern: Key,
        peer: Option<PeerId>,
        into: &TypedMut<'_>,
    ) -> Result<Started, Cause> {
        let TypedMut { memory, place } = into;
        self.end_probe();
        let kept = self.matcher.find_unexpected(&pattern);
        if kept.is_none() {
            self.may_come(pattern.context, peer)?;
        }
        let named = peer.unwrap_or_default();
        let handle = self.request_typed(
            State::Posted,
            pattern,
            named,
            pattern.source,
            (memory.whole(), place, false),
        )?;
        let Some(kept) = kept else {
            self.post_slot(handle.slot, peer);
            return Ok(Started::Pending(handle));
        };
        let buffer = self.requests.get(handle).map_or(Buffer::NONE, |request| request.buffer);
        self.receive_kept(kept, buffer, Some(handle)).inspect_err(|_| {
            // It is in no list.
            if let Some(request) = self.requests.get(handle) {
                request.state = State::Idle;
            }
            self.abandon(handle);
        })
    }

    /// Takes a request slot for elements of a type.
    pub(super) fn request_typed(
        &mut self,
        state: State,
        key: Key,
        peer: PeerId,
        rank: u32,
        (memory, place, checked): (Buffer, &Place, bool),
    ) -> Result<Handle, Cause> {
        let conversion = self.conversion.as_mut().ok_or(NO_TYPES)?;
        let (layout, len) = conversion.lay_out(memory, place, checked)?;
        let handle = self.request(state, key, peer, rank, Buffer::scattered(len))?;
        if let Some(request) = self.requests.get(handle) {
            request.backing = Backing::Typed(layout);
        }
        Ok(handle)
    }

    /// A whole message with a label has arrived; `stored` is both.
    pub(crate) fn take_labelled(
        &mut self,
        from: PeerId,
        header: &Header,
        label: &Label,
        payload: &[u8],
        stored: &[u8],
    ) -> Result<(), Malformed> {
        let in_block = stored.len() > INLINE_BYTES;
        if in_block && stored.len() > self.room.block_bytes as usize {
            return Err(Malformed::Length);
        }
        let key = key(header);
        let matched = self.admit(from, header, &key, in_block)?;
        self.counters.bytes_received += payload.len() as u64;
        let Some(index) = matched else {
            return self.keep(from, key, header.length, Keep::Payload { bytes: stored, labelled: true });
        };
        if let Some(request) = self.requests.at(index) {
            (request.peer, request.rank, request.tag) = (from, key.source, key.tag);
        }
        self.take_whole(index, header.length, label, payload);
        Ok(())
    }

    /// A kept message, whose envelope is free again, goes to its receive.
    #[cold]
    pub(crate) fn take_stored(&mut self, index: u32, envelope: Envelope) {
        let Envelope { peer, length, payload, labelled, .. } = envelope;
        let len = (length as usize).saturating_add(if labelled { LABEL_BYTES } else { 0 });
        match payload {
            Payload::Inline(bytes) => {
                self.take_bytes(index, length, labelled, bytes.get(..len).unwrap_or(&bytes));
            }
            Payload::Block(block) => {
                let memory = self.blocks.buffer(&block);
                self.take_bytes(index, length, labelled, memory.read(0, len));
                self.blocks.give(block);
                self.free_block(peer);
            }
            Payload::Announced(_) => {}
        }
    }

    fn take_bytes(&mut self, index: u32, length: u64, labelled: bool, stored: &[u8]) {
        // The label was read when the message came.
        let (label, payload) = match Label::split(stored) {
            Ok(parts) if labelled => parts,
            _ => (Label::NONE, stored),
        };
        self.take_whole(index, length, &label, payload);
    }

    /// The receive in slot `index` gets a whole message.
    #[cold]
    pub(crate) fn take_whole(&mut self, index: u32, length: u64, label: &Label, payload: &[u8]) {
        let (typed, checked) = (label.signature.is_some(), label.checksum.is_some());
        let piece = Piece { offset: 0, payload, typed, checked };
        if !self.requests.at(index).is_some_and(|request| request.buffer.write(0, payload)) {
            self.unpack(index, &piece);
        }
        self.received_labelled(index, length, label);
    }

    /// Puts a piece of a message where the types of the receive say. The rest of a message that is too long is cut off.
    #[cold]
    pub(crate) fn unpack(&mut self, index: u32, piece: &Piece<'_>) {
        let Some(request) = self.requests.at(index) else { return };
        let (Backing::Typed(layout), Some(conversion)) = (&mut request.backing, &self.conversion) else {
            return;
        };
        let form = match self.peers.get(request.peer.index()) {
            Some(peer) if piece.typed => Form::of(peer.order),
            _ => Form::Native,
        };
        let room = (request.buffer.len() as u64).saturating_sub(piece.offset);
        let fits = usize::try_from(room).map_or(piece.payload.len(), |room| room.min(piece.payload.len()));
        let bytes = piece.payload.get(..fits).unwrap_or_default();
        let Conversion { types, tools } = conversion;
        if let Err(cause) = tools.unpack(types, layout, form, piece.offset, bytes, piece.checked) {
            request.cause = Some(cause);
        }
    }

    /// The receive in slot `index` has all it can take of a message of `length` bytes; its label is compared with it.
    #[inline(never)]
    pub(crate) fn received_labelled(&mut self, index: u32, length: u64, label: &Label) {
        let Some(request) = self.requests.at(index) else { return };
        let complete = length <= request.buffer.len() as u64;
        let cause = match (&request.backing, &self.conversion) {
            (Backing::Typed(layout), Some(Conversion { types, tools })) => {
                request.cause.or_else(|| tools.judge(types, layout, length, label))
            }
            (_, Some(Conversion { tools, .. })) if label.checksum.is_some() => {
                tools.judge_bytes(request.buffer.read(0, length as usize), label)
            }
            _ => None,
        };
        match cause.filter(|_| complete) {
            None => self.received_all(index, length),
            Some(cause) => {
                request.length = length;
                self.complete(index, Some(cause));
            }
        }
    }
}
