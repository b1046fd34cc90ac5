//! `Transport`: the one contract between the kernel and the drivers.
//!
//! It is the useful union of Open MPI's BTL and UCX's UCT. The kernel owns requests, matching and
//! protocols; a transport moves bytes to a peer and says what became of them.
//!
//! # Rules both sides keep
//!
//! * **Order.** On a transport with [`Features::ORDERED`], messages to one peer arrive in the order
//!   in which their posts returned `Done` or `Queued`. A post answered [`Again`](crate::Again)
//!   changed nothing. The kernel keeps what is pending in its own request slots and lets no later
//!   send overtake; the transport calls [`Sink::ready`] for that peer once another try can succeed.
//! * **Delivery.** [`Transport::poll`] is the only place where arrivals and completions are
//!   delivered. What it hands to the sink is borrowed from the transport's memory and is free for
//!   reuse when the call returns.
//! * **No re-entry.** A sink cannot post; it records what is to be posted and the kernel does so
//!   after the poll.
//! * **Bounds.** No call blocks, allocates or loops more than its arguments allow.

use crate::caps::{Caps, Features};
use crate::cause::Cause;
use crate::copy::{Store, copy};
use crate::id::{Epoch, PeerId, RegionId, Token};
use crate::post::{Post, Refusal};
use crate::remote_memory::RemoteMemory;
use crate::shared_control::SharedControl;
use crate::time::Instant;

/// Memory of the transport that was reserved for one message.
///
/// # Drop contract
///
/// Reserve, fill, commit. The slot has exactly the length asked for and holds arbitrary bytes until
/// filled. [`commit`](Self::commit) cannot fail. A slot that is dropped without a commit returns by
/// itself: nothing is sent, nothing is leaked and no place in the order is used up.
pub trait Slot {
    /// The bytes of the message: header and payload, as long as was asked for.
    fn bytes(&mut self) -> &mut [u8];

    /// Writes the bytes of the message: `header`, and `payload` behind it, which together are as
    /// long as was asked for. The transport knows how its slots are filled best.
    #[inline]
    fn write(&mut self, header: &[u8], payload: &[u8]) {
        if let Some((head, body)) = self.bytes().split_at_mut_checked(header.len()) {
            copy(head, header);
            copy(body, payload);
        }
    }

    /// Sends the message.
    fn commit(self);
}

/// A long message that a transport takes in over many polls, part by part.
#[derive(Clone, Copy, Debug)]
pub struct Partial<'a> {
    /// The first bytes of the message: the kernel's whole header of a fragment.
    pub head: &'a [u8],
    /// Bytes after the head that are in place already.
    pub landed: usize,
    /// Bytes after the head.
    pub length: usize,
}

/// A receiver of what a transport delivers while it is polled. Implemented by the kernel's engine.
pub trait Sink {
    /// A whole active message from `from`, in the transport's own memory.
    fn arrived(&mut self, from: PeerId, message: &[u8]);
    /// The post with `token` is complete; its memory is the caller's again.
    fn completed(&mut self, token: Token, result: Result<(), Cause>);
    /// A post to `peer` that was refused with `Again` can be tried again.
    fn ready(&mut self, peer: PeerId);
    /// Lends the memory that a long message belongs in, for this call alone: so a transport that
    /// takes a message in over many polls, by copying, need not keep it anywhere. `fill` is called
    /// once, with the memory for all bytes of the message that are not in place yet, and writes to
    /// its front what is there of them.
    ///
    /// False, and nothing is called, if there is no such memory. Before anything has landed, the
    /// message is then to be delivered whole by [`arrived`](Self::arrived); after that its receive
    /// has been let go of, and what is still to come of the message is dropped. Once all has come,
    /// [`landed`](Self::landed) follows.
    fn land(&mut self, _from: PeerId, _message: Partial<'_>, _fill: &mut dyn FnMut(&mut [u8])) -> bool {
        false
    }
    /// All of the message that began with `head` has come, and stands where [`land`](Self::land)
    /// said, or nowhere if it was let go of. Before anything else of that peer.
    fn landed(&mut self, _from: PeerId, _head: &[u8]) {}
    /// `peer` is lost; nothing more will arrive from it and every later post answers `Never`.
    ///
    /// Told of each peer that has ended, well or not, also where no message was ever exchanged: at
    /// the latest some time after a post to it. A goodbye goes to those in contact with its sender
    /// alone.
    fn lost(&mut self, peer: PeerId, cause: Cause);
}

/// The memory or peer to let go of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Quiesce {
    /// All operations queued to or from this peer.
    Peer(PeerId),
    /// All operations that touch this registered region.
    Region(RegionId),
    /// The one queued post with this token.
    Post(Token),
}

/// A transport's answer for one peer, for [`Extras::survey`].
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// The transport's name.
    pub transport: &'static str,
    /// Its capabilities towards the peer, or why it cannot reach it.
    pub caps: Result<&'a Caps, Cause>,
    /// A remark on reading the peer's memory: why the transport does not, if it could in principle,
    /// or which of it.
    pub remark: Option<&'static str>,
    /// A remark on how long messages are written where the peer reads them, and why so, if there is
    /// a choice.
    pub stores: Option<&'static str>,
    /// A remark on how a rank rests that waits for long, if it could rest better in principle.
    pub rest: Option<&'static str>,
}

