//! A lane: a ring of slots, a credit line, and a pool of blocks. Its two ends are
//! [`RingSender`] and [`Incoming`]. The loom models explore exactly this code.
//!
//! # The ring
//!
//! Positions count a lane's messages and wrap at 2^32; at most as many as the ring has slots are
//! under way. A message stands in the next slot of the ring and carries the ring's cursor, its
//! sequence, stored last. The receiver waits for that one value in that one slot, so an 8-byte
//! message costs one line written here and read there: there is no shared head or tail to fetch
//! (FastForward: Giacomoni, Moseley, Vachharajani, PPoPP 2008). Each side caches what the other has
//! published and looks again only when that is used up (MCRingBuffer: Lee, Bu, Chandranmenon, IPDPS
//! 2010).
//!
//! # Ping-pong slots
//!
//! Lines that have not been used for long are slow to pass: on two cores of an AMD EPYC a line
//! travels in 185 ns if it is one of at most 16 that take turns, in 215 of 64, in 245 of 128. So
//! beside the ring there are two ping-pong slots, a ring of their own with its own cursor. Each
//! message says where the next will stand: in a ping-pong slot if its sender knows, when it sends
//! this one, that all before it have been consumed, so that only this one is under way. Ping-pong
//! slots take turns, so the next is not the one in which this one stands, and is free. Two ranks
//! that answer each other stay in them; a sender that is ahead of its receiver uses the ring. Of
//! the ring's slots no more are in use than messages are under way, in order, so that the next is
//! free whenever a position is.
//!
//! That all have been consumed a sender knows from the head of every message that comes the other
//! way, which holds its sender's position in this lane.
//!
//! # Blocks
//!
//! A block is free for the sender if its own `taken` bit equals the receiver's `released` bit.
//! Taking toggles the one, releasing toggles the other: each word has a single writer. A message's
//! block is released as its position is passed, so what is released is a matter of the receiver's
//! position. Hence a sender that knows that all its messages are consumed, as it does when it uses
//! a ping-pong slot, knows that all blocks are free, and takes the first again, whose lines are
//! warm; and the receiver knows that it knew, by the message that says so. What the credit line
//! returned before is older then and not looked at.
//!
//! # Answers in the same block
//!
//! A rank that answers a message in a block writes its answer over it, into that very block: the
//! lines are in its cache, while those of another block have to come from the other's first, and
//! the block of the next message too. Both directions then share one block: on two cores of an EPYC
//! 9004 half a round trip of 8 KiB takes 410 ns instead of 600. It may do so as long as the sender
//! cannot know that the block is free, that is, before any message or credit line has returned it:
//! of one block at a time, that of the last message consumed. The answer's head returns it, and a
//! sender that reads it has the answer at hand. The credit line may return it sooner than the
//! answer is seen. So it also counts such answers, and a sender leaves credit alone that counts
//! more of them than it has received.
//!
//! # Credit, and why batching it cannot deadlock
//!
//! The receiver takes a few messages at a time and writes the credit line after them once it has to
//! return at least a quarter of the slots or a quarter of the blocks. Let the sender be refused for
//! ever. Then it has read a credit line that stays as it is, and the receiver, which polls, comes
//! to the end of the ring, as every message before the refusal was announced.
//!
//! * Refused for a slot: `tail - consumed = slots`, where `consumed` is the last published position
//!   or a later one. At the end of the ring the receiver's position is `tail`, so it has to return
//!   all `slots` positions, which is at least a quarter of them: it has published. Contradiction.
//! * Refused for a block: every block was taken since the sender last knew of its release, by a
//!   line or, later, by using a ping-pong slot. At the end of the ring the receiver has released
//!   every block. If it has published since, the sender has read so and no block was left out but
//!   those of less than a quarter. If it has not, the sender used a ping-pong slot after the line
//!   was written; all blocks have been toggled since, so then or now the line is wrong about a
//!   quarter of them: it has been published. Contradiction.
//!
//! Credit that is left alone for an answer is looked at again by every poll, and the answer is
//! received by one of them. Neither argument needs the receiver to be idle, a timer, or another
//! message: the credit in heads comes on top.

use super::memory::{Credit, Slot};
use crate::sync::{Ordering, Word};

pub(super) use super::incoming::{Incoming, NextMessage};
pub(super) use super::outgoing::{Claim, RingSender};

/// The memory orders of the protocol, an argument only for the models: each has a twin with one
/// order relaxed, or with another rule left out, which must fail.
pub(super) trait Orders {
    /// The sender's store of a sequence: after the slot's and the block's bytes.
    const SEND: Ordering = Ordering::Release;
    /// The receiver's load of a sequence.
    const RECEIVE: Ordering = Ordering::Acquire;
    /// The receiver's stores of credit: after its last read of what it returns.
    const RETURN: Ordering = Ordering::Release;
    /// The sender's loads of credit.
    const COLLECT: Ordering = Ordering::Acquire;
    /// True if a sender uses a ping-pong slot only when all before are consumed.
    const PATIENT: bool = true;
    /// True if a sender leaves credit alone that is ahead of answers in its blocks.
    const HEEDS: bool = true;
    /// True if a sender looks if its receiver sleeps after its store. Models without sleepers have
    /// no fence there, which would do the work of other orders.
    const FENCED: bool = !cfg!(loom);
}

/// The orders that ship.
pub(super) struct Exact;
impl Orders for Exact {}

/// The place of a lane in memory, and its sizes.
#[derive(Clone, Copy)]
pub(super) struct LanePlace {
    /// The ring's first slot; the ping-pong slots follow the last one.
    pub(super) slots: *const Slot,
    /// The credit line, in a pair of lines; the blocks follow it.
    pub(super) credit: *const Credit,
    /// The last word of the inbox's header, by which its owner tells that it sleeps.
    pub(super) asleep: *const Word,
    /// Slots, a power of two, at least 2.
    pub(super) size: u32,
    /// Blocks, 1..=32.
    pub(super) blocks: u32,
    /// The first message's position.
    pub(super) start: u32,
}
