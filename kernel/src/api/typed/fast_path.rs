//! The fast paths of typed messages: of elements that lie in one piece, in the form of both sides,
//! which is what most are. See [`fast_path`](crate::engine::fast_path).

use aldis_hal::{Cause, Handle, Operation, PeerId, Platform, Transport};
use aldis_protocols::header::Label;

use crate::api::call::{CallSubject, apart};
use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::datatype::{Datatype, Form, Held};
use crate::engine::fast_path::Posting;
use crate::engine::state::Engine;
use crate::error::Failed;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
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
            0 => apart(&(*comm, *data), |(comm, data)| self.send_plain_after_looks(comm, data, to, tag)),
            bytes => bytes,
        }
    }

    #[inline(always)]
    fn send_plain(&mut self, comm: &Comm, data: &Elements, to: Rank, tag: Tag) -> usize {
        let &Elements { memory, ref place, mode: Mode::Standard, checked: false } = data else { return 0 };
        let Some(data) = self.engine.plain(memory, place) else { return 0 };
        let Ok(target) = self.engine.comms.target(comm, to, tag) else { return 0 };
        let Self { engine, transport, .. } = self;
        let PlainData { elements, buffer } = data;
        if engine.try_send_eager(transport, &target, buffer, Some(elements.signature)) {
            buffer.len()
        } else {
            0
        }
    }

    /// Sends elements that nothing but credit or room was missing for, after some looks at what has
    /// arrived, as `Engine::send` does. It works everything out again, so that the fast path before
    /// it keeps what it knows in registers.
    #[cold]
    #[inline(never)]
    fn send_plain_after_looks(&mut self, comm: &Comm, data: &Elements, to: Rank, tag: Tag) -> usize {
        let &Elements { memory, ref place, mode: Mode::Standard, checked: false } = data else { return 0 };
        let Some(plain) = self.engine.plain(memory, place) else { return 0 };
        let Ok(target) = self.engine.comms.target(comm, to, tag) else { return 0 };
        let PlainData { elements, buffer } = plain;
        let Self { engine, transport, .. } = self;
        if engine.send_eager_after_looks(transport, &target, buffer, Some(elements.signature)) {
            buffer.len()
        } else {
            0
        }
    }

    /// Posts a receive like [`try_post`](Self::try_post), but of elements that lie in one piece.
    /// `None` if they do not, and nothing has changed.
    #[inline(always)]
    pub(crate) fn try_post_plain(
        &mut self,
        comm: &Comm,
        into: &ElementsMut,
        from: Source,
        tag: TagMatch,
        kept: &mut List<InScope>,
    ) -> Option<Handle> {
        let PlainData { elements, buffer } = self.engine.plain(into.memory, &into.place)?;
        let held = Held::new(elements.datatype, into.place.count);
        if Datatype::from(elements.datatype).is_derived() {
            self.engine.conversion.as_mut()?.types.hold_plain(elements.datatype);
        }
        let (pattern, peer) = self.pattern(comm, from, tag).ok()?;
        let posting = Posting { pattern, peer, buffer: UserBuffer::scattered(buffer.len()) };
        // Made where it stays: it is not copied.
        self.engine.try_post(posting, kept, |request| {
            request.backing = Backing::Typed(ElementsLayout::of_plain(held, buffer, elements.signature));
        })
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
