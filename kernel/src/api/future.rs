//! Futures: sends, receives and probes for programs of several tasks, on any executor or none (MPI
//! has nothing like it; the shape is that of Rust's `core::future`).
//!
//! ```
//! # use aldis_kernel::{Endpoint, Error, Rank, Sleeper, Tag, hal::{Platform, Transport}};
//! fn ping<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>) -> Result<(), Error> {
//!     let world = endpoint.world();
//!     let mut sleepers = [const { Sleeper::EMPTY }; 16];
//!     let futures = endpoint.futures(&mut sleepers)?;
//!     futures.block_on(async {
//!         let mut answer = [0u32];
//!         futures.send(&world, &[1u32], Rank(1), Tag(7)).await?;
//!         futures.recv(&world, &mut answer, Rank(1), Tag(7)).await?;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The endpoint runs when one of its futures is polled, in [`Futures::poll`], and in
//! [`Futures::drive`], a future that is never over and does nothing else. Each wakes every other
//! future that can go on, so with `drive` in a task of its own any executor will do;
//! [`Futures::block_on`] needs none.
//!
//! # Why it is sound, and what is bounded
//!
//! A future can be forgotten while the memory that it borrows is used for something else, so the
//! engine keeps no pointer into that memory from one poll to the next (*late binding*). A receive
//! lands in a pooled block of the storage and is copied out when its future is polled; what is
//! longer than a block is asked for one block at a time
//! ([`protocols::rendezvous`](aldis_protocols::rendezvous)). A send is injected at once when it is
//! polled first, or is announced; of an announced one the engine knows the length, and its data is
//! lent to it for the time of a poll.
//!
//! * A receive takes a request slot and a pooled block when it is polled first, and its place in
//!   the order of posting with them. Receives under way at a time are bounded by `pooled` and
//!   `requests` of the storage, sends and probes by `requests`; beyond that a future is over with
//!   [`Cause::Full`].
//! * *Dropped* before it is over, a send or receive is given up as by a cancelled request: if it
//!   has matched, its message is lost to the receiver. A [`probe`](Futures::probe) can be dropped
//!   without loss.
//! * *Forgotten*, it keeps its slot, its block and its place in the order until the [`Futures`] is
//!   dropped.
//! * While the [`Futures`] is there, it has the endpoint: blocking calls and futures cannot get
//!   into each other's way.
//!
//! The borrowed memory cannot be touched while the future lives:
//!
//! ```compile_fail,E0506
//! # use aldis_kernel::{Comm, Error, Futures, Rank, Tag, hal::{Platform, Transport}};
//! # async fn touched<T: Transport, P: Platform>(
//! #     ep: &Futures<'_, '_, T, P>,
//! #     world: Comm,
//! # ) -> Result<(), Error> {
//! let mut buffer = [0u8; 8];
//! let receiving = ep.recv(&world, &mut buffer, Rank(0), Tag(1));
//! buffer[0] = 1;
//! receiving.await?;
//! # Ok(())
//! # }
//! ```
//!
//! nor the endpoint be used for blocking calls:
//!
//! ```compile_fail,E0499
//! # use aldis_kernel::{Endpoint, Error, Rank, Sleeper, Tag, hal::{Platform, Transport}};
//! # fn mixed<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Result<(), Error> {
//! # let world = ep.world();
//! let mut sleepers = [const { Sleeper::EMPTY }; 16];
//! let futures = ep.futures(&mut sleepers)?;
//! ep.send(&world, &[1u8], Rank(0), Tag(1))?;
//! futures.poll(1);
//! # Ok(())
//! # }
//! ```

mod probing;
mod receiving;
mod sending;
mod ticket;

