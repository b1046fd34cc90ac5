//! This module holds `unsafe` code: the two ends of a lane, which is a ring of slots, a credit line, a pool of
//! blocks and a doorbell word. The loom models explore exactly this code.
//!
//! # The ring
//!
//! Positions count a lane's messages and wrap at 2^32; at most as many as the ring has slots are under way. A message
//! stands in the next slot of the ring and carries the ring's cursor, its sequence, stored last. The receiver waits for
//! that one value in that one slot, so an 8-byte message costs one line written here and read there: there is no shared
//! head or tail to fetch (FastForward: Giacomoni, Moseley, Vachharajani, PPoPP 2008). Each side caches what the other has
//! told it and looks again only when that is used up (MCRingBuffer: Lee, Bu, Chandranmenon, IPDPS 2010).
//!
//! # Home slots
//!
//! Lines that have not been used for long are slow to pass: on two cores of an AMD EPYC a line travels in 185 ns if it is
//! one of at most 16 that take turns, in 215 of 64, in 245 of 128. So beside the ring there are two home slots, a ring of
//! their own with its own cursor. Each message tells where the next will stand: at home if its sender knows, when it
//! sends this one, that all before it have been consumed, so that only this one is under way. Home slots take turns, so
//! the next is not the one in which this one stands, and is free. Two ranks that answer each other stay at home; whoever
//! is ahead of its receiver uses the ring. Of the ring's slots no more are in use than messages are under way, in order,
//! so that the next is free whenever a position is.
//!
//! That all have been consumed a sender knows from the head of every message that comes the other way, which holds its
//! sender's position in this lane.
//!
//! # Blocks
//!
//! A block is free for the sender if its own `taken` bit equals the receiver's `released` bit. Taking toggles the
//! one, releasing toggles the other: each word has a single writer and blocks come back in any order.
//!
//! # Credit, and why batching it cannot deadlock
//!
//! The receiver writes the credit line once it owes at least a quarter of the slots or a quarter of the blocks.
//! Let the sender be refused for ever. Then it has read a credit line that stays as it is, and the receiver, which
//! polls, comes to the end of the ring, as every message before the refusal was announced.
//!
//! * Refused for a slot: `tail - consumed = slots`, where `consumed` is the last published position or a later one. At the end of
//!   the ring the receiver's position is `tail`, so it owes all `slots` positions, which is at least a quarter of
//!   them: it has published. Contradiction.
//! * Refused for a block: every block was taken since its last published release. At the end of the ring
//!   the receiver has released every block, so it owes all of them: it has published. Contradiction.
//!
//! Neither argument needs the receiver to be idle, a timer, or another message: what heads tell comes on top.

use core::marker::PhantomData;
use core::ptr;

use aldis_hal::cause::Malformed;

use super::cursor::Cursor;
use super::geometry::SHORT_BYTES;
use super::memory::{Announced, Credit, Head, Short, Slot};
use crate::sync::{Ordering, Word};

/// The memory orders of the protocol, an argument only for the models: each has a twin with one order relaxed, or with
/// another rule left out, which must fail.
pub(super) trait Orders {
    /// The sender's store of a sequence: after the slot's and the block's bytes.
    const SEND: Ordering = Ordering::Release;
    /// The receiver's load of a sequence.
    const RECEIVE: Ordering = Ordering::Acquire;
    /// The receiver's stores of credit: after its last read of what it returns.
    const RETURN: Ordering = Ordering::Release;
    /// The sender's loads of credit.
    const COLLECT: Ordering = Ordering::Acquire;
    /// The sender's store of its doorbell: after the sequence.
    const RING: Ordering = Ordering::Release;
    /// The receiver's load of a doorbell.
    const HEAR: Ordering = Ordering::Acquire;
    /// Whether a sender goes home only when all before are consumed.
    const PATIENT: bool = true;
}

/// The orders that ship.
pub(super) struct Exact;
impl Orders for Exact {}

/// Where a lane lies in memory, and its sizes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The ring's first slot; the home slots follow the last one.
    pub(super) slots: *const Slot,
    /// The credit line.
    pub(super) credit: *const Credit,
    /// The sender's doorbell, or null.
    pub(super) bell: *const Word,
    /// Slots, a power of two, at least 2.
    pub(super) size: u32,
    /// Blocks, 1..=32.
    pub(super) blocks: u32,
    /// The first message's position.
    pub(super) start: u32,
}

