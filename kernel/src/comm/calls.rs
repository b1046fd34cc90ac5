//! What an endpoint can tell of its communicators, and the local steps of making and freeing one.

use aldis_hal::{Cause, Operation, PeerId, Platform, Transport};

use super::Comm;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::group::{Comparison, Group};
use crate::rank::WILD;

/// Words of a [`ContextOffer`]: 256 slots at a time.
pub const CONTEXT_WORDS: usize = 4;

/// Slots of the communicator table that are free here: what the members of a communicator-to-be agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextOffer {
    /// A bit for each slot from the one that was asked for on; set if it is free.
    pub free: [u64; CONTEXT_WORDS],
    /// There are slots behind these.
    pub more: bool,
}

/// Who is in a communicator that is to be made.
#[derive(Clone, Debug)]
pub enum Members<I> {
    /// The ranks of another communicator, in the same order.
    Of(Comm),
    /// As many of the first ranks of another communicator, in the same order.
    First(Comm, u32),
    /// These processes, which are distinct.
    These(I),
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// The group of a communicator (MPI_Comm_group), borrowed from the table. To keep it while the endpoint goes on, take
    /// the union with [`Group::EMPTY`] into memory of one's own.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn group(&self, comm: &Comm) -> Result<Group<'_>, Error> {
        self.engine.comms.group(comm).map_err(about(comm, Operation::Group))
    }

    /// Compares two communicators (MPI_Comm_compare).
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn compare(&self, one: &Comm, other: &Comm) -> Result<Comparison, Error> {
        let (left, right) = (self.group(one)?, self.group(other)?);
        Ok(match left.compare(&right) {
            Comparison::Identical if one.context != other.context => Comparison::Congruent,
            comparison => comparison,
        })
    }

    /// This process, as groups name it.
    pub const fn process(&self) -> PeerId {
        self.engine.me
    }

    /// A communicator's name (MPI_Comm_get_name); empty if it was given none.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn name(&self, comm: &Comm) -> Result<&'static str, Error> {
        self.engine.comms.name(comm).map_err(about(comm, Operation::Group))
    }

    /// Names a communicator on this rank (MPI_Comm_set_name).
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn set_name(&mut self, comm: &Comm, name: &'static str) -> Result<(), Error> {
        self.engine.comms.set_name(comm, name).map_err(about(comm, Operation::Group))
    }

    /// For those who implement the making of communicators: free slots from `base` on.
    pub fn context_offer(&self, base: u32) -> ContextOffer {
        let mut offer = ContextOffer { free: [0; CONTEXT_WORDS], more: false };
        for (word, first) in offer.free.iter_mut().zip((base..).step_by(64)) {
            for bit in 0..64 {
                *word |= u64::from(self.engine.comms.is_free(first.saturating_add(bit))) << bit;
            }
        }
        let end = base.saturating_add(CONTEXT_WORDS as u32 * 64);
        offer.more = end < self.engine.comms.slots();
        offer
    }

    /// For those who implement the making of communicators: the last generation of a slot here, at most
    /// [`GENERATION_MAX`](crate::GENERATION_MAX).
    pub fn context_generation(&self, slot: u32) -> u32 {
        self.engine.comms.generation(slot)
    }

    /// For those who implement the making of communicators: whether there is room for one of these members.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if there are too few pieces, [`Cause::Stale`].
    pub fn check_pieces<I: Iterator<Item = PeerId> + Clone>(
        &self,
        members: &Members<I>,
    ) -> Result<(), Cause> {
        self.engine.comms.check_pieces(members)
    }

    /// For those who implement the making of communicators: puts one of these members, among them this process, into
    /// `slot` with `generation`. All of them must have done so before any uses it.
    ///
    /// # Errors
    /// [`Cause::Busy`] if the slot is not free, [`Cause::TooSmall`], [`Cause::Stale`], and [`Cause::Unreachable`] if this
    /// process is not among them.
    pub fn install<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        slot: u32,
        generation: u32,
        members: &Members<I>,
    ) -> Result<Comm, Cause> {
        // What was left of the slot's last communicator for want of a request slot.
        self.engine.purge(self.engine.comms.last_context(slot));
        self.engine.comms.install(slot, generation, members)
    }

    /// Frees a communicator on this rank alone: what has arrived in it is dropped, and what still arrives will be. The way
    /// out when other ranks are dead; else its ranks free it together (`aldis_coll::comm::free`).
    ///
    /// # Errors
    /// [`Cause::Predefined`] for world and self, [`Cause::Stale`].
    pub fn discard(&mut self, comm: &Comm) -> Result<(), Error> {
        self.engine.discard(comm).map_err(about(comm, Operation::Free))
    }
}

fn about(comm: &Comm, operation: Operation) -> impl Fn(Cause) -> Error {
    let context = comm.context;
    move |cause| Error::about(operation, cause, WILD, context, WILD)
}
