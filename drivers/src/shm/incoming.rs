//! This module holds `unsafe` code: the receiver's end of a lane; see [`ring`](super::ring).

use core::marker::PhantomData;
use core::ptr;

use aldis_hal::cause::Malformed;

use super::cursor::Cursor;
use super::geometry::{SHORT_BYTES, SLOT_BYTES};
use super::memory::{Ahead, Announced, Credit, Head, Slot, ask_for};
use super::ring::{Exact, Orders, Place};

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
    /// The toggles that the sender last knew: of that credit, or since, when it went home.
    told: u32,
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
        told: 0,
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
        if self.next.at < self.next.size {
            ask_for(self.slots.wrapping_add(self.next.ahead(self.next.at)), Ahead::Read);
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
        if !head.is_before_home() && (self.released ^ self.told) & (1 << (block & 31)) != 0 {
            // It has not been told of its release: the sender cannot know that it is free.
            return Next::Fault(Malformed::Credit);
        }
        Next::Block(block, len, head)
    }

    /// The first block of this lane; they follow the credit line.
    #[inline(always)]
    pub(super) fn blocks(&self) -> *const u8 {
        self.credit.cast::<u8>().wrapping_add(SLOT_BYTES as usize)
    }

    /// Ends the use of the slot at hand, whose head this is, and of its block if its message stands in one; returns credit
    /// if enough is owed.
    #[inline(always)]
    pub(super) fn advance(&mut self, head: Head, block: Option<u32>) {
        if head.is_before_home() {
            // Its sender knew that all before it were consumed.
            self.told = self.released;
        }
        self.next.advance(head.is_before_home());
        let mut owed = 0;
        if let Some(block) = block {
            self.released ^= 1 << (block & 31);
            owed = (self.released ^ self.returned).count_ones();
        }
        // A quarter of the slots or of the blocks at least; see the module's proof. No overflow: at most 2^14 are owed.
        let slots = self.next.position().wrapping_sub(self.published);
        if slots.wrapping_mul(4) >= self.next.size.into() || owed.wrapping_mul(4) >= self.blocks {
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
            (self.returned, self.told) = (self.released, self.released);
            credit.released.store(self.released, O::RETURN);
        }
        self.published = self.next.position();
        credit.consumed.store(self.published, O::RETURN);
    }
}
