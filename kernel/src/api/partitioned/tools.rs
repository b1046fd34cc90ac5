//! The table of functions through which the engine works with channels, and what it does without
//! them.

use core::ops::Range;

use aldis_hal::cause::Malformed;
use aldis_hal::{Handle, PeerId};

use crate::engine::state::{ChannelGrant, Channels, Engine};
use crate::engine::wire::{LaneTurn, Wire};
use crate::tables::elements::DataPiece;
use crate::tables::request::Request;

/// The one table of functions there is.
pub(super) struct Partitioned;

impl Channels for Partitioned {
    fn bind(&self, engine: &mut Engine<'_>, index: u32, sender: Handle, length: u64) -> bool {
        engine.bind(index, sender, length)
    }

    fn take_grant(
        &self,
        engine: &mut Engine<'_>,
        from: PeerId,
        grant: &ChannelGrant,
    ) -> Result<(), Malformed> {
        engine.take_grant(from, grant)
    }

    fn take_refusal(&self, engine: &mut Engine<'_>, from: PeerId, sender: Handle, receiver: Handle) {
        engine.take_refusal(from, sender, receiver);
    }

    fn take_part(&self, engine: &mut Engine<'_>, index: u32, piece: &DataPiece<'_>) -> Result<(), Malformed> {
        engine.take_part(index, piece)
    }

    fn step(
        &self,
        engine: &mut Engine<'_>,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        fragment_max: u32,
    ) -> LaneTurn {
        engine.step_channel(wire, id, index, fragment_max)
    }

    fn has_more(&self, request: &Request) -> bool {
        request.has_more_parts()
    }

    fn sent(&self, engine: &mut Engine<'_>, index: u32, len: u32) {
        engine.sent_part(index, len);
    }

    fn uses(&self, request: &Request, bytes: Range<u64>, to_be_written: bool) -> bool {
        request.uses_part(bytes, to_be_written)
    }

    fn abandon(&self, engine: &mut Engine<'_>, handle: Handle) {
        engine.abandon_channel(handle);
    }
}
