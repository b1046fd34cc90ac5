//! This module holds `unsafe` code: the shared inbox, in which every rank of a node may write.
//!
//! Where a node has more ranks than a rank has lanes, what comes outside the lanes comes through
//! one inbox of [`INBOX_SLOTS`] slots, each large enough for the longest message. It is the slow
//! path: two locked operations of a sender and one of the receiver a message. The loom models
//! explore exactly this code.
//!
//! # A slot's life
//!
//! * Free: its owner word is zero, its flag is reset.
//! * Claimed: a sender has replaced the zero by its number, in one operation. So a sender that is
//!   killed from here on is named, and what it holds is one slot.
//! * Full: the sender has written the message and, last, set the slot's flag. All flags are one
//!   word, which is all that the receiver looks at while nothing comes.
//! * Free again: the receiver has read the message, resets the flag and then the owner word.
//!
//! Slots are in no order, so no slot waits for another: a sender that is stopped or killed between
//! claim and flag holds up nobody. Its slot is lost as long as it does not go on: the inbox has one
//! less. Order is that of the messages' sequence numbers, of which each pair of ranks has its own:
//! the receiver takes from a sender the message that is next and leaves the others where they are.
//! A sender sets the flag of one message before it claims a slot for the next, so the flags that a
//! receiver sees hold every message of a sender up to some one.
//!
//! # Bounds and fairness
//!
//! A sender that finds no free slot is refused: backpressure, as of a full ring. It holds at most
//! an eighth of the slots at a time, so one that is never received, or sends without end, leaves
//! seven eighths to others. One that is refused leaves its number at a slot until it has sent: a
//! mark. The more marks there are the fewer slots a sender may hold, at least one; and a marked
//! slot is for its waiter alone, until others have been refused some times while they had nothing
//! under way: so each sender that waits gets a slot if it comes for it, and nothing is kept for
//! long for one that does not.
//!
//! The receiver takes one message of each sender in turn, and lets a sender that sends much have a
//! lane ([`path`](super::path)), so that what is left in the inbox is what comes now and then.
//!
//! The receiver that frees a slot wakes whoever has marked it, if that sleeps. Of two marks at one
//! slot the later stands: a hint, no promise, beside which sleep is bounded.

use core::marker::PhantomData;

use aldis_hal::PeerId;
use aldis_hal::cause::Malformed;

use super::geometry::{SHARED_LABEL_BYTES, SHARED_SLOTS};
use super::path::PathRecord;
use crate::sync::{Flags, Ordering, UnsafeCell, Word};

/// Slots of an inbox: a flag each in one word.
pub(super) const INBOX_SLOTS: u32 = SHARED_SLOTS as u32;

/// Refusals in a row after which a sender that has nothing under way takes slots that others have
/// marked.
const REFUSALS_MAX: u8 = 4;

/// The part of the slots that one sender holds at most.
pub(super) const SHARES_OF_SLOTS: u32 = if cfg!(loom) { 1 } else { 8 };

/// The orders of the inbox's accesses; the models relax them one by one.
pub(super) trait InboxOrders {
    /// The sender's claim of a slot: before it writes there.
    const CLAIM: Ordering = Ordering::Acquire;
    /// The sender's flag: after the message.
    const PUBLISH: Ordering = Ordering::Release;
    /// The receiver's load of the flags.
    const LOOK: Ordering = Ordering::Acquire;
    /// The receiver's store of a free owner word: after its last read.
    const FREE: Ordering = Ordering::Release;
    /// True if the receiver resets the flag before the owner word.
    const FLAG_FIRST: bool = true;
    /// True if a sender claims in one operation.
    const CLAIMS_AT_ONCE: bool = true;
}

/// The orders that ship.
pub(super) struct Exact;
impl InboxOrders for Exact {}

/// A slot's words that are in use by several ranks.
#[repr(C)]
pub(super) struct SlotWords {
    /// The number of the sender that has it, plus one; zero while it is free.
    pub(super) owner: Word,
    /// The number of a sender that was refused, plus one, or zero.
    waiter: Word,
}

impl SlotWords {
    /// The sender that has marked the slot, as it says itself.
    fn marked_by(&self) -> Option<PeerId> {
        self.waiter.load(Ordering::Relaxed).checked_sub(1).map(PeerId)
    }
}

