//! Sharing an endpoint between cores, explicitly: a spin lock around it. The endpoint itself has no
//! locks.
//!
//! [`Shared`] is for cores that are one rank together: any of them sends and receives for it
//! (MPI_THREAD_MULTIPLE, MPI 4.1 section 11.6). Cores that each talk much are better off as ranks
//! of their own, with an endpoint each and no lock at all: on a host `aldis_linux::cores` starts
//! such a job, and everywhere `aldis_drivers::shm::Cores` joins the cores of one memory.
//!
//! Each core makes its calls by a [`SharedCore`], with a platform of its own: a board's clock is
//! cheap to read on any core, but wakes the one core whose timer it has.
//!
//! ```
//! # use aldis_kernel::{Endpoint, Error, Rank, Shared, Tag, hal::{Platform, Transport}};
//! // On one core of many, for the work of tag `work`, with the clock of this core:
//! fn work<T: Transport, P: Platform>(
//!     shared: &Shared<Endpoint<'_, T, P>>,
//!     clock: impl Platform,
//!     work: Tag,
//! ) -> Result<(), Error> {
//!     let mut core = shared.core(clock);
//!     let world = core.lock().world();
//!     let mut task = [0u64; 4];
//!     core.recv(&world, &mut task, Rank(0), work)?;
//!     let answer: u64 = task.iter().sum();
//!     core.send(&world, &[answer], Rank(0), work)?;
//!     Ok(())
//! }
//! ```
//!
//! Threads of a process have one clock, which can be cloned: they may also call
//! [`Shared::recv`] and the others without a `SharedCore`.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
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
/// Its blocking calls, and those of a [`SharedCore`], take the lock for one poll at a time and rest
/// outside of it, so that no core waits for what another waits for, and each makes progress for
/// all; a long message moves while its own core polls, as one of a
/// [future](mod@crate::api::future) does. They wait in line for the lock: a core gets it after at
/// most as many polls as there are other cores. A call made under [`lock`](Self::lock) keeps it
/// until it is done.
#[derive(Debug)]
pub struct Shared<E> {
    endpoint: SpinMutex<E>,
    line: Line,
}

impl<E> Shared<E> {
    /// Wraps an endpoint.
    pub const fn new(endpoint: E) -> Self {
        Self { endpoint: SpinMutex::new(endpoint), line: Line::new() }
    }

    /// Spins until the endpoint is free, past those that wait in line: for what is seldom done. A
    /// blocking call of the endpoint rests by the endpoint's platform, which on a board with naps
    /// is that of one core. See [`SharedCore::lock`] for the rest.
    pub fn lock(&self) -> SpinMutexGuard<'_, E> {
        self.endpoint.lock()
    }

    /// The endpoint, if it is free now.
    pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, E>> {
        self.endpoint.try_lock()
    }

    /// The endpoint for good.
    pub fn into_inner(self) -> E {
        self.endpoint.into_inner()
    }

    /// Waits in line until the endpoint is free, and lets the core rest meanwhile.
    fn take_turn(&self, platform: &mut impl Platform) -> SharedTurn<'_, E> {
        let turn = self.line.join();
        let mut idle = 0_u32;
        while !turn.has_come() {
            platform.relax(idle);
            idle = LINE_IDLE_MAX.min(idle.saturating_add(1));
        }
        loop {
            // Those who have not waited in line may have it for a moment.
            if let Some(endpoint) = self.endpoint.try_lock() {
                return SharedTurn { endpoint, _turn: turn };
            }
            platform.relax(0);
        }
    }
}

/// The most idle polls that a platform is told of in line. It may yield then, but is not to nap or
/// to sleep yet: nobody wakes who is next, and those behind it would wait for that too.
const LINE_IDLE_MAX: u32 = 31;

/// The line in which cores wait for a lock: that of a ticket lock (Reed and Kanodia 1979). It says
/// whose turn it is; that the endpoint is used by one core at a time is the lock's own.
#[derive(Debug)]
struct Line {
    /// The number that the next to come is given.
    next: AtomicU32,
    /// The number of the one whose turn it is.
    serving: AtomicU32,
}

impl Line {
    const fn new() -> Self {
        Self { next: AtomicU32::new(0), serving: AtomicU32::new(0) }
    }

    fn join(&self) -> Turn<'_> {
        Turn { line: self, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A place in the line. The next one's turn comes when it drops.
#[derive(Debug)]
struct Turn<'l> {
    line: &'l Line,
    number: u32,
}

impl Turn<'_> {
    fn has_come(&self) -> bool {
        self.line.serving.load(Ordering::Acquire) == self.number
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // One whose platform panics while it waits leaves no gap in the line.
        while !self.has_come() {
            core::hint::spin_loop();
        }
        self.line.serving.fetch_add(1, Ordering::Release);
    }
}

/// The endpoint, for the time of a core's turn. Made by [`SharedCore::lock`].
#[derive(Debug)]
pub struct SharedTurn<'e, E> {
    // Dropped first: the next in line finds it free.
    endpoint: SpinMutexGuard<'e, E>,
    _turn: Turn<'e>,
}

impl<E> Deref for SharedTurn<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.endpoint
    }
}

impl<E> DerefMut for SharedTurn<'_, E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.endpoint
    }
}

