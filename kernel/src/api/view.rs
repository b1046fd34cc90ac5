//! This module holds `unsafe` code: it reads memory of a peer that may be written meanwhile.
//!
//! Receives that copy nothing: the message is looked at where its sender has it, and given back.
//!
//! No receiver can make a sender wait while it looks at its memory: a call with a deadline, a scope
//! that ends early, a rank that takes us for dead all have their memory back at once, and may write
//! there. So there is no `&[E]` of a message that is borrowed. Its [`Elements`] are read one by
//! one, or copied out, and [`View::finish`] tells whether they were the message all the while;
//! whatever was read is bytes that some program wrote, never undefined. A program that knows that
//! its senders neither set deadlines nor end early has [`Elements::as_slice`], which is `unsafe`
//! for that reason.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

use aldis_hal::copy::copy_raw;
use aldis_hal::memory::Mapped;
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::{Cause, Handle, Operation, PeerId, Platform, Transport};
use aldis_protocols::header::MemoryKey;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::api::deadlines::Guard;
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::api::poll_rounds::{PollRounds, Within};
use crate::engine::direct::lends;
use crate::engine::state::{Engine, Started};
use crate::error::{Error, Failed};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Source, Status, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::request::{Machine, State};

/// A message that has been received: where its sender has it, or in the buffer that was lent for
/// it.
///
/// While it is borrowed its sender waits, so let go of it soon: by [`finish`](Self::finish), or by
/// dropping it, which does not tell whether it was whole. One that is forgotten (`mem::forget`)
/// keeps its sender waiting.
pub struct View<'v, 's, T: Transport, P: Platform, E> {
    endpoint: &'v mut Endpoint<'s, T, P>,
    fallback: &'v mut [E],
    status: Status,
    borrowed: Option<Borrowed>,
}

/// A message that is still its sender's.
#[derive(Clone, Copy)]
struct Borrowed {
    handle: Handle,
    peer: PeerId,
    key: MemoryKey,
    context: u32,
    status: Status,
}

impl Borrowed {
    /// Returns the place of the message, while it is the peer's to show.
    fn find<'t, T: Transport>(&self, transport: &'t T) -> Result<Mapped<'t>, Cause> {
        let found =
            transport.mapped(self.peer, RemoteAddress { key: &self.key, offset: 0 }, self.status.bytes);
        found.map_err(|_| Cause::Withdrawn)
    }

    fn error(&self, cause: Cause) -> Error {
        let Status { source, tag, .. } = self.status;
        Error::about(Operation::Recv, cause, source.0, self.context, tag.0)
    }
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Receives a message where it is (MPI has no such call): without a copy, if it was sent from
    /// memory that is mapped here; else into `fallback`, as [`recv`](Self::recv) would. What a
    /// program sees is the same: a message longer than `fallback` is truncated either way.
    ///
    /// ```
    /// # use aldis_kernel::{Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
    /// # fn total<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Result<u64, Error> {
    /// let world = ep.world();
    /// let mut fallback = [0u64; 1024];
    /// let view = ep.recv_view(&world, &mut fallback, Rank(0), Tag(0))?;
    /// let sum = view.elements()?.iter().sum();
    /// // Only now is it known that these were the sender's numbers, and the sender may go on.
    /// view.finish()?;
    /// Ok(sum)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Cause::Truncated`] for a message longer than `fallback`; a rank or tag out of range, a
    /// stale communicator, a full request table, or why no message can come.
    pub fn recv_view<'v, E>(
        &'v mut self,
        comm: &Comm,
        fallback: &'v mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<View<'v, 's, T, P, E>, Error>
    where
        E: FromBytes + IntoBytes,
    {
        self.forever().recv_view(comm, fallback, from, tag)
    }
}