/// The part of an inbox before its slots.
#[repr(C, align(64))]
pub(super) struct InboxControl<const SLOTS: usize = SHARED_SLOTS> {
    /// A flag for each slot that is full.
    full: Flags,
    _rest_of_lines: [u64; 15],
    slots: [SlotWords; SLOTS],
}

/// The label of a slot, before its message.
#[repr(C, align(8))]
pub(super) struct SlotLabel {
    sequence: UnsafeCell<u32>,
    /// The message's length, or a record.
    about: UnsafeCell<u32>,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<InboxControl>() == 128 + SHARED_SLOTS * 8);
    assert!(size_of::<SlotLabel>() == SHARED_LABEL_BYTES);
};

#[cfg(loom)]
impl<const SLOTS: usize> InboxControl<SLOTS> {
    pub(super) fn new() -> Self {
        let words = |_| SlotWords { owner: Word::new(0), waiter: Word::new(0) };
        Self { full: Flags::new(), _rest_of_lines: [0; 15], slots: core::array::from_fn(words) }
    }
}

#[cfg(loom)]
impl SlotLabel {
    pub(super) fn new() -> Self {
        Self { sequence: UnsafeCell::new(0), about: UnsafeCell::new(0) }
    }
}

impl InboxControl {
    /// Sets every word to the state before the first message. By the owner, before any rank is
    /// attached.
    pub(super) fn clear(&self) {
        self.full.reset(u64::MAX, Ordering::Relaxed);
        for words in &self.slots {
            words.owner.store(0, Ordering::Relaxed);
            words.waiter.store(0, Ordering::Relaxed);
        }
    }
}

/// The place of an inbox in memory.
#[derive(Clone, Copy)]
pub(super) struct InboxPlace<'m> {
    full: &'m Flags,
    words: &'m [SlotWords],
    /// The first slot's label, and the bytes from one to the next.
    labels: *const u8,
    stride: usize,
}

impl<'m> InboxPlace<'m> {
    /// An inbox behind this control part.
    ///
    /// # Safety
    /// For `'m` there is a [`SlotLabel`] at `labels` and after every `stride` bytes, for each slot
    /// of the control part, and all that use it keep the protocol.
    pub(super) const unsafe fn new<const SLOTS: usize>(
        control: &'m InboxControl<SLOTS>,
        labels: *const u8,
        stride: usize,
    ) -> Self {
        Self { full: &control.full, words: &control.slots, labels, stride }
    }

    /// Returns the number of slots, a power of two.
    fn slots(&self) -> u32 {
        self.words.len() as u32
    }

    /// The slot of a number, round and round.
    fn wrap(&self, number: u32) -> u32 {
        number & self.slots().wrapping_sub(1)
    }

    fn at(&self, slot: u32) -> *const u8 {
        self.labels.wrapping_add(slot as usize * self.stride)
    }

    /// The label of a slot below [`slots`](Self::slots).
    fn label(&self, slot: u32) -> &'m SlotLabel {
        // SAFETY: `new`'s caller vouched for one at this place.
        unsafe { &*self.at(slot).cast() }
    }

    /// The message of a slot.
    pub(super) fn message(&self, slot: u32) -> *const u8 {
        self.at(slot).wrapping_add(SHARED_LABEL_BYTES)
    }

    /// Returns the sender that has a slot, as it says itself.
    pub(super) fn owner(&self, slot: u32) -> Option<PeerId> {
        let owner = self.words.get(slot as usize)?.owner.load(Ordering::Relaxed);
        owner.checked_sub(1).map(PeerId)
    }

    /// Returns true if any slot is full.
    #[inline(always)]
    pub(super) fn has_news(&self) -> bool {
        self.full.load(Ordering::Relaxed) != 0
    }
}

/// A sender's end of the inbox of one peer.
pub(super) struct InboxSender<O = Exact> {
    /// The slots that this rank has claimed and not seen free since, a bit each.
    claimed: u64,
    /// The next message's number.
    sequence: u32,
    /// The slot that was claimed last.
    last: u8,
    /// The slot, plus one, that is claimed for a message that is yet to be sent.
    reserved: u8,
    /// Refusals in a row while it held no slot.
    refusals: u8,
    orders: PhantomData<O>,
}

