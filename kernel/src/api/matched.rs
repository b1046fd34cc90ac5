//! Matched probes (MPI 4.1 section 3.8.2): a message that is found is taken out of the queues at
//! once, so that no other receive can get it, and is received by the token that stands for it. So a
//! program may look at its length first.
//!
//! ```
//! # use aldis_kernel::{Endpoint, Error, Source, TagMatch, hal::{Platform, Transport}};
//! fn next<T: Transport, P: Platform>(
//!     endpoint: &mut Endpoint<'_, T, P>,
//! ) -> Result<Vec<u8>, Error> {
//!     let world = endpoint.world();
//!     let message = endpoint.mprobe(&world, Source::Any, TagMatch::Any)?;
//!     let mut bytes = vec![0; message.status().bytes as usize];
//!     endpoint.mrecv(message, &mut bytes)?;
//!     Ok(bytes)
//! }
//! ```
//!
//! # What a matched message holds
//!
//! One request slot, and what has arrived of it: its envelope and block, and their credits. An
//! announced one gives its envelope back at once. A message that its sender holds back for want of
//! envelopes is matched there, as for a receive
//! ([`protocols::overflow`](aldis_protocols::overflow)): once it is taken, the messages behind it
//! go on.
//!
//! All that is held until the message is received or [discarded](Endpoint::discard_matched). A
//! token that is dropped is not found again: its slot stays taken, and a program that drops as many
//! as there are slots has none left. Slots are also freed when the message can no longer be
//! received: it had not arrived when its sender was lost, or its sender has been introduced anew. A
//! token of such a message fails with the reason.

use aldis_hal::{Cause, Handle, Operation, PeerId, Platform, Transport};
use aldis_protocols::rendezvous::Announcement;
use zerocopy::{FromBytes, IntoBytes};

use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::api::scope::{Request, Scope};
use crate::counters::count;
use crate::engine::matching::{Envelope, Payload};
use crate::engine::state::{Engine, Started, status};
use crate::error::Error;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Source, Status, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::request::{Backing, Key, Machine, Request as Slot, State};

/// A message that a probe has matched: the one thing that can receive it (MPI_Message). See the
/// module for what becomes of one that is dropped.
#[derive(Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "nothing else can receive the message; `discard_matched` lets go of it"]
pub struct Matched {
    /// Its request; no handle of any for a message from no process.
    handle: Handle,
    context: u32,
    status: Status,
}

impl Matched {
    /// A message from no process (MPI_MESSAGE_NO_PROC): it is received at once, as
    /// [`Rank::NULL`](crate::Rank::NULL)'s.
    const NOBODYS: Self =
        Self { handle: Handle { slot: 0, generation: 0 }, context: 0, status: Status::NULL };

    /// Returns the source of the message, its tag and its length.
    pub const fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn refused(&self, cause: Cause) -> Error {
        Error::about(Operation::Recv, cause, self.status.source.0, self.context, self.status.tag.0)
    }
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Waits for a message and matches it (MPI_Mprobe): only [`mrecv`](Self::mrecv) with this token
    /// can receive it.
    ///
    /// # Errors
    /// A full request table, in which case the message stays where it is; a rank or tag out of
    /// range, a stale communicator, or why no message can come.
    pub fn mprobe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Matched, Error> {
        self.forever().mprobe(comm, from, tag)
    }

    /// Matches a message if one is there, after one poll (MPI_Improbe). A message that its sender
    /// holds back is found by a later call with the same arguments, unless a receive is started or
    /// another probe made in between.
    ///
    /// # Errors
    /// A full request table, in which case the message stays where it is; a rank or tag out of
    /// range, a stale communicator, or why no message can come.
    pub fn improbe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Option<Matched>, Error> {
        self.look_once(comm, from.into(), tag.into(), Matched::NOBODYS, |engine, pattern, peer| {
            engine.match_probe(pattern, peer)
        })
    }