/// How much older a head may be than the credit line for its 16 bits to be told from news, of which there can be
/// [`SLOTS_MAX`](super::Geometry::SLOTS_MAX).
const AHEAD_MAX: u32 = 1 << 15;

/// The sender's end.
#[repr(C)]
pub(super) struct Outgoing<O = Exact> {
    slots: *const Slot,
    credit: *const Credit,
    bell: *const Word,
    /// Where the next message stands. Without slots while closed: there is no room then and no pointer is followed.
    next: Cursor,
    /// The receiver's position as last told.
    consumed: u32,
    /// A bit for each block there is.
    block_mask: u32,
    /// Toggled when a block is taken.
    taken: u32,
    /// The receiver's toggles as last read.
    released: u32,
    /// Messages that the credit line has returned since all that came the other way had been heard.
    ahead: u32,
    orders: PhantomData<O>,
}

impl<O> Outgoing<O> {
    /// An end that leads nowhere. All-zero.
    pub(super) const CLOSED: Self = Self {
        slots: ptr::null(),
        credit: ptr::null(),
        bell: ptr::null(),
        next: Cursor::CLOSED,
        consumed: 0,
        block_mask: 0,
        taken: 0,
        released: 0,
        ahead: 0,
        orders: PhantomData,
    };
}

impl<O: Orders> Outgoing<O> {
    /// The sender's end of a fresh lane.
    ///
    /// # Safety
    /// The place stays valid until this end is closed or dropped, this is its only sender, and its receiver keeps
    /// the protocol.
    pub(super) unsafe fn open(place: Place) -> Self {
        let Place { slots, credit, bell, size, blocks, start } = place;
        let block_mask = u32::MAX >> (32 - blocks.clamp(1, 32));
        Self {
            slots,
            credit,
            bell,
            next: Cursor::new(size, start),
            consumed: start,
            block_mask,
            ..Self::CLOSED
        }
    }

    /// Messages under way, as far as is known here.
    #[inline(always)]
    const fn under_way(&self) -> u32 {
        self.next.position().wrapping_sub(self.consumed)
    }

    /// Whether the next slot is free, as far as is known here.
    #[inline(always)]
    pub(super) fn has_slot(&self) -> bool {
        self.under_way() < self.next.size.into()
    }

    /// A block that is free, as far as is known here. The lowest, which was used last and is warm.
    #[inline(always)]
    pub(super) fn free_block(&self) -> Option<u32> {
        let free = !(self.taken ^ self.released) & self.block_mask;
        (free != 0).then(|| free.trailing_zeros())
    }

    /// Reads the credit line.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if the receiver returns what it never got.
    pub(super) fn refresh(&mut self) -> Result<(), Malformed> {
        if self.next.size == 0 {
            return Ok(());
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let credit = unsafe { &*self.credit };
        let consumed = credit.consumed.load(O::COLLECT);
        let released = credit.released.load(O::COLLECT);
        let foreign = (released ^ self.released) & !(self.taken ^ self.released);
        if foreign != 0 {
            return Err(Malformed::Credit);
        }
        self.released = released;
        let returned = consumed.wrapping_sub(self.consumed);
        if returned <= self.under_way() {
            self.consumed = consumed;
            self.ahead = self.ahead.saturating_add(returned);
            return Ok(());
        }
        // Heads may have told more than the line, which is behind by less than the ring has slots.
        let is_behind = returned.wrapping_neg() < self.next.size.into();
        if is_behind { Ok(()) } else { Err(Malformed::Credit) }
    }

    /// Takes in the credit in the head of a message that has come the other way. It is no news if the credit line has told
    /// more; how much more is known, since heads tell ever more: so the 16 bits are not mistaken.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    #[inline(always)]
    pub(super) fn hear(&mut self, head: Head) -> Result<(), Malformed> {
        let returned = head.consumed().wrapping_sub(self.consumed as u16) as i16;
        if returned > 0 && self.ahead <= AHEAD_MAX {
            if returned as u32 > self.under_way() {
                return Err(Malformed::Credit);
            }
            self.consumed = self.consumed.wrapping_add(returned as u32);
        }
        Ok(())
    }

    /// All that has come the other way is heard.
    #[inline(always)]
    pub(super) fn heard_all(&mut self) {
        self.ahead = 0;
    }

    /// The next slot, if it is free.
    #[inline(always)]
    pub(super) fn claim(&mut self) -> Option<Claim<'_, O>> {
        // Plain address arithmetic: whoever follows the pointer holds a claim.
        let slot = self.slots.wrapping_add(self.next.at as usize);
        if self.has_slot() { Some(Claim { slot, end: self }) } else { None }
    }
}