/// A way to move bytes to peers. See the [module](self) for the rules.
///
/// Seven calls are required; `introduce`, `expect` and `is_idle` have defaults for a transport
/// whose peers are fixed, which notices deaths by itself and keeps nothing back. That is all of a
/// transport that carries messages. Its author says by two empty impls that the optional parts are
/// not there:
///
/// ```text
/// impl Extras for Pipe {}
/// impl RemoteMemory for Pipe {}
/// ```
///
/// The answers of the defaults are known at compile time, so nothing of the optional parts is
/// linked.
pub trait Transport: Extras + RemoteMemory {
    /// A reserved message slot.
    type Slot<'a>: Slot
    where
        Self: 'a;

    /// A short name for tables and errors: `self`, `shm`, `tcp`.
    fn name(&self) -> &'static str;

    /// Capabilities towards `peer`.
    ///
    /// # Errors
    /// Why this transport cannot reach it.
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause>;

    /// The union of features over all peers; decides whether the idle loop must read the clock.
    fn features(&self) -> Features;

    /// The kernel has learned who `peer` is from its card: this life of it, at this address (in the
    /// transport's own form), is the one to talk to from now on. What belonged to another life is
    /// dropped without a word, and a peer that was lost can be reached again.
    ///
    /// # Errors
    /// [`Cause::Unreachable`] for an address that is none of this transport's.
    fn introduce(&mut self, _peer: PeerId, _epoch: Epoch, _address: &[u8]) -> Result<(), Cause> {
        Ok(())
    }

    /// Announces that the caller waits for a message of `peer`. A transport that notices a death on
    /// connections alone makes one to it, or the wait would never end; nothing is to be done where
    /// deaths are noticed anyway.
    fn expect(&mut self, _peer: PeerId) {}

    /// Sends `header` and `payload` as one message, copied before the call returns. Never answers
    /// `Queued`.
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post;

    /// Reserves a message of `len` bytes for the caller to fill and commit.
    ///
    /// # Errors
    /// [`Refusal::Again`] when there is no room now, [`Refusal::Never`] when there never can be.
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<Self::Slot<'_>, Refusal>;

    /// Ends, in bounded local time and without the peer's help, every use of the named memory: when
    /// this returns the transport touches it no more. Completions of what was cut off are still
    /// delivered, as [`Cause::Cancelled`].
    ///
    /// # Errors
    /// [`Cause::Stale`] when there is nothing of that name.
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause>;

    /// Handles at most `budget` events, delivering them to `sink`; returns how many. `now` may be a
    /// few microseconds old unless the transport declares [`Features::TIMED`].
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32;

    /// Returns true if everything that was posted has arrived, as far as this side can know, and
    /// nothing is due in return. A transport that repeats what is lost must be polled until then;
    /// what it still holds when polling ends is lost.
    fn is_idle(&self) -> bool {
        true
    }
}

/// Calls that make a transport faster or tell more of it, without changing what it does. Optional:
/// each has a default, and most transports have an empty impl.
pub trait Extras {
    /// True if [`control_slots`](Self::control_slots) ever gives any: what is for them alone is not
    /// compiled where this is false.
    const HAS_CONTROL_SLOTS: bool = false;

    /// Visits this transport's route to `peer`; a composite visits each of its parts, the preferred
    /// one first.
    fn survey(&self, peer: PeerId, mut visit: impl FnMut(Route<'_>))
    where
        Self: Transport,
    {
        let caps = self.reach(peer);
        visit(Route { transport: self.name(), caps, remark: None, stores: None, rest: None });
    }

    /// Lets what is posted from here on wait for [`uncork`](Self::uncork), to leave together: no
    /// poll comes before that.
    fn cork(&mut self) {}

    /// Sends what has waited since [`cork`](Self::cork). If there is `more` to come, and a poll
    /// before anything can come of it, what is not the first to its peer since the last poll may
    /// wait for the next one, or for the next post.
    fn uncork(&mut self, _more: bool) {}

    /// Returns the stores by which a long message is written best where `peer` reads it, in memory
    /// that both have mapped. Asked once before each, so that it can be kept up.
    #[inline]
    fn store(&mut self, _peer: PeerId) -> Store {
        Store::Plain
    }

    /// Returns the most bytes that are sent to `peer` before it has asked for them, however large
    /// its blocks are: beyond, the other ways of this transport are better.
    #[inline(always)]
    fn eager_bytes_max(&self, _peer: PeerId) -> u32 {
        u32::MAX
    }

    /// Returns the most bytes of a message to `peer` that travel in one fragment, however many a
    /// slot holds: where the receiver takes one while the sender writes the next, long messages are
    /// to be cut into a few.
    #[inline(always)]
    fn fragment_bytes_max(&self, _peer: PeerId) -> u32 {
        u32::MAX
    }

    /// Returns true if a poll may find a message of `peer`: a look that takes nothing and costs
    /// next to nothing, for a caller that waits for that message. True where only a poll can tell.
    /// What it does not see - other peers, room for what waits to be sent, a loss - is found by
    /// polling now and then all the same.
    #[inline]
    fn has_news(&self, _peer: PeerId) -> bool {
        true
    }

    /// Returns true if no message needs to tell `peer` that this rank has left:
    /// [`depart`](Self::depart) does, or the peer does not wait for it, and would see for itself if
    /// it began to.
    #[inline(always)]
    fn tells_departure(&self, _peer: PeerId) -> bool {
        false
    }

    /// Tells the peers of which [`tells_departure`](Self::tells_departure) is true that this rank
    /// sends nothing more, where there is a way to tell them. A peer learns it by [`Sink::lost`],
    /// with [`Cause::PeerLeft`], once all that was sent to it has arrived; what it posts after that
    /// reaches nobody.
    #[inline(always)]
    fn depart(&mut self) {}

    /// The control slots of this rank, for collectives among ranks that share memory.
    fn control_slots(&mut self) -> Option<&mut dyn SharedControl> {
        None
    }
}
