//! The engine: all state of an endpoint but its transport and platform. Written against slices, so
//! that it is compiled once and not once per capacity.
//!
//! [`delivery`](crate::engine::delivery) takes what transports deliver and
//! [`send_queue`](crate::engine::send_queue) sends; here is what both share: requests from start
//! to end.

use core::ops::Range;

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Epoch, Handle, Instant, PeerId, Resource};
use aldis_protocols::card::Room;
use aldis_protocols::header::{Header, Kind, Label};
use aldis_protocols::rendezvous::{Announcement, Reader, Receiver};
use aldis_protocols::{ACTIVE, LENDS};

use crate::counters::Counters;
use crate::datatype::Types;
use crate::engine::matching::Matcher;
use crate::engine::rules::Rules;
use crate::engine::wire::{Injected, LaneTurn, Wire};
use crate::error::{Error, Failed};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Rank, Source, Status, Tag, TagMatch, WILD};
use crate::tables::attribute::Attribute;
use crate::tables::blocks::Blocks;
use crate::tables::comm::Comm;
use crate::tables::comms::{Comms, check_tag};
use crate::tables::elements::{DataPiece, Fragment, Plain};
use crate::tables::fifo::Fifo;
use crate::tables::list::{InScope, List, Queue, Ring};
use crate::tables::peer::{Peer, Presence};
use crate::tables::peers::PeerTable;
use crate::tables::request::{Key, Machine, NO_REGION, Request, Requests, State};
use crate::tables::staging::Staging;

/// True if there are fast paths. Without them every message passes the general functions, which do
/// the same in more steps and take 2 KB less of an image.
pub(crate) const FAST_PATHS: bool = cfg!(feature = "fast-paths");

/// An endpoint without its transport and platform. In this order for the reason given at
/// [`Request`].
#[repr(C)]
pub(crate) struct Engine<'s> {
    /// True if some peer may hold messages back for want of envelopes here.
    pub(crate) overflowing: bool,
    /// True if the probe that goes on is a matched one, which takes what it finds.
    pub(crate) probe_takes: bool,
    /// True if some peer is lost, so that some communicator may have no peer left on it.
    pub(crate) bereft: bool,
    /// True if some peer has the other byte order.
    pub(crate) mixed: bool,
    /// True if a receive of any source waits on such a communicator for what this process has sent
    /// to itself.
    pub(crate) lingering: bool,
    /// True if messages are kept that their senders have recalled and are still to be given back.
    pub(crate) recalled: bool,
    pub(crate) me: PeerId,
    pub(crate) size: u32,
    pub(crate) epoch: Epoch,
    pub(crate) peers: PeerTable<'s>,
    pub(crate) requests: Requests<'s>,
    pub(crate) matcher: Matcher<'s>,
    /// Peers to whom something may be sent.
    pub(crate) scheduled: Fifo<'s>,
    /// A probe that goes on between calls of iprobe or improbe, for a message held back.
    pub(crate) probing: Handle,
    /// The tuning of the layers above.
    pub(crate) tuning: TuningState,
    /// The rules that hints change, once some communicator has been given any.
    pub(crate) rules: Option<&'static Rules>,
    /// The functions that work with channels, once one has been set up.
    pub(crate) channels: Option<&'static dyn Channels>,
    /// Requests of the current scope that are detached: no wait follows.
    pub(crate) detached: List<InScope>,
    /// The function that frees their slots, once there has been one.
    pub(crate) reclaim: Option<fn(&mut Self)>,
    /// Requests that are over but for their memory, which is to be taken back from the transport.
    pub(crate) closing: List<Queue>,
    pub(crate) blocks: Blocks<'s>,
    pub(crate) comms: Comms<'s>,
    pub(crate) room: Room,
    /// The armed receive: the blocking receive that waits.
    pub(crate) armed: ArmedRecv,
    /// Datatypes for messages, and what moves their data.
    pub(crate) conversion: Option<Conversion<'s>>,
    /// Memory for copies of buffered sends.
    pub(crate) attached: Option<UserBuffer>,
    /// The attributes that communicators have been given to keep.
    pub(crate) attributes: &'s mut [Attribute],
    /// The rank that has aborted the job, and its code.
    pub(crate) aborted: Option<(PeerId, i32)>,
    /// The number of polls there had been when the probe that goes on found what it holds.
    pub(crate) held_since: u64,
    /// The clock as last read.
    pub(crate) now: Instant,
    /// The error of what has [`Failed`] last.
    pub(crate) failure: Error,
    pub(crate) counters: Counters,
    /// No receive or probe waits that was posted before this place, where one waited.
    pub(crate) oldest: Option<PostedSlot>,
    /// The buffered sends that are under way.
    pub(crate) buffered: Buffered<'s>,
}

