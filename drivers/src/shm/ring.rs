//! This module holds `unsafe` code: the two ends of a lane, which is a ring of slots, a credit line, a pool of
//! blocks and a doorbell word. The loom models explore exactly this code.
//!
//! # The ring
//!
//! Positions count messages from the ring's start and wrap at 2^32; a message at position `p` stands in slot
//! `p mod slots` and carries the sequence `p + 1`, stored last. The receiver waits for that one value in that one
//! slot, so an 8-byte message costs one line written here and read there: there is no shared head or tail to fetch
//! (FastForward: Giacomoni, Moseley, Vachharajani, PPoPP 2008). Each side caches what the other has told
//! it and looks again only when that is used up (MCRingBuffer: Lee, Bu, Chandranmenon, IPDPS 2010).
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
//! * Refused for a slot: `tail - consumed = slots`, where `consumed` is the last published position. At the end of
//!   the ring the receiver's position is `tail`, so it owes all `slots` positions, which is at least a quarter of
//!   them: it has published. Contradiction.
//! * Refused for a block: every block was taken since its last published release. At the end of the ring
//!   the receiver has released every block, so it owes all of them: it has published. Contradiction.
//!
//! Neither argument needs the receiver to be idle, a timer, or another message.

use core::marker::PhantomData;
use core::ptr;

use aldis_hal::cause::Malformed;

use super::geometry::SHORT_BYTES;
use super::memory::{Announced, Announcement, Credit, Short, Slot};
use crate::sync::{Ordering, Word};

/// The memory orders of the protocol, an argument only for the models: each has a twin with one order relaxed,
/// which must fail.
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
}

/// The orders that ship.
pub(super) struct Exact;
impl Orders for Exact {}

/// Where a lane lies in memory, and its sizes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The ring's first slot.
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

/// The sender's end.
#[repr(C)]
pub(super) struct Outgoing<O = Exact> {
    slots: *const Slot,
    credit: *const Credit,
    bell: *const Word,
    /// Slots of the ring. Zero while closed: there is no room then and no pointer is followed.
    size: u32,
    /// The next message's position.
    tail: u32,
    /// The receiver's position as last read.
    consumed: u32,
    /// A bit for each block there is.
    block_mask: u32,
    /// Toggled when a block is taken.
    taken: u32,
    /// The receiver's toggles as last read.
    released: u32,
    orders: PhantomData<O>,
}

impl<O> Outgoing<O> {
    /// An end that leads nowhere. All-zero.
    pub(super) const CLOSED: Self = Self {
        slots: ptr::null(),
        credit: ptr::null(),
        bell: ptr::null(),
        size: 0,
        tail: 0,
        consumed: 0,
        block_mask: 0,
        taken: 0,
        released: 0,
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
        Self { slots, credit, bell, size, tail: start, consumed: start, block_mask, ..Self::CLOSED }
    }

    /// Whether the next slot is free, as far as is known here.
    #[inline(always)]
    pub(super) fn has_slot(&self) -> bool {
        self.tail.wrapping_sub(self.consumed) < self.size
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
        if self.size == 0 {
            return Ok(());
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let credit = unsafe { &*self.credit };
        let consumed = credit.consumed.load(O::COLLECT);
        let released = credit.released.load(O::COLLECT);
        let returned = consumed.wrapping_sub(self.consumed);
        let in_flight = self.tail.wrapping_sub(self.consumed);
        let foreign = (released ^ self.released) & !(self.taken ^ self.released);
        if returned > in_flight || foreign != 0 {
            return Err(Malformed::Credit);
        }
        (self.consumed, self.released) = (consumed, released);
        Ok(())
    }

    /// The next slot, if it is free.
    #[inline(always)]
    pub(super) fn claim(&mut self) -> Option<Claim<'_, O>> {
        if self.has_slot() { Some(Claim { slot: self.slot(self.tail), end: self }) } else { None }
    }

    #[inline(always)]
    fn slot(&self, position: u32) -> *const Slot {
        // `size` is a power of two. Plain address arithmetic: whoever follows the pointer holds a claim.
        self.slots.wrapping_add((position & self.size.wrapping_sub(1)) as usize)
    }
}

/// The next free slot of a ring: the proof that a message can be sent. Dropped, it has changed nothing.
pub(super) struct Claim<'a, O = Exact> {
    end: &'a mut Outgoing<O>,
    slot: *const Slot,
}