use core::cell::RefCell;
use core::convert::Infallible;
use core::future::Future;
use core::mem;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use aldis_hal::{Activity, Cause, Handle, Instant, Operation, Platform, Resource, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::poll_rounds::{NOTE_AFTER, Noted};
use crate::error::Error;
use crate::rank::{Mode, Rank, Source, Tag, TagMatch};
use crate::tables::comm::Comm;

pub(crate) use probing::Probe;
pub use probing::Probing;
pub(crate) use receiving::ReceiveArguments;
pub use receiving::Receiving;
pub(crate) use sending::Send;
pub use sending::Sending;
pub(crate) use ticket::{Begun, Operate};

/// The task that is to be woken when a request can go on. A [`Futures`] needs one for each request
/// slot of the storage.
#[derive(Debug)]
pub struct Sleeper {
    handle: Handle,
    deadline: Instant,
    waker: Option<Waker>,
}

impl Sleeper {
    /// No sleeper.
    pub const EMPTY: Self =
        Self { handle: Handle { slot: 0, generation: 0 }, deadline: Instant::NEVER, waker: None };
}

/// An endpoint whose calls are futures: see the [module](self). Made by [`Endpoint::futures`].
pub struct Futures<'e, 's, T, P> {
    core: RefCell<Core<'e, 's, T, P>>,
}

struct Core<'e, 's, T, P> {
    endpoint: &'e mut Endpoint<'s, T, P>,
    sleepers: &'e mut [Sleeper],
    /// Polls in a row that found nothing, since a future was over.
    idle: u32,
    noted: Noted,
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Calls that are futures, with `sleepers` for those who wait: one for each request slot of the
    /// storage.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] for fewer sleepers than request slots, or a storage without pooled
    /// blocks.
    pub fn futures<'e>(&'e mut self, sleepers: &'e mut [Sleeper]) -> Result<Futures<'e, 's, T, P>, Error> {
        let slots = self.engine.requests.capacity();
        let pooled = self.engine.blocks.pooled();
        let too_small =
            |what, need, have| Err(Error::new(Operation::None, Cause::TooSmall { what, need, have }));
        if (sleepers.len() as u64) < u64::from(slots) {
            return too_small(Resource::Sleepers, slots, sleepers.len() as u32);
        }
        if pooled == 0 {
            return too_small(Resource::PooledBlocks, 1, pooled);
        }
        sleepers.fill_with(|| Sleeper::EMPTY);
        Ok(Futures {
            core: RefCell::new(Core { endpoint: self, sleepers, idle: 0, noted: Noted::default() }),
        })
    }
}

impl<'e, 's, T: Transport, P: Platform> Futures<'e, 's, T, P> {
    /// Sends `data` (MPI_Isend): over once `data` may be reused, which for a message that does not
    /// go out at once is when it has been received.
    ///
    /// The future fails as [`Endpoint::send`] does, and with [`Cause::Full`] if there is no request
    /// slot.
    pub fn send<'a, E>(&'a self, comm: &Comm, data: &'a [E], to: Rank, tag: Tag) -> Sending<'a, 'e, 's, T, P>
    where
        E: IntoBytes + Immutable,
    {
        Sending::new(self, comm, data.as_bytes(), to, tag, Mode::Standard)
    }

    /// Sends `data` in synchronous mode (MPI_Issend): over only when a receive has matched it.
    ///
    /// The future fails as that of [`send`](Self::send) does.
    pub fn ssend<'a, E>(&'a self, comm: &Comm, data: &'a [E], to: Rank, tag: Tag) -> Sending<'a, 'e, 's, T, P>
    where
        E: IntoBytes + Immutable,
    {
        Sending::new(self, comm, data.as_bytes(), to, tag, Mode::Synchronous)
    }

    /// Receives into `buffer` (MPI_Irecv). Its place in the order of posting is that of its first
    /// poll.
    ///
    /// The future fails as [`Endpoint::recv`] does, and with [`Cause::Full`] if there is no request
    /// slot or pooled block.
    pub fn recv<'a, E>(
        &'a self,
        comm: &Comm,
        buffer: &'a mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Receiving<'a, 'e, 's, T, P>
    where
        E: FromBytes + IntoBytes,
    {
        Receiving::new(self, comm, buffer.as_mut_bytes(), from.into(), tag.into())
    }

    /// Waits for a message without receiving it (MPI_Probe). As with threads, another task may
    /// receive it first.
    ///
    /// The future fails as [`Endpoint::probe`] does, and with [`Cause::Full`] if there is no
    /// request slot.
    pub fn probe<'a>(
        &'a self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Probing<'a, 'e, 's, T, P> {
        Probing::new(self, comm, from.into(), tag.into())
    }

    /// Handles at most `budget` events and returns how many, like [`Endpoint::poll`]; then wakes
    /// the tasks that can go on. For a program that drives the endpoint by a timer or an interrupt
    /// instead of [`drive`](Self::drive). Nothing is done from within a call of the endpoint.
    pub fn poll(&self, budget: u32) -> u32 {
        let events = match self.core.try_borrow_mut() {
            Ok(mut core) => core.turn(budget),
            Err(_) => 0,
        };
        self.wake();
        events
    }

