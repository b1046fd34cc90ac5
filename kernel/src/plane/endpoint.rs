//! The part of an endpoint that libraries of collectives use.

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
use crate::rank::Rank;
use crate::tables::comm::{Comm, ContextOffer, Members};
use crate::tables::group::Group;
use aldis_hal::{Cause, PeerId, Platform, Transport};

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
    /// it.
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
    #[inline(always)]
    fn check_attributes(&self, comm: &Comm) -> Result<(), Cause> {
        self.check_attributes(comm)
    }

    #[inline(always)]
    fn copy_attributes(&mut self, old: &Comm, new: &Comm) {
        self.copy_attributes(old, new)
    }

    #[inline(always)]
    fn unlike(&self, comm: &Comm) -> Option<Rank> {
        self.unlike(comm)
    }

    #[inline(always)]
    fn unlike_among(&self, group: &Group<'_>) -> Option<Rank> {
        self.unlike_among(group)
    }

    #[inline(always)]
    fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error> {
        self.process_of(comm, rank)
    }

    #[inline(always)]
    fn companion(&self, inter: &Comm) -> Result<Comm, Error> {
        self.companion(inter)
    }

    #[inline(always)]
    fn take_context_turn(&mut self, order: u32) -> bool {
        self.take_context_turn(order)
    }

    #[inline(always)]
    fn put_off_context_turn(&mut self, order: u32, held: bool) {
        self.put_off_context_turn(order, held)
    }

    #[inline(always)]
    fn end_context_turn(&mut self, order: u32, held: bool) {
        self.end_context_turn(order, held)
    }

    #[inline(always)]
    fn promise_context(&mut self) -> Option<u32> {
        self.promise_context()
    }

    #[inline(always)]
    fn end_context_promise(&mut self) {
        self.end_context_promise()
    }

    #[inline(always)]
    fn context_offer(&mut self, base: u32) -> ContextOffer {
        self.context_offer(base)
    }

    #[inline(always)]
    fn context_generation(&self, slot: u32) -> u32 {
        self.context_generation(slot)
    }

    #[inline(always)]
    fn check_pieces<I: Iterator<Item = PeerId> + Clone>(&self, members: &Members<I>) -> Result<(), Cause> {
        self.check_pieces(members)
    }

    #[inline(always)]
    fn install<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        members: &Members<I>,
    ) -> Result<Comm, Cause> {
        self.install(slot, generation, members)
    }

    #[inline(always)]
    fn install_inter<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        companion: &Comm,
        remote: &Members<I>,
    ) -> Result<Comm, Cause> {
        self.install_inter(slot, generation, companion, remote)
    }

    #[inline(always)]
    fn release(&mut self, comm: &Comm) -> Result<bool, Error> {
        self.release(comm)
    }

    #[inline(always)]
    fn discard(&mut self, comm: &Comm) -> Result<(), Error> {
        self.discard(comm)
    }

    #[inline(always)]
    fn failure(&self) -> &Error {
        self.failure()
    }

    #[inline(always)]
    fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause> {
        self.control_slots(comm)
    }

    #[inline(always)]
    fn control_slots_beside(&mut self, comm: &Comm) -> Result<(ControlSlots<'_>, &mut P), Cause> {
        self.control_slots_beside(comm)
    }

    #[inline(always)]
    fn is_there(&mut self, comm: &Comm, rank: Rank) -> Result<(), Cause> {
        self.is_there(comm, rank)
    }

    #[inline(always)]
    fn raise(&mut self, error: &Error) {
        self.raise(error)
    }

    #[inline(always)]
    fn inherit(&mut self, parent: &Comm, child: &Comm) -> Result<(), Error> {
        self.inherit(parent, child)
    }

    #[inline(always)]
    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.enter(body)
    }

    #[inline(always)]
    fn form_from(&mut self, comm: &Comm, from: Rank) -> Result<Form, Error> {
        self.form_from(comm, from)
    }
}
