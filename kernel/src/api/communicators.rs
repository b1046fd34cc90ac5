//! Queries of an endpoint about its communicators, and the local steps of making and freeing one.

use aldis_hal::{Cause, Operation, PeerId, Platform, Transport};
use aldis_protocols::card::ByteOrder;

use crate::api::endpoint::Endpoint;
use crate::error::Error;
use crate::rank::{Rank, WILD};
use crate::tables::comm::{CONTEXT_WORDS, Comm, ContextOffer, Members, is_freed};
use crate::tables::group::{Comparison, Group};
use crate::tables::peer::{Peer, Presence};

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// The group of a communicator, the local one of an intercommunicator (MPI_Comm_group),
    /// borrowed from the table. To keep it while the endpoint goes on, take the union with
    /// [`Group::EMPTY`] into memory of one's own.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn group(&self, comm: &Comm) -> Result<Group<'_>, Error> {
        self.engine.comms.group(comm).map_err(about(comm, Operation::Group))
    }

    /// The remote group of an intercommunicator (MPI_Comm_remote_group), borrowed from the table.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`] for a communicator of one group; else as
    /// [`group`](Self::group).
    pub fn remote_group(&self, inter: &Comm) -> Result<Group<'_>, Error> {
        self.engine.comms.remote_group(inter).map_err(about(inter, Operation::Group))
    }

    /// The first rank of a communicator - of an intercommunicator, of its local group, else of the
    /// other - that has the other byte order. Typed messages convert its numbers and nothing else
    /// does, so a caller that works on the bytes of others asks first: one look, unless some peer
    /// of the job is so.
    ///
    /// A kernel with the feature `compact` does not look: it takes all peers for its like. Those
    /// that are not refuse.
    #[inline]
    pub fn unlike(&self, comm: &Comm) -> Option<Rank> {
        #[cfg(not(feature = "compact"))]
        if self.engine.mixed {
            let comms = &self.engine.comms;
            let groups = [comms.group(comm), comms.remote_group(comm)];
            return groups.iter().flatten().find_map(|group| self.unlike_among(group));
        }
        let _ = comm;
        None
    }

    /// Finds the same as [`unlike`](Self::unlike), of a group.
    #[cold]
    pub fn unlike_among(&self, group: &Group<'_>) -> Option<Rank> {
        let is_unlike = |row: &Peer| row.presence != Presence::Unknown && row.order != ByteOrder::NATIVE;
        let at = group
            .processes()
            .position(|process| self.engine.peers.get(process.index()).is_some_and(is_unlike));
        at.map(|at| Rank(at as u32))
    }

    /// Compares two communicators (MPI_Comm_compare). Intercommunicators are compared by both
    /// groups, and are unequal to communicators of one group (MPI 4.1 section 7.6.1).
    ///
    /// # Errors
    /// [`Cause::Stale`] if one of them was freed.
    pub fn compare(&self, one: &Comm, other: &Comm) -> Result<Comparison, Error> {
        let local = self.group(one)?.compare(&self.group(other)?);
        let remote = match (one.is_inter(), other.is_inter()) {
            (false, false) => Comparison::Identical,
            (true, true) => self.remote_group(one)?.compare(&self.remote_group(other)?),
            _ => Comparison::Unequal,
        };
        Ok(match (local, remote) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            (Comparison::Identical, Comparison::Identical) if one.context() == other.context() => {
                Comparison::Identical
            }
            (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
            _ => Comparison::Similar,
        })
    }

    /// The process that a rank addresses in a communicator, as groups name it: what its messages go
    /// to.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`]; else as [`group`](Self::group).
    pub fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error> {
        let process = self.engine.comms.peer(comm, rank);
        process.map_err(|cause| Error::about(Operation::Group, cause, rank.0, comm.context(), WILD))
    }

    /// For those who implement collectives: the communicator of an intercommunicator's local group,
    /// which belongs to it and goes with it.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`] for a communicator of one group, [`Cause::Stale`] for a freed
    /// one.
    pub fn companion(&self, inter: &Comm) -> Result<Comm, Error> {
        self.engine.comms.companion(inter).map_err(about(inter, Operation::Group))
    }

    /// This process, as groups name it.
    pub const fn process(&self) -> PeerId {
        self.engine.me
    }

    /// A communicator's name (MPI_Comm_get_name); empty if it was given none.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn name(&self, comm: &Comm) -> Result<&'static str, Error> {
        self.engine.comms.name(comm).map_err(about(comm, Operation::Group))
    }

    /// Names a communicator on this rank (MPI_Comm_set_name).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn set_name(&mut self, comm: &Comm, name: &'static str) -> Result<(), Error> {
        self.engine.comms.set_name(comm, name).map_err(about(comm, Operation::Group))
    }

    /// For those who implement the making of communicators: takes this process's turn to offer
    /// slots, if no other call has it or is first in order. `order` is of the call, the same on all
    /// ranks; `u32::MAX` while that is not agreed.
    pub const fn take_context_turn(&mut self, order: u32) -> bool {
        self.engine.comms.turns.take(order)
    }

    /// For the same: the call offers slots later, before those that come behind it in order; it
    /// gives back the turn if it has it.
    pub const fn put_off_context_turn(&mut self, order: u32, held: bool) {
        self.engine.comms.turns.put_off(order, held);
    }

    /// For the same: the call is over, or has its slot in the table; it gives back the turn if it
    /// has it.
    pub const fn end_context_turn(&mut self, order: u32, held: bool) {
        self.engine.comms.turns.end(order, held);
    }

    /// For the same: the first free slot, if it is among those from zero on that an offer has, for
    /// a call whose order is not agreed yet; no other call is offered it before the promise
    /// [ends](Self::end_context_promise). None while another call has one or has offered all.
    pub fn promise_context(&mut self) -> Option<u32> {
        let comms = &mut self.engine.comms;
        let first = (0..CONTEXT_WORDS as u32 * 64).find(|&slot| comms.is_free(slot))?;
        comms.turns.promise(u16::try_from(first).ok()?).then_some(first)
    }

    /// For the same: the promised slot is in the table, or will not be.
    pub const fn end_context_promise(&mut self) {
        self.engine.comms.turns.end_promise();
    }

    /// For those who implement the making of communicators: free slots from `base` on, but for one
    /// that is promised to another call.
    pub fn context_offer(&self, base: u32) -> ContextOffer {
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

    /// For those who implement the making of communicators: the last generation of a slot here, at
    /// most [`GENERATION_MAX`](crate::GENERATION_MAX).
    pub fn context_generation(&self, slot: u32) -> u32 {
        self.engine.comms.generation(slot)
    }

    /// For those who implement the making of communicators: whether there is room for one of these
    /// members.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if there are too few pieces, [`Cause::Stale`].
    pub fn check_pieces<I: Iterator<Item = PeerId> + Clone>(
        &self,
        members: &Members<I>,
    ) -> Result<(), Cause> {
        self.engine.comms.check_pieces(members)
    }

    /// For those who implement the making of communicators: puts one of these members, among them
    /// this process, into `slot` with `generation`. All of them must have done so before any uses
    /// it.
    ///
    /// # Errors
    /// [`Cause::Busy`] if the slot is not free, [`Cause::TooSmall`], [`Cause::Stale`], and
    /// [`Cause::Unreachable`] if this process is not among them.
    pub fn install<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        members: &Members<I>,
    ) -> Result<Comm, Cause> {
        // What was left of the slot's last communicator for want of a request slot.
        self.engine.purge(self.engine.comms.last_context(slot));
        let made = self.engine.comms.install(slot, generation, members, None)?;
        self.open_lines(&made);
        Ok(made)
    }

    /// For those who implement the making of communicators: as [`install`](Self::install), an
    /// intercommunicator from the group of `companion`, which will belong to it, to `remote`, which
    /// has no process in common with that and at least one.
    ///
    /// # Errors
    /// [`Cause::Busy`] if the slot is not free, [`Cause::TooSmall`] if there are too few pieces,
    /// [`Cause::Stale`]; the rest as [`install`](Self::install).
    pub fn install_inter<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        companion: &Comm,
        remote: &Members<I>,
    ) -> Result<Comm, Cause> {
        self.engine.purge(self.engine.comms.last_context(slot));
        self.engine.comms.install(slot, generation, remote, Some(companion))
    }

    /// Frees a communicator on this rank alone as soon as that harms no rank: false, and nothing
    /// has changed, while a request of this rank that is not over needs it or another rank may
    /// still read this one's control slots in it. For those whose calls do not wait for the other
    /// ranks, each of which does the same when it wants; the slot is used again once all ranks of
    /// the next communicator have. Collectives that are under way in it, and no request of theirs,
    /// are for the caller to know.
    ///
    /// # Errors
    /// [`Cause::Predefined`] for world and self, [`Cause::Stale`] for a freed communicator.
    pub fn release(&mut self, comm: &Comm) -> Result<bool, Error> {
        let companion = self.engine.comms.companion(comm).ok();
        let mut both = [Some(*comm), companion].into_iter().flatten();
        // World and self are there for good: that is the error, whatever uses them.
        let is_made = is_freed(comm.context());
        if is_made && both.any(|comm| self.engine.is_used(&comm) || !self.are_lines_over(&comm)) {
            return Ok(false);
        }
        self.discard(comm).map(|()| true)
    }

    /// Frees a communicator on this rank alone: what has arrived in it is dropped, and what still
    /// arrives will be. The way out when other ranks are dead; else its ranks free it together
    /// (`aldis_coll::comm::free`). The companion of an intercommunicator goes with it.
    ///
    /// # Errors
    /// [`Cause::Predefined`] for world and self, [`Cause::Stale`].
    pub fn discard(&mut self, comm: &Comm) -> Result<(), Error> {
        self.engine.discard(comm).map_err(about(comm, Operation::Free))
    }
}

fn about(comm: &Comm, operation: Operation) -> impl Fn(Cause) -> Error {
    let context = comm.context();
    move |cause| Error::about(operation, cause, WILD, context, WILD)
}
