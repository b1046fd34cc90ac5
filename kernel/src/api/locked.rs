//! Sharing an endpoint between cores, explicitly: a spin lock around it. The endpoint itself has no
//! locks.
//!
//! [`Shared`] is for cores that are one rank together: any of them sends and receives for it
//! (MPI_THREAD_MULTIPLE, MPI 4.1 section 11.6). Cores that each talk much are better off as ranks
//! of their own, with an endpoint each and no lock at all: on a host `aldis_linux::cores` starts
//! such a job, and everywhere `aldis_drivers::shm::Cores` joins the cores of one memory.
//!
//! ```
//! # use aldis_kernel::{Endpoint, Error, Rank, Shared, Tag, hal::{Platform, Transport}};
//! // On one core of many, for the work of tag `work`:
//! fn work<T: Transport, P: Platform + Clone>(
//!     shared: &Shared<Endpoint<'_, T, P>>,
//!     work: Tag,
//! ) -> Result<(), Error> {
//!     let world = shared.lock().world();
//!     let mut task = [0u64; 4];
//!     shared.recv(&world, &mut task, Rank(0), work)?;
//!     let answer: u64 = task.iter().sum();
//!     shared.send(&world, &[answer], Rank(0), work)?;
//!     Ok(())
//! }
//! ```

use core::time::Duration;

use aldis_hal::{Cause, Handle, Instant, Operation, Platform, Transport};
use spin::mutex::{SpinMutex, SpinMutexGuard};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::future::{Begun, Operate, Probe, ReceiveArguments, Send};
use crate::error::Error;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch};
use crate::tables::comm::Comm;

/// An endpoint that several cores take turns with.
///
/// Its own blocking calls take the lock for one poll at a time and rest outside of it, so that no
/// core waits for what another waits for, and each makes progress for all; a long message moves
/// while its own core polls, as one of a [future](mod@crate::api::future) does. A call made under
/// [`lock`](Self::lock) keeps it until it is done.
#[derive(Debug)]
pub struct Shared<E>(SpinMutex<E>);

impl<E> Shared<E> {
    /// Wraps an endpoint.
    pub const fn new(endpoint: E) -> Self {
        Self(SpinMutex::new(endpoint))
    }

    /// Spins until the endpoint is free.
    pub fn lock(&self) -> SpinMutexGuard<'_, E> {
        self.0.lock()
    }

    /// The endpoint, if it is free now.
    pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, E>> {
        self.0.try_lock()
    }

    /// The endpoint for good.
    pub fn into_inner(self) -> E {
        self.0.into_inner()
    }
}

impl<'s, T: Transport, P: Platform + Clone> Shared<Endpoint<'s, T, P>> {
    /// Sends `data`: see [`Endpoint::send`].
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why the peer
    /// cannot be sent to.
    pub fn send<E>(&self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.forever().send(comm, data, to, tag)
    }

    /// Sends `data` in synchronous mode: see [`Endpoint::ssend`].
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why the peer
    /// cannot be sent to.
    pub fn ssend<E>(&self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.forever().ssend(comm, data, to, tag)
    }

