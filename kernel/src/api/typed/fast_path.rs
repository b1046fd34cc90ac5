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
use crate::engine::fast_path::Posting;
use crate::engine::send_queue::CREDIT_LOOK;
use crate::engine::state::{ArmedRecv, Engine};
use crate::error::Failed;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::{Comm, PARTITIONED};
use crate::tables::comms::SendTarget;
use crate::tables::elements::{
    Elements, ElementsLayout, ElementsMut, ElementsPlace, NO_TYPES, Plain, TypedData,
};
use crate::tables::list::{InScope, List};
use crate::tables::request::{Backing, Key, State};

/// Elements in one piece, and their bytes.
#[derive(Clone, Copy)]
pub(crate) struct PlainData {
    pub(crate) elements: Plain,
    pub(crate) buffer: UserBuffer,
}

impl Engine<'_> {
    /// The elements of a place, and their bytes in `memory`, if they lie there in one piece.
    #[inline]
    pub(crate) fn plain(&self, memory: UserBuffer, place: &ElementsPlace) -> Option<PlainData> {
        let &ElementsPlace { origin: 0, count, datatype } = place else { return None };
        let (len, signature) = self.conversion.as_ref()?.types.plain(datatype, count)?;
        Some(PlainData { elements: Plain { datatype, signature }, buffer: memory.part(0..len)? })
    }

    /// Sends like [`try_send_eager`](Self::try_send_eager), but with the signature.
    #[inline(always)]
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

    /// Takes a message like [`try_deliver`](Self::try_deliver), but of as many elements as the
    /// typed receive that waits for it has room for.
    #[inline(never)]
    pub(crate) fn try_deliver_elements(&mut self, from: PeerId, message: &[u8]) -> bool {
        let Some((header, signature, payload)) = Header::parse_signed(message) else { return false };
        let Some(peer) = self.peers.get_mut(from.index()) else { return false };
        let in_block = payload.len() > INLINE_BYTES;
        let is_too_long = in_block && payload.len() > self.room.block_bytes as usize;
        if is_too_long
            || Form::from_peer(peer.order, peer.words) != Form::Native
            || !peer.is_next(&header, in_block)
        {
            return false;
        }
        if let ArmedRecv::Armed { key, peer: source, buffer, elements } = &self.armed {
            let Some(elements) = elements else { return false };
            let foreign = *source != from || *key != Key::of(&header);
            let misfit = payload.len() != buffer.len() || signature != elements.signature;
            if foreign || misfit || !buffer.write_all(payload) {
                return false;
            }
            self.armed = ArmedRecv::Delivered(payload.len() as u64);
        } else {
            // As in `try_deliver`.
            let Some((front, request)) = self.matcher.front(&mut self.requests, &Key::of(&header)) else {
                return false;
            };
            let Backing::Typed(layout) = &request.backing else { return false };
            let foreign = request.peer != from || header.tag & PARTITIONED != 0;
            let misfit = !layout.takes(signature, payload.len());
            if foreign || misfit || !layout.memory().write_all(payload) {
                return false;
            }
            (request.state, request.length) = (State::Complete, payload.len() as u64);
            let links = request.queue;
            front.take(&mut self.requests, links);
        }
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
    /// Sends elements at once, if they lie in one piece and nothing is unusual; returns their
    /// bytes, of which there are some. Zero if something is, and nothing has changed.
    #[inline(always)]
    pub(crate) fn try_send_plain(&mut self, comm: &Comm, data: &Elements, to: Rank, tag: Tag) -> usize {
        match self.send_plain(comm, data, to, tag) {
            0 => self.send_plain_with_new_credit(comm, data, to, tag),
            bytes => bytes,
        }
    }

    #[inline(always)]
    fn send_plain(&mut self, comm: &Comm, data: &Elements, to: Rank, tag: Tag) -> usize {
        let &Elements { memory, ref place, mode: Mode::Standard, checked: false } = data else { return 0 };
        let Some(data) = self.engine.plain(memory, place) else { return 0 };
        let Ok(target) = self.engine.comms.target(comm, to, tag) else { return 0 };
        let Self { engine, transport, .. } = self;
        if engine.try_send_elements(transport, &target, data) { data.buffer.len() } else { 0 }
    }

    /// Sends elements that nothing but credit was missing for, after a look at what has arrived, as
    /// `Engine::send` does. It works everything out again, so that the fast path before it keeps
    /// what it knows in registers.
    #[cold]
    #[inline(never)]
    fn send_plain_with_new_credit(&mut self, comm: &Comm, data: &Elements, to: Rank, tag: Tag) -> usize {
        let &Elements { memory, ref place, mode: Mode::Standard, checked: false } = data else { return 0 };
        let Some(plain) = self.engine.plain(memory, place) else { return 0 };
        let Ok(target) = self.engine.comms.target(comm, to, tag) else { return 0 };
        let length = plain.buffer.len() as u64;
        let Self { engine, transport, .. } = self;
        if !engine.peers.get(target.peer.index()).is_some_and(|peer| peer.lacks_credit(length)) {
            return 0;
        }
        engine.poll_transport(transport, CREDIT_LOOK);
        if engine.try_send_elements(transport, &target, plain) { plain.buffer.len() } else { 0 }
    }

    /// Posts a receive like [`try_post`](Self::try_post), but of elements that lie in one piece.
    /// The null handle if it is not, and nothing has changed.
    #[inline(never)]
    pub(crate) fn try_post_plain(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
        kept: &mut List<InScope>,
    ) -> Handle {
        self.post_plain(comm, into, from, tag, kept).unwrap_or_default()
    }

    #[inline(always)]
    fn post_plain(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
        kept: &mut List<InScope>,
    ) -> Option<Handle> {
        let PlainData { elements, buffer } = self.engine.plain(into.memory, &into.place)?;
        let types = &mut self.engine.conversion.as_mut()?.types;
        let held = types.hold_plain(elements.datatype, into.place.count)?;
        let layout = ElementsLayout::of_plain(held, buffer, elements.signature);
        let (pattern, peer) = self.pattern(comm, from, tag).ok()?;
        let (buffer, backing) = (UserBuffer::scattered(buffer.len()), Backing::Typed(layout));
        self.engine.try_post(Posting { pattern, peer, buffer, backing }, kept)
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// Receives elements that lie in one piece, if nothing is unusual. `None` if something is, and
    /// nothing has changed.
    #[cfg_attr(feature = "fast-paths", inline(always))]
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
