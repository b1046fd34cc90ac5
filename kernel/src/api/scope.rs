//! This module holds `unsafe` code: it lends the user's memory to requests for the lifetime of a
//! scope.
//!
//! Nonblocking calls. A scope is shaped like `std::thread::scope`: memory handed to a request is
//! borrowed for the whole scope, and when the scope ends - in good order, by error or by
//! unwinding - every request started in it is complete or has let go of its memory. So no request
//! can be leaked while it holds a pointer, without any trust in destructors of values the user
//! holds.
//!
//! ```
//! # use aldis_kernel::{Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
//! fn shift<T: Transport, P: Platform>(
//!     endpoint: &mut Endpoint<'_, T, P>,
//!     left: &mut [f64],
//!     right: &[f64],
//! ) -> Result<(), Error> {
//!     let world = endpoint.world();
//!     endpoint.scope(|s| {
//!         let from_left = s.irecv(&world, left, Rank(0), Tag(1))?;
//!         let to_right = s.isend(&world, right, Rank(2), Tag(1))?;
//!         // ... compute on other memory, s.poll(64) now and then ...
//!         s.wait_all(&mut [from_left, to_right])
//!     })
//! }
//! ```
//!
//! While a receive is under way its buffer cannot be looked at, and no memory of the body's own can
//! be lent:
//!
//! ```compile_fail,E0506
//! # use aldis_kernel::{Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
//! # fn touched<T: Transport, P: Platform>(
//! #     endpoint: &mut Endpoint<'_, T, P>,
//! # ) -> Result<(), Error> {
//! # let world = endpoint.world();
//! let mut buffer = [0u8; 8];
//! endpoint.scope(|s| {
//!     let receiving = s.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
//!     buffer[0] = 1;
//!     s.wait(receiving)
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail,E0597
//! # use aldis_kernel::{Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
//! # fn escaped<T: Transport, P: Platform>(
//! #     endpoint: &mut Endpoint<'_, T, P>,
//! # ) -> Result<(), Error> {
//! # let world = endpoint.world();
//! endpoint.scope(|s| {
//!     let mut buffer = [0u8; 8];
//!     let receiving = s.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
//!     s.wait(receiving)
//! })?;
//! # Ok(())
//! # }
//! ```

use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;

use aldis_hal::{Cause, Handle, Instant, Operation, Platform, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::call::{CallSubject, apart};
use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::engine::state::{Engine, FAST_PATHS, Started};
use crate::error::{Error, Failed, Failure};
use crate::memory::buffer::{self, Lent, LentMut, LentRange, UserBuffer};
use crate::planted::{self, Planted};
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::list::{InScope, List};
use crate::tables::request::Requests;

/// A nonblocking send or receive of one scope. After its result has been taken it is *null*: waits
/// skip it (MPI_REQUEST_NULL). Dropping it is fine: the scope's end takes care of it.
#[derive(Debug)]
#[must_use = "a request should be waited for; the scope's end does so at the latest"]
pub struct Request<'scope> {
    pub(crate) stage: Stage,
    /// Invariant, so that requests of different scopes cannot be mixed up.
    scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

#[derive(Debug)]
pub(crate) enum Stage {
    /// Its result has been taken.
    Null,
    /// The operation was over at once.
    Done(Status),
    /// The operation has a slot.
    Pending(Handle),
    /// A persistent one, not started.
    Idle(Handle),
    /// A persistent one under way, or over with its result not taken.
    Started(Handle),
}

impl Request<'_> {
    pub(crate) const fn new(stage: Stage) -> Self {
        Self { stage, scope: PhantomData }
    }

    /// A null request, to fill an array with.
    pub const fn null() -> Self {
        Self::new(Stage::Null)
    }

    /// Returns true if its result has been taken, or it is a persistent one that has not been
    /// started.
    pub const fn is_null(&self) -> bool {
        matches!(self.stage, Stage::Null | Stage::Idle(_))
    }
}

/// Nonblocking calls on an endpoint, shaped like `std::thread::scope`. Made by [`Endpoint::scope`].
pub struct Scope<'scope, 'env: 'scope, 's, T: Transport, P: Platform> {
    pub(crate) within: Within<'env, 's, T, P>,
    pub(crate) requests: List<InScope>,
    /// True if a collective was begun by control slots.
    pub(crate) by_control_slots: bool,
    scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<T: Transport, P: Platform> Drop for Scope<'_, '_, '_, T, P> {
    fn drop(&mut self) {
        self.take_detached_back();
        if planted::is(Planted::KeepMemory) {
            return;
        }
        let endpoint = &mut *self.within.endpoint;
        while let Some(index) = self.requests.front() {
            self.requests.remove(&mut endpoint.engine.requests, index);
            if let Some(handle) = endpoint.engine.requests.handle(index) {
                endpoint.abandon(handle);
            }
        }
        // Last: a transport's control slots may panic, the requests have let go by then.
        if T::HAS_CONTROL_SLOTS && self.by_control_slots {
            endpoint.abandon_control_slots();
        }
    }
}

