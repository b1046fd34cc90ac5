//! A call from its arguments to its start: what it is about, for its error and for the note of what
//! a rank waits for. The one place where blocking calls and scopes start sends and receives.

use aldis_hal::{Activity, Cause, Handle, Operation, PeerId, Platform, Transport};

use crate::api::endpoint::{BUDGET, Endpoint};
use crate::engine::fast_path::Posting;
use crate::engine::state::{Engine, FAST_PATHS, Started};
use crate::error::{Error, Failed};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch, WILD};
use crate::tables::comm::Comm;
use crate::tables::list::{InScope, List};
use crate::tables::request::Key;

/// The subject of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallSubject {
    operation: Operation,
    context: u32,
    rank: u32,
    tag: u32,
}

impl CallSubject {
    #[inline]
    pub(crate) fn send(comm: &Comm, to: Rank, tag: Tag) -> Self {
        Self { operation: Operation::Send, context: comm.context(), rank: to.0, tag: tag.0 }
    }

    #[inline]
    pub(crate) fn recv(operation: Operation, comm: &Comm, from: Source, tag: TagMatch) -> Self {
        let rank = if let Source::Rank(rank) = from { rank.0 } else { WILD };
        let tag = if let TagMatch::Tag(tag) = tag { tag.0 } else { WILD };
        Self { operation, context: comm.context(), rank, tag }
    }

    /// Returns true if it was refused because its other side is [`Rank::NULL`], which is no process
    /// in any communicator. The rank is looked at first: it is at hand where the cause is not.
    pub(crate) const fn is_null(self, cause: Cause) -> bool {
        self.rank == Rank::NULL.0 && matches!(cause, Cause::RankOutOfRange { .. })
    }

    /// Returns the status that it ends with, if it names its other side and takes so many bytes
    /// from it.
    #[inline]
    pub(crate) const fn status(self, bytes: u64) -> Status {
        Status { source: Rank(self.rank), tag: Tag(self.tag), bytes }
    }

    /// The rank and tag that it names.
    pub(crate) const fn other_side(self) -> (Rank, Tag) {
        (Rank(self.rank), Tag(self.tag))
    }

    /// Returns the error of a call that was refused for `cause`.
    pub(crate) fn refused(self, cause: Cause) -> Error {
        Error::about(self.operation, cause, self.rank, self.context, self.tag)
    }

    pub(crate) fn activity(self) -> Activity {
        let named = |value: u32| (value != WILD).then_some(value);
        Activity {
            operation: self.operation,
            peer: named(self.rank).map(PeerId),
            tag: named(self.tag),
            context: self.context,
            bytes: 0,
        }
    }
}

/// Makes a general call, behind a fast path, with a copy of what it is given by reference: that has
/// to stand in memory, and what the fast path before it works with need not then.
#[inline(always)]
pub(crate) fn apart<V: Copy, R>(named: &V, call: impl FnOnce(&V) -> R) -> R {
    if !FAST_PATHS {
        return call(named);
    }
    let copied = *named;
    call(&copied)
}

/// Lets go of a request when it drops: by unwinding alone.
struct Unwinding<'e, 's, T: Transport, P: Platform> {
    endpoint: &'e mut Endpoint<'s, T, P>,
    handle: Handle,
}

impl<T: Transport, P: Platform> Drop for Unwinding<'_, '_, T, P> {
    fn drop(&mut self) {
        self.endpoint.abandon(self.handle);
    }
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Starts a send. The caller answers for `buffer`: it stays readable until the request is
    /// complete or abandoned.
    #[inline(never)]
    pub(crate) fn start_send(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        to: Rank,
        tag: Tag,
        mode: Mode,
    ) -> Result<Started, Failed> {
        let Self { engine, transport, .. } = self;
        let started = engine
            .comms
            .target(comm, to, tag)
            .and_then(|target| match mode {
                Mode::Standard => engine.send(transport, target, buffer),
                _ => engine.send_later(target, buffer, mode),
            })
            .or_else(|cause| self.unless_null(CallSubject::send(comm, to, tag), cause));
        if let Ok(Started::Pending(handle)) = started {
            self.flush_for(handle, |engine, transport| engine.flush_begun(transport, BUDGET));
        }
        started
    }