/// The armed receive: the one blocking receive that waits, as long as nothing but its message has
/// come: it stands in no list and has no slot. Whatever else comes, or is to be sent, posts it
/// first, so that nothing but the fast paths need know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArmedRecv {
    None,
    /// The receive waits for the message with this key, which `peer` sends.
    Armed {
        key: Key,
        peer: PeerId,
        buffer: UserBuffer,
        /// The elements that are to be there, if it is a typed receive.
        elements: Option<Plain>,
    },
    /// A message of so many bytes has come for it.
    Delivered(u64),
    /// The receive has been posted like any other.
    Posted(Handle),
}

/// A place in the order of posting, and the slot of the request that was given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PostedSlot {
    pub(crate) slot: u32,
    pub(crate) order: u32,
}

/// Messages in attached memory. All-zero is none.
#[derive(Debug)]
pub(crate) struct Buffered<'s> {
    /// The messages in the endpoint's memory.
    pub(crate) messages: Ring<InScope>,
    /// Memory for copies of messages of middle length.
    pub(crate) staging: Staging,
    /// The number of messages in any memory.
    pub(crate) count: u32,
    /// Takes out a message that is over, once there has been one: what sends none does not link it.
    pub(crate) release: Option<fn(&mut Engine<'s>, u32)>,
}

impl Buffered<'_> {
    pub(crate) const NONE: Self =
        Self { messages: Ring::EMPTY, staging: Staging::NONE, count: 0, release: None };
}

/// The tuning of the layers above on all communicators.
#[derive(Debug, Default)]
pub(crate) struct TuningState {
    /// True if something was set, here or for a communicator.
    pub(crate) is_set: bool,
    pub(crate) on_all: Option<crate::tables::comms::Tuning>,
}

/// A table of datatypes, and the functions that work with it.
/// [`attach_types`](crate::Endpoint::attach_types) installs both, and the engine calls these
/// through the table alone: so firmware that never attaches types does not link the convertor, the
/// checksum or anything else that is for typed messages.
pub(crate) struct Conversion<'s> {
    pub(crate) types: Types<'s>,
    pub(crate) tools: &'static dyn Tools,
}

/// The functions by which the engine works with types.
pub(crate) trait Tools: Sync {
    /// Sends like [`Engine::inject`], but the typed send in slot `own`.
    fn inject(
        &self,
        engine: &mut Engine<'_>,
        wire: &mut dyn Wire,
        id: PeerId,
        own: Handle,
    ) -> Result<Injected, Cause>;

    /// Sends a fragment of the typed send in slot `index`.
    fn send_fragment(
        &self,
        engine: &mut Engine<'_>,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        fragment: Fragment,
    ) -> LaneTurn;

