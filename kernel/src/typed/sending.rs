//! The engine's slow way for sent data: what is packed straight into the transport's slots.

use aldis_hal::{Cause, Handle, PeerId, Post, Refusal, Slot, Transport};
use aldis_protocols::header::{DATA_HEADER_BYTES, Finish, HEADER_BYTES, Header, Kind, LABEL_BYTES, Label};
use aldis_protocols::{INLINE_BYTES, Protocol};

use super::{Conversion, Typed};
use crate::engine::{Engine, Started, Target};
use crate::injection::{Injected, Turn, post};
use crate::request::{Backing, Key, Machine, State};

/// A fragment of a typed message that is to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    pub(crate) header: Header,
    pub(crate) receiver: Handle,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Engine<'_> {
    /// Starts a typed send: always in a request slot, since the type must be held.
    pub(super) fn send_typed(&mut self, to: Target, data: &Typed<'_>) -> Result<Started, Cause> {
        self.presence(to.peer)?;
        let Typed { memory, place, mode, checked } = data;
        let data = (memory.whole(), place, *checked);
        let handle = self.request_typed(State::Queued, to.key, to.peer, to.rank, data)?;
        if let Some(request) = self.requests.get(handle) {
            request.mode = *mode;
        }
        self.line_up(to.peer, handle.slot);
        Ok(Started::Pending(handle))
    }

    /// As [`inject`](Self::inject), for a typed message of `len` bytes: packed behind its label.
    #[cold]
    pub(crate) fn inject_typed<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        key: Key,
        len: usize,
        own: Handle,
    ) -> Result<Injected, Cause> {
        let Some(peer) = self.peers.get(id.index()) else { return Err(Cause::Unreachable) };
        let stored = len.saturating_add(LABEL_BYTES);
        let in_block = match peer.thresholds.protocol(stored as u64) {
            Protocol::Inline => false,
            Protocol::Eager if peer.blocks_out.available() > 0 => true,
            Protocol::Eager => return self.announce(transport, id, Kind::Defer, key, len, own),
            Protocol::Rendezvous => return self.announce(transport, id, Kind::Announce, key, len, own),
        };
        if peer.envelopes_out.available() == 0 {
            self.counters.credit_stalls += 1;
            return Ok(Injected::NoCredit);
        }
        let header = self.header(peer, Kind::Labelled, key, peer.sequence_out, len as u64).emit();
        if !in_block {
            let mut bytes = [0; INLINE_BYTES];
            let payload = bytes.get_mut(..stored).unwrap_or_default();
            self.pack_labelled(own.slot, payload)?;
            let post = post(transport, id, &header, payload);
            return self.injected(id, Kind::Labelled, false, len, post);
        }
        let post = match transport.reserve(id, HEADER_BYTES.saturating_add(stored)) {
            Err(refusal) => refusal.into(),
            Ok(mut slot) => {
                if let Some((head, rest)) = slot.bytes().split_first_chunk_mut() {
                    *head = header;
                    self.pack_labelled(own.slot, rest)?;
                }
                slot.commit();
                Post::Done
            }
        };
        self.injected(id, Kind::Labelled, true, len, post)
    }

    /// Packs a whole message behind its label.
    fn pack_labelled(&mut self, index: u32, stored: &mut [u8]) -> Result<(), Cause> {
        if let Some((label, payload)) = stored.split_first_chunk_mut() {
            self.pack(index, 0, payload)?;
            *label = self.label(index, payload.len() as u64).emit();
        }
        Ok(())
    }

    /// Sends a fragment of a typed message, packed from its place on.
    #[cold]
    pub(crate) fn send_typed_fragment<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        fragment: Fragment,
    ) -> Turn {
        let Fragment { header, receiver, offset, len } = fragment;
        let checked = self.layout_is_checked(index);
        let header = Header { tag: 1 | u32::from(checked) << 1, ..header };
        let mut slot = match transport.reserve(id, DATA_HEADER_BYTES.saturating_add(len as usize)) {
            Ok(slot) => slot,
            Err(refusal) => return self.sent_fragment(id, index, len, Err(refusal)),
        };
        if let Some((head, body)) = slot.bytes().split_first_chunk_mut() {
            *head = header.emit_data(receiver, offset);
            if let Err(cause) = self.pack(index, offset, body) {
                self.give_up(index, cause);
                return Turn::Sent;
            }
        }
        slot.commit();
        self.sent_fragment(id, index, len, Ok::<(), Refusal>(()))
    }

    /// What is under way cannot be packed any more, since its type is not in the table: the receiver is told.
    fn give_up(&mut self, index: u32, cause: Cause) {
        let Some(request) = self.requests.at(index) else { return };
        request.cause = Some(cause);
        if let Machine::Send(sender) = &mut request.machine {
            sender.withdraw();
        }
    }

    fn pack(&mut self, index: u32, position: u64, stream: &mut [u8]) -> Result<(), Cause> {
        match (self.requests.at(index).map(|request| &mut request.backing), &self.conversion) {
            (Some(Backing::Typed(layout)), Some(Conversion { types, tools })) => {
                tools.pack(types, layout, position, stream)
            }
            _ => Err(Cause::Stale),
        }
    }

    fn layout_is_checked(&mut self, index: u32) -> bool {
        let backing = self.requests.at(index).map(|request| &request.backing);
        matches!(backing, Some(Backing::Typed(layout)) if layout.is_checked())
    }

    fn label(&mut self, index: u32, len: u64) -> Label {
        match (self.requests.at(index).map(|request| &request.backing), &self.conversion) {
            (Some(Backing::Typed(layout)), Some(Conversion { types, tools })) => {
                tools.label(types, layout, len)
            }
            _ => Label::NONE,
        }
    }

    /// What the finish of the send in slot `index` says besides.
    pub(crate) fn label_of_finish(&mut self, index: u32, status: Finish) -> Label {
        match self.requests.at(index).map(|request| request.length) {
            Some(length) if status == Finish::Complete => self.label(index, length),
            _ => Label::NONE,
        }
    }
}