impl<'scope, 'env, 's, T: Transport, P: Platform> Scope<'scope, 'env, 's, T, P> {
    pub(crate) fn run<R, E: Failure>(
        endpoint: &'env mut Endpoint<'s, T, P>,
        start: Option<Instant>,
        deadline: Instant,
        body: impl for<'any> FnOnce(&mut Scope<'any, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut scope = Scope::on(Within { endpoint, start, deadline });
        let result = body(&mut scope)?;
        match scope.finish() {
            Ok(()) => Ok(result),
            Err(Failed) => Err(E::of(scope.failure())),
        }
    }

    /// A scope in which nothing has been started.
    pub(crate) const fn on(within: Within<'env, 's, T, P>) -> Self {
        Scope { within, requests: List::EMPTY, by_control_slots: false, scope: PhantomData }
    }

    /// Waits for everything that the body has not; the first failure is the scope's.
    fn finish(&mut self) -> Result<(), Failed> {
        self.take_detached_back();
        let mut first = None;
        while let Some(index) = self.requests.front() {
            let Some(handle) = self.within.endpoint.engine.requests.handle(index) else { break };
            if self.free_idle(handle) {
                continue;
            }
            if let Err(Failed) = self.wait_longer(&mut Request::new(Stage::Pending(handle))) {
                let error = *self.failure();
                first = first.or(Some(error));
                if let Cause::TimedOut = error.cause {
                    break;
                }
            }
        }
        match first {
            None => Ok(()),
            Some(error) => Err(self.keep_failure(&error)),
        }
    }

    /// See [`ScopePlane::failure`](crate::plane::ScopePlane::failure).
    pub(crate) const fn failure(&self) -> &Error {
        &self.within.endpoint.engine.failure
    }

    /// See [`ScopePlane::keep_failure`](crate::plane::ScopePlane::keep_failure).
    #[cold]
    #[inline(never)]
    pub(crate) fn keep_failure(&mut self, error: &Error) -> Failed {
        self.within.endpoint.engine.failure = *error;
        Failed
    }

    /// Takes the detached requests back into the scope, at its end.
    fn take_detached_back(&mut self) {
        let engine = &mut self.within.endpoint.engine;
        while let Some(index) = engine.detached.front() {
            engine.detached.remove(&mut engine.requests, index);
            self.requests.push_back(&mut engine.requests, index);
        }
    }