    /// Returns the label in the finish of the send in slot `index`.
    fn label(&self, engine: &mut Engine<'_>, index: u32) -> Label;

    /// A whole message with a label has arrived.
    fn take_labelled(
        &self,
        engine: &mut Engine<'_>,
        from: PeerId,
        header: &Header,
        label: &Label,
        payload: &[u8],
    ) -> Result<(), Malformed>;

    /// Bytes that the receive in slot `index` has room for, of a message of its peer.
    fn room(&self, engine: &mut Engine<'_>, index: u32) -> u64;

    /// Puts a piece of a message where the types of the receive in slot `index` say.
    fn unpack(&self, engine: &mut Engine<'_>, index: u32, piece: &DataPiece<'_>);

    /// A receive for elements in one piece, which is to be posted.
    fn request(
        &self,
        engine: &mut Engine<'_>,
        key: Key,
        peer: PeerId,
        buffer: UserBuffer,
        elements: Plain,
    ) -> Result<Handle, Cause>;

    /// Returns true if the partitioned request in slot `index` uses a part of the user's memory.
    fn channel_uses(
        &self,
        engine: &mut Engine<'_>,
        index: u32,
        part: UserBuffer,
        to_be_written: bool,
    ) -> bool;

    /// The checksum of bytes.
    fn checksum(&self, bytes: &[u8]) -> u32;

    /// Compares the label of an announced message of `length` bytes, which the receive in slot
    /// `index` reads.
    fn compare(&self, engine: &mut Engine<'_>, index: u32, length: u64, label: &Label);

    /// The receive in slot `index` has all it can take of a message of `length` bytes with that
    /// label.
    fn received(&self, engine: &mut Engine<'_>, index: u32, length: u64, label: &Label);
}

/// The word of a receiver that it has matched a channel, or started a round of it.
pub(crate) struct ChannelGrant {
    pub(crate) sender: Handle,
    pub(crate) receiver: Handle,
    /// Partitions that the receiver has cut its memory into.
    pub(crate) partitions: u32,
    /// Bytes of the receiver's memory.
    pub(crate) length: u64,
    /// True if a round has been started.
    pub(crate) started: bool,
}

/// The functions by which the engine works with channels. The first that is set up installs the
/// functions, and the engine calls them through this table alone: so firmware without partitioned
/// messages does not link them.
pub(crate) trait Channels: Sync {
    /// See [`Engine::bind`].
    fn bind(&self, engine: &mut Engine<'_>, index: u32, sender: Handle, length: u64) -> bool;

    /// See [`Engine::take_grant`].
    fn take_grant(
        &self,
        engine: &mut Engine<'_>,
        from: PeerId,
        grant: &ChannelGrant,
    ) -> Result<(), Malformed>;

    /// See [`Engine::take_refusal`].
    fn take_refusal(&self, engine: &mut Engine<'_>, from: PeerId, sender: Handle, receiver: Handle);

    /// See [`Engine::take_part`].
    fn take_part(&self, engine: &mut Engine<'_>, index: u32, piece: &DataPiece<'_>) -> Result<(), Malformed>;

    /// See [`Engine::step_channel`].
    fn step(
        &self,
        engine: &mut Engine<'_>,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        fragment_max: u32,
    ) -> LaneTurn;

    /// Returns true if a channel has something to send.
    fn has_more(&self, request: &Request) -> bool;

    /// See [`Engine::sent_part`].
    fn sent(&self, engine: &mut Engine<'_>, index: u32, len: u32);

    /// See [`Request::uses_part`].
    fn uses(&self, request: &Request, bytes: Range<u64>, to_be_written: bool) -> bool;

    /// See [`Engine::abandon_channel`].
    fn abandon(&self, engine: &mut Engine<'_>, handle: Handle);
}

/// The outcome of starting an operation.
#[derive(Clone, Copy, Debug)]
pub enum Started {
    /// The operation is over, and well.
    Done(Status),
    /// The operation goes on under this handle.
    Pending(Handle),
}

impl Engine<'_> {
    #[inline]
    pub(crate) fn peer(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(peer)
    }

    /// Checks that `peer` can be sent to; fails with the cause if not.
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub(crate) fn presence(&self, peer: PeerId) -> Result<(), Cause> {
        match self.peers.get(peer).map(|row| row.presence) {
            Some(Presence::Connected) => Ok(()),
            Some(Presence::Gone(cause)) => Err(cause),
            _ => self.absence(peer),
        }
    }

    /// Puts `peer` among those that [`send_queue`](crate::engine::send_queue) looks at.
    pub(crate) fn schedule(&mut self, peer: PeerId) {
        let Some((index, row)) = self.peers.place(peer) else { return };
        if !row.scheduled && self.scheduled.push(index).is_ok() {
            row.scheduled = true;
        }
    }

    /// A header to `peer`, with the credits that are its due.
    pub(crate) fn header(&self, peer: &Peer, kind: Kind, key: Key, sequence: u16, length: u64) -> Header {
        peer.header(self.epoch, kind, key, sequence, length)
    }

    /// Checks the arguments of a receive; also says which peer it depends on, if it names one.
    #[inline]
    pub(crate) fn pattern(
        &mut self,
        comm: &Comm,
        from: Source,
        tag: TagMatch,
    ) -> Result<(Key, Option<PeerId>), Cause> {
        let (source, peer) = match from {
            Source::Rank(rank) => (rank.0, Some(self.comms.peer(comm, rank)?)),
            Source::Any => (WILD, None),
        };

        let tag = match tag {
            TagMatch::Tag(tag) => {
                check_tag(tag)?;
                tag.0
            }
            TagMatch::Any => WILD,
        };
        let key = Key { context: comm.context(), source, tag };
        if source == WILD || tag == WILD {
            self.comms.check(comm)?;
            // A copy, so that the key of the fast paths need not stand in memory.
            let copied = key;
            self.check_open(if FAST_PATHS { &copied } else { &key })?;
        }
        Ok((key, peer))
    }

    /// Takes a request slot and starts it.
    #[inline]
    pub(crate) fn request(
        &mut self,
        state: State,
        key: Key,
        peer: PeerId,
        rank: u32,
        buffer: UserBuffer,
    ) -> Result<Handle, Cause> {
        let Some((handle, request)) = self.requests.take() else {
            return self.request_for_detached(state, key, peer, rank, buffer);
        };
        request.start(state, key, peer, rank, buffer);
        // Free slots are used again before fresh ones.
        self.counters.requests_peak = self.requests.used_end();
        Ok(handle)
    }

    /// Takes a slot like [`request`](Self::request), but that of a detached request that is over.
    #[cold]
    #[inline(never)]
    fn request_for_detached(
        &mut self,
        state: State,
        key: Key,
        peer: PeerId,
        rank: u32,
        buffer: UserBuffer,
    ) -> Result<Handle, Cause> {
        if let Some(reclaim) = self.reclaim {
            reclaim(self);
        }
        let (handle, request) = self.requests.take().ok_or(Cause::Full(Resource::Requests))?;
        request.start(state, key, peer, rank, buffer);
        Ok(handle)
    }

    /// The receive in slot `index` has matched an announcement: the data is to be asked for.
    pub(crate) fn fetch(&mut self, index: u32, peer: PeerId, announcement: &Announcement, length: u64) {
        if let Some(channels) = self.channels
            && channels.bind(self, index, announcement.sender, length)
        {
            return;
        }
        let Some(request) = self.requests.at(index) else { return };
        request.state = State::Receiving;
        request.peer = peer;
        request.length = length;
        let mut room = request.buffer.len() as u64;
        if request.buffer.is_scattered()
            && let Some(tools) = self.tools()
        {
            room = tools.room(self, index);
        }
        let may_be_filled = LENDS && self.may_be_filled(index);
        let Some(request) = self.requests.at(index) else { return };
        let mut receiver = Receiver::new(announcement.sender, length, room);
        if request.mode == Mode::Polled {
            receiver.in_pieces(length);
        }
        if may_be_filled && announcement.is_to_be_written() {
            receiver.invite();
        }
        request.machine = Machine::Recv(receiver);
        if may_be_filled && announcement.is_exposed() {
            request.machine = Machine::Read(Reader::new(announcement, length, room));
        }
        self.queue_rendezvous(index);
    }

    /// Puts a rendezvous that has something to say into its peer's list.
    pub(crate) fn queue_rendezvous(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        let peer = request.peer;
        if !request.in_rendezvous_queue {
            request.in_rendezvous_queue = true;
            if let Some(queue) = self.peers.rendezvous_queue(peer) {
                queue.push_back(&mut self.requests, index);
            }
        }
        self.schedule_contact(peer);
    }

    /// A message of `peer` has left its envelope.
    pub(crate) fn free_envelope(&mut self, peer: PeerId) {
        if let Some(row) = self.peer(peer) {
            if row.free_envelope() {
                self.schedule(peer);
            }
        } else if ACTIVE {
            self.free_of_stranger();
        }
    }

    /// A message of `peer` has left its block.
    pub(crate) fn free_block(&mut self, peer: PeerId) {
        if let Some(row) = self.peer(peer) {
            row.blocks_in.free();
            if row.credit_due() {
                self.schedule(peer);
            }
        } else if ACTIVE {
            self.free_of_stranger();
        }
    }

    /// The request is over. An orphan frees itself; any other waits for its owner.
    pub(crate) fn complete(&mut self, index: u32, cause: Option<Cause>) {
        let Some(request) = self.requests.at(index) else { return };
        request.cause = cause;
        if LENDS && request.region != NO_REGION {
            request.state = State::Closing;
            self.closing.push_back(&mut self.requests, index);
            return;
        }
        request.state = State::Complete;
        if request.orphan {
            request.state = State::Free;
            self.let_go(index);
            self.requests.give(index);
        }
    }

    /// The result of a complete request, which frees its slot; `None` while it is under way.
    pub(crate) fn collect(&mut self, handle: Handle) -> Option<Result<Status, Failed>> {
        let failure = &mut self.failure;
        self.requests.give_if(handle, |request| {
            if request.state != State::Complete {
                return None;
            }
            let result = request.result(failure);
            request.state = State::Free;
            Some(result)
        })
    }

    /// Returns the result of a call that may have failed for its caller: with the kept error in
    /// place of its marker.
    #[inline]
    pub(crate) fn with_error<R>(&self, result: Result<R, Failed>) -> Result<R, Error> {
        result.map_err(|Failed| self.failure)
    }

    /// Lets go of the user's memory, whatever the request is doing: at once and without the peer's
    /// help. What must still be sent to the peer is sent by the slot, which then frees itself. A
    /// stale handle is left alone.
    #[inline]
    pub(crate) fn abandon(&mut self, handle: Handle) {
        if self.requests.get(handle).is_some() {
            self.abandon_live(handle);
        }
    }

    /// Returns true if nothing is left that must be sent to a peer.
    pub(crate) fn is_settled(&mut self) -> bool {
        let waits = |row: &&Peer| match row.presence {
            Presence::Connected => true,
            Presence::Meeting | Presence::Leaving => ACTIVE,
            Presence::Unknown | Presence::Gone(_) => false,
        };
        let mut rows = self.peers.iter().filter(waits);
        rows.all(|row| row.send_queue.is_empty() && row.rendezvous_queue.is_empty())
            && self.peers.fewer().is_none_or(|table| table.waiting.is_empty())
            && !self.is_buffering()
    }
}

#[inline]
pub(crate) const fn status(key: Key, bytes: u64) -> Status {
    Status { source: Rank(key.source), tag: Tag(key.tag), bytes }
}
