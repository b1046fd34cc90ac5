//! The fast paths of typed messages: of elements that lie in one piece, in the form of both sides,
//! which is what most are. See [`fast_path`](crate::engine::fast_path).

use aldis_hal::{Cause, Handle, Operation, PeerId, Platform, Transport};
use aldis_protocols::INLINE_BYTES;
use aldis_protocols::header::{Header, Label};

use crate::api::call::CallSubject;
use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::counters::count;
use crate::datatype::Form;
use crate::engine::state::{ArmedRecv, Engine};
use crate::error::Failed;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::comms::SendTarget;
use crate::tables::elements::{Elements, ElementsMut, ElementsPlace, NO_TYPES, Plain, TypedData};
use crate::tables::request::{Key, State};

/// Elements in one piece, and their bytes.
#[derive(Clone, Copy)]
struct PlainData {
    elements: Plain,
    buffer: UserBuffer,
}

impl Engine<'_> {
    /// The elements of a place, and their bytes in `memory`, if they lie there in one piece.
    #[inline]
    fn plain(&self, memory: UserBuffer, place: &ElementsPlace) -> Option<PlainData> {
        let &ElementsPlace { origin: 0, count, datatype } = place else { return None };
        let (len, signature) = self.conversion.as_ref()?.types.plain(datatype, count)?;
        Some(PlainData { elements: Plain { datatype, signature }, buffer: memory.part(0..len)? })
    }

    /// Sends like [`try_send_eager`](Self::try_send_eager), but with the signature.
    #[inline]
    fn try_send_elements<T: Transport>(
        &mut self,
        transport: &mut T,
        target: &SendTarget,
        data: PlainData,
    ) -> bool {
        let PlainData { elements, buffer } = data;
        let form = self.peers.get(target.peer.index()).map(|peer| Form::to_peer(peer.words));
        form == Some(Form::Native) && self.try_send_eager(transport, target, buffer, Some(elements.signature))
    }

    /// Takes a message like [`try_deliver`](Self::try_deliver), but of elements for the typed
    /// receive that waits.
    #[inline]
    pub(crate) fn try_deliver_elements(&mut self, from: PeerId, message: &[u8]) -> bool {
        match self.armed {
            ArmedRecv::Armed { key, peer, buffer, elements: Some(elements) } if peer == from => {
                self.take_elements(from, message, &key, PlainData { elements, buffer })
            }
            _ => false,
        }
    }

    #[inline(never)]
    fn take_elements(&mut self, from: PeerId, message: &[u8], wanted: &Key, room: PlainData) -> bool {
        let PlainData { elements, buffer } = room;
        let Some((header, signature, payload)) = Header::parse_signed(message) else { return false };
        let Some(peer) = self.peers.get_mut(from.index()) else { return false };
        let in_block = payload.len() > INLINE_BYTES;
        let is_meant =
            *wanted == Key::of(&header) && payload.len() == buffer.len() && signature == elements.signature;
        let is_too_long = in_block && payload.len() > self.room.block_bytes as usize;
        if !is_meant
            || is_too_long
            || Form::from_peer(peer.order, peer.words) != Form::Native
            || !peer.is_next(&header, in_block)
            || !buffer.write_all(payload)
        {
            return false;
        }
        self.armed = ArmedRecv::Delivered(payload.len() as u64);
        let due = peer.account_delivered(&header, in_block);
        count(&mut self.counters.messages_received);
        self.counters.bytes_received += payload.len() as u64;
        if due {
            self.schedule(from);
        }
        true
    }

    /// A request for the receive that waited.
    pub(crate) fn request_plain(
        &mut self,
        key: Key,
        peer: PeerId,
        buffer: UserBuffer,
        elements: Plain,
    ) -> Result<Handle, Cause> {
        let Plain { datatype, .. } = elements;
        let types = &self.conversion.as_ref().ok_or(NO_TYPES)?.types;
        let count = types.count(datatype, Form::Native, buffer.len() as u64)?;
        let place = ElementsPlace { origin: 0, count, datatype };
        self.request_typed(State::Posted, key, peer, key.source, TypedData::native(buffer, &place))
    }
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Sends elements at once, if they lie in one piece and nothing is unusual. `None` if something
    /// is, and nothing has changed.
    pub(crate) fn try_send_plain(
        &mut self,
        comm: &Comm,
        data: &Elements,
        to: Rank,
        tag: Tag,
    ) -> Option<Status> {
        let Elements { memory, place, mode: Mode::Standard, checked: false } = data else { return None };
        let data = self.engine.plain(*memory, place)?;
        let target = self.engine.comms.target(comm, to, tag).ok()?;
        let sent = self.engine.try_send_elements(&mut self.transport, &target, data);
        sent.then_some(Status { source: to, tag, bytes: data.buffer.len() as u64 })
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// Receives elements that lie in one piece, if nothing is unusual. `None` if something is, and
    /// nothing has changed.
    pub(crate) fn try_recv_plain(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
    ) -> Option<Result<Status, Failed>> {
        let engine = &self.endpoint.engine;
        let PlainData { elements, buffer } = engine.plain(into.memory, &into.place)?;
        let (pattern, peer) = self.endpoint.pattern(comm, from, tag).ok()?;
        if let Some(peer) = peer
            && self.endpoint.engine.arm(pattern, peer, buffer, Some(elements))
        {
            return self.await_message(peer, CallSubject::recv(Operation::Recv, comm, from, tag));
        }
        self.endpoint.engine.try_receive_kept(&pattern, buffer, Label::signed(elements.signature)).map(Ok)
    }
}
