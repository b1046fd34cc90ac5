//! Partitioned communication of datatypes (MPI 4.1 chapter 4): see
//! [`partitioned`](crate::api::partitioned).

use aldis_hal::{Cause, Operation, Platform, Transport};
use aldis_protocols::partitioned::{PARTITIONS_MAX, PartReceiver, PartSender, check};

use super::{OfScope, Typed, TypedMut};
use crate::api::call::CallSubject;
use crate::api::endpoint::BUDGET;
use crate::api::partitioned::withdrawn;
use crate::api::scope::{Request, Scope, Stage};
use crate::datatype::Form;
use crate::engine::state::Engine;
use crate::engine::wire::LaneTurn;
use crate::error::Error;
use crate::memory::buffer::{UserBuffer, overlap};
use crate::rank::{Rank, Tag};
use crate::tables::comm::Comm;
use crate::tables::elements::{Elements, ElementsMut, LaidOut, TypedData};
use crate::tables::request::{Backing, Machine, State};

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// Sets a partitioned send of elements of a datatype up (MPI_Psend_init): `partitions` parts of
    /// as many elements each. Otherwise as [`psend_init`](Self::psend_init); the mode of `data`
    /// does not matter.
    ///
    /// Partitioned messages carry no label: both sides' lengths are compared, their signatures are
    /// not.
    ///
    /// # Errors
    /// [`Cause::Partitions`] for elements that cannot be divided so, [`Cause::Unsupported`] for a
    /// checksum; the rest as [`psend_init`](Self::psend_init) and
    /// [`isend_typed`](Self::isend_typed). A round with a number that the peer's words cannot hold
    /// fails with [`Cause::Unrepresentable`], and the channel with it.
    pub fn psend_init_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        data: Typed<'scope, M>,
        partitions: u32,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let Elements { memory, place, checked, .. } = data.data;
        let machine = Machine::PartSend(PartSender::new(partitions.min(PARTITIONS_MAX)));
        let call = CallSubject::send(comm, to, tag);
        if checked {
            return Err(self.refused(call.refused(Cause::Unsupported)));
        }
        self.part_init_typed(call, comm, &ElementsMut { memory, place }, partitions, machine)
    }

    /// Sets a partitioned receive of elements of a datatype up (MPI_Precv_init). The bytes of its
    /// status are those that travelled.
    ///
    /// # Errors
    /// [`Cause::Partitions`] for elements that cannot be divided so, [`Cause::TooBig`] if the
    /// memory does not reach as far as the data, [`Cause::Stale`] for a type that was freed; the
    /// rest as [`psend_init_typed`](Self::psend_init_typed).
    pub fn precv_init_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope, M>,
        partitions: u32,
        from: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let machine = Machine::PartRecv(PartReceiver::new(partitions.min(PARTITIONS_MAX)));
        let call = CallSubject::recv(Operation::Recv, comm, from.into(), tag.into());
        self.part_init_typed(call, comm, &into.room, partitions, machine)
    }

    fn part_init_typed(
        &mut self,
        call: CallSubject,
        comm: &Comm,
        data: &ElementsMut,
        partitions: u32,
        machine: Machine,
    ) -> Result<Request<'scope>, Error> {
        let endpoint = &mut *self.within.endpoint;
        let made = endpoint.engine.open_typed(call, comm, data, partitions, machine);
        let handle = made.map_err(|cause| self.refused(call.refused(cause)))?;
        let endpoint = &mut *self.within.endpoint;
        self.requests.push_back(&mut endpoint.engine.requests, handle.slot);
        endpoint.engine.flush(&mut endpoint.transport, BUDGET);
        Ok(Request::new(Stage::Idle(handle)))
    }
}

impl Engine<'_> {
    /// Takes a slot for a channel of elements of a type.
    fn open_typed(
        &mut self,
        call: CallSubject,
        comm: &Comm,
        data: &ElementsMut,
        partitions: u32,
        machine: Machine,
    ) -> Result<aldis_hal::Handle, Cause> {
        let &ElementsMut { memory, ref place } = data;
        let (rank, _) = call.other_side();
        let peer = match self.comms.peer(comm, rank) {
            Err(cause) if call.is_null(cause) => None,
            peer => Some(peer?),
        };
        let form = match (peer, &machine) {
            (None, _) => Form::Native,
            (Some(peer), Machine::PartSend(_)) => self.form_to(peer),
            (Some(peer), _) => self.form_from(peer, true),
        };
        let data = TypedData { memory, place, form, checked: false };
        let LaidOut { layout, len } = self.lay_out(data)?;
        check(partitions, len as u64)?;
        if !place.count.is_multiple_of(partitions.into()) {
            return Err(Cause::Partitions { partitions, bytes: len as u64 });
        }
        let handle = self.open(call, comm, UserBuffer::scattered(len), machine)?;
        if let Some(request) = self.requests.get(handle) {
            request.backing = Backing::Typed(layout);
        }
        Ok(handle)
    }

    /// Returns true if the typed channel in slot `index` uses a part of the user's memory: if one
    /// of its partitions that are the channel's reaches into it.
    pub(crate) fn typed_channel_uses(&mut self, index: u32, part: UserBuffer, to_be_written: bool) -> bool {
        let (Some(request), Some(conversion)) = (self.requests.at(index), &self.conversion) else {
            return false;
        };
        let Backing::Typed(layout) = &request.backing else { return false };
        let (memory, length) = (layout.memory(), request.buffer.len() as u64);
        if !overlap(memory, part) {
            return false;
        }
        let partitions = match &request.machine {
            Machine::PartSend(channel) => channel.partitions(),
            Machine::PartRecv(channel) => channel.partitions(),
            _ => return false,
        };
        let bytes = length.checked_div(partitions.into()).unwrap_or(0);
        (0..u64::from(partitions)).any(|partition| {
            let stream = partition.wrapping_mul(bytes)..partition.wrapping_add(1).wrapping_mul(bytes);
            let is_taken = match &request.machine {
                Machine::PartSend(channel) => to_be_written && channel.has_ready(stream, length),
                Machine::PartRecv(channel) => channel.has_missing(stream, length),
                _ => false,
            };
            is_taken
                && layout
                    .partition(&conversion.types, partition, partitions)
                    .and_then(|range| memory.part(range))
                    .is_none_or(|reach| overlap(reach, part))
        })
    }

    /// Gives up the channel in slot `index`, which cannot be packed: its round fails, and its
    /// receiver is notified.
    pub(crate) fn give_up_channel(&mut self, index: u32, cause: Cause) -> LaneTurn {
        if let Some(request) = self.requests.at(index)
            && let Machine::PartSend(channel) = request.machine
        {
            (request.state, request.cause) = (State::Sending, Some(cause));
            request.machine = Machine::Send(withdrawn(channel.receiver()));
        }
        LaneTurn::Sent
    }
}