    pub(crate) fn requests(&mut self) -> &mut Requests<'s> {
        &mut self.within.endpoint.engine.requests
    }

    pub(crate) fn keep(&mut self, started: Started) -> Request<'scope> {
        match started {
            Started::Done(status) => Request::new(Stage::Done(status)),
            Started::Pending(handle) => self.keep_pending(handle),
        }
    }

    #[inline]
    fn keep_pending(&mut self, handle: Handle) -> Request<'scope> {
        self.requests.push_back(&mut self.within.endpoint.engine.requests, handle.slot);
        Request::new(Stage::Pending(handle))
    }

    #[inline(always)]
    fn send_buffer<E: Failure>(
        &mut self,
        mode: Mode,
        comm: &Comm,
        buffer: UserBuffer,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, E> {
        if FAST_PATHS && mode == Mode::Standard && self.within.endpoint.try_send(comm, buffer, to, tag) {
            let status = Status { source: to, tag, bytes: buffer.len() as u64 };
            return Ok(Request::new(Stage::Done(status)));
        }
        let sending = apart(comm, |comm| self.send_queued(mode, comm, buffer, to, tag));
        sending.map_err(|Failed| E::of(self.failure()))
    }

    #[inline(never)]
    fn send_queued(
        &mut self,
        mode: Mode,
        comm: &Comm,
        buffer: UserBuffer,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        let started = self.within.endpoint.start_send(comm, buffer, to, tag, mode)?;
        Ok(self.keep(started))
    }

    #[inline(always)]
    fn recv_buffer<E: Failure>(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        from: Source,
        tag: TagMatch,
    ) -> Result<Request<'scope>, E> {
        if FAST_PATHS {
            let endpoint = &mut *self.within.endpoint;
            if let Some(handle) = endpoint.try_post(comm, buffer, from, tag, &mut self.requests) {
                return Ok(Request::new(Stage::Pending(handle)));
            }
        }
        let receiving = apart(comm, |comm| self.find_message(comm, buffer, from, tag));
        receiving.map_err(|Failed| E::of(self.failure()))
    }

    #[inline(never)]
    fn find_message(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        from: Source,
        tag: TagMatch,
    ) -> Result<Request<'scope>, Failed> {
        let started = self.within.endpoint.start_recv(comm, buffer, from, tag)?;
        Ok(self.keep(started))
    }

    /// Starts a send (MPI_Isend).
    ///
    /// # Errors
    /// A full request table, after which waiting for a request helps; a rank or tag out of range, a
    /// stale communicator, or why the peer cannot be sent to.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub fn isend<E>(
        &mut self,
        comm: &Comm,
        data: &'scope [E],
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.isend_in(Mode::Standard, comm, data.as_bytes(), to, tag)
    }

    /// Starts a send in any mode.
    #[inline(always)]
    pub(crate) fn isend_in(
        &mut self,
        mode: Mode,
        comm: &Comm,
        bytes: &'scope [u8],
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: the bytes are borrowed for 'scope, and the scope's drop makes the engine let go
        // before that ends. Sends only read.
        let buffer = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), bytes.len()) };
        self.send_buffer(mode, comm, buffer, to, tag)
    }

    /// Starts a receive (MPI_Irecv). The buffer can be read again when the scope is over.
    ///
    /// # Errors
    /// A full request table, after which waiting for a request helps; a rank or tag out of range, a
    /// stale communicator, or why no message can come.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub fn irecv<E>(
        &mut self,
        comm: &Comm,
        buffer: &'scope mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Error>
    where
        E: FromBytes + IntoBytes,
    {
        let lent = self.lend(buffer);
        self.recv_buffer(comm, lent.whole(), from.into(), tag.into())
    }

    /// Lends memory to the scope as a whole, so that parts of it can be sent, received and combined
    /// in turn.
    #[inline]
    pub fn lend<E>(&mut self, memory: &'scope mut [E]) -> LentMut<'scope>
    where
        E: FromBytes + IntoBytes,
    {
        // SAFETY: the user names it in calls of this scope alone, which go through `&mut self`;
        // they give it to requests of the scope, whose drop makes the engine let go before 'scope
        // ends.
        unsafe { LentMut::new(memory.as_mut_bytes()) }
    }

    /// Lends memory to be read, as a whole: ranges of it can then be sent, and read by
    /// [`combine`](crate::plane::ScopePlane::combine).
    pub fn show<E>(&mut self, memory: &'scope [E]) -> Lent<'scope>
    where
        E: IntoBytes + Immutable,
    {
        // SAFETY: as in `lend`, and no call of the scope writes it.
        unsafe { Lent::new(memory.as_bytes()) }
    }

    /// Starts a send of a byte range of lent memory.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside, a full request table, a rank or tag out of range; the
    /// rest as [`isend`](Self::isend).
    pub fn isend_part(
        &mut self,
        comm: &Comm,
        memory: impl Into<Lent<'scope>>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let sending = self.start_send_part(comm, memory, range, to, tag);
        self.within.with_error(sending)
    }

    /// See [`ScopePlane::start_send_part`](crate::plane::ScopePlane::start_send_part).
    pub(crate) fn start_send_part(
        &mut self,
        comm: &Comm,
        memory: impl Into<Lent<'scope>>,
        range: Range<usize>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        match part(memory.into(), range) {
            Ok(buffer) => self.send_buffer(Mode::Standard, comm, buffer, to, tag),
            Err(cause) => Err(self.outside(CallSubject::send(comm, to, tag), cause)),
        }
    }

    /// Starts a receive into a byte range of lent memory.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside, a full request table, a rank or tag out of range; the
    /// rest as [`irecv`](Self::irecv).
    pub fn irecv_part(
        &mut self,
        comm: &Comm,
        lent: LentMut<'scope>,
        range: Range<usize>,
        from: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let receiving = self.start_recv_part(comm, lent, range, from, tag);
        self.within.with_error(receiving)
    }

    /// See [`ScopePlane::start_recv_part`](crate::plane::ScopePlane::start_recv_part).
    pub(crate) fn start_recv_part(
        &mut self,
        comm: &Comm,
        lent: LentMut<'scope>,
        range: Range<usize>,
        from: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Failed> {
        let (from, tag) = (from.into(), tag.into());
        match part(lent.into(), range) {
            Ok(buffer) => self.recv_buffer(comm, buffer, from, tag),
            Err(cause) => Err(self.outside(CallSubject::recv(Operation::Recv, comm, from, tag), cause)),
        }
    }

    /// See [`ScopePlane::combine`](crate::plane::ScopePlane::combine).
    pub(crate) fn combine(
        &mut self,
        into: LentRange<LentMut<'scope>>,
        from: LentRange<impl Into<Lent<'scope>>>,
        combine: impl FnOnce(&mut [u8], &[u8]),
    ) -> Result<(), Error> {
        match self.both(into, LentRange::new(from.memory.into(), from.range)) {
            Ok((into, from)) => {
                combine(into, from);
                Ok(())
            }
            Err(cause) => Err(self.refused(Error::new(Operation::None, cause))),
        }
    }

    /// The bytes of two ranges that are the user's now: the first to write, the second to read.
    fn both(
        &mut self,
        into: LentRange<LentMut<'scope>>,
        from: LentRange<Lent<'scope>>,
    ) -> Result<(&mut [u8], &[u8]), Cause> {
        let (into, from) = (part(into.memory.into(), into.range)?, part(from.memory, from.range)?);
        if self.in_use(into, true) || self.in_use(from, false) {
            return Err(Cause::Busy);
        }
        // SAFETY: both are lent to this scope (by `lend` and `show`, for 'scope), the first to be
        // written; no request uses the first or writes the second, as just checked, and the borrow
        // of `self` keeps the endpoint from running until the slices are gone.
        unsafe { buffer::slices(into, from) }.ok_or(Cause::Busy)
    }

    /// The failure of a call on a range outside of lent memory.
    #[cold]
    #[inline(never)]
    fn outside(&mut self, call: CallSubject, cause: Cause) -> Failed {
        self.within.endpoint.fail(&call.refused(cause))
    }

    /// An error of this scope's own, after what its communicator's policy asks for.
    #[cold]
    pub(crate) fn refused(&mut self, error: Error) -> Error {
        self.within.endpoint.raised(error)
    }

    /// See [`ScopePlane::raise`](crate::plane::ScopePlane::raise).
    pub(crate) fn raise(&mut self, error: &Error) {
        self.within.endpoint.raise(error);
    }

    /// Returns true if a request of this scope uses `memory`; sends count only if it is to be
    /// written.
    pub(crate) fn in_use(&mut self, memory: UserBuffer, to_be_written: bool) -> bool {
        let engine = &mut self.within.endpoint.engine;
        let (own, detached) = (self.requests.front(), engine.detached.front());
        engine.any_uses(own, memory, to_be_written) || engine.any_uses(detached, memory, to_be_written)
    }

    /// Handles at most `budget` events, without blocking.
    #[inline]
    pub fn poll(&mut self, budget: u32) -> u32 {
        self.within.endpoint.poll(budget)
    }
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Runs `body` with a scope for nonblocking sends and receives: see [`Scope`].
    ///
    /// # Errors
    /// The error that `body` returns, or the first failure of a request that it did not wait for.
    pub fn scope<'env, R>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.enter(body)
    }

    /// See [`EndpointPlane::enter`](crate::plane::EndpointPlane::enter).
    pub(crate) fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        Scope::run(self, None, Instant::NEVER, body)
    }
}