    /// Receives a matched message into `buffer` (MPI_Mrecv).
    ///
    /// # Errors
    /// [`Cause::Truncated`] for a message longer than the buffer; the cause of its sender's loss,
    /// if it was lost before the message had arrived; [`Cause::Stale`] for a token of another
    /// endpoint.
    pub fn mrecv<E>(&mut self, message: Matched, buffer: &mut [E]) -> Result<Status, Error>
    where
        E: FromBytes + IntoBytes,
    {
        self.forever().mrecv(message, buffer)
    }

    /// Lets go of a matched message without receiving it. Its sender gets the messages that a
    /// receive would send it.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a token of another endpoint; the cause of the sender's loss, if it was
    /// lost before the message had arrived.
    pub fn discard_matched(&mut self, message: Matched) -> Result<(), Error> {
        if let Started::Pending(handle) = self.start_mrecv(&message, UserBuffer::NONE)? {
            self.engine.abandon(handle);
        }
        Ok(())
    }

    /// Starts the receive of a matched message. The caller answers for `buffer`, as in
    /// [`start_recv`](Self::start_recv).
    pub(crate) fn start_mrecv(&mut self, message: &Matched, buffer: UserBuffer) -> Result<Started, Error> {
        self.start_mrecv_into(message, buffer, Backing::Plain)
    }

    /// Starts the receive of a matched message, with what stands behind the buffer.
    pub(crate) fn start_mrecv_into(
        &mut self,
        message: &Matched,
        buffer: UserBuffer,
        backing: Backing,
    ) -> Result<Started, Error> {
        if message.handle == Matched::NOBODYS.handle {
            return Ok(Started::Done(Status::NULL));
        }
        if let Some(started) = self.engine.receive_matched(message.handle, buffer, backing) {
            return Ok(started);
        }
        let error = message.refused(self.engine.lost_matched(message.handle).unwrap_or(Cause::Stale));
        self.raise(&error);
        Err(error)
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// See [`Endpoint::mprobe`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a full request table, in which case the message
    /// stays where it is; the rest as [`Endpoint::mprobe`].
    pub fn mprobe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Matched, Error> {
        self.look(comm, from.into(), tag.into(), Matched::NOBODYS, |engine, pattern, peer| {
            engine.match_probe(pattern, peer)
        })
    }
}

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// See [`Endpoint::mprobe`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the scope's deadline; a full request table, in which case the
    /// message stays where it is; the rest as [`Endpoint::mprobe`].
    pub fn mprobe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Matched, Error> {
        self.within.mprobe(comm, from, tag)
    }

    /// See [`Endpoint::improbe`].
    ///
    /// # Errors
    /// A full request table, in which case the message stays where it is; a rank or tag out of
    /// range, a stale communicator, or why no message can come.
    pub fn improbe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Option<Matched>, Error> {
        self.within.endpoint.improbe(comm, from, tag)
    }

    /// A plain probe, as [`Endpoint::iprobe`].
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why no message
    /// can come.
    pub fn iprobe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Option<Status>, Error> {
        self.within.endpoint.iprobe(comm, from, tag)
    }

    /// Starts the receive of a matched message (MPI_Imrecv).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a token of another endpoint; the cause of the sender's loss, if it was
    /// lost before the message had arrived. For a message longer than the buffer the request fails,
    /// with [`Cause::Truncated`].
    pub fn imrecv<E>(&mut self, message: Matched, buffer: &'scope mut [E]) -> Result<Request<'scope>, Error>
    where
        E: FromBytes + IntoBytes,
    {
        let lent = self.lend(buffer);
        let started = self.within.endpoint.start_mrecv(&message, lent.whole())?;
        Ok(self.keep(started))
    }
}

impl Engine<'_> {
    /// Finds and takes the message of a matched probe: here, or held back by its sender.
    fn match_probe(&mut self, pattern: &Key, peer: Option<PeerId>) -> Result<Option<Matched>, Cause> {
        if let Some(index) = self.matcher.find_unexpected(pattern) {
            self.end_probe();
            return self.match_kept(index).map(Some);
        }
        self.may_come(pattern.context, peer)?;
        if !self.overflowing && self.probing == Handle::default() {
            return Ok(None);
        }
        match self.probe_for(pattern) {
            Some(State::Held) => Ok(self.match_held()),
            Some(State::Probing) if self.probe_takes => Ok(None),
            _ => self.start_probe(*pattern, peer, true).map(|()| None),
        }
    }

