//! The part of an endpoint that libraries of collectives use.

use aldis_hal::{Cause, Operation, PeerId, Platform, Resource, Transport};
use aldis_protocols::card::ByteOrder;

use crate::api::call::CallSubject;
use crate::api::communicators::about;
use crate::api::control_slots::ControlSlots;
use crate::api::endpoint::Endpoint;
use crate::api::scope::Scope;
use crate::api::scope::sealed::Sealed;
use crate::datatype::Form;
#[cfg(doc)]
use crate::datatype::Types;
#[cfg(doc)]
use crate::error::Failed;
use crate::error::{Error, Failure};
use crate::rank::{Rank, TagMatch, WILD};
use crate::tables::attribute::{Attribute, KeyvalKind};
use crate::tables::comm::{CONTEXT_WORDS, Comm, ContextOffer, Members, is_freed};
use crate::tables::group::Group;
use crate::tables::peer::{Peer, Presence};

/// The part of an endpoint that libraries of collectives use: see the [module](super).
pub trait EndpointPlane<'s, T: Transport, P: Platform>: Sealed {
    /// For the creation of communicators: whether there are slots for copies of a
    /// communicator's attributes.
    ///
    /// # Errors
    /// [`Cause::TooSmall`].
    fn check_attributes(&self, comm: &Comm) -> Result<(), Cause>;

    /// For the creation of communicators: gives a duplicate the attributes that
    /// the old communicator's keys give it. There are slots for them: see
    /// [`check_attributes`](Self::check_attributes).
    fn copy_attributes(&mut self, old: &Comm, new: &Comm);

    /// The first rank of a communicator - of an intercommunicator, of its local group, else of the
    /// other - that has the other byte order. Typed messages convert its numbers and nothing else
    /// does, so a caller that works on the bytes of others asks first: one look, unless some peer
    /// of the job is so.
    fn unlike(&self, comm: &Comm) -> Option<Rank>;

    /// Finds the same as [`unlike`](Self::unlike), of a group.
    fn unlike_among(&self, group: &Group<'_>) -> Option<Rank>;

    /// The process that a rank addresses in a communicator, as groups name it: what its messages go
    /// to.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`]; else as [`CommRef::group`](crate::CommRef::group).
    fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error>;

    /// For those who implement collectives: the communicator of an intercommunicator's local group,
    /// which belongs to it and goes with it.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`] for a communicator of one group, [`Cause::Stale`] for a freed
    /// one.
    fn companion(&self, inter: &Comm) -> Result<Comm, Error>;

    /// For the creation of communicators: takes this process's turn to offer
    /// slots, if no other call has it or is first in order. `order` is of the call, the same on all
    /// ranks; `u32::MAX` while that is not agreed.
    fn take_context_turn(&mut self, order: u32) -> bool;

    /// For the same: the call offers slots later, before those that come behind it in order; it
    /// gives back the turn if it has it.
    fn put_off_context_turn(&mut self, order: u32, held: bool);

    /// For the same: the call is over, or has its slot in the table; it gives back the turn if it
    /// has it.
    fn end_context_turn(&mut self, order: u32, held: bool);

    /// For the same: the first free slot, if it is among those from zero on that an offer has, for
    /// a call whose order is not agreed yet; no other call is offered it before the promise
    /// [ends](Self::end_context_promise). None while another call has one or has offered all.
    fn promise_context(&mut self) -> Option<u32>;

    /// For the same: the promised slot is in the table, or will not be.
    fn end_context_promise(&mut self);

    /// For the creation of communicators: free slots from `base` on, but for one
    /// that is promised to another call.
    fn context_offer(&mut self, base: u32) -> ContextOffer;

    /// For the creation of communicators: the last generation of a slot here, at
    /// most [`GENERATION_MAX`](crate::GENERATION_MAX).
    fn context_generation(&self, slot: u32) -> u32;

    /// For the creation of communicators: whether there is room for one of these
    /// members.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if there are too few pieces, [`Cause::Stale`].
    fn check_pieces<I: Iterator<Item = PeerId> + Clone>(&self, members: &Members<I>) -> Result<(), Cause>;

    /// For the creation of communicators: puts one of these members, among them
    /// this process, into `slot` with `generation`. All of them must have done so before any uses
    /// it: one that names other members, or comes when another has gone on, has no control slots.
    ///
    /// # Errors
    /// [`Cause::Busy`] if the slot is not free, [`Cause::TooSmall`], [`Cause::Stale`], and
    /// [`Cause::Unreachable`] if this process is not among them.
    fn install<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        members: &Members<I>,
    ) -> Result<Comm, Cause>;

    /// For the creation of communicators: as [`install`](Self::install), an
    /// intercommunicator from the group of `companion`, which will belong to it, to `remote`, which
    /// has no process in common with that and at least one.
    ///
    /// # Errors
    /// [`Cause::Busy`] if the slot is not free, [`Cause::TooSmall`] if there are too few pieces,
    /// [`Cause::Stale`]; the rest as [`install`](Self::install).
    fn install_inter<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        companion: &Comm,
        remote: &Members<I>,
    ) -> Result<Comm, Cause>;

    /// Frees a communicator on this rank alone as soon as that harms no rank: false, and nothing
    /// has changed, while a request of this rank that is not over needs it or another rank may
    /// still read this one's control slots in it. For those whose calls do not wait for the other
    /// ranks, each of which does the same when it wants; the slot is used again once all ranks of
    /// the next communicator have. Collectives that are under way in it, and no request of theirs,
    /// are for the caller to know.
    ///
    /// # Errors
    /// [`Cause::Predefined`] for world and self, [`Cause::Stale`] for a freed communicator.
    fn release(&mut self, comm: &Comm) -> Result<bool, Error>;

    /// Frees a communicator on this rank alone: what has arrived in it is dropped, and what still
    /// arrives will be. The way out when other ranks are dead; else its ranks free it together
    /// (`aldis_coll::comm::free`). The companion of an intercommunicator goes with it. Its slot is
    /// not [offered](Self::context_offer) while another rank may still read this one's control
    /// slots in it: one that has not left it, and is not lost.
    ///
    /// # Errors
    /// [`Cause::Predefined`] for world and self, [`Cause::Stale`].
    fn discard(&mut self, comm: &Comm) -> Result<(), Error>;

    /// The error of what has [`Failed`] last.
    fn failure(&self) -> &Error;

    /// The control slots of a communicator, for those who implement collectives.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if there are none, [`Cause::Full`] if all sets are for other
    /// communicators, [`Cause::Unreachable`] if one of its ranks is on another node;
    /// [`Cause::Stale`], [`Cause::Intercommunicator`].
    fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause>;

    /// Returns the number of ranks of a communicator on each node, if those of a node are
    /// neighbours in it, and as many on each node but the last; 0 if they are not, or nodes are not
    /// known. The same on every rank.
    fn ranks_per_node(&mut self, comm: &Comm) -> u32;

    /// The control slots of a communicator, and the platform, by which a wait for what others write
    /// there rests.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if there are none, [`Cause::Full`] if all sets are for other
    /// communicators, [`Cause::Unreachable`] if one of its ranks is on another node; the rest as
    /// [`control_slots`](Self::control_slots).
    fn control_slots_beside(&mut self, comm: &Comm) -> Result<(ControlSlots<'_>, &mut P), Cause>;

    /// Checks that a rank of a communicator can still write what is waited for.
    ///
    /// # Errors
    /// Why not: it has left, or is lost.
    fn is_there(&mut self, comm: &Comm, rank: Rank) -> Result<(), Cause>;

    /// Does what the policy of an error's communicator asks for (MPI_Comm_call_errhandler): for
    /// those who implement calls of their own, once for each error, before they return it.
    fn raise(&mut self, error: &Error);

    /// For the creation of communicators: gives a new one its parent's policy
    /// (MPI 4.1 section 9.3).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    fn inherit(&mut self, parent: &Comm, child: &Comm) -> Result<(), Error>;

    /// [`scope`](crate::Endpoint::scope) for those who implement calls of their own: what `body`
    /// returns may be the [marker](crate::Failed) of a failure.
    ///
    /// # Errors
    /// The failure that `body` returns, or the first one of a request that it did not wait for.
    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E>;

    /// The form in which typed messages of a rank come: for [`Types::count`] and
    /// [`Types::elements`] of what a probe tells, which are the bytes that travel. The bytes of a
    /// receive are those in memory, whose form is [`Native`](Form::Native).
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] and [`Cause::Stale`], of rank and communicator.
    fn form_from(&mut self, comm: &Comm, from: Rank) -> Result<Form, Error>;
}

