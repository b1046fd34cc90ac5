//! Requests: what is being sent or received, kept in a slot of the storage until its owner has
//! taken the result.

use core::ops::Range;

use aldis_hal::{Activity, Cause, Handle, Operation, PeerId, RegionId};
use aldis_protocols::LENDS;
use aldis_protocols::header::Header;
use aldis_protocols::partitioned::{PartReceiver, PartSender};
use aldis_protocols::rendezvous::{Announcement, Reader, Receiver, Sender, Writer};

use crate::datatype::Held;
use crate::error::{Error, Failed};
use crate::memory::buffer::{UserBuffer, overlap};
use crate::rank::{Mode, Rank, Status, Tag, WILD};
use crate::tables::blocks::BlockIndex;
use crate::tables::elements::ElementsLayout;
use crate::tables::list::{InScope, Links, Nodes, Queue};
use crate::tables::pool::{Pool, PoolEntry};

/// The key by which messages and receives are matched. In a receive, source and tag may be
/// [`WILD`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Key {
    pub(crate) context: u32,
    pub(crate) source: u32,
    pub(crate) tag: u32,
}

impl Key {
    /// The key of messages that are not matched.
    pub(crate) const NONE: Self = Self { context: 0, source: 0, tag: 0 };

    /// Returns the key that a message is matched by.
    #[inline]
    pub(crate) const fn of(header: &Header) -> Self {
        Self { context: header.context, source: header.source, tag: header.tag }
    }

    /// Returns true if the receive pattern `self` takes a message with the exact key `message`.
    #[inline]
    pub(crate) const fn takes(&self, message: &Self) -> bool {
        self.context == message.context
            && (self.source == WILD || self.source == message.source)
            && (self.tag == WILD || self.tag == message.tag)
    }
}

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    /// Not in use.
    #[default]
    Free,
    /// A persistent request between its starts.
    Idle,
    /// A send that waits for its turn, in its peer's send queue.
    Queued,
    /// An announced send; in the peer's rendezvous queue while it has something to send.
    Sending,
    /// A receive in the matching bins.
    Posted,
    /// A probe for a message that its sender holds back; in no list.
    Probing,
    /// A matched probe that has found such a message, which its sender holds on offer; in no list.
    Held,
    /// A matched message that waits to be received; in no list.
    Matched,
    /// A receive matched with an announcement; in the peer's rendezvous queue until it has asked.
    Receiving,
    /// Over; the result waits for the owner.
    Complete,
    /// Over but for its memory, which is still registered with the transport; in the list of those
    /// to be closed.
    Closing,
}

/// The rendezvous of a request, if it has one. Its numbers begin with zero for none, so that
/// storage that holds none is all zero.
#[derive(Clone, Copy, Debug, Default)]
#[repr(u8)]
pub(crate) enum Machine {
    #[default]
    None = 0,
    Send(Sender),
    Recv(Receiver),
    /// A receive that reads its message from the sender's memory.
    Read(Reader),
    /// A send that writes its message into the receiver's memory.
    Write(Writer),
    PartSend(PartSender),
    PartRecv(PartReceiver),
    /// A matched message that is still with its sender.
    Announced(Announcement),
    /// A matched message that has been set aside in this envelope.
    Kept(Handle),
}

/// The memory behind the buffer of a request. Its numbers begin with zero for the plain one, so
/// that storage that holds none is all zero.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum Backing {
    /// The user's memory, in one piece.
    Plain = 0,
    /// The block of a pooled receive.
    Pooled(BlockIndex) = 1,
    /// The user's memory, in the pieces that a datatype tells. The buffer is scattered then.
    Typed(ElementsLayout) = 2,
}

/// No memory registered: a handle that is never live.
pub(crate) const NO_REGION: RegionId = RegionId(Handle { slot: 0, generation: 0 });