impl<'e, 's, T: Transport, P: Platform> Within<'e, 's, T, P> {
    /// See [`Endpoint::recv_view`]. The deadline is that of the receive; how long its message is
    /// looked at is the caller's business.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::Truncated`] for a message longer than
    /// `fallback`; the rest as [`Endpoint::recv_view`].
    pub fn recv_view<E>(
        mut self,
        comm: &Comm,
        fallback: &'e mut [E],
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<View<'e, 's, T, P, E>, Error>
    where
        E: FromBytes + IntoBytes,
    {
        let found = self.view(comm, fallback.as_mut_bytes(), from.into(), tag.into(), align_of::<E>());
        let (status, borrowed) = self.with_error(found)?;
        Ok(View { endpoint: self.endpoint, fallback, status, borrowed })
    }

    fn view(
        &mut self,
        comm: &Comm,
        fallback: &mut [u8],
        from: Source,
        tag: TagMatch,
        align: usize,
    ) -> Result<(Status, Option<Borrowed>), Failed> {
        // SAFETY: before the borrow of `fallback` ends, which lasts for longer than this call, the
        // receive is complete, or `Guard` abandons it, or `borrow` has taken its buffer away.
        let started = unsafe { self.start_recv(comm, fallback, from, tag) };
        let handle = match started? {
            Started::Done(status) => return Ok((status, None)),
            Started::Pending(handle) => handle,
        };
        let mut guard = Guard { within: self, handles: [handle, Handle::default()] };
        if lends::<T>() {
            guard.within.wait_until_viewed(handle)?;
            if let Some(borrowed) = guard.within.endpoint.borrow(handle, align) {
                guard.handles = [Handle::default(); 2];
                return Ok((borrowed.status, Some(borrowed)));
            }
        }
        guard.wait_on(PollRounds::default()).map(|status| (status, None))
    }

    /// Waits until the receive is over, or its message is there to be looked at.
    fn wait_until_viewed(&mut self, handle: Handle) -> Result<(), Failed> {
        let engine = &mut self.endpoint.engine;
        if let Some(request) = engine.requests.get(handle) {
            request.mode = Mode::Viewed;
        }
        let waited =
            self.wait(|engine| engine.activity(handle), |engine| engine.may_be_viewed(handle).then_some(()));
        waited.map_err(|elapsed_ns| self.overdue(handle, elapsed_ns))
    }
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// The message of a receive that holds it, if it is mapped and fits; if not, it is received as
    /// any other.
    fn borrow(&mut self, handle: Handle, align: usize) -> Option<Borrowed> {
        let Self { engine, transport, .. } = self;
        let request = engine.requests.get(handle)?;
        let Machine::Read(reader) = &request.machine else { return None };
        let (key, peer, context) = (reader.held()?, request.peer, request.key.context);
        let borrowed = Borrowed { handle, peer, key, context, status: request.status() };
        let (length, room) = (request.length, request.buffer.len() as u64);
        let fits = length == room || (length < room && !engine.must_fit(context));
        let found = borrowed.find(transport).is_ok_and(|memory| is_aligned(memory, align));
        let request = engine.requests.get(handle)?;
        if fits && found {
            request.buffer = UserBuffer::NONE;
            engine.counters.bytes_received += length;
            return Some(borrowed);
        }
        request.mode = Mode::Standard;
        if let Machine::Read(reader) = &mut request.machine {
            reader.read_held();
        }
        engine.queue_rendezvous(handle.slot);
        None
    }
}

fn is_aligned(memory: Mapped<'_>, align: usize) -> bool {
    memory.start().addr().get().is_multiple_of(align)
}

impl Engine<'_> {
    /// Returns true if a receive is over, or holds its message.
    fn may_be_viewed(&mut self, handle: Handle) -> bool {
        self.requests.get(handle).is_none_or(|request| match &request.machine {
            Machine::Read(reader) if reader.held().is_some() => true,
            _ => request.state == State::Complete,
        })
    }
}

impl<T: Transport, P: Platform, E> View<'_, '_, T, P, E> {
    /// Returns the rank that sent it, its tag, and its length in bytes.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns true if it is where its sender has it, and not in the fallback.
    pub const fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }

    /// Handles at most `budget` events, without blocking: so that others are served while this is
    /// looked at.
    pub fn poll(&mut self, budget: u32) -> u32 {
        self.endpoint.poll(budget)
    }

    /// Lets go of the message. What has been read of it was the message if this ends well.
    ///
    /// # Errors
    /// [`Cause::Withdrawn`] if its sender has taken the memory back meanwhile, or why that was
    /// lost: what has been read may be anything then.
    pub fn finish(mut self) -> Result<Status, Error> {
        let status = self.status;
        match self.give_back() {
            Ok(()) => Ok(status),
            Err(error) => Err(self.endpoint.raised(error)),
        }
    }

    fn give_back(&mut self) -> Result<(), Error> {
        let Some(borrowed) = self.borrowed.take() else { return Ok(()) };
        let endpoint = &mut *self.endpoint;
        let shown = borrowed.find(&endpoint.transport).err();
        let ended = endpoint.engine.requests.get(borrowed.handle).and_then(|request| request.cause);
        endpoint.abandon(borrowed.handle);
        // The sender waits for it.
        endpoint.engine.flush(&mut endpoint.transport, BUDGET);
        ended.or(shown).map_or(Ok(()), |cause| Err(borrowed.error(cause)))
    }
}

