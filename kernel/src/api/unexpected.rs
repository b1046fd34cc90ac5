//! Unexpected collective messages, which met no receive, and the tags that they are compared with:
//! they show that ranks make unlike calls. For those who implement collectives.

use aldis_hal::{Cause, Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::scope::Scope;
use crate::api::scope::sealed::Sealed;
use crate::rank::{Rank, Tag};
use crate::tables::comm::Comm;

/// The numbers of an endpoint's collectives.
pub trait EndpointCalls: Sealed {
    /// Leaves out the number of a collective of which this rank had no message, but others may
    /// have.
    ///
    /// # Errors
    /// [`Cause::Stale`], [`Cause::Intercommunicator`].
    fn skip_collective(&mut self, comm: &Comm) -> Result<(), Cause>;
}

impl<T: Transport, P: Platform> EndpointCalls for Endpoint<'_, T, P> {
    fn skip_collective(&mut self, comm: &Comm) -> Result<(), Cause> {
        self.engine.comms.next_collective(comm, false).map(drop)
    }
}

/// The collectives under way in a scope, and messages of others that have met no receive.
pub trait ScopeCalls: Sealed {
    /// The number of the next persistent collective on a communicator of one group, or of two: the
    /// same on every rank. Persistent collectives keep theirs, so these are not those of other
    /// calls, and do not come round before 2^32.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a communicator that was freed, [`Cause::Intercommunicator`] or
    /// [`Cause::Intracommunicator`] for one of the other kind.
    fn persistent_number(&mut self, comm: &Comm, is_inter: bool) -> Result<u32, Cause>;

    /// The number of the next collective on a communicator, which is not taken by this; `None`
    /// while one that is under way here may have the same.
    fn coming_number(&self, comm: &Comm) -> Option<Tag>;

    /// Notes that a collective begins on a communicator, with this tag, which is not zero; gives
    /// that of the one that began before it. It is under way until [`end_call`](Self::end_call).
    fn begin_call(&mut self, comm: &Comm, tag: Tag) -> Option<Tag>;

    /// Notes that a collective that has begun is over.
    fn end_call(&mut self, comm: &Comm);

    /// Returns true if there are messages that have met no receive yet, in whatever communicator.
    fn has_unexpected_calls(&self) -> bool;

    /// Messages so far that arrived before their receive, in whatever communicator.
    fn unexpected_count(&self) -> u64;

    /// The newest message in the context of `comm` that has met no receive yet and whose source and
    /// tag are (`is`) what is looked for, among the last `most` that have arrived and are there. It
    /// stays. `None` while two collectives that are under way on `comm` may have one number: a tag
    /// does not distinguish calls then.
    fn newest_unexpected(
        &mut self,
        comm: &Comm,
        most: u64,
        is: impl Fn(Rank, Tag) -> bool,
    ) -> Option<(Rank, Tag)>;
}

impl<T: Transport, P: Platform> ScopeCalls for Scope<'_, '_, '_, T, P> {
    fn persistent_number(&mut self, comm: &Comm, is_inter: bool) -> Result<u32, Cause> {
        self.within.endpoint.engine.comms.next_persistent(comm, is_inter)
    }

    fn coming_number(&self, comm: &Comm) -> Option<Tag> {
        self.within.endpoint.engine.comms.coming_collective(comm).map(Tag)
    }

    #[inline]
    fn begin_call(&mut self, comm: &Comm, tag: Tag) -> Option<Tag> {
        self.within.endpoint.engine.comms.begin_collective(comm, tag.0).map(Tag)
    }

    #[inline]
    fn end_call(&mut self, comm: &Comm) {
        self.within.endpoint.engine.comms.end_collective(comm);
    }

    #[inline]
    fn has_unexpected_calls(&self) -> bool {
        self.within.endpoint.engine.matcher.unexpected() > 0
    }

    #[inline]
    fn unexpected_count(&self) -> u64 {
        self.within.endpoint.engine.counters.unexpected
    }

    fn newest_unexpected(
        &mut self,
        comm: &Comm,
        most: u64,
        is: impl Fn(Rank, Tag) -> bool,
    ) -> Option<(Rank, Tag)> {
        let engine = &mut self.within.endpoint.engine;
        engine.comms.coming_collective(comm)?;
        let is = |source, tag| is(Rank(source), Tag(tag));
        let found =
            engine.matcher.seek(most, |key| key.context == comm.context() && is(key.source, key.tag))?;
        Some((Rank(found.source), Tag(found.tag)))
    }
}