impl<O: Orders> Claim<'_, O> {
    /// The slot's payload: 56 bytes.
    #[inline(always)]
    pub(super) fn payload(&mut self) -> *mut u8 {
        // SAFETY: a claim is made only on an open end, so the slot exists; `open`'s caller vouched for it.
        unsafe { (*self.slot).payload_mut() }
    }

    /// Sends a short message.
    #[inline(always)]
    pub(super) fn send(mut self, message: Short<'_>) {
        let to = self.payload();
        // SAFETY: the payload has the 56 bytes that a short message has at most, in memory shared with another
        // rank, so that the message, borrowed from this one's user, lies elsewhere.
        unsafe { message.write(to) };
        self.send_filled(message.len());
    }

    /// Sends the `len` bytes that stand in the payload; at most 56.
    #[inline(always)]
    pub(super) fn send_filled(self, len: u32) {
        self.announce(Announcement::short(len));
    }

    /// Takes `block` and sends the `len` bytes that stand in it.
    #[inline(always)]
    pub(super) fn send_block(self, block: u32, len: u32) {
        self.end.taken ^= 1 << (block & 31);
        self.announce(Announcement::block(block, len));
    }

    #[inline(always)]
    fn announce(self, announcement: Announcement) {
        let end = self.end;
        let next = end.tail.wrapping_add(1);
        // SAFETY: a claim is made only on an open end: the slot exists and `open`'s caller vouched for it. It is
        // free: the receiver has returned the position that stood in it.
        unsafe {
            let slot = &*self.slot;
            slot.set_head(announcement);
            slot.sequence.store(next, O::SEND);
        }
        if !end.bell.is_null() {
            // SAFETY: not null, so it is the bell that `open`'s caller vouched for.
            unsafe { (*end.bell).store(next, O::RING) };
        }
        end.tail = next;
    }
}

/// What the receiver finds at its position.
pub(super) enum Next<'a> {
    /// Nothing yet.
    Empty,
    /// A message in the slot.
    Short(&'a [u8]),
    /// A message in a block: its index and length, both valid.
    Block(u32, u32),
    /// Something that cannot be.
    Fault(Malformed),
}

/// The receiver's end.
#[repr(C)]
pub(super) struct Incoming<O = Exact> {
    slots: *const Slot,
    credit: *const Credit,
    /// Slots of the ring. Zero while closed: nothing arrives then and no pointer is followed.
    size: u32,
    /// The next message's position.
    head: u32,
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
        size: 0,
        head: 0,
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
        Self { slots, credit, size, head: start, published: start, blocks, ..Self::CLOSED }
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
        let ahead = bell.wrapping_sub(self.head) as i32;
        if ahead > self.size as i32 {
            return Err(Malformed::Credit);
        }
        Ok(ahead > 0)
    }

    /// Looks at the slot of the next message, and at nothing else. `block_bytes` is the largest length of a
    /// message in a block.
    #[inline(always)]
    pub(super) fn next(&self, block_bytes: u32) -> Next<'_> {
        if self.size == 0 {
            return Next::Empty;
        }
        let need = self.head.wrapping_add(1);
        let slot = self.slots.wrapping_add((self.head & (self.size - 1)) as usize);
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let slot = unsafe { &*slot };
        let got = slot.sequence.load(O::RECEIVE);
        if got != need {
            return Self::absent(got, need);
        }
        // SAFETY: this is the ring's receiver and it has seen the sequence.
        match unsafe { slot.head() }.open() {
            // SAFETY: the length is within the payload, which the sender has filled and leaves alone until it is
            // returned by `advance`, which needs this borrow to have ended.
            Announced::Short(len) if len <= SHORT_BYTES => unsafe {
                Next::Short(core::slice::from_raw_parts(slot.payload(), len as usize))
            },
            Announced::Block { block, len } => self.check_block(block, len, block_bytes),
            Announced::Short(_) => Next::Fault(Malformed::Length),
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

    fn check_block<'a>(&self, block: u32, len: u32, block_bytes: u32) -> Next<'a> {
        if block >= self.blocks || len > block_bytes {
            return Next::Fault(Malformed::Length);
        }
        if (self.released ^ self.returned) & (1 << (block & 31)) != 0 {
            // Its release has not been published: the sender cannot know that it is free.
            return Next::Fault(Malformed::Credit);
        }
        Next::Block(block, len)
    }

    /// Ends the use of a block and returns credit if enough blocks are owed.
    #[inline(always)]
    pub(super) fn release(&mut self, block: u32) {
        self.released ^= 1 << (block & 31);
        if (self.released ^ self.returned).count_ones() * 4 >= self.blocks {
            self.publish();
        }
    }

    /// Ends the use of the slot at hand and returns credit if enough slots are owed.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.head = self.head.wrapping_add(1);
        // A quarter of the slots at least; see the module's proof. No overflow: at most 2^15 slots are owed.
        if self.head.wrapping_sub(self.published).wrapping_mul(4) >= self.size {
            self.publish();
        }
    }

    #[inline(never)]
    fn publish(&mut self) {
        if self.size == 0 {
            return;
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let credit = unsafe { &*self.credit };
        if self.released != self.returned {
            self.returned = self.released;
            credit.released.store(self.released, O::RETURN);
        }
        self.published = self.head;
        credit.consumed.store(self.head, O::RETURN);
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