    /// Matches the kept message `index`. Without a request slot it stays where it is.
    fn match_kept(&mut self, index: u32) -> Result<Matched, Cause> {
        let Some(&Envelope { key, peer, length, ref payload, .. }) = self.matcher.peek(index) else {
            return Err(Cause::Stale);
        };
        let announced =
            if let Payload::Announced(announcement) = *payload { Some(announcement) } else { None };
        if announced.is_some()
            && let Err(cause) = self.presence(peer)
        {
            // Its data will never come; the next probe is not to stumble over it.
            self.matcher.remove(index);
            return Err(cause);
        }
        let handle = self.request(State::Matched, key, peer, key.source, UserBuffer::NONE)?;
        let machine = match announced {
            Some(announcement) => {
                self.matcher.remove(index);
                self.free_envelope(peer);
                Machine::Announced(announcement)
            }
            None => Machine::Kept(self.matcher.set_aside(index).unwrap_or_default()),
        };
        if let Some(request) = self.requests.get(handle) {
            (request.length, request.machine) = (length, machine);
        }
        Ok(Matched { handle, context: key.context, status: status(key, length) })
    }

    /// Matches the message that the probe holds. Its sender is notified, and sends what is behind
    /// it.
    fn match_held(&mut self) -> Option<Matched> {
        let handle = core::mem::take(&mut self.probing);
        let request = self.requests.get(handle)?;
        let Machine::Announced(Announcement { sender, .. }) = request.machine else { return None };
        (request.state, request.operation) = (State::Matched, Operation::Recv);
        (request.key.source, request.key.tag) = (request.rank, request.tag);
        let (peer, key, length) = (request.peer, request.key, request.length);
        count(&mut self.counters.messages_received);
        self.peer(peer)?.seeker.take(sender);
        self.schedule(peer);
        Some(Matched { handle, context: key.context, status: status(key, length) })
    }

    /// Starts the receive of the matched message behind `handle`; `None` if that is stale.
    fn receive_matched(&mut self, handle: Handle, buffer: UserBuffer, backing: Backing) -> Option<Started> {
        let is_there = |request: &&mut Slot| request.state == State::Matched && request.cause.is_none();
        let request = self.requests.get(handle).filter(is_there)?;
        let &mut Slot { peer, length, machine, .. } = request;
        // A sender in ready mode has met no receive.
        (request.buffer, request.backing) = (buffer, backing);
        (request.machine, request.late) = (Machine::None, true);
        match machine {
            Machine::Announced(announcement) => self.fetch(handle.slot, peer, &announcement, length),
            Machine::Kept(envelope) => {
                let label = self.matcher.peek(envelope.slot)?.label;
                let payload = self.matcher.take_aside(envelope)?;
                self.free_envelope(peer);
                self.unload(Some(handle), peer, length, &label, payload, buffer);
                self.received(handle.slot, length, &label);
            }
            _ => return None,
        }
        Some(Started::Pending(handle))
    }

    /// Returns why a matched message that had only been announced will never come, and frees its
    /// slot.
    fn lost_matched(&mut self, handle: Handle) -> Option<Cause> {
        self.requests.give_if(handle, |request| {
            let cause = request.cause.filter(|_| request.state == State::Matched)?;
            request.state = State::Free;
            Some(cause)
        })
    }

    /// Drops the matched messages of an earlier life of `peer`.
    pub(crate) fn forget_matched(&mut self, peer: PeerId) {
        for index in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(index) else { continue };
            let kept = match request.machine {
                Machine::Kept(envelope) => Some(envelope),
                _ if request.cause.is_some() => None,
                _ => continue,
            };
            if request.state != State::Matched || request.peer != peer {
                continue;
            }
            request.state = State::Free;
            self.requests.give(index);
            let Some(envelope) = kept else { continue };
            count(&mut self.counters.stale_epochs);
            if let Some(Payload::Block(block)) = self.matcher.take_aside(envelope) {
                self.blocks.give(block);
            }
        }
    }
}