impl<O> InboxSender<O> {
    /// An end that has sent nothing. All-zero.
    pub(super) const EMPTY: Self =
        Self { claimed: 0, sequence: 0, last: 0, reserved: 0, refusals: 0, orders: PhantomData };
}

impl<O: InboxOrders> InboxSender<O> {
    /// Claims a slot for this rank's next message; `None` if it is refused, and waits then. A slot
    /// that was claimed before, and not used, is claimed still.
    pub(super) fn claim(&mut self, inbox: &InboxPlace<'_>, me: PeerId) -> Option<u32> {
        if let Some(slot) = self.reserved.checked_sub(1) {
            return Some(slot.into());
        }
        let first = if self.sequence == 0 { me.0 } else { u32::from(self.last).wrapping_add(1) };
        let may_hold = self.may_hold_more(inbox, me);
        for turn in 0..if may_hold { inbox.slots() } else { 0 } {
            let slot = inbox.wrap(first.wrapping_add(turn));
            let Some(words) = inbox.words.get(slot as usize) else { break };
            if self.is_free(words, me) && Self::take(words, me) {
                Self::mark(inbox, me, false);
                (self.last, self.reserved) = (slot as u8, slot as u8 + 1);
                (self.claimed, self.refusals) = (self.claimed | 1 << slot, 0);
                return Some(slot);
            }
        }
        self.refusals = if self.claimed == 0 { self.refusals.saturating_add(1) } else { 0 };
        Self::mark(inbox, me, true);
        None
    }

    /// Leaves this rank's mark at its slot, or takes it back.
    fn mark(inbox: &InboxPlace<'_>, me: PeerId, waits: bool) {
        let words = inbox.words.get(inbox.wrap(me.0) as usize);
        if let Some(words) = words.filter(|words| waits || words.marked_by() == Some(me)) {
            words.waiter.store(if waits { me.0.wrapping_add(1) } else { 0 }, Ordering::Relaxed);
        }
    }

    /// Returns true if this rank may claim a slot: it is free, and unmarked by others unless this
    /// rank has waited with nothing under way.
    fn is_free(&self, words: &SlotWords, me: PeerId) -> bool {
        let is_free = words.owner.load(Ordering::Relaxed) == 0;
        let comes_first = self.claimed == 0 && self.refusals >= REFUSALS_MAX;
        is_free && (comes_first || words.marked_by().is_none_or(|by| by == me))
    }

    fn take(words: &SlotWords, me: PeerId) -> bool {
        let number = me.0.wrapping_add(1);
        if !O::CLAIMS_AT_ONCE {
            words.owner.store(number, Ordering::Relaxed);
        } else if !words.owner.claim(number, O::CLAIM) {
            return false;
        }
        words.waiter.store(0, Ordering::Relaxed);
        true
    }

    /// Looks which slots this rank holds still. Returns true if it may hold another.
    fn may_hold_more(&mut self, inbox: &InboxPlace<'_>, me: PeerId) -> bool {
        let mut left = self.claimed;
        while left != 0 {
            let slot = left.trailing_zeros();
            left &= left - 1;
            if inbox.owner(slot) != Some(me) {
                self.claimed &= !(1 << slot);
            }
        }
        let marks = |words: &&SlotWords| words.marked_by().is_some_and(|by| by != me);
        let parts = inbox.words.iter().filter(marks).count() as u32 + SHARES_OF_SLOTS;
        self.claimed == 0 || self.claimed.count_ones() < inbox.slots().checked_div(parts).unwrap_or(1)
    }

    /// Returns true if a claim would find a slot now.
    #[cfg(not(loom))]
    pub(super) fn has_room(&mut self, inbox: &InboxPlace<'_>, me: PeerId) -> bool {
        self.reserved != 0
            || self.may_hold_more(inbox, me) && inbox.words.iter().any(|words| self.is_free(words, me))
    }

    /// Sends the message that stands in the claimed slot: so many bytes, or a record.
    pub(super) fn send(&mut self, inbox: &InboxPlace<'_>, slot: u32, about: About) {
        let label = inbox.label(slot);
        // SAFETY: the slot is claimed by this sender, which alone writes it until its flag is set.
        label.sequence.with_mut(|cell| unsafe { cell.write(self.sequence.to_le()) });
        // SAFETY: as above.
        label.about.with_mut(|cell| unsafe { cell.write(about.word().to_le()) });
        self.sequence = self.sequence.wrapping_add(1);
        self.reserved = 0;
        inbox.full.set(1 << slot, O::PUBLISH);
    }
}

