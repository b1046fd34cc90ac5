//! Typed receives, and what has a label.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::INLINE_BYTES;
use aldis_protocols::header::{Header, Label};
use aldis_protocols::reliable::crc32c;

use crate::datatype::Form;
use crate::engine::delivery::Keep;
use crate::engine::state::{Conversion, Engine, Started};
use crate::memory::buffer::UserBuffer;
use crate::rank::Mode;
use crate::tables::elements::{
    DataPiece, ElementsLayout, ElementsMut, LaidOut, NO_TYPES, TypedData, differs,
};
use crate::tables::request::{Backing, Key, Machine, Request, State};

impl Engine<'_> {
    /// Starts a typed receive.
    pub(crate) fn receive_typed(
        &mut self,
        pattern: Key,
        peer: Option<PeerId>,
        into: &ElementsMut,
    ) -> Result<Started, Cause> {
        let ElementsMut { memory, place } = into;
        self.end_probe();
        let kept = self.matcher.find_unexpected(&pattern);
        if kept.is_none() {
            self.may_come(pattern.context, peer)?;
        }
        let data = TypedData::native(*memory, place);
        let handle =
            self.request_typed(State::Posted, pattern, peer.unwrap_or_default(), pattern.source, data)?;
        let Some(kept) = kept else {
            self.post_slot(handle.slot, peer);
            return Ok(Started::Pending(handle));
        };
        let buffer = self.requests.get(handle).map_or(UserBuffer::NONE, |request| request.buffer);
        self.receive_kept(kept, buffer, Some(handle)).inspect_err(|_| {
            // It is in no list.
            if let Some(request) = self.requests.get(handle) {
                request.state = State::Idle;
            }
            self.abandon(handle);
        })
    }

    /// Takes a request slot for elements of a type, and says so there if they lie in one piece.
    pub(crate) fn request_typed(
        &mut self,
        state: State,
        key: Key,
        peer: PeerId,
        rank: u32,
        data: TypedData<'_>,
    ) -> Result<Handle, Cause> {
        let LaidOut { layout, len } = self.lay_out(data)?;
        let is_native = data.form == Form::Native && !data.checked;
        let plain = if is_native { self.plain(data.memory, data.place) } else { None };
        let layout = plain.map_or(layout, |plain| {
            ElementsLayout::of_plain(layout.held(), plain.buffer, plain.elements.signature)
        });
        self.request_laid_out(state, key, peer, rank, LaidOut { layout, len })
    }

    /// Works out where elements of a type lie, and how many bytes they have in their form.
    pub(crate) fn lay_out(&mut self, data: TypedData<'_>) -> Result<LaidOut, Cause> {
        let conversion = self.conversion.as_mut().ok_or(NO_TYPES)?;
        ElementsLayout::lay_out(&mut conversion.types, data)
    }

    /// The form in which data of `peer` comes: as it is, unless it is of a typed message.
    pub(crate) fn form_from(&self, peer: PeerId, typed: bool) -> Form {
        match self.peers.get(peer) {
            Some(peer) if typed => Form::from_peer(peer.order, peer.words),
            _ => Form::Native,
        }
    }

    /// Bytes that the receive in slot `index` has room for, of a typed message of its peer.
    pub(crate) fn room_typed(&mut self, index: u32) -> u64 {
        let Some(peer) = self.requests.at(index).map(|request| request.peer) else { return 0 };
        let form = self.form_from(peer, true);
        match (self.requests.at(index), &self.conversion) {
            (Some(Request { backing: Backing::Typed(layout), .. }), Some(conversion)) => {
                layout.room(&conversion.types, form)
            }
            (Some(request), _) => request.buffer.len() as u64,
            (None, _) => 0,
        }
    }

    pub(crate) fn request_laid_out(
        &mut self,
        state: State,
        key: Key,
        peer: PeerId,
        rank: u32,
        laid_out: LaidOut,
    ) -> Result<Handle, Cause> {
        let LaidOut { layout, len } = laid_out;
        let handle = self.request(state, key, peer, rank, UserBuffer::scattered(len))?;
        if let Some(request) = self.requests.get(handle) {
            request.backing = Backing::Typed(layout);
        }
        Ok(handle)
    }

    /// A whole message with a label has arrived.
    pub(crate) fn take_labelled(
        &mut self,
        from: PeerId,
        header: &Header,
        label: &Label,
        payload: &[u8],
    ) -> Result<(), Malformed> {
        let in_block = payload.len() > INLINE_BYTES;
        if in_block && payload.len() > self.room.block_bytes as usize {
            return Err(Malformed::Length);
        }
        let key = Key::of(header);
        let matched = self.admit(from, header, &key, in_block)?;
        self.counters.bytes_received += payload.len() as u64;
        let Some(index) = matched else {
            return self.keep(from, key, payload.len() as u64, Keep::Payload(payload), label);
        };
        if let Some(request) = self.requests.at(index) {
            (request.peer, request.rank, request.tag) = (from, key.source, key.tag);
            if !request.buffer.write(0, payload) {
                self.unpack_typed(index, &DataPiece::whole(payload, label));
            }
        }
        self.received_typed(index, payload.len() as u64, label);
        Ok(())
    }

    /// Puts a piece of a message where the types of the receive say. The rest of a message that is
    /// too long is cut off.
    pub(crate) fn unpack_typed(&mut self, index: u32, piece: &DataPiece<'_>) {
        let Some(peer) = self.requests.at(index).map(|request| request.peer) else { return };
        let form = self.form_from(peer, piece.typed);
        let (Some(request), Some(Conversion { types, .. })) = (self.requests.at(index), &self.conversion)
        else {
            return;
        };
        let Backing::Typed(layout) = &mut request.backing else { return };
        let room = layout.room(types, form).saturating_sub(piece.offset);
        let fits = usize::try_from(room).map_or(piece.payload.len(), |room| room.min(piece.payload.len()));
        let bytes = piece.payload.get(..fits).unwrap_or_default();
        if let Err(cause) = layout.unpack(types, form, &DataPiece { payload: bytes, ..*piece }) {
            request.cause = Some(cause);
        }
    }

    /// Compares the label of an announced message with the elements of the receive in slot `index`.
    pub(crate) fn compare_typed(&mut self, index: u32, length: u64, label: &Label) {
        let Some(peer) = self.requests.at(index).map(|request| request.peer) else { return };
        let form = self.form_from(peer, true);
        if let (Some(request), Some(Conversion { types, .. })) = (self.requests.at(index), &self.conversion)
            && let Backing::Typed(layout) = &request.backing
            && matches!(request.machine, Machine::Read(_))
        {
            request.cause = layout.judge(types, form, length, label);
        }
    }

    /// The receive in slot `index` has all it can take of a message of `length` bytes; its label is
    /// compared with it.
    pub(crate) fn received_typed(&mut self, index: u32, length: u64, label: &Label) {
        let Some(peer) = self.requests.at(index).map(|request| request.peer) else { return };
        let form = self.form_from(peer, label.signature().is_some());
        let Some(request) = self.requests.at(index) else { return };
        // Bytes that there was room for; and those in memory, which is what the status tells.
        let (mut room, mut filled) = (request.buffer.len() as u64, length);
        let cause = match (&request.backing, &self.conversion) {
            (Backing::Typed(layout), Some(Conversion { types, .. })) => {
                room = layout.room(types, form);
                filled = layout.filled(types, form, length).unwrap_or(length);
                request.cause.or_else(|| layout.judge(types, form, length, label))
            }
            _ => differs(label, || crc32c(request.buffer.read(0, length as usize))),
        };
        if let Machine::Recv(receiver) = &request.machine
            && receiver.bytes_received() < length
        {
            room = receiver.bytes_received();
        }
        let is_truncated = length > room;
        match cause {
            Some(cause) if !is_truncated => self.failed(index, filled, cause),
            _ if is_truncated => {
                let cause = match label.checksum() {
                    // For the future to judge, which has all pieces.
                    Some(sent) if request.mode == Mode::Polled => Cause::Corrupt { sent, found: !sent },
                    _ => Cause::Truncated { sent: length, room },
                };
                self.failed(index, length, cause);
            }
            _ => self.received_all(index, filled),
        }
    }

    /// The receive in slot `index` of `length` bytes is over, and not well.
    fn failed(&mut self, index: u32, length: u64, cause: Cause) {
        if let Some(request) = self.requests.at(index) {
            request.length = length;
        }
        self.complete(index, Some(cause));
    }
}