impl<'s, T: Transport, P: Platform> Shared<Endpoint<'s, T, P>> {
    /// The calls of one core, which keeps time and rests by `platform`: its own.
    pub const fn core<Q: Platform>(&self, platform: Q) -> SharedCore<'_, 's, T, P, Q> {
        SharedCore { shared: self, platform, limit: None }
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
    /// [`Cause::TimedOut`], as soon as it has its turn. Waits for the endpoint, so not to be called
    /// by who [holds](Self::lock) it.
    pub fn within(&self, limit: Duration) -> SharedCore<'_, 's, T, P, P> {
        SharedCore { limit: Some(limit), ..self.forever() }
    }

    fn forever(&self) -> SharedCore<'_, 's, T, P, P> {
        let platform = self.lock().platform.clone();
        self.core(platform)
    }
}

/// A shared endpoint's calls on one core. Made by [`Shared::core`] and [`Shared::within`].
pub struct SharedCore<'e, 's, T, P, Q> {
    shared: &'e Shared<Endpoint<'s, T, P>>,
    platform: Q,
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

impl<'e, 's, T: Transport, P: Platform, Q: Platform> SharedCore<'e, 's, T, P, Q> {
    /// Waits for this core's turn with the endpoint, which no other core has until it is dropped.
    ///
    /// A blocking call of the endpoint, a collective among them, rests by the endpoint's platform
    /// and not by this core's: where that naps by a timer of one core, make such calls there.
    pub fn lock(&mut self) -> SharedTurn<'_, Endpoint<'s, T, P>> {
        self.shared.take_turn(&mut self.platform)
    }

    /// The calls with a deadline: each must be done before `limit` from its start, or it fails with
    /// [`Cause::TimedOut`].
    pub const fn within(&mut self, limit: Duration) -> SharedCore<'e, 's, T, P, &mut Q> {
        SharedCore { shared: self.shared, platform: &mut self.platform, limit: Some(limit) }
    }

    /// See [`Shared::send`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a rank or tag out of range, a stale communicator, a
    /// full request table, or why the peer cannot be sent to.
    pub fn send<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
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
    pub fn ssend<E>(&mut self, comm: &Comm, data: &[E], to: Rank, tag: Tag) -> Result<Status, Error>
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
        &mut self,
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
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.run(Probe { comm: *comm, from: from.into(), tag: tag.into() })
    }

    /// Starts an operation and waits for it, under the lock for a poll at a time. The operation is
    /// a future's, which leaves no pointer to its memory in the endpoint: the holder of the lock
    /// can do with the endpoint what it likes.
    fn run(&mut self, mut operation: impl Operate<'s, T, P>) -> Result<Status, Error> {
        let Self { shared, platform, limit } = self;
        // Time in line counts.
        let start = if limit.is_some() { platform.now() } else { Instant(0) };
        let deadline = limit.map_or(Instant::NEVER, |limit| start.after(limit));
        let mut endpoint = shared.take_turn(platform);
        let begun = operation.start(&mut endpoint)?;
        drop(endpoint);
        let handle = match begun {
            Begun::Over(status) => return Ok(status),
            Begun::UnderWay(handle) => handle,
        };
        let guard = Guard { shared, handle };
        let mut idle = 0u32;
        loop {
            let mut endpoint = guard.shared.take_turn(platform);
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

impl<T, P, Q> core::fmt::Debug for SharedCore<'_, '_, T, P, Q> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedCore").field("limit", &self.limit).finish_non_exhaustive()
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

    /// A platform that gives its core away while it waits, until it is to panic.
    struct Yielding {
        panics: bool,
    }

    impl Platform for Yielding {
        fn now(&self) -> Instant {
            Instant(0)
        }

        fn relax(&mut self, _idle: u32) {
            assert!(!self.panics, "as it was told");
            thread::yield_now();
        }

        fn entropy(&mut self) -> u64 {
            0
        }
    }

    #[test]
    fn cores_in_line_are_served_in_their_order() {
        let shared = Shared::new(std::vec::Vec::new());
        let first = shared.take_turn(&mut Yielding { panics: false });
        thread::scope(|scope| {
            for number in 1..=3 {
                let shared = &shared;
                scope.spawn(move || shared.take_turn(&mut Yielding { panics: false }).push(number));
                while shared.line.next.load(Ordering::Relaxed) != number + 1 {
                    thread::yield_now();
                }
            }
            assert!(shared.try_lock().is_none());
            drop(first);
        });
        assert_eq!(shared.into_inner(), [1, 2, 3]);
    }

    /// A platform that keeps what it was told, and says how often.
    struct Told<'t> {
        most: u32,
        times: &'t AtomicU32,
    }

    impl Platform for Told<'_> {
        fn now(&self) -> Instant {
            Instant(0)
        }

        fn relax(&mut self, idle: u32) {
            self.most = self.most.max(idle);
            self.times.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }

        fn entropy(&mut self) -> u64 {
            0
        }
    }

    /// Clocks of boards nap from 256 idle polls on, others sleep from 64 on.
    #[test]
    fn a_core_in_line_is_not_told_to_sleep() {
        let (shared, times) = (Shared::new(()), AtomicU32::new(0));
        let first = shared.take_turn(&mut Yielding { panics: false });
        let most = thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut told = Told { most: 0, times: &times };
                drop(shared.take_turn(&mut told));
                told.most
            });
            while times.load(Ordering::Relaxed) < 1000 {
                thread::yield_now();
            }
            drop(first);
            waits.join().unwrap()
        });
        assert_eq!(most, LINE_IDLE_MAX);
    }

    #[test]
    fn a_core_that_panics_in_line_leaves_no_gap() {
        let shared = Shared::new(0_u32);
        let first = shared.take_turn(&mut Yielding { panics: false });
        thread::scope(|scope| {
            let panics = scope.spawn(|| *shared.take_turn(&mut Yielding { panics: true }) += 1);
            while shared.line.next.load(Ordering::Relaxed) != 2 {
                thread::yield_now();
            }
            drop(first);
            // It has its turn, or has panicked before.
            let has_panicked = panics.join().is_err();
            *shared.take_turn(&mut Yielding { panics: false }) += u32::from(has_panicked);
        });
        assert_eq!(shared.into_inner(), 1);
    }
}