impl<'s, T: Transport, P: Platform> Within<'_, 's, T, P> {
    /// See [`Endpoint::scope`]: every wait in it, and its end, is under the deadline.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; what `body` returns, or the first failure of a
    /// request that it did not wait for.
    pub fn scope<'env, R>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.enter(body)
    }

    /// See [`EndpointPlane::enter`](crate::plane::EndpointPlane::enter).
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; what `body` returns, or the first failure of a
    /// request that it did not wait for.
    pub fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        Scope::run(self.endpoint, self.start, self.deadline, body)
    }
}

impl Engine<'_> {
    /// Returns true if a request of a scope's list, from `next` on, uses `memory`.
    #[inline(never)]
    fn any_uses(&mut self, mut next: Option<u32>, memory: UserBuffer, to_be_written: bool) -> bool {
        while let Some(index) = next {
            if self.uses(index, memory, to_be_written) {
                return true;
            }
            next = List::<InScope>::after(&mut self.requests, index);
        }
        false
    }
}

/// A byte range of lent memory.
pub(crate) fn part(memory: Lent<'_>, range: Range<usize>) -> Result<UserBuffer, Cause> {
    let end = range.end.max(range.start) as u64;
    memory.part(range).ok_or(Cause::TooBig { len: end, max: memory.len() as u64 })
}

/// Seals the traits of the service door: nothing else implements them.
pub(crate) mod sealed {
    /// Seals a trait.
    pub trait Sealed {}
}

impl<T, P> sealed::Sealed for Endpoint<'_, T, P> {}
impl<T: Transport, P: Platform> sealed::Sealed for Scope<'_, '_, '_, T, P> {}