    /// Gives the transport what a send that has just been started lets go out. If that panics no
    /// caller knows of the request: it lets go of its memory.
    #[inline(always)]
    #[expect(clippy::mem_forget, reason = "it is there for unwinding alone, and costs nothing else")]
    pub(crate) fn flush_for(&mut self, handle: Handle, flush: impl FnOnce(&mut Engine<'s>, &mut T)) {
        let unwinding = Unwinding { endpoint: self, handle };
        flush(&mut unwinding.endpoint.engine, &mut unwinding.endpoint.transport);
        core::mem::forget(unwinding);
    }

    /// Posts a receive, if no message waits that it could be for and nothing stands in its way: the
    /// way of most receives. `None` if anything does, and nothing has changed:
    /// [`start_recv`](Self::start_recv) is for all.
    #[inline(always)]
    pub(crate) fn try_post(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        from: Source,
        tag: TagMatch,
        kept: &mut List<InScope>,
    ) -> Option<Handle> {
        let (pattern, peer) = self.pattern(comm, from, tag).ok()?;
        self.engine.try_post(Posting { pattern, peer, buffer }, kept, |_| ())
    }

    /// Starts a receive. The caller answers for `buffer`: nothing else touches it until the request
    /// is complete or abandoned.
    #[inline(never)]
    pub(crate) fn start_recv(
        &mut self,
        comm: &Comm,
        buffer: UserBuffer,
        from: Source,
        tag: TagMatch,
    ) -> Result<Started, Failed> {
        self.pattern(comm, from, tag)
            .and_then(|(pattern, peer)| self.engine.receive(pattern, peer, buffer))
            .or_else(|cause| self.unless_null(CallSubject::recv(Operation::Recv, comm, from, tag), cause))
    }

    /// Over at once if the other side is [`Rank::NULL`], refused for `cause` if not.
    #[cold]
    pub(crate) fn unless_null(&mut self, call: CallSubject, cause: Cause) -> Result<Started, Failed> {
        if call.is_null(cause) {
            return Ok(Started::Done(Status::NULL));
        }
        Err(self.fail(&call.refused(cause)))
    }

    /// A call's refusal, after what its communicator's policy asks for.
    #[cold]
    pub(crate) fn refuse(&mut self, call: CallSubject, cause: Cause) -> Error {
        self.raised(call.refused(cause))
    }

    /// Tells the platform what is waited for. A rank that waits for any source depends on every
    /// peer: the transport is told so. Who waits for several requests does so only if one of them
    /// is of any source; the peers of the others were told when those were posted.
    #[cold]
    pub(crate) fn note(&mut self, activity: Activity) {
        self.platform.note(activity);
        if activity.peer.is_some() {
            return;
        }
        // Connections to all cost a host with many ranks much, and firmware with few nothing.
        let is_of_any = matches!(activity.operation, Operation::Recv | Operation::Probe);
        if cfg!(target_pointer_width = "32") || is_of_any || self.engine.has_wildcard() {
            self.expect_all();
        }
    }

    /// Tells the transport that every peer is waited for, if a receive is of any source: for those
    /// who test instead of waiting.
    #[cold]
    #[inline(never)]
    pub(crate) fn expect_for_wildcards(&mut self) {
        if self.engine.has_wildcard() {
            self.expect_all();
        }
    }

    /// Tells the transport that every peer is waited for.
    #[cold]
    pub(crate) fn expect_all(&mut self) {
        (0..self.engine.size).for_each(|peer| self.transport.expect(PeerId(peer)));
    }

    /// Tells the transport whom a request waits for that has just been started.
    pub(crate) fn expect_for(&mut self, handle: Handle) {
        let Some(request) = self.engine.requests.get(handle) else { return };
        let peer = request.peer;
        if request.key.source != WILD && peer.0 < self.engine.size {
            self.transport.expect(peer);
        }
    }

    /// Returns the key of the messages that a receive or a probe takes, and the peer if it names
    /// one. The transport is told which peer it waits for.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    pub(crate) fn pattern(
        &mut self,
        comm: &Comm,
        from: Source,
        tag: TagMatch,
    ) -> Result<(Key, Option<PeerId>), Cause> {
        let (pattern, peer) = self.engine.pattern(comm, from, tag)?;
        if let Some(peer) = peer {
            self.transport.expect(peer);
        }
        Ok((pattern, peer))
    }
}
