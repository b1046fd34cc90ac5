//! Typed sends: packed straight into the transport's slots.

use aldis_hal::{Cause, Handle, PeerId, Post, Resource};
use aldis_protocols::header::{DATA_HEADER_BYTES, HEADER_BYTES, Header, Kind, LABEL_BYTES, Label};
use aldis_protocols::{INLINE_BYTES, Protocol};

use crate::counters::count;
use crate::datatype::Form;
use crate::engine::state::{Conversion, Engine, Started};
use crate::engine::wire::{Injected, LaneTurn, Wire};
use crate::tables::comms::SendTarget;
use crate::tables::elements::{Elements, Fragment, LaidOut, NO_TYPES, TypedData};
use crate::tables::request::{Backing, Machine, State};

impl Engine<'_> {
    /// Starts a typed send: always in a request slot, since the type must be held.
    pub(crate) fn send_typed(&mut self, to: SendTarget, data: &Elements) -> Result<Started, Cause> {
        self.presence(to.peer)?;
        let &Elements { memory, ref place, mode, checked } = data;
        let data = TypedData { memory, place, form: self.form_to(to.peer), checked };
        let handle = self.request_typed(State::Queued, to.key, to.peer, to.rank, data)?;
        if let Some(request) = self.requests.get(handle) {
            request.mode = mode;
        }
        self.queue_send(to.peer, handle.slot);
        Ok(Started::Pending(handle))
    }

    /// Starts a buffered send: of a copy, packed into the attached memory.
    pub(crate) fn buffer_typed(&mut self, to: SendTarget, data: &Elements) -> Result<Started, Cause> {
        self.presence(to.peer)?;
        let &Elements { memory, ref place, checked, .. } = data;
        let data = TypedData { memory, place, form: self.form_to(to.peer), checked };
        let LaidOut { layout, len } = self.lay_out(data)?;
        let room = self.room_for(to.key.context, len).ok_or(Cause::Full(Resource::SendBuffer))?;
        let types = &self.conversion.as_ref().ok_or(NO_TYPES)?.types;
        let data = LaidOut { layout: layout.packed_into(types, room)?, len };
        let handle = self.request_laid_out(State::Queued, to.key, to.peer, to.rank, data)?;
        self.queue_send(to.peer, handle.slot);
        Ok(Started::Pending(handle))
    }

    /// The form in which `peer` gets typed messages.
    pub(crate) fn form_to(&self, peer: PeerId) -> Form {
        self.peers.get(peer).map_or(Form::Native, |peer| Form::to_peer(peer.words))
    }

    /// Puts a typed message on the wire as a whole, or announces it, by the rules for any other.
    /// One that is too long for the transport with its label is announced; and so is one with a
    /// number that the peer's words cannot hold, so that its receiver gets the error when it asks
    /// for it.
    pub(crate) fn inject_typed(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        own: Handle,
    ) -> Result<Injected, Cause> {
        let Some(request) = self.requests.get(own) else { return Err(Cause::Stale) };
        let (key, len) = (request.key, request.buffer.len());
        let checked = matches!(&request.backing, Backing::Typed(layout) if layout.is_checked());
        // What is not checked needs no label: the signature is sent in the header.
        let signature = if checked { None } else { self.label_typed(own.slot).signature() };
        let (kind, before) =
            if signature.is_some() { (Kind::Signed, 0) } else { (Kind::Labelled, LABEL_BYTES) };
        let Some(peer) = self.peers.get(id) else { return Err(Cause::Unreachable) };
        let stored_len = len.saturating_add(before);
        let whole = HEADER_BYTES.saturating_add(stored_len);
        let slot_bytes_max = (peer.thresholds.fragment_bytes_max as usize).saturating_add(DATA_HEADER_BYTES);
        let is_short = stored_len <= INLINE_BYTES;
        let protocol = peer.thresholds.protocol(len as u64);
        let in_block = protocol != Protocol::Inline;
        if protocol == Protocol::Rendezvous || !(is_short || whole <= slot_bytes_max) {
            return self.announce(wire, id, Kind::Announce, key, len, own);
        }
        if in_block && peer.blocks_out.available() == 0 {
            return self.announce(wire, id, Kind::Defer, key, len, own);
        }
        if peer.envelopes_out.available() == 0 {
            count(&mut self.counters.credit_stalls);
            return Ok(Injected::NoCredit);
        }
        let header = self.header(peer, kind, key, peer.sequence_out, len as u64);
        let header = signature.map_or(header, |signature| header.signed(signature)).emit();
        let post = if is_short {
            let mut bytes = [0; INLINE_BYTES];
            let stored = bytes.get_mut(..stored_len).unwrap_or_default();
            match self.pack_whole(own.slot, kind, stored) {
                Ok(()) => wire.post(id, &header, stored),
                Err(cause) => Post::Never(cause),
            }
        } else {
            let packed = wire.fill(id, whole, &mut |slot| {
                let Some((head, stored)) = slot.split_first_chunk_mut() else { return Ok(()) };
                *head = header;
                self.pack_whole(own.slot, kind, stored)
            });
            match packed {
                Ok(()) => Post::Done,
                Err(refusal) => refusal.into(),
            }
        };
        match post {
            Post::Never(Cause::Unrepresentable { .. }) => {
                self.announce(wire, id, Kind::Announce, key, len, own)
            }
            post => self.injected(id, kind, in_block, len, post),
        }
    }

    /// Packs a whole message, behind its label if it is of a kind that has one.
    fn pack_whole(&mut self, index: u32, kind: Kind, stored: &mut [u8]) -> Result<(), Cause> {
        if kind == Kind::Signed {
            return self.pack_typed(index, 0, stored);
        }
        if let Some((label, payload)) = stored.split_first_chunk_mut() {
            self.pack_typed(index, 0, payload)?;
            *label = self.label_typed(index).emit();
        }
        Ok(())
    }

    /// Sends a fragment of a typed message, packed from its place on.
    pub(crate) fn send_typed_fragment(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        fragment: Fragment,
    ) -> LaneTurn {
        let Fragment { header, receiver, offset, len } = fragment;
        let backing = self.requests.at(index).map(|request| &request.backing);
        let checked = matches!(backing, Some(Backing::Typed(layout)) if layout.is_checked());
        let header = Header { tag: 1 | u32::from(checked) << 1, ..header }.emit_data(receiver, offset);
        let mut failed = None;
        let sent = wire.fill(id, DATA_HEADER_BYTES.saturating_add(len as usize), &mut |slot| {
            let Some((head, body)) = slot.split_first_chunk_mut() else { return Ok(()) };
            *head = header;
            self.pack_typed(index, offset, body).inspect_err(|cause| failed = Some(*cause))
        });
        match failed {
            None => self.sent_fragment(id, index, len, sent),
            Some(cause) => self.give_up(index, cause),
        }
    }

    /// Gives up a message that cannot be packed, for a number that does not fit or since its type
    /// is not in the table any more: the receiver gets the error.
    fn give_up(&mut self, index: u32, cause: Cause) -> LaneTurn {
        let Some(request) = self.requests.at(index) else { return LaneTurn::Sent };
        let Machine::Send(sender) = &mut request.machine else { return self.give_up_channel(index, cause) };
        sender.withdraw();
        request.cause = Some(cause);
        LaneTurn::Sent
    }

    fn pack_typed(&mut self, index: u32, position: u64, stream: &mut [u8]) -> Result<(), Cause> {
        match (self.requests.at(index).map(|request| &mut request.backing), &self.conversion) {
            (Some(Backing::Typed(layout)), Some(Conversion { types, .. })) => {
                layout.pack(types, position, stream)
            }
            _ => Err(Cause::Stale),
        }
    }

    /// Returns the label of a message that has been packed; of one that is not typed, an empty one.
    pub(crate) fn label_typed(&mut self, index: u32) -> Label {
        let (Some(request), Some(conversion)) = (self.requests.at(index), &self.conversion) else {
            return Label::NONE;
        };
        match &request.backing {
            Backing::Typed(layout) => layout.label(&conversion.types, request.length),
            Backing::Plain | Backing::Pooled(_) => Label::NONE,
        }
    }
}