/// The next free slot of a ring: the proof that a message can be sent. Dropped, it has changed nothing.
pub(super) struct Claim<'a, O = Exact> {
    end: &'a mut Outgoing<O>,
    slot: *const Slot,
}

impl<O: Orders> Claim<'_, O> {
    /// The slot's payload: [`SHORT_BYTES`].
    #[inline(always)]
    pub(super) fn payload(&mut self) -> *mut u8 {
        // SAFETY: a claim is made only on an open end, so the slot exists; `open`'s caller vouched for it.
        unsafe { (*self.slot).payload_mut() }
    }

    /// Sends a short message. `consumed` is this side's position in the opposite lane, here and below.
    #[inline(always)]
    pub(super) fn send(mut self, message: Short<'_>, consumed: u32) {
        let to = self.payload();
        // SAFETY: the payload has as many bytes as a short message has at most, in memory shared with another
        // rank, so that the message, borrowed from this one's user, lies elsewhere.
        unsafe { message.write(to) };
        self.send_filled(message.len(), consumed);
    }

    /// Sends the `len` bytes that stand in the payload; at most [`SHORT_BYTES`].
    #[inline(always)]
    pub(super) fn send_filled(self, len: u32, consumed: u32) {
        self.announce(Head::short(len, consumed));
    }

    /// Takes `block` and sends the `len` bytes that stand in it.
    #[inline(always)]
    pub(super) fn send_block(self, block: u32, len: u32, consumed: u32) {
        self.end.taken ^= 1 << (block & 31);
        // SAFETY: a claim is made only on an open end: the slot exists, `open`'s caller vouched for it, and it is free.
        unsafe { (*self.slot).set_block_len(len) };
        self.announce(Head::block(block, consumed));
    }

    #[inline(always)]
    fn announce(self, head: Head) {
        let end = self.end;
        let (sequence, home) = (end.next.sequence(), end.under_way() == 0 || !O::PATIENT);
        // SAFETY: a claim is made only on an open end: the slot exists and `open`'s caller vouched for it. It is
        // free: the receiver has consumed the message that stood in it, as the module tells.
        unsafe {
            let slot = &*self.slot;
            slot.set_head(head.before(home));
            slot.sequence.store(sequence, O::SEND);
        }
        end.next.advance(home);
        if !end.bell.is_null() {
            // SAFETY: not null, so it is the bell that `open`'s caller vouched for.
            unsafe { (*end.bell).store(end.next.position(), O::RING) };
        }
    }
}

/// What the receiver finds at its position.
pub(super) enum Next<'a> {
    /// Nothing yet.
    Empty,
    /// A message in the slot.
    Short(&'a [u8], Head),
    /// A message in a block: its index and length, both valid.
    Block(u32, u32, Head),
    /// Something that cannot be.
    Fault(Malformed),
}

/// The receiver's end.
#[repr(C)]
pub(super) struct Incoming<O = Exact> {
    slots: *const Slot,
    credit: *const Credit,
    /// Where the next message stands. Without slots while closed: nothing arrives then and no pointer is followed.
    next: Cursor,
    /// The position last published as credit.
    published: u32,
    /// Blocks.
    blocks: u32,
    /// Toggled when a block is released.
    released: u32,
    /// The toggles last published as credit.
    returned: u32,
    orders: PhantomData<O>,
}

impl<O> Incoming<O> {
    /// An end that leads nowhere. All-zero.
    pub(super) const CLOSED: Self = Self {
        slots: ptr::null(),
        credit: ptr::null(),
        next: Cursor::CLOSED,
        published: 0,
        blocks: 0,
        released: 0,
        returned: 0,
        orders: PhantomData,
    };
}

impl<O: Orders> Incoming<O> {
    /// The receiver's end of a fresh lane.
    ///
    /// # Safety
    /// The place stays valid until this end is closed or dropped, this is its only receiver, and its sender keeps
    /// the protocol.
    pub(super) unsafe fn open(place: Place) -> Self {
        let Place { slots, credit, size, blocks, start, .. } = place;
        Self { slots, credit, next: Cursor::new(size, start), published: start, blocks, ..Self::CLOSED }
    }

