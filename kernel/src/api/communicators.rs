//! Communicators of an endpoint, to be asked and set, and the local steps of making and freeing
//! one.

use aldis_hal::{Cause, Operation, PeerId, Platform, Transport};
use aldis_protocols::card::ByteOrder;

use crate::api::endpoint::Endpoint;
use crate::engine::state::Engine;
use crate::error::Error;
use crate::rank::{Rank, WILD};
use crate::tables::comm::{CONTEXT_WORDS, Comm, ContextOffer, Members, is_freed};
use crate::tables::group::{Comparison, Group};
use crate::tables::peer::{Peer, Presence};

/// A communicator beside the endpoint that knows it, to be asked: see [`Endpoint::comm`].
#[derive(Clone, Copy)]
pub struct CommRef<'e, 's> {
    pub(crate) engine: &'e Engine<'s>,
    pub(crate) comm: Comm,
}

/// A communicator beside the endpoint that knows it, to be set: see [`Endpoint::comm_mut`].
pub struct CommMut<'e, 's, T, P> {
    pub(crate) endpoint: &'e mut Endpoint<'s, T, P>,
    pub(crate) comm: Comm,
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// A communicator, to be asked for its groups, name, attributes, hints and error policy on this
    /// rank.
    #[inline]
    pub const fn comm(&self, comm: &Comm) -> CommRef<'_, 's> {
        CommRef { engine: &self.engine, comm: *comm }
    }

    /// A communicator, to be given a name, attributes, hints and an error policy on this rank
    /// alone, and to be aborted.
    #[inline]
    pub const fn comm_mut(&mut self, comm: &Comm) -> CommMut<'_, 's, T, P> {
        CommMut { endpoint: self, comm: *comm }
    }

    /// See [`EndpointPlane::unlike`](crate::plane::EndpointPlane::unlike).
    #[inline]
    pub(crate) fn unlike(&self, comm: &Comm) -> Option<Rank> {
        if !self.engine.mixed {
            return None;
        }
        let comms = &self.engine.comms;
        let groups = [comms.group(comm), comms.remote_group(comm)];
        groups.iter().flatten().find_map(|group| self.unlike_among(group))
    }

    /// See [`EndpointPlane::unlike_among`](crate::plane::EndpointPlane::unlike_among).
    #[cold]
    pub(crate) fn unlike_among(&self, group: &Group<'_>) -> Option<Rank> {
        let is_unlike = |row: &Peer| row.presence != Presence::Unknown && row.order != ByteOrder::NATIVE;
        let at = group
            .processes()
            .position(|process| self.engine.peers.get(process.index()).is_some_and(is_unlike));
        at.map(|at| Rank(at as u32))
    }

    /// See [`EndpointPlane::process_of`](crate::plane::EndpointPlane::process_of).
    pub(crate) fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error> {
        let process = self.engine.comms.peer(comm, rank);
        process.map_err(|cause| Error::about(Operation::Group, cause, rank.0, comm.context(), WILD))
    }

    /// See [`EndpointPlane::companion`](crate::plane::EndpointPlane::companion).
    pub(crate) fn companion(&self, inter: &Comm) -> Result<Comm, Error> {
        self.engine.comms.companion(inter).map_err(about(inter, Operation::Group))
    }

    /// This process, as groups name it.
    pub const fn process(&self) -> PeerId {
        self.engine.me
    }

    /// See [`EndpointPlane::take_context_turn`](crate::plane::EndpointPlane::take_context_turn).
    pub(crate) const fn take_context_turn(&mut self, order: u32) -> bool {
        self.engine.comms.turns.take(order)
    }

    /// See
    /// [`EndpointPlane::put_off_context_turn`](crate::plane::EndpointPlane::put_off_context_turn).
    pub(crate) const fn put_off_context_turn(&mut self, order: u32, held: bool) {
        self.engine.comms.turns.put_off(order, held);
    }

    /// See [`EndpointPlane::end_context_turn`](crate::plane::EndpointPlane::end_context_turn).
    pub(crate) const fn end_context_turn(&mut self, order: u32, held: bool) {
        self.engine.comms.turns.end(order, held);
    }

    /// See [`EndpointPlane::promise_context`](crate::plane::EndpointPlane::promise_context).
    pub(crate) fn promise_context(&mut self) -> Option<u32> {
        self.free_left_slots();
        let comms = &mut self.engine.comms;
        let first = (0..CONTEXT_WORDS as u32 * 64).find(|&slot| comms.is_free(slot))?;
        comms.turns.promise(u16::try_from(first).ok()?).then_some(first)
    }

    /// See
    /// [`EndpointPlane::end_context_promise`](crate::plane::EndpointPlane::end_context_promise).
    pub(crate) const fn end_context_promise(&mut self) {
        self.engine.comms.turns.end_promise();
    }

    /// See [`EndpointPlane::context_offer`](crate::plane::EndpointPlane::context_offer).
    pub(crate) fn context_offer(&mut self, base: u32) -> ContextOffer {
        self.free_left_slots();
        let mut offer = ContextOffer { free: [0; CONTEXT_WORDS], more: false };
        for (word, first) in offer.free.iter_mut().zip((base..).step_by(64)) {
            for bit in 0..64 {
                let slot = first.saturating_add(bit);
                let comms = &self.engine.comms;
                *word |= u64::from(comms.is_free(slot) && !comms.turns.is_promised(slot)) << bit;
            }
        }
        let end = base.saturating_add(CONTEXT_WORDS as u32 * 64);
        offer.more = end < self.engine.comms.slots();
        offer
    }

