//! In an image that is to be small there are no fast paths of typed messages: the functions of
//! `fast_path.rs`, which do nothing here.

use aldis_hal::{Cause, Handle, PeerId, Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::engine::state::Engine;
use crate::error::Failed;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::elements::{Elements, ElementsMut, Plain};
use crate::tables::request::Key;

impl Engine<'_> {
    pub(crate) const fn try_deliver_elements(&self, _from: PeerId, _message: &[u8]) -> bool {
        false
    }

    pub(crate) const fn request_plain(
        &self,
        _key: Key,
        _peer: PeerId,
        _buffer: UserBuffer,
        elements: Plain,
    ) -> Result<Handle, Cause> {
        match elements {}
    }
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    pub(crate) const fn try_send_plain(
        &self,
        _comm: &Comm,
        _data: &Elements,
        _to: Rank,
        _tag: Tag,
    ) -> Option<Status> {
        None
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    pub(crate) const fn try_recv_plain(
        &self,
        _comm: &Comm,
        _into: &ElementsMut,
        _from: Source,
        _tag: TagMatch,
    ) -> Option<Result<Status, Failed>> {
        None
    }
}