    /// The position of the next message: how many have been consumed. The head of a message that goes the other way
    /// tells it.
    #[inline(always)]
    pub(super) const fn consumed(&self) -> u32 {
        self.next.position()
    }

    /// Whether a doorbell says that messages stand here.
    ///
    /// A sender's doorbell is its tail position, stored after each message and never cleared: there is no clearing
    /// that a ring could be lost to.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if it claims more messages than there are slots.
    pub(super) fn is_rung(&self, bell: u32) -> Result<bool, Malformed> {
        // Behind by one is possible: the message was seen in the ring before its doorbell was.
        let ahead = bell.wrapping_sub(self.next.position()) as i32;
        if ahead > i32::from(self.next.size) {
            return Err(Malformed::Credit);
        }
        Ok(ahead > 0)
    }

    /// Looks at the slot of the next message, and at nothing else. `block_bytes` is the largest length of a
    /// message in a block.
    #[inline(always)]
    pub(super) fn next(&self, block_bytes: u32) -> Next<'_> {
        if self.next.size == 0 {
            return Next::Empty;
        }
        let need = self.next.sequence();
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let slot = unsafe { &*self.slots.wrapping_add(self.next.at as usize) };
        let got = slot.sequence.load(O::RECEIVE);
        if got != need {
            return Self::absent(got, need);
        }
        // SAFETY: this is the ring's receiver and it has seen the sequence.
        let head = unsafe { slot.head() };
        match head.open() {
            // SAFETY: the length is within the payload, which the sender has filled and leaves alone until it is
            // returned by `advance`, which needs this borrow to have ended.
            Announced::Short(len) if len <= SHORT_BYTES => unsafe {
                Next::Short(core::slice::from_raw_parts(slot.payload(), len as usize), head)
            },
            Announced::Block(block) => {
                // SAFETY: as of the head.
                let len = unsafe { slot.block_len() };
                self.check_block(block, len, block_bytes, head)
            }
            Announced::Short(_) | Announced::Nonsense => Next::Fault(Malformed::Length),
        }
    }

    /// A sequence that is not the next one: an earlier lap's as a rule. One ahead is a sender's that overran.
    #[inline(always)]
    fn absent<'a>(got: u32, need: u32) -> Next<'a> {
        if (got.wrapping_sub(need) as i32) < 0 {
            return Next::Empty;
        }
        Next::Fault(Malformed::Sequence { got: got as u16, need: need as u16 })
    }

    fn check_block<'a>(&self, block: u32, len: u32, block_bytes: u32, head: Head) -> Next<'a> {
        if block >= self.blocks || len > block_bytes {
            return Next::Fault(Malformed::Length);
        }
        if (self.released ^ self.returned) & (1 << (block & 31)) != 0 {
            // Its release has not been published: the sender cannot know that it is free.
            return Next::Fault(Malformed::Credit);
        }
        Next::Block(block, len, head)
    }

    /// Ends the use of a block and returns credit if enough blocks are owed.
    #[inline(always)]
    pub(super) fn release(&mut self, block: u32) {
        self.released ^= 1 << (block & 31);
        if (self.released ^ self.returned).count_ones() * 4 >= self.blocks {
            self.publish();
        }
    }

    /// Ends the use of the slot at hand, whose head this is, and returns credit if enough slots are owed.
    #[inline(always)]
    pub(super) fn advance(&mut self, head: Head) {
        self.next.advance(head.is_before_home());
        // A quarter of the slots at least; see the module's proof. No overflow: at most 2^14 slots are owed.
        if self.next.position().wrapping_sub(self.published).wrapping_mul(4) >= self.next.size.into() {
            self.publish();
        }
    }

    #[inline(never)]
    fn publish(&mut self) {
        if self.next.size == 0 {
            return;
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let credit = unsafe { &*self.credit };
        if self.released != self.returned {
            self.returned = self.released;
            credit.released.store(self.released, O::RETURN);
        }
        self.published = self.next.position();
        credit.consumed.store(self.published, O::RETURN);
    }
}

/// Reads a doorbell: its value, if it has changed since it was last heard.
#[inline(always)]
pub(super) fn hear<O: Orders>(bell: &Word, heard: &mut u32) -> Option<u32> {
    let now = bell.load(O::HEAR);
    if now == *heard {
        return None;
    }
    *heard = now;
    Some(now)
}