    /// A future that polls the endpoint each time it is polled itself, and is never over. For a
    /// task of its own.
    pub const fn drive(&self) -> Driving<'_, 'e, 's, T, P> {
        Driving { futures: self }
    }

    /// Runs a future to its end, without an executor: polls it and the endpoint in turn, and lets
    /// the platform rest while there is nothing to do.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                if let Ok(mut core) = self.core.try_borrow_mut() {
                    core.rouse();
                }
                return output;
            }
            self.poll(BUDGET);
            if let Ok(mut core) = self.core.try_borrow_mut()
                && core.idle > 0
            {
                let idle = core.idle;
                core.endpoint.platform.relax(idle);
            }
        }
    }

    /// Wakes every task that can go on. Each outside of the borrow: what a waker does is not known
    /// here.
    fn wake(&self) {
        let mut next = 0;
        while let Ok(mut core) = self.core.try_borrow_mut() {
            let Some((index, waker)) = core.first_awake(next) else { break };
            drop(core);
            waker.wake();
            next = index + 1;
        }
    }
}

impl<T: Transport, P: Platform> Core<'_, '_, T, P> {
    /// Polls the endpoint. Once that has found nothing for long, the platform gets a note of what
    /// is waited for, and again whenever that has changed.
    fn turn(&mut self, budget: u32) -> u32 {
        let events = self.endpoint.poll(budget);
        self.idle = if events > 0 { 0 } else { self.idle.saturating_add(1) };
        if self.idle >= NOTE_AFTER {
            let activity = self.activity();
            if activity.operation == Operation::None {
                self.noted.end(&mut self.endpoint.platform);
            } else {
                self.noted.note(self.endpoint, activity);
            }
        }
        events
    }

    /// Takes the note back: something that was waited for is over and the program goes on.
    fn rouse(&mut self) {
        self.idle = 0;
        self.noted.end(&mut self.endpoint.platform);
    }

    /// The first sleeper from `start` on that can go on, and its waker.
    fn first_awake(&mut self, start: usize) -> Option<(usize, Waker)> {
        let Self { endpoint, sleepers, .. } = self;
        for (index, sleeper) in sleepers.iter_mut().enumerate().skip(start) {
            if sleeper.waker.is_none() {
                continue;
            }
            let due = sleeper.deadline != Instant::NEVER && endpoint.platform.now() >= sleeper.deadline;
            if due || endpoint.engine.can_go_on(sleeper.handle) {
                return Some((index, sleeper.waker.take()?));
            }
        }
        None
    }
}

impl<T, P> Core<'_, '_, T, P> {
    /// Returns what is waited for: a message of any rank, if it is among that, else what the first
    /// sleeper waits for.
    fn activity(&mut self) -> Activity {
        let Self { endpoint, sleepers, .. } = self;
        let waiting = sleepers.iter().filter(|sleeper| sleeper.waker.is_some());
        let mut activities = waiting
            .filter_map(|sleeper| Some(endpoint.engine.requests.get(sleeper.handle)?.progress().activity()));
        let first = activities.next().unwrap_or_default();
        if first.peer.is_none() {
            first
        } else {
            activities.find(|next| next.peer.is_none()).unwrap_or(first)
        }
    }

    /// Lets go of a request; its sleeper's waker is the caller's, to drop it outside of the borrow.
    fn give_up(&mut self, handle: Handle) -> Option<Waker> {
        self.endpoint.engine.abandon(handle);
        self.noted.expire();
        let sleeper =
            self.sleepers.get_mut(handle.slot as usize).filter(|sleeper| sleeper.handle == handle)?;
        mem::replace(sleeper, Sleeper::EMPTY).waker
    }
}

/// Lets go of what forgotten futures have left behind.
impl<T, P> Drop for Futures<'_, '_, T, P> {
    fn drop(&mut self) {
        let core = self.core.get_mut();
        for index in 0..core.sleepers.len() {
            let handle = core.sleepers.get(index).map(|sleeper| sleeper.handle);
            drop(handle.and_then(|handle| core.give_up(handle)));
        }
    }
}

impl<T, P> core::fmt::Debug for Futures<'_, '_, T, P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Futures").finish_non_exhaustive()
    }
}

/// Drives an endpoint. Made by [`Futures::drive`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Driving<'a, 'e, 's, T, P> {
    futures: &'a Futures<'e, 's, T, P>,
}

impl<T: Transport, P: Platform> Future for Driving<'_, '_, '_, T, P> {
    type Output = Infallible;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Infallible> {
        self.futures.poll(BUDGET);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
