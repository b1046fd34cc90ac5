//! This module holds `unsafe` code: the receiver's end of a lane; see [`ring`](super::ring).

use core::marker::PhantomData;
use core::ptr;

use aldis_hal::cause::Malformed;

use super::cursor::Cursor;
#[cfg(target_pointer_width = "64")]
use super::geometry::LINE_BYTES;
use super::geometry::{PING_PONG_SLOTS, SLOT_BYTES};
use super::memory::{Announced, Credit, Slot, SlotHead, ask_for};
use super::outgoing::USES_PING_PONG;
#[cfg(target_pointer_width = "64")]
use super::path::PathRecord;
use super::ring::{Exact, LanePlace, Orders};
use crate::sync::Ordering;

/// Lines of the next message's block that a receiver asks for before it reads the one at hand:
/// the header, and as many as come while that is looked at.
#[cfg(target_pointer_width = "64")]
const LINES_AHEAD: usize = 2;

/// The message at the receiver's position, if there is one.
pub(super) enum NextMessage<'a> {
    /// No message yet.
    Empty,
    /// A message in the slot.
    Short(&'a [u8], SlotHead),
    /// A message in a block: its index and length, both valid.
    Block(u32, u32, SlotHead),
    /// A message in a block of the opposite lane: its index and length, both valid.
    Lent(u32, u32, SlotHead),
    /// A message that cannot be, or a [record](Incoming::record).
    Fault(Malformed),
}

/// The receiver's end.
#[repr(C)]
pub(super) struct Incoming<O = Exact> {
    slots: *const Slot,
    credit: *const Credit,
    /// The place of the next message. Without slots while closed: nothing arrives then and no
    /// pointer is followed.
    next: Cursor,
    /// The position last published as credit.
    published: u32,
    /// Toggled when a block is released.
    released: u32,
    /// The toggles last published as credit.
    returned: u32,
    /// The toggles that the sender last knew: of that credit, or since, when it used a ping-pong
    /// slot.
    announced: u32,
    /// Answers sent in this lane's blocks, modulo 2^32.
    lends: u32,
    /// The position of the next message the other way, when `held` was consumed.
    held_at: u32,
    /// The block of the last message consumed that stood in one, plus one, if no credit line has
    /// returned it since.
    held: u8,
    /// Blocks.
    blocks: u8,
    orders: PhantomData<O>,
}

impl<O> Incoming<O> {
    /// An end that leads nowhere. All-zero.
    pub(super) const CLOSED: Self = Self {
        slots: ptr::null(),
        credit: ptr::null(),
        next: Cursor::CLOSED,
        published: 0,
        released: 0,
        returned: 0,
        announced: 0,
        lends: 0,
        held_at: 0,
        held: 0,
        blocks: 0,
        orders: PhantomData,
    };
}

impl<O: Orders> Incoming<O> {
    /// The receiver's end of a fresh lane.
    ///
    /// # Safety
    /// The place stays valid until this end is closed or dropped, this is its only receiver, and
    /// its sender keeps the protocol.
    pub(super) unsafe fn open(place: LanePlace) -> Self {
        let LanePlace { slots, credit, size, blocks, start, .. } = place;
        let (next, blocks) = (Cursor::new(size, start), blocks as u8);
        Self { slots, credit, next, published: start, blocks, ..Self::CLOSED }
    }

    /// Returns true if this end leads to a lane.
    #[cfg(target_pointer_width = "64")]
    #[cfg(not(loom))]
    pub(super) const fn is_open(&self) -> bool {
        self.next.size != 0
    }

    /// The position of the next message: how many have been consumed. The head of a message that is
    /// sent the other way carries it.
    #[inline(always)]
    pub(super) const fn consumed(&self) -> u32 {
        self.next.position()
    }