impl<'s, T: Transport, P: Platform> EndpointPlane<'s, T, P> for Endpoint<'s, T, P> {
    fn check_attributes(&self, comm: &Comm) -> Result<(), Cause> {
        let slots = &self.engine.attributes;
        let need = slots.iter().filter(|slot| slot.is_of(comm)).count() as u32;
        let have = slots.iter().filter(|slot| slot.key.is_none()).count() as u32;
        let what = Resource::Attributes;
        if need > have { Err(Cause::TooSmall { what, need, have }) } else { Ok(()) }
    }

    fn copy_attributes(&mut self, old: &Comm, new: &Comm) {
        for index in 0..self.engine.attributes.len() {
            let slot = self.engine.attributes.get(index).filter(|slot| slot.is_of(old)).copied();
            if let Some(Attribute { key: Some(key), value, .. }) = slot
                && let KeyvalKind::User { copy, .. } = key.0
                && let Some(value) = copy(old, value)
            {
                // Dropped without a slot, which the check has ruled out.
                let _ = self.engine.set_attribute(new, key, value);
            }
        }
    }

    #[inline]
    fn unlike(&self, comm: &Comm) -> Option<Rank> {
        if !self.engine.mixed {
            return None;
        }
        let comms = &self.engine.comms;
        let groups = [comms.group(comm), comms.remote_group(comm)];
        groups.iter().flatten().find_map(|group| self.unlike_among(group))
    }

    #[cold]
    fn unlike_among(&self, group: &Group<'_>) -> Option<Rank> {
        let is_unlike = |row: &Peer| row.presence != Presence::Unknown && row.order != ByteOrder::NATIVE;
        let at = group.processes().position(|process| self.engine.peers.get(process).is_some_and(is_unlike));
        at.map(|at| Rank(at as u32))
    }

    fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error> {
        let process = self.engine.comms.peer(comm, rank);
        process.map_err(|cause| Error::about(Operation::Group, cause, rank.0, comm.context(), WILD))
    }

    fn companion(&self, inter: &Comm) -> Result<Comm, Error> {
        self.engine.comms.companion(inter).map_err(about(inter, Operation::Group))
    }

    fn take_context_turn(&mut self, order: u32) -> bool {
        self.engine.comms.turns.take(order)
    }

    fn put_off_context_turn(&mut self, order: u32, held: bool) {
        self.engine.comms.turns.put_off(order, held);
    }

    fn end_context_turn(&mut self, order: u32, held: bool) {
        self.engine.comms.turns.end(order, held);
    }

    fn promise_context(&mut self) -> Option<u32> {
        self.free_left_slots();
        let comms = &mut self.engine.comms;
        let first = (0..CONTEXT_WORDS as u32 * 64).find(|&slot| comms.is_free(slot))?;
        comms.turns.promise(u16::try_from(first).ok()?).then_some(first)
    }

    fn end_context_promise(&mut self) {
        self.engine.comms.turns.end_promise();
    }

    fn context_offer(&mut self, base: u32) -> ContextOffer {
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

    fn context_generation(&self, slot: u32) -> u32 {
        self.engine.comms.generation(slot)
    }

    fn check_pieces<I: Iterator<Item = PeerId> + Clone>(&self, members: &Members<I>) -> Result<(), Cause> {
        self.engine.comms.check_pieces(members)
    }

    fn install<I: Iterator<Item = PeerId> + Clone>(
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

    fn install_inter<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        companion: &Comm,
        remote: &Members<I>,
    ) -> Result<Comm, Cause> {
        self.engine.purge(self.engine.comms.last_context(slot));
        self.engine.comms.install(slot, generation, remote, Some(companion))
    }

    fn release(&mut self, comm: &Comm) -> Result<bool, Error> {
        let companion = self.engine.comms.companion(comm).ok();
        let mut both = [Some(*comm), companion].into_iter().flatten();
        // World and self are there for good: that is the error, whatever uses them.
        let is_made = is_freed(comm.context());
        if is_made && both.any(|comm| self.engine.is_used(&comm) || !self.are_control_slots_over(&comm)) {
            return Ok(false);
        }
        self.discard(comm).map(|()| true)
    }

    fn discard(&mut self, comm: &Comm) -> Result<(), Error> {
        if T::HAS_CONTROL_SLOTS && is_freed(comm.context()) {
            let companion = self.engine.comms.companion(comm).ok();
            [Some(*comm), companion].iter().flatten().for_each(|comm| self.leave_control_slots(comm));
        }
        self.engine.discard(comm).map_err(about(comm, Operation::Free))
    }

    #[inline(always)]
    fn failure(&self) -> &Error {
        self.failure()
    }

    #[inline(always)]
    fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause> {
        self.control_slots(comm)
    }

    fn ranks_per_node(&mut self, comm: &Comm) -> u32 {
        self.ranks_per_node(comm)
    }

    #[inline(always)]
    fn control_slots_beside(&mut self, comm: &Comm) -> Result<(ControlSlots<'_>, &mut P), Cause> {
        self.control_slots_beside(comm)
    }

    fn is_there(&mut self, comm: &Comm, rank: Rank) -> Result<(), Cause> {
        let peer = self.engine.comms.peer(comm, rank)?;
        self.engine.presence(peer)
    }

    #[inline(always)]
    fn raise(&mut self, error: &Error) {
        self.raise(error)
    }

    fn inherit(&mut self, parent: &Comm, child: &Comm) -> Result<(), Error> {
        let policy = self.comm(parent).error_policy()?;
        self.engine.comms.set_policy(child, policy).map_err(about(child, Operation::Group))
    }

    #[inline(always)]
    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.enter(body)
    }

    fn form_from(&mut self, comm: &Comm, from: Rank) -> Result<Form, Error> {
        let peer = self.engine.comms.peer(comm, from);
        let call = CallSubject::recv(Operation::Probe, comm, from.into(), TagMatch::Any);
        let peer = peer.map_err(|cause| self.refuse(call, cause))?;
        Ok(self.engine.form_from(peer, true))
    }
}
