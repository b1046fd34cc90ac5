//! The part of a scope that libraries of collectives use.

use core::ops::Range;

use aldis_hal::{Activity, Cause, Operation, PeerId, Platform, Transport};

use crate::api::control_slots::ControlSlots;
#[cfg(doc)]
use crate::api::endpoint::Endpoint;
use crate::api::matched::Matched;
use crate::api::scope::sealed::Sealed;
use crate::api::scope::{Request, Scope, Stage, part};
use crate::api::typed::{OfScope, Typed, TypedMut};
use crate::datatype::{Form, Types};
use crate::error::{Error, Failed};
use crate::memory::buffer::{Lent, LentMut, LentRange};
use crate::plane::EndpointPlane;
use crate::rank::{Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::elements::TypedData;
use crate::tables::request::State;

/// The part of a scope that libraries of collectives use: see the [module](super).
pub trait ScopePlane<'scope, 's>: Sealed {
    /// [`result`](crate::Scope::result) for those who implement calls of their own.
    ///
    /// # Errors
    /// [`Failed`] if the operation failed, whose error is kept.
    fn outcome(&mut self, request: &mut Request<'scope>) -> Result<Option<Status>, Failed>;

    /// Polls and rests until `check` finds something: for those who drive several operations of
    /// their own at a time. `activity` is what the platform is given to note meanwhile.
    ///
    /// # Errors
    /// What `check` returns; [`Cause::TimedOut`] after the scope's deadline.
    fn wait_until<R>(
        &mut self,
        activity: Activity,
        check: impl FnMut(&mut Self) -> Result<Option<R>, Error>,
    ) -> Result<R, Error>;

    /// [`wait_until`](Self::wait_until) for those who implement calls of their own.
    ///
    /// # Errors
    /// The failure that `check` returns; [`Failed`] for [`Cause::TimedOut`] after the scope's
    /// deadline.
    fn drive_until<R>(
        &mut self,
        activity: &Activity,
        check: impl FnMut(&mut Self) -> Result<Option<R>, Failed>,
    ) -> Result<R, Failed>;

    /// Cancels a request like [`cancel`](crate::Scope::cancel), and if that cannot be without the
    /// peer, asks it (MPI_Cancel of a send that has left). True if the request is over now; if not,
    /// it is after a bounded number of polls on both sides, and its status
    /// [says](Status::is_cancelled) what has become of it: it is cancelled, and the receiver has
    /// nothing of it, or a receive has matched it, and it is sent.
    ///
    /// A message that a matched probe has taken goes on until it is received. So does one to a peer
    /// that was built without recalls.
    fn recall(&mut self, request: &mut Request<'scope>) -> bool;

    /// Returns true if a request is a receive that no message has met yet: one that may never end.
    fn is_unmatched(&mut self, request: &Request<'scope>) -> bool;

    /// The control slots of a communicator: see
    /// [`EndpointPlane::control_slots`].
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if there are none, [`Cause::Full`] if all sets are for other
    /// communicators, [`Cause::Unreachable`] if one of its ranks is on another node; the rest as
    /// [`EndpointPlane::control_slots`].
    fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause>;

    /// Returns the number of ranks of a communicator on each node: see
    /// [`EndpointPlane::ranks_per_node`].
    fn ranks_per_node(&mut self, comm: &Comm) -> u32;

    /// Starts the next collective by control slots of a communicator: its number. One that is not
    /// finished when the scope ends is given up then.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if there are none, [`Cause::Full`] if all sets are for other
    /// communicators, [`Cause::Unreachable`] if one of its ranks is on another node; the rest as
    /// [`EndpointPlane::control_slots`].
    fn begin_by_control_slots(&mut self, comm: &Comm) -> Result<u32, Cause>;

    /// Has the end of this scope give up what was begun by control slots before it, too, unless it
    /// is finished then.
    fn go_on_by_control_slots(&mut self);

    /// Checks that a rank can still write: see
    /// [`EndpointPlane::is_there`].
    ///
    /// # Errors
    /// The reason why it cannot: it has left, or is lost.
    fn is_there(&mut self, comm: &Comm, rank: Rank) -> Result<(), Cause>;

    /// Lets `work` read and write a byte range of lent memory beside the control slots of a
    /// communicator.
    ///
    /// # Errors
    /// [`Cause::Busy`] if a request of this scope is using the memory, [`Cause::TooBig`] for a
    /// range outside, what `work` returns; the rest as
    /// [`EndpointPlane::control_slots`].
    fn at_control_slots<R>(
        &mut self,
        comm: &Comm,
        lent: LentMut<'scope>,
        range: Range<usize>,
        work: impl FnOnce(&mut ControlSlots<'_>, &mut [u8]) -> Result<R, Cause>,
    ) -> Result<R, Cause>;

    /// Waits like [`wait_until`](Self::wait_until), but for what other ranks write to memory:
    /// `check` is asked much more often than the endpoint is polled. The activity is asked for when
    /// it is needed. So many `looks` have found nothing before.
    ///
    /// # Errors
    /// The failure that `check` returns; [`Cause::TimedOut`] after the scope's deadline.
    fn watch_until<R>(
        &mut self,
        looks: u32,
        activity: impl Fn() -> Activity,
        check: impl FnMut(&mut Self) -> Result<Option<R>, Error>,
    ) -> Result<R, Error>;

    /// The error of what has [`Failed`] last.
    fn failure(&self) -> &Error;

    /// Keeps an error that is on its way to the caller: [`failure`](Self::failure) gives it.
    fn keep_failure(&mut self, error: &Error) -> Failed;

    /// [`isend_part`](crate::Scope::isend_part) for those who implement calls of their own.
    ///
    /// # Errors
    /// [`Failed`] for the causes of [`isend_part`](crate::Scope::isend_part): a range outside, a
    /// full request table, a rank or tag out of range.
    fn start_send_part(
        &mut self,
        comm: &Comm,
        memory: impl Into<Lent<'scope>>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed>;

    /// [`irecv_part`](crate::Scope::irecv_part) for those who implement calls of their own.
    ///
    /// # Errors
    /// [`Failed`] for the causes of [`irecv_part`](crate::Scope::irecv_part): a range outside, a
    /// full request table, a rank or tag out of range.
    fn start_recv_part(
        &mut self,
        comm: &Comm,
        lent: LentMut<'scope>,
        range: Range<usize>,
        from: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed>;

    /// Lets `combine` work on two ranges of lent memory: the first to be written, the second to be
    /// read.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside, [`Cause::Busy`] if the ranges overlap or a request of
    /// this scope is using the one to be written, or receiving into the one to be read.
    fn combine(
        &mut self,
        into: LentRange<LentMut<'scope>>,
        from: LentRange<impl Into<Lent<'scope>>>,
        combine: impl FnOnce(&mut [u8], &[u8]),
    ) -> Result<(), Error>;

    /// See [`EndpointPlane::raise`].
    fn raise(&mut self, error: &Error);

    /// The number of the next collective on `comm`, as its tag: the same on every rank.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a communicator that was freed, [`Cause::Intercommunicator`].
    fn collective_tag(&mut self, comm: &Comm) -> Result<Tag, Error>;

    /// The number of the next collective over both groups of an intercommunicator, as its tag: the
    /// same on every rank.
    ///
    /// # Errors
    /// [`Cause::Stale`] for one that was freed, [`Cause::Intracommunicator`].
    fn inter_tag(&mut self, inter: &Comm) -> Result<Tag, Error>;

    /// [`collective_tag`](Self::collective_tag) for those who implement calls of their own.
    ///
    /// # Errors
    /// The cause of its error.
    fn collective_number(&mut self, comm: &Comm) -> Result<Tag, Cause>;

    /// Request slots that are free.
    fn room(&self) -> u32;

    /// Request slots in all.
    fn room_max(&self) -> u32;

    /// See [`EndpointPlane::unlike`].
    fn unlike(&self, comm: &Comm) -> Option<Rank>;

    /// Returns true if some peer of the job has the other byte order: what
    /// [`unlike`](Self::unlike) looks for in a communicator.
    fn has_unlike_peers(&self) -> bool;

    /// See [`EndpointPlane::companion`].
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`] for a communicator of one group, [`Cause::Stale`] for a freed
    /// one.
    fn companion(&self, inter: &Comm) -> Result<Comm, Error>;

    /// See [`EndpointPlane::process_of`].
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`], and [`Cause::Stale`] for a freed communicator.
    fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error>;

    /// [`isend_typed`](crate::Scope::isend_typed) for those who implement calls of their own.
    ///
    /// # Errors
    /// [`Failed`] for the causes of [`isend_typed`](crate::Scope::isend_typed): memory that does
    /// not reach as far as the data, a type that was freed, a full request table.
    fn start_send_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        data: &Typed<'scope, M>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed>;

    /// [`irecv_typed`](crate::Scope::irecv_typed) for those who implement calls of their own.
    ///
    /// # Errors
    /// [`Failed`] for the causes of [`irecv_typed`](crate::Scope::irecv_typed): memory that does
    /// not reach as far as the data, a type that was freed, a full request table.
    fn start_recv_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope, M>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Failed>;

    /// See [`EndpointPlane::form_from`].
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`], and [`Cause::Stale`] for a freed communicator.
    fn form_from(&mut self, comm: &Comm, from: Rank) -> Result<Form, Error>;

    /// See [`Endpoint::types`](crate::Endpoint::types).
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if none is attached.
    fn types(&mut self) -> Result<&mut Types<'s>, Error>;

    /// Bytes that typed data have, as the status of their receive tells them: without what is
    /// between them.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory does not reach as far as the data, [`Cause::Stale`] for a
    /// type that was freed, [`Cause::TooSmall`] if no types are attached.
    fn typed_bytes<M: OfScope<'scope>>(&mut self, data: &Typed<'scope, M>) -> Result<u64, Cause>;

    /// Copies typed data to where data of the same signature are; the two must not overlap. What a
    /// message to oneself does, if nothing else is received there.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] (in bytes) if there are more or fewer,
    /// [`Cause::SignatureMismatch`] if they are others; [`Cause::Busy`] if a request of this scope
    /// is using the memory to be written, or receiving into that to be read; the rest as
    /// [`typed_bytes`](Self::typed_bytes).
    fn copy_typed<I: OfScope<'scope>, F: OfScope<'scope>>(
        &mut self,
        into: &TypedMut<'scope, I>,
        from: &Typed<'scope, F>,
    ) -> Result<(), Cause>;

    /// See [`Endpoint::discard_matched`](crate::Endpoint::discard_matched).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a token of another endpoint; the cause of the sender's loss, if it was
    /// lost before the message had arrived.
    fn discard_matched(&mut self, message: Matched) -> Result<(), Error>;
}

impl<'scope, 's, T: Transport, P: Platform> ScopePlane<'scope, 's> for Scope<'scope, '_, 's, T, P> {
    #[inline(always)]
    fn outcome(&mut self, request: &mut Request<'scope>) -> Result<Option<Status>, Failed> {
        self.outcome(request)
    }

    #[inline(always)]
    fn wait_until<R>(
        &mut self,
        activity: Activity,
        check: impl FnMut(&mut Self) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        self.wait_until(activity, check)
    }

    #[inline(always)]
    fn drive_until<R>(
        &mut self,
        activity: &Activity,
        check: impl FnMut(&mut Self) -> Result<Option<R>, Failed>,
    ) -> Result<R, Failed> {
        self.drive_until(activity, check)
    }

    fn recall(&mut self, request: &mut Request<'scope>) -> bool {
        self.recall(request)
    }

    fn is_unmatched(&mut self, request: &Request<'scope>) -> bool {
        let (Stage::Pending(handle) | Stage::Started(handle)) = request.stage else { return false };
        self.requests().get(handle).is_some_and(|slot| slot.state == State::Posted)
    }

    #[inline(always)]
    fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause> {
        self.control_slots(comm)
    }

    fn ranks_per_node(&mut self, comm: &Comm) -> u32 {
        self.ranks_per_node(comm)
    }

    fn begin_by_control_slots(&mut self, comm: &Comm) -> Result<u32, Cause> {
        self.go_on_by_control_slots();
        Ok(self.control_slots(comm)?.begin())
    }

    #[inline(always)]
    fn go_on_by_control_slots(&mut self) {
        self.go_on_by_control_slots()
    }

    fn is_there(&mut self, comm: &Comm, rank: Rank) -> Result<(), Cause> {
        self.within.endpoint.is_there(comm, rank)
    }

    #[inline]
    fn at_control_slots<R>(
        &mut self,
        comm: &Comm,
        lent: LentMut<'scope>,
        range: Range<usize>,
        work: impl FnOnce(&mut ControlSlots<'_>, &mut [u8]) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        let buffer = part(lent.into(), range)?;
        if self.in_use(buffer, true) {
            return Err(Cause::Busy);
        }
        let mut control = self.within.endpoint.control_slots(comm)?;
        buffer.change(|bytes| work(&mut control, bytes))
    }

    #[inline(always)]
    fn watch_until<R>(
        &mut self,
        looks: u32,
        activity: impl Fn() -> Activity,
        check: impl FnMut(&mut Self) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        self.watch_until(looks, activity, check)
    }

    #[inline(always)]
    fn failure(&self) -> &Error {
        self.failure()
    }

    #[inline(always)]
    fn keep_failure(&mut self, error: &Error) -> Failed {
        self.keep_failure(error)
    }

    #[inline(always)]
    fn start_send_part(
        &mut self,
        comm: &Comm,
        memory: impl Into<Lent<'scope>>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        self.start_send_part(comm, memory, range, to, tag)
    }

    #[inline(always)]
    fn start_recv_part(
        &mut self,
        comm: &Comm,
        lent: LentMut<'scope>,
        range: Range<usize>,
        from: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        self.start_recv_part(comm, lent, range, from, tag)
    }

    #[inline(always)]
    fn combine(
        &mut self,
        into: LentRange<LentMut<'scope>>,
        from: LentRange<impl Into<Lent<'scope>>>,
        combine: impl FnOnce(&mut [u8], &[u8]),
    ) -> Result<(), Error> {
        self.combine(into, from, combine)
    }

    #[inline(always)]
    fn raise(&mut self, error: &Error) {
        self.raise(error)
    }

    fn collective_tag(&mut self, comm: &Comm) -> Result<Tag, Error> {
        next_tag(self, comm, false)
    }

    fn inter_tag(&mut self, inter: &Comm) -> Result<Tag, Error> {
        next_tag(self, inter, true)
    }

    fn collective_number(&mut self, comm: &Comm) -> Result<Tag, Cause> {
        self.within.endpoint.engine.comms.next_collective(comm, false).map(Tag)
    }

    #[inline]
    fn room(&self) -> u32 {
        let requests = &self.within.endpoint.engine.requests;
        requests.capacity().saturating_sub(requests.in_use())
    }

    #[inline]
    fn room_max(&self) -> u32 {
        self.within.endpoint.engine.requests.capacity()
    }

    #[inline]
    fn unlike(&self, comm: &Comm) -> Option<Rank> {
        self.within.endpoint.unlike(comm)
    }

    #[inline(always)]
    fn has_unlike_peers(&self) -> bool {
        self.within.endpoint.engine.mixed
    }

    fn companion(&self, inter: &Comm) -> Result<Comm, Error> {
        self.within.endpoint.companion(inter)
    }

    fn process_of(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Error> {
        self.within.endpoint.process_of(comm, rank)
    }

    #[inline(always)]
    fn start_send_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        data: &Typed<'scope, M>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        self.start_send_typed(comm, data, to, tag)
    }

    #[inline(always)]
    fn start_recv_typed<M: OfScope<'scope>>(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope, M>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Failed> {
        self.start_recv_typed(comm, into, from, tag)
    }

    fn form_from(&mut self, comm: &Comm, from: Rank) -> Result<Form, Error> {
        self.within.endpoint.form_from(comm, from)
    }

    fn types(&mut self) -> Result<&mut Types<'s>, Error> {
        self.within.endpoint.types()
    }

    fn typed_bytes<M: OfScope<'scope>>(&mut self, data: &Typed<'scope, M>) -> Result<u64, Cause> {
        let engine = &mut self.within.endpoint.engine;
        let laid_out = engine.lay_out(TypedData::native(data.data.memory, &data.data.place))?;
        Ok(laid_out.len as u64)
    }

    #[inline(always)]
    fn copy_typed<I: OfScope<'scope>, F: OfScope<'scope>>(
        &mut self,
        into: &TypedMut<'scope, I>,
        from: &Typed<'scope, F>,
    ) -> Result<(), Cause> {
        self.copy_typed(into, from)
    }

    fn discard_matched(&mut self, message: Matched) -> Result<(), Error> {
        self.within.endpoint.discard_matched(message)
    }
}

/// The tag of a communicator's next collective.
fn next_tag<T: Transport, P: Platform>(
    scope: &mut Scope<'_, '_, '_, T, P>,
    comm: &Comm,
    is_inter: bool,
) -> Result<Tag, Error> {
    let number = scope.within.endpoint.engine.comms.next_collective(comm, is_inter);
    number.map(Tag).map_err(|cause| Error::new(Operation::None, cause).on(comm))
}