    /// Receives a message into `buffer`: see [`Endpoint::recv`]. Receives of several cores with the
    /// same pattern take their messages in the order in which they were called. Each takes a pooled
    /// block while it waits.
    ///
    /// # Errors
    /// [`Cause::Full`] if there is no pooled block, [`Cause::Truncated`] for a message longer than
    /// the buffer; the rest as [`Endpoint::recv`].
    pub fn recv<E>(
        &self,
        comm: &Comm,
        buffer: &mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes,
    {
        self.forever().recv(comm, buffer, from, tag)
    }

    /// Waits for a message without receiving it: see [`Endpoint::probe`]. Another core may receive
    /// the message first.
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why no message
    /// can come.
    pub fn probe(
        &self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().probe(comm, from, tag)
    }

    /// The calls with a deadline: each must be done before `limit` from its start, or it fails with
    /// [`Cause::TimedOut`].
    pub const fn within(&self, limit: Duration) -> SharedWithin<'_, 's, T, P> {
        SharedWithin { shared: self, limit: Some(limit) }
    }

    const fn forever(&self) -> SharedWithin<'_, 's, T, P> {
        SharedWithin { shared: self, limit: None }
    }
}

/// A shared endpoint's blocking calls under a deadline. Made by [`Shared::within`].
pub struct SharedWithin<'e, 's, T, P> {
    shared: &'e Shared<Endpoint<'s, T, P>>,
    limit: Option<Duration>,
}

/// Lets go of a request when it drops, however that comes about.
struct Guard<'e, 's, T, P> {
    shared: &'e Shared<Endpoint<'s, T, P>>,
    handle: Handle,
}

impl<T, P> Drop for Guard<'_, '_, T, P> {
    fn drop(&mut self) {
        self.shared.lock().engine.abandon(self.handle);
    }
}

impl<'s, T: Transport, P: Platform + Clone> SharedWithin<'_, 's, T, P> {
    /// See [`Shared::send`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a rank or tag out of range, a stale communicator, a
    /// full request table, or why the peer cannot be sent to.
    pub fn send<E>(&self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.run(Send { comm: *comm, data: data.as_bytes(), to, tag, mode: Mode::Standard })
    }

    /// See [`Shared::ssend`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a rank or tag out of range, a stale communicator, a
    /// full request table, or why the peer cannot be sent to.
    pub fn ssend<E>(&self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
    where
        E: IntoBytes + Immutable,
    {
        self.run(Send { comm: *comm, data: data.as_bytes(), to, tag, mode: Mode::Synchronous })
    }

    /// See [`Shared::recv`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::Full`] if there is no pooled block,
    /// [`Cause::Truncated`] for a message longer than the buffer; the rest as [`Shared::recv`].
    pub fn recv<E>(
        &self,
        comm: &Comm,
        buffer: &mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes,
    {
        let (buffer, from, tag) = (buffer.as_mut_bytes(), from.into(), tag.into());
        self.run(ReceiveArguments { comm: *comm, buffer, from, tag })
    }

    /// See [`Shared::probe`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a rank or tag out of range, a stale communicator, a
    /// full request table, or why no message can come.
    pub fn probe(
        &self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.run(Probe { comm: *comm, from: from.into(), tag: tag.into() })
    }

    /// Starts an operation and waits for it, under the lock for a poll at a time. The operation is
    /// a future's, which leaves no pointer to its memory in the endpoint: the holder of the lock
    /// can do with the endpoint what it likes.
    fn run(&self, mut operation: impl Operate<'s, T, P>) -> Result<Status, Error> {
        let mut endpoint = self.shared.lock();
        let begun = operation.start(&mut endpoint)?;
        let mut platform = endpoint.platform.clone();
        drop(endpoint);
        let handle = match begun {
            Begun::Over(status) => return Ok(status),
            Begun::UnderWay(handle) => handle,
        };
        let guard = Guard { shared: self.shared, handle };
        let start = platform.now();
        let deadline = self.limit.map_or(Instant::NEVER, |limit| start.after(limit));
        let mut idle = 0u32;
        loop {
            let mut endpoint = guard.shared.lock();
            idle = if endpoint.poll(BUDGET) > 0 { 0 } else { idle.saturating_add(1) };
            if let Some(result) = operation.go_on(&mut endpoint, handle) {
                return result;
            }
            let progress = endpoint.engine.requests.get(handle).map(|request| request.progress());
            drop(endpoint);
            let now = if deadline == Instant::NEVER { start } else { platform.now() };
            match progress {
                Some(progress) if now >= deadline => {
                    return Err(progress.error(Cause::TimedOut).after(now.since(start).max(1)));
                }
                // Also after a poll that found something: another core may be waiting for the lock.
                Some(_) => platform.relax(idle),
                None => return Err(Error::new(Operation::Wait, Cause::Stale)),
            }
        }
    }
}

impl<T, P> core::fmt::Debug for SharedWithin<'_, '_, T, P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedWithin").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn cores_take_turns() {
        let shared = Shared::new(0u32);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *shared.lock() += 1));
            }
        });
        let held = shared.lock();
        assert!(shared.try_lock().is_none());
        drop(held);
        assert_eq!(shared.into_inner(), 4000);
    }
}