/// A slot of the request table; all-zero is a free one. In this order, since what is used most is
/// reached in the shortest instructions where it is near the front, bytes most of all.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Request {
    pub(crate) state: State,
    /// Of a send, and of a receive whether it is a future's.
    pub(crate) mode: Mode,
    /// True if its owner has let go: it lives on only to notify the peer, and frees itself.
    pub(crate) orphan: bool,
    /// True if it stands in its peer's rendezvous queue.
    pub(crate) in_rendezvous_queue: bool,
    /// Of a receive: it was posted after its message had been announced.
    pub(crate) late: bool,
    /// The operation that the user called for.
    pub(crate) operation: Operation,
    /// The key that is matched; of a send, the key its message carries.
    pub(crate) key: Key,
    /// Position in the order of posting.
    pub(crate) order: u32,
    /// The process at the other side: of a send, or of a receive once matched.
    pub(crate) peer: PeerId,
    /// The other side's rank in the communicator.
    pub(crate) rank: u32,
    /// The tag of the message that was matched.
    pub(crate) tag: u32,
    /// Bytes of the message.
    pub(crate) length: u64,
    /// The user's memory.
    pub(crate) buffer: UserBuffer,
    /// Its place in a matching bin or in one of the peer's lists.
    pub(crate) queue: Links,
    /// Its place among the requests of its scope.
    pub(crate) scope: Links,
    /// Its memory as the transport knows it, if it has been registered.
    pub(crate) region: RegionId,
    pub(crate) machine: Machine,
    /// The cause of its failure, if it failed.
    pub(crate) cause: Option<Cause>,
    pub(crate) backing: Backing,
}

impl Request {
    pub(crate) const EMPTY: Self = Self {
        state: State::Free,
        operation: Operation::None,
        orphan: false,
        in_rendezvous_queue: false,
        late: false,
        mode: Mode::Standard,
        key: Key::NONE,
        order: 0,
        peer: PeerId(0),
        rank: 0,
        tag: 0,
        buffer: UserBuffer::NONE,
        backing: Backing::Plain,
        length: 0,
        cause: None,
        machine: Machine::None,
        region: NO_REGION,
        queue: Links::NONE,
        scope: Links::NONE,
    };