    /// See [`EndpointPlane::context_generation`](crate::plane::EndpointPlane::context_generation).
    pub(crate) fn context_generation(&self, slot: u32) -> u32 {
        self.engine.comms.generation(slot)
    }

    /// See [`EndpointPlane::check_pieces`](crate::plane::EndpointPlane::check_pieces).
    pub(crate) fn check_pieces<I: Iterator<Item = PeerId> + Clone>(
        &self,
        members: &Members<I>,
    ) -> Result<(), Cause> {
        self.engine.comms.check_pieces(members)
    }

    /// See [`EndpointPlane::install`](crate::plane::EndpointPlane::install).
    pub(crate) fn install<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        members: &Members<I>,
    ) -> Result<Comm, Cause> {
        // What was left of the slot's last communicator for want of a request slot.
        self.engine.purge(self.engine.comms.last_context(slot));
        let made = self.engine.comms.install(slot, generation, members, None)?;
        self.open_control_slots(&made);
        Ok(made)
    }

    /// See [`EndpointPlane::install_inter`](crate::plane::EndpointPlane::install_inter).
    pub(crate) fn install_inter<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        companion: &Comm,
        remote: &Members<I>,
    ) -> Result<Comm, Cause> {
        self.engine.purge(self.engine.comms.last_context(slot));
        self.engine.comms.install(slot, generation, remote, Some(companion))
    }

    /// See [`EndpointPlane::release`](crate::plane::EndpointPlane::release).
    pub(crate) fn release(&mut self, comm: &Comm) -> Result<bool, Error> {
        let companion = self.engine.comms.companion(comm).ok();
        let mut both = [Some(*comm), companion].into_iter().flatten();
        // World and self are there for good: that is the error, whatever uses them.
        let is_made = is_freed(comm.context());
        if is_made && both.any(|comm| self.engine.is_used(&comm) || !self.are_control_slots_over(&comm)) {
            return Ok(false);
        }
        self.discard(comm).map(|()| true)
    }

    /// See [`EndpointPlane::discard`](crate::plane::EndpointPlane::discard).
    pub(crate) fn discard(&mut self, comm: &Comm) -> Result<(), Error> {
        if T::HAS_CONTROL_SLOTS && is_freed(comm.context()) {
            let companion = self.engine.comms.companion(comm).ok();
            [Some(*comm), companion].iter().flatten().for_each(|comm| self.leave_control_slots(comm));
        }
        self.engine.discard(comm).map_err(about(comm, Operation::Free))
    }
}

impl<'e> CommRef<'e, '_> {
    /// The group, the local one of an intercommunicator (MPI_Comm_group), borrowed from
    /// the table. To keep it while the endpoint goes on, take the union with [`Group::EMPTY`] into
    /// memory of one's own.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn group(&self) -> Result<Group<'e>, Error> {
        self.engine.comms.group(&self.comm).map_err(about(&self.comm, Operation::Group))
    }

    /// The remote group of an intercommunicator (MPI_Comm_remote_group), borrowed from the table.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`] for a communicator of one group; else as
    /// [`group`](Self::group).
    pub fn remote_group(&self) -> Result<Group<'e>, Error> {
        self.engine.comms.remote_group(&self.comm).map_err(about(&self.comm, Operation::Group))
    }

    /// Compares with another communicator (MPI_Comm_compare). Intercommunicators are compared
    /// by both groups, and are unequal to communicators of one group (MPI 4.1 section 7.6.1).
    ///
    /// # Errors
    /// [`Cause::Stale`] if one of the two was freed.
    pub fn compare(&self, other: &Comm) -> Result<Comparison, Error> {
        let (one, other) = (self, CommRef { engine: self.engine, comm: *other });
        let local = one.group()?.compare(&other.group()?);
        let remote = match (one.comm.is_inter(), other.comm.is_inter()) {
            (false, false) => Comparison::Identical,
            (true, true) => one.remote_group()?.compare(&other.remote_group()?),
            _ => Comparison::Unequal,
        };
        Ok(match (local, remote) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            (Comparison::Identical, Comparison::Identical) if one.comm.context() == other.comm.context() => {
                Comparison::Identical
            }
            (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
            _ => Comparison::Similar,
        })
    }

    /// The name (MPI_Comm_get_name); empty if it was given none.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn name(&self) -> Result<&'static str, Error> {
        self.engine.comms.name(&self.comm).map_err(about(&self.comm, Operation::Group))
    }
}

impl<T: Transport, P: Platform> CommMut<'_, '_, T, P> {
    /// Names the communicator on this rank (MPI_Comm_set_name).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn set_name(&mut self, name: &'static str) -> Result<(), Error> {
        let set = self.endpoint.engine.comms.set_name(&self.comm, name);
        set.map_err(about(&self.comm, Operation::Group))
    }
}

fn about(comm: &Comm, operation: Operation) -> impl Fn(Cause) -> Error {
    let context = comm.context();
    move |cause| Error::about(operation, cause, WILD, context, WILD)
}
