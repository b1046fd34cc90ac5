//! The table of functions through which the engine works with types, and the engine's own side of
//! it.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::header::{Finish, Header, Label};
use aldis_protocols::reliable::crc32c;

use crate::engine::state::{Engine, Tools};
use crate::engine::wire::{Injected, LaneTurn, Wire};
use crate::memory::buffer::UserBuffer;
use crate::tables::elements::{DataPiece, Fragment, Plain};
use crate::tables::request::Key;
#[cfg(doc)]
use crate::tables::request::Request;

mod receiving;
mod sending;

/// The one table of functions there is.
pub(crate) struct Convert;

impl Tools for Convert {
    fn inject(
        &self,
        engine: &mut Engine<'_>,
        wire: &mut dyn Wire,
        id: PeerId,
        own: Handle,
    ) -> Result<Injected, Cause> {
        engine.inject_typed(wire, id, own)
    }

    fn send_fragment(
        &self,
        engine: &mut Engine<'_>,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        fragment: Fragment,
    ) -> LaneTurn {
        engine.send_typed_fragment(wire, id, index, fragment)
    }

    fn label(&self, engine: &mut Engine<'_>, index: u32) -> Label {
        engine.label_typed(index)
    }

    fn take_labelled(
        &self,
        engine: &mut Engine<'_>,
        from: PeerId,
        header: &Header,
        label: &Label,
        payload: &[u8],
    ) -> Result<(), Malformed> {
        engine.take_labelled(from, header, label, payload)
    }

    fn room(&self, engine: &mut Engine<'_>, index: u32) -> u64 {
        engine.room_typed(index)
    }

    fn unpack(&self, engine: &mut Engine<'_>, index: u32, piece: &DataPiece<'_>) {
        engine.unpack_typed(index, piece);
    }

    fn request(
        &self,
        engine: &mut Engine<'_>,
        key: Key,
        peer: PeerId,
        buffer: UserBuffer,
        elements: Plain,
    ) -> Result<Handle, Cause> {
        engine.request_plain(key, peer, buffer, elements)
    }

    fn channel_uses(
        &self,
        engine: &mut Engine<'_>,
        index: u32,
        part: UserBuffer,
        to_be_written: bool,
    ) -> bool {
        engine.typed_channel_uses(index, part, to_be_written)
    }

    fn checksum(&self, bytes: &[u8]) -> u32 {
        crc32c(bytes)
    }

    fn compare(&self, engine: &mut Engine<'_>, index: u32, length: u64, label: &Label) {
        engine.compare_typed(index, length, label);
    }

    fn received(&self, engine: &mut Engine<'_>, index: u32, length: u64, label: &Label) {
        engine.received_typed(index, length, label);
    }
}

/// Without types there is nothing to do: no request is typed, and labels are not looked at.
impl Engine<'_> {
    #[inline]
    pub(crate) fn tools(&self) -> Option<&'static dyn Tools> {
        self.conversion.as_ref().map(|conversion| conversion.tools)
    }

    /// The receive in slot `index`, which is not of plain memory, gets a whole message without a
    /// label.
    #[cold]
    pub(crate) fn take_unpacked(&mut self, index: u32, payload: &[u8]) {
        self.unpack_piece(index, &DataPiece::whole(payload, &Label::NONE));
        self.received(index, payload.len() as u64, &Label::NONE);
    }

    /// Unpacks the whole message, like [`unpack_piece`](Self::unpack_piece).
    #[cold]
    pub(crate) fn unpack(&mut self, slot: Option<Handle>, payload: &[u8], label: &Label) {
        if let Some(handle) = slot {
            self.unpack_piece(handle.slot, &DataPiece::whole(payload, label));
        }
    }

    /// See [`Tools::unpack`].
    #[cold]
    pub(crate) fn unpack_piece(&mut self, index: u32, piece: &DataPiece<'_>) {
        if let Some(tools) = self.tools() {
            tools.unpack(self, index, piece);
        }
    }

    /// See [`Tools::received`].
    #[inline(never)]
    pub(crate) fn received(&mut self, index: u32, length: u64, label: &Label) {
        match self.tools() {
            Some(tools) => tools.received(self, index, length, label),
            None => self.received_all(index, length),
        }
    }

    /// See [`Request::uses`].
    pub(crate) fn uses(&mut self, index: u32, part: UserBuffer, to_be_written: bool) -> bool {
        let (tools, channels) = (self.tools(), self.channels);
        match (self.requests.at(index), tools) {
            (Some(request), Some(tools)) if request.is_typed_channel() => {
                tools.channel_uses(self, index, part, to_be_written)
            }
            (Some(request), _) => request.uses(part, to_be_written, |request, bytes| {
                channels.is_some_and(|channels| channels.uses(request, bytes, to_be_written))
            }),
            (None, _) => false,
        }
    }

    /// See [`Tools::label`].
    pub(crate) fn label(&mut self, index: u32, status: Finish) -> Label {
        match self.tools() {
            Some(tools) if status != Finish::Withdrawn => tools.label(self, index),
            _ => Label::NONE,
        }
    }
}