/// The contents of a slot of the inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum About {
    /// A message of so many bytes.
    Message(u32),
    /// A record of the pair's path.
    Record(PathRecord),
}

impl About {
    const RECORD: u32 = 1 << 31;

    const fn word(self) -> u32 {
        match self {
            Self::Message(len) => len,
            Self::Record(record) => record.word() | Self::RECORD,
        }
    }

    /// # Errors
    /// [`Malformed::Length`] for a message that no slot holds, [`Malformed::Control`] for no
    /// record.
    fn parse(word: u32, len_max: u32) -> Result<Self, Malformed> {
        if word & Self::RECORD != 0 {
            return PathRecord::parse(word & !Self::RECORD).map(Self::Record).ok_or(Malformed::Control);
        }
        if word <= len_max { Ok(Self::Message(word)) } else { Err(Malformed::Length) }
    }
}

/// A full slot.
#[derive(Clone, Copy)]
pub(super) struct FullSlot {
    /// The message's number.
    sequence: u32,
    /// The word about it, not checked yet.
    about: u32,
}

impl FullSlot {
    /// Checks what stands in the slot against the number that is next of its sender; `None` if that
    /// is yet to come: what is here waits for it.
    ///
    /// # Errors
    /// [`Malformed::Sequence`] for a number that no sender of the protocol has under way; the rest
    /// as what it is.
    pub(super) fn check(&self, next: u32, len_max: u32) -> Result<Option<About>, Malformed> {
        let ahead = self.sequence.wrapping_sub(next);
        if ahead >= INBOX_SLOTS {
            return Err(Malformed::Sequence { got: self.sequence as u16, need: next as u16 });
        }
        if ahead != 0 {
            return Ok(None);
        }
        About::parse(self.about, len_max).map(Some)
    }
}

/// The receiver's end of its inbox.
pub(super) struct InboxReceiver<O = Exact> {
    /// The slot at which a look begins.
    turn: u32,
    orders: PhantomData<O>,
}

impl<O> InboxReceiver<O> {
    /// An end that has received nothing. All-zero.
    pub(super) const NEW: Self = Self { turn: 0, orders: PhantomData };
}

impl<O: InboxOrders> InboxReceiver<O> {
    /// The slots that are full, a bit each, the first of them the one whose turn it is.
    pub(super) fn look(&self, inbox: &InboxPlace<'_>) -> FullSlots {
        let full = inbox.full.load(O::LOOK);
        FullSlots { full: full.rotate_right(self.turn), turn: self.turn }
    }

    /// Reads the label of a full slot.
    pub(super) fn read(&self, inbox: &InboxPlace<'_>, slot: u32) -> FullSlot {
        let label = inbox.label(slot);
        // SAFETY: the flag has been seen, so the sender has filled the slot and leaves it alone
        // until it is free.
        let sequence = u32::from_le(label.sequence.with(|cell| unsafe { cell.read() }));
        // SAFETY: as above.
        let about = u32::from_le(label.about.with(|cell| unsafe { cell.read() }));
        FullSlot { sequence, about }
    }

    /// Ends the use of a slot. Returns the rank that has marked it, as that says itself.
    pub(super) fn free(&mut self, inbox: &InboxPlace<'_>, slot: u32) -> Option<PeerId> {
        self.turn = (slot + 1) % INBOX_SLOTS;
        let words = inbox.words.get(slot as usize)?;
        if O::FLAG_FIRST {
            inbox.full.reset(1 << slot, Ordering::Relaxed);
        }
        words.owner.store(0, O::FREE);
        if !O::FLAG_FIRST {
            inbox.full.reset(1 << slot, Ordering::Relaxed);
        }
        crate::sync::light_fence(!cfg!(loom));
        words.marked_by()
    }
}

/// The slots that a look has found full, in the order of their turns.
#[derive(Clone, Copy)]
pub(super) struct FullSlots {
    full: u64,
    turn: u32,
}

impl Iterator for FullSlots {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.full == 0 {
            return None;
        }
        let turn = self.full.trailing_zeros();
        self.full &= self.full - 1;
        Some((self.turn + turn) % INBOX_SLOTS)
    }
}