    /// Returns true if it is a receive that waits for any source.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.state == State::Posted && self.key.source == WILD
    }

    /// Makes a freshly taken slot this request. Only what a reader looks at is written.
    #[inline]
    pub(crate) fn start(&mut self, state: State, key: Key, peer: PeerId, rank: u32, buffer: UserBuffer) {
        self.state = state;
        self.operation = match state {
            State::Queued => Operation::Send,
            State::Probing => Operation::Probe,
            _ => Operation::Recv,
        };
        (self.orphan, self.in_rendezvous_queue, self.late, self.mode) = (false, false, false, Mode::Standard);
        // Field by field, which leaves the key in registers.
        let Key { context, source, tag } = key;
        (self.key.context, self.key.source, self.key.tag) = (context, source, tag);
        (self.peer, self.rank, self.tag) = (peer, rank, tag);
        self.buffer = buffer;
        self.backing = Backing::Plain;
        self.length = buffer.len() as u64;
        self.cause = None;
        self.machine = Machine::None;
    }

    /// Returns true if its memory is one piece of the user's that stays where it is, so that the
    /// transport can be lent it.
    pub(crate) fn may_be_lent(&self) -> bool {
        !matches!(self.mode, Mode::Polled | Mode::Partitioned) && self.piece().is_some()
    }

    /// The user's memory if it is one piece, and the message's bytes as they travel between like
    /// machines.
    pub(crate) fn piece(&self) -> Option<UserBuffer> {
        match &self.backing {
            Backing::Plain => Some(self.buffer).filter(|buffer| !buffer.is_scattered()),
            Backing::Typed(layout) if LENDS => layout.piece(),
            Backing::Typed(_) | Backing::Pooled(_) => None,
        }
    }

    /// The block of a pooled receive, taken out of it.
    pub(crate) fn take_block(&mut self) -> Option<BlockIndex> {
        match core::mem::replace(&mut self.backing, Backing::Plain) {
            Backing::Pooled(block) => Some(block),
            other => {
                self.backing = other;
                None
            }
        }
    }

    /// The memory that it uses; of a typed one from the first to the last byte of its data.
    pub(crate) fn memory(&self) -> UserBuffer {
        match &self.backing {
            Backing::Typed(layout) => layout.memory(),
            Backing::Plain | Backing::Pooled(_) => self.buffer,
        }
    }

    /// Returns true if it is a persistent or partitioned one that is not under way.
    pub(crate) const fn is_idle(&self) -> bool {
        match (&self.machine, self.state) {
            (_, State::Idle) => true,
            (Machine::PartSend(channel), State::Queued) => !channel.is_active(),
            (Machine::PartRecv(channel), State::Posted) => !channel.is_active(),
            _ => false,
        }
    }

    /// Returns true if it is a partitioned one whose data lies in pieces.
    pub(crate) const fn is_typed_channel(&self) -> bool {
        matches!(self.backing, Backing::Typed(_))
            && matches!(self.machine, Machine::PartSend(_) | Machine::PartRecv(_))
    }

    /// Returns true if a part of the user's memory is not the user's now: to write, or, unless it
    /// is `to_be_written`, to read. Of a partitioned request `of_channel` says so, which is given
    /// the bytes of it that the part has.
    pub(crate) fn uses(
        &self,
        part: UserBuffer,
        to_be_written: bool,
        of_channel: impl FnOnce(&Self, Range<u64>) -> bool,
    ) -> bool {
        let all = self.memory();
        if !overlap(all, part) || self.is_idle() || self.state == State::Complete {
            return false;
        }
        let start = part.address().saturating_sub(all.address()) as u64;
        let end = (part.address() + part.len()).saturating_sub(all.address()).min(all.len()) as u64;
        match &self.machine {
            Machine::PartSend(_) | Machine::PartRecv(_) => of_channel(self, start..end),
            _ => to_be_written || self.operation == Operation::Recv,
        }
    }

    /// The type that it is of, while it needs it.
    pub(crate) fn held(&self) -> Option<Held> {
        match &self.backing {
            Backing::Typed(layout) if self.state != State::Free => Some(layout.held()),
            _ => None,
        }
    }

    /// Bytes that have moved so far.
    pub(crate) fn bytes_done(&self) -> u64 {
        match &self.machine {
            Machine::Send(sender) => sender.bytes_sent(),
            Machine::Recv(receiver) => receiver.bytes_received(),
            Machine::Read(reader) if LENDS => reader.bytes_read(),
            Machine::Write(writer) if LENDS => writer.bytes_written(),
            Machine::PartSend(sender) => sender.bytes_sent(self.length),
            Machine::PartRecv(receiver) => receiver.bytes_received(),
            Machine::None if self.state == State::Complete && self.has_moved() => {
                self.length.min(self.buffer.len() as u64)
            }
            Machine::None
            | Machine::Announced(_)
            | Machine::Kept(_)
            | Machine::Read(_)
            | Machine::Write(_) => 0,
        }
    }

    /// Returns true if a message without rendezvous has moved: all of it, or as much as there is
    /// room for.
    const fn has_moved(&self) -> bool {
        matches!(
            self.cause,
            None | Some(
                Cause::Truncated { .. }
                    | Cause::NotExact { .. }
                    | Cause::SignatureMismatch { .. }
                    | Cause::Corrupt { .. }
            )
        )
    }

    /// Its result, once it is complete; its error, if it has one, is put where the engine keeps it.
    #[inline]
    pub(crate) fn result(&self, failure: &mut Error) -> Result<Status, Failed> {
        match self.cause {
            None => Ok(self.status()),
            Some(Cause::Cancelled) => Ok(Status::CANCELLED),
            Some(cause) => {
                *failure = self.failure(cause);
                Err(Failed)
            }
        }
    }

    /// Its status, if it ended well.
    #[inline(always)]
    pub(crate) const fn status(&self) -> Status {
        Status { source: Rank(self.rank), tag: Tag(self.tag), bytes: self.length }
    }

    #[cold]
    #[inline(never)]
    fn failure(&self, cause: Cause) -> Error {
        self.progress().error(cause)
    }

    /// Returns what is known of it so far.
    #[cold]
    pub(crate) fn progress(&self) -> RequestProgress {
        RequestProgress {
            operation: self.operation,
            context: self.key.context,
            rank: self.rank,
            tag: self.tag,
            length: self.length,
            bytes_done: self.bytes_done(),
        }
    }
}

/// The progress of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestProgress {
    operation: Operation,
    context: u32,
    /// The other side's rank, or [`WILD`].
    rank: u32,
    tag: u32,
    length: u64,
    bytes_done: u64,
}

impl RequestProgress {
    /// The operation's failure by `cause`.
    pub(crate) fn error(&self, cause: Cause) -> Error {
        Error::about(self.operation, cause, self.rank, self.context, self.tag).having_moved(self.bytes_done)
    }

    /// Returns what to note of a rank that waits for it.
    pub(crate) fn activity(&self) -> Activity {
        Activity {
            operation: self.operation,
            peer: (self.rank != WILD).then_some(PeerId(self.rank)),
            tag: (self.tag != WILD).then_some(self.tag),
            context: self.context,
            bytes: self.length,
        }
    }
}

/// The request table.
pub(crate) type Requests<'s> = Pool<'s, Request>;
pub(crate) type RequestEntry = PoolEntry<Request>;

impl Nodes<Queue> for Requests<'_> {
    #[inline]
    fn links(&mut self, index: u32) -> Option<&mut Links> {
        Some(&mut self.at(index)?.queue)
    }
}

impl Nodes<InScope> for Requests<'_> {
    #[inline]
    fn links(&mut self, index: u32) -> Option<&mut Links> {
        Some(&mut self.at(index)?.scope)
    }
}