impl<T: Transport, P: Platform, E: FromBytes> View<'_, '_, T, P, E> {
    /// Returns the elements in it: whole ones only, if its length is no multiple of theirs.
    ///
    /// # Errors
    /// [`Cause::Withdrawn`] if its sender has taken the memory back; [`finish`](Self::finish) then
    /// says so too. [`Cause::Unaligned`] if the transport finds it at another place than before,
    /// where no element can stand.
    pub fn elements(&self) -> Result<Elements<'_, E>, Error> {
        let (start, room) = match &self.borrowed {
            Some(borrowed) => {
                let found = borrowed.find(&self.endpoint.transport).map_err(|cause| borrowed.error(cause))?;
                if !is_aligned(found, align_of::<E>()) {
                    return Err(borrowed.error(Cause::Unaligned { need: align_of::<E>() as u32 }));
                }
                (found.start().cast(), found.len())
            }
            None => (NonNull::from(&*self.fallback).cast(), size_of_val(self.fallback)),
        };
        let bytes = usize::try_from(self.status.bytes).unwrap_or(usize::MAX).min(room);
        let len = bytes.checked_div(size_of::<E>()).unwrap_or(0);
        Ok(Elements { start, len, memory: PhantomData })
    }
}

impl<T: Transport, P: Platform, E> Drop for View<'_, '_, T, P, E> {
    fn drop(&mut self) {
        // A caller that wants to know asks by `finish`.
        let _ = self.give_back();
    }
}

impl<T: Transport, P: Platform, E> fmt::Debug for View<'_, '_, T, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let borrowed = self.is_borrowed();
        f.debug_struct("View")
            .field("status", &self.status)
            .field("borrowed", &borrowed)
            .finish_non_exhaustive()
    }
}

/// The elements of a [`View`], which may be written while they are read if its sender lets go of
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a, E> {
    /// Aligned, and valid for reads for `'a`.
    start: NonNull<E>,
    len: usize,
    memory: PhantomData<&'a [E]>,
}

impl<'a, E: FromBytes> Elements<'a, E> {
    /// Returns the number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns one of them, as it is now.
    #[inline]
    pub fn get(&self, index: usize) -> Option<E> {
        // SAFETY: it is inside, and aligned as `start` is; whatever bytes are there are an element,
        // and a volatile read happens once.
        (index < self.len).then(|| unsafe { self.start.add(index).read_volatile() })
    }

    /// All of them, each as it is when its turn comes.
    pub fn iter(self) -> impl Iterator<Item = E> + use<'a, E> {
        // SAFETY: as in `get`.
        (0..self.len).map(move |index| unsafe { self.start.add(index).read_volatile() })
    }

    /// Copies those from `first` on, as many as there is room for in `into`. False, and nothing
    /// done, if there are fewer.
    pub fn copy_to(&self, first: usize, into: &mut [E]) -> bool {
        if first.checked_add(into.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        // SAFETY: they are inside, any bytes are elements, and what is borrowed exclusively is
        // apart from a peer's memory and from a fallback that is borrowed too.
        unsafe {
            let from = self.start.add(first).cast().as_ptr();
            copy_raw(from, into.as_mut_ptr().cast(), size_of_val(into));
        }
        // The compiler is not to read the peer's memory again in place of the copy.
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// All of them as a slice.
    ///
    /// # Safety
    /// Until the slice is gone the sender must not let go of its send: not by a deadline, nor by
    /// leaving a scope or a program before the send is complete, nor because it takes this rank for
    /// lost. The author of both ends can know that.
    pub const unsafe fn as_slice(self) -> &'a [E]
    where
        E: Immutable,
    {
        // SAFETY: aligned and readable for 'a, and any bytes are elements; nothing writes there, as
        // the caller promises.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}