    /// Looks at the slot of the next message, and at nothing else. `block_bytes` is the largest
    /// length of a message in a block.
    #[inline(always)]
    pub(super) fn next(&self, block_bytes: u32) -> NextMessage<'_> {
        if self.next.size == 0 {
            return NextMessage::Empty;
        }
        let need = self.next.sequence();
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let slot = unsafe { &*self.slots.wrapping_add(self.next.at as usize) };
        let got = slot.sequence.load(O::RECEIVE);
        if got != need {
            return Self::absent(got, need);
        }
        if self.next.at < self.next.size {
            ask_for(self.slots.wrapping_add(self.next.ahead(self.next.at)));
        }
        // SAFETY: this is the ring's receiver and it has seen the sequence.
        let head = unsafe { slot.head() };
        match head.open() {
            // SAFETY: the length is within the payload, which the sender has filled and leaves
            // alone until it is returned by `advance`, which needs this borrow to have ended.
            Announced::Short(len) => unsafe {
                NextMessage::Short(core::slice::from_raw_parts(slot.payload(), len as usize), head)
            },
            Announced::Block(block) => {
                // SAFETY: as of the head.
                let len = unsafe { slot.block_len() };
                self.check_block(block, len, block_bytes, head)
            }
            Announced::Lent(block) => {
                // SAFETY: as of the head.
                let len = unsafe { slot.block_len() };
                if block < u32::from(self.blocks) && len <= block_bytes {
                    NextMessage::Lent(block, len, head)
                } else {
                    NextMessage::Fault(Malformed::Length)
                }
            }
            Announced::Nonsense => NextMessage::Fault(Malformed::Length),
        }
    }

    /// Looks for a record in place of the next message.
    ///
    /// # Errors
    /// [`Malformed::Control`] for one that cannot be.
    #[cfg(target_pointer_width = "64")]
    pub(super) fn record(&self) -> Result<Option<(PathRecord, SlotHead)>, Malformed> {
        if self.next.size == 0 {
            return Ok(None);
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let slot = unsafe { &*self.slots.wrapping_add(self.next.at as usize) };
        if slot.sequence.load(O::RECEIVE) != self.next.sequence() {
            return Ok(None);
        }
        // SAFETY: this is the ring's receiver and it has seen the sequence.
        let (head, word) = unsafe { (slot.head(), slot.block_len()) };
        if !head.is_record() {
            return Ok(None);
        }
        PathRecord::parse(word).map(|record| Some((record, head))).ok_or(Malformed::Control)
    }

    /// Returns true if the next message stands in its slot. A look and no more:
    /// [`next`](Self::next) reads it.
    #[inline(always)]
    pub(super) fn is_there(&self) -> bool {
        if self.next.size == 0 {
            return false;
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let slot = unsafe { &*self.slots.wrapping_add(self.next.at as usize) };
        slot.sequence.load(Ordering::Relaxed) == self.next.sequence()
    }

    /// A sequence that is not the next one: an earlier lap's as a rule. One ahead is a sender's
    /// that overran.
    #[inline(always)]
    fn absent<'a>(got: u32, need: u32) -> NextMessage<'a> {
        if (got.wrapping_sub(need) as i32) < 0 {
            return NextMessage::Empty;
        }
        NextMessage::Fault(Malformed::Sequence { got: got as u16, need: need as u16 })
    }

    fn check_block<'a>(&self, block: u32, len: u32, block_bytes: u32, head: SlotHead) -> NextMessage<'a> {
        if block >= u32::from(self.blocks) || len > block_bytes {
            return NextMessage::Fault(Malformed::Length);
        }
        if !head.is_before_home() && (self.released ^ self.announced) & (1 << (block & 31)) != 0 {
            // Its release has not been published: the sender cannot know that it is free.
            return NextMessage::Fault(Malformed::Credit);
        }
        NextMessage::Block(block, len, head)
    }

    /// Asks for the first lines of the block of the message after the one at hand, if it is there.
    #[cfg(target_pointer_width = "64")]
    #[inline(always)]
    pub(super) fn ask_for_block_after(&self, block_bytes: u32) {
        let Some(at) = self.next.after() else { return };
        // SAFETY: only an end that is open has slots to go on to, and `open`'s caller vouched for
        // the place.
        let slot = unsafe { &*self.slots.wrapping_add(at as usize) };
        if slot.sequence.load(O::RECEIVE) != self.next.sequence().wrapping_add(1) {
            return;
        }
        // SAFETY: this is the ring's receiver and it has seen the sequence.
        if let Announced::Block(block) = unsafe { slot.head() }.open() {
            let start = self.blocks().wrapping_add(block as usize * block_bytes as usize);
            (0..LINES_AHEAD).for_each(|line| ask_for(start.wrapping_add(line * LINE_BYTES as usize)));
        }
    }

    /// The first block of this lane; they follow the credit line.
    #[inline(always)]
    pub(super) fn blocks(&self) -> *const u8 {
        self.credit.cast::<u8>().wrapping_add(SLOT_BYTES as usize)
    }

    /// Holds `block`, whose message is over, for an answer: the next message the other way, if that
    /// is at `position`. Before [`advance`](Self::advance).
    #[inline(always)]
    pub(super) fn hold(&mut self, block: u32, position: u32) {
        if USES_PING_PONG {
            (self.held, self.held_at) = (block as u8 + 1, position);
        }
    }

    /// The block that is held for an answer, if the next message the other way is at `position`.
    #[inline(always)]
    pub(super) fn held(&self, position: u32) -> Option<u32> {
        if USES_PING_PONG && self.held_at == position { u32::from(self.held).checked_sub(1) } else { None }
    }

    /// The answer is in it.
    #[inline(always)]
    pub(super) fn lend(&mut self) {
        self.held = 0;
        self.lends = self.lends.wrapping_add(1);
    }

    /// Holds no block any more.
    #[inline(always)]
    pub(super) fn let_go(&mut self) {
        if USES_PING_PONG {
            self.held = 0;
        }
    }

    /// Ends the use of the slot at hand, whose head this is, and of its block if its message stands
    /// in one. What that frees is due to the sender, to be [settled](Self::settle) before long.
    #[inline(always)]
    pub(super) fn advance(&mut self, head: SlotHead, block: Option<u32>) {
        if head.is_before_home() {
            // Its sender knew that all before it were consumed.
            self.announced = self.released;
        }
        self.next.advance(head.is_before_home());
        if let Some(block) = block {
            self.released ^= 1 << (block & 31);
        }
    }

    /// Returns credit if enough is due. True if it has: the sender may wait for it.
    #[inline(always)]
    pub(super) fn settle(&mut self) -> bool {
        // A quarter of the slots or of the blocks at least; see the module's proof. No overflow: at
        // most 2^14 are due.
        let slots = self.next.position().wrapping_sub(self.published);
        let blocks = self.released ^ self.returned;
        let is_due = slots.wrapping_mul(4) >= self.next.size.into()
            || blocks != 0 && blocks.count_ones().wrapping_mul(4) >= self.blocks.into();
        if is_due {
            self.publish();
        }
        is_due
    }

    /// Returns what credit there is.
    #[inline(never)]
    pub(super) fn publish(&mut self) {
        if self.next.size == 0 {
            return;
        }
        self.let_go();
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        let credit = unsafe { &*self.credit };
        if PING_PONG_SLOTS != 0 {
            credit.lends.store(self.lends, O::RETURN);
        }
        // Stored even if the word stays as it is: a block that was released twice was counted once,
        // by a sender that used a ping-pong slot.
        self.announced = self.released;
        if self.released != self.returned {
            self.returned = self.released;
            credit.released.store(self.released, O::RETURN);
        }
        self.published = self.next.position();
        credit.consumed.store(self.published, O::RETURN);
    }
}
