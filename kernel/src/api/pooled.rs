//! Pooled receives: the storage's own block takes the message and is handed over with it, so that a
//! message which has arrived already is not copied again.

use aldis_hal::{Cause, Handle, Operation, Platform, Resource, Transport};

use crate::api::call::CallSubject;
use crate::api::deadlines::Guard;
use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::engine::state::{Engine, Started};
use crate::error::Error;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Source, Status, TagMatch};
use crate::tables::blocks::{BlockIndex, Message};
use crate::tables::comm::Comm;
use crate::tables::request::{Backing, Key, State};

impl<'s, T: Transport, P: Platform> Within<'_, 's, T, P> {
    /// See [`Endpoint::recv_pooled`](crate::Endpoint::recv_pooled).
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline, [`Cause::Full`] while all pooled blocks are held,
    /// [`Cause::Truncated`] for a message longer than a block; the rest as
    /// [`Endpoint::recv_pooled`](crate::Endpoint::recv_pooled).
    pub fn recv_pooled(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Message<'s>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let call = CallSubject::recv(Operation::Recv, comm, from, tag);
        let pattern = self.endpoint.pattern(comm, from, tag);
        let (pattern, peer) = pattern.map_err(|cause| self.endpoint.refuse(call, cause))?;
        let engine = &mut self.endpoint.engine;
        if let Some(index) = engine.matcher.find_unexpected(&pattern)
            && let Some((block, status)) = engine.adopt(index)
        {
            return Ok(engine.blocks.message(block, status));
        }
        let Some(block) = engine.blocks.take_pooled() else {
            return Err(call.refused(Cause::Full(Resource::PooledBlocks)));
        };
        let room = engine.room_in(&block, &pattern);
        let (block, result) = match engine.receive(pattern, peer, room) {
            Ok(Started::Done(status)) => (block, Ok(status)),
            Ok(Started::Pending(handle)) => {
                if let Some(request) = engine.requests.get(handle) {
                    request.backing = Backing::Pooled(block);
                }
                let guard = Guard { within: self, handles: [handle, Handle::default()] };
                guard.within.wait_for_block(handle)?
            }
            Err(cause) => {
                engine.blocks.give_pooled(block);
                return Err(self.endpoint.refuse(call, cause));
            }
        };
        let blocks = &mut self.endpoint.engine.blocks;
        match result {
            Ok(status) => Ok(blocks.message(block, status)),
            Err(error) => {
                blocks.give_pooled(block);
                self.endpoint.raise(&error);
                Err(error)
            }
        }
    }

    fn wait_for_block(&mut self, handle: Handle) -> Result<(BlockIndex, Result<Status, Error>), Error> {
        let waited = self.wait(|engine| engine.activity(handle), |engine| engine.collect_pooled(handle));
        let waited = waited.map_err(|elapsed_ns| self.overdue(handle, elapsed_ns));
        self.with_error(waited)
    }
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Receives a message of at most a block into a block of the storage, and hands that over: the
    /// user needs no buffer, and a message that has arrived already is not copied again.
    ///
    /// # Errors
    /// [`Cause::Full`] while all pooled blocks are held, [`Cause::Truncated`] for a message longer
    /// than a block; the rest as [`recv`](Self::recv).
    pub fn recv_pooled(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Message<'s>, Error> {
        self.forever().recv_pooled(comm, from, tag)
    }
}

impl Engine<'_> {
    fn collect_pooled(&mut self, handle: Handle) -> Option<(BlockIndex, Result<Status, Error>)> {
        let block = match self.requests.get(handle) {
            Some(request) if request.state == State::Complete => {
                // A block has room for more than its message: no promise of the length is broken.
                request.cause = request.cause.filter(|cause| !matches!(cause, Cause::NotExact { .. }));
                request.take_block()?
            }
            _ => return None,
        };
        let result = self.collect(handle)?;
        Some((block, self.with_error(result)))
    }

    /// Returns as much of a block as a message takes that is there already: no promise of its
    /// length is broken then.
    fn room_in(&mut self, block: &BlockIndex, pattern: &Key) -> UserBuffer {
        let room = self.blocks.buffer(block);
        let kept = self.matcher.find_unexpected(pattern).and_then(|index| self.matcher.peek(index));
        let length = kept.and_then(|envelope| usize::try_from(envelope.length).ok());
        length.and_then(|length| room.part(0..length)).unwrap_or(room)
    }
}
