//! This module holds `unsafe` code: the sender's end of a lane; see [`ring`](super::ring).

use core::marker::PhantomData;
use core::ptr;

use aldis_hal::cause::Malformed;

use super::cursor::Cursor;
use super::geometry::{PING_PONG_SLOTS, SLOT_BYTES};
use super::memory::{Credit, Short, Slot, SlotHead};
#[cfg(target_pointer_width = "64")]
use super::path::PathRecord;
use super::ring::{Exact, LanePlace, Orders};
use super::sleep::{Alarm, WAKES};
use crate::sync::{Ordering, Word, light_fence};

/// The most positions by which a head may be older than the credit line for its 16 bits to be
/// distinguished from news, of which there can be [`SLOTS_MAX`](super::Geometry::SLOTS_MAX).
const AHEAD_MAX: u32 = 1 << 15;

/// Lines that a sender takes at a time. A message of a window costs 60-85 ns instead of 150 on two
/// cores of an AMD EPYC that have no cache in common; with 4 or 16 it is much the same.
const TAKEN: u32 = if cfg!(loom) { 1 } else { 8 };

/// True if senders use ping-pong slots at all, and take the credit in heads. A 32-bit core does
/// not, and does not hold the code: the way between caches is not what its messages take long for.
pub(super) const USES_PING_PONG: bool = cfg!(target_pointer_width = "64") && PING_PONG_SLOTS != 0;

/// The sender's end.
#[repr(C)]
pub(super) struct RingSender<O = Exact> {
    slots: *const Slot,
    credit: *const Credit,
    /// The word by which the receiver tells that it sleeps.
    asleep: *const Word,
    /// The place of the next message. Without slots while closed: there is no room then and no
    /// pointer is followed.
    next: Cursor,
    /// The receiver's position as last known.
    consumed: u32,
    /// A bit for each block there is.
    block_mask: u32,
    /// Toggled when a block is taken.
    taken: u32,
    /// The receiver's toggles as last read.
    released: u32,
    /// The receiver's position that `released` is of.
    clear: u32,
    /// Messages that the credit line has returned since all that came the other way had been
    /// received.
    ahead: u32,
    /// Answers in blocks of this lane that have been received, modulo 2^32.
    answers: u32,
    orders: PhantomData<O>,
}

impl<O> RingSender<O> {
    /// An end that leads nowhere. All-zero.
    pub(super) const CLOSED: Self = Self {
        slots: ptr::null(),
        credit: ptr::null(),
        asleep: ptr::null(),
        next: Cursor::CLOSED,
        consumed: 0,
        block_mask: 0,
        taken: 0,
        released: 0,
        clear: 0,
        ahead: 0,
        answers: 0,
        orders: PhantomData,
    };
}

impl<O: Orders> RingSender<O> {
    /// The sender's end of a fresh lane.
    ///
    /// # Safety
    /// The place stays valid until this end is closed or dropped, this is its only sender, and its
    /// receiver keeps the protocol.
    pub(super) unsafe fn open(place: LanePlace) -> Self {
        let LanePlace { slots, credit, asleep, size, blocks, start } = place;
        let block_mask = u32::MAX >> (32 - blocks.clamp(1, 32));
        Self {
            slots,
            credit,
            asleep,
            next: Cursor::new(size, start),
            consumed: start,
            block_mask,
            ..Self::CLOSED
        }
    }

    /// The next message's position.
    #[inline(always)]
    pub(super) const fn position(&self) -> u32 {
        self.next.position()
    }

    /// Messages under way, as far as is known here.
    #[inline(always)]
    pub(super) const fn under_way(&self) -> u32 {
        self.next.position().wrapping_sub(self.consumed)
    }

    /// Returns true if the next slot is free, as far as is known here.
    #[inline(always)]
    pub(super) fn has_slot(&self) -> bool {
        self.under_way() < self.next.size.into()
    }

    /// A block that is free, as far as is known here. The lowest, which was used last and is warm.
    #[inline(always)]
    pub(super) fn free_block(&self) -> Option<u32> {
        let in_use = if USES_PING_PONG && self.under_way() == 0 { 0 } else { self.taken ^ self.released };
        let free = !in_use & self.block_mask;
        (free != 0).then(|| free.trailing_zeros())
    }

    /// The first of the receiver's blocks for this lane, which follow the credit line.
    #[inline(always)]
    pub(super) fn blocks(&self) -> *mut u8 {
        self.credit.cast::<u8>().cast_mut().wrapping_add(SLOT_BYTES as usize)
    }

    /// An end that leads to no lane, of a receiver that says by this word that it sleeps.
    ///
    /// # Safety
    /// As of [`open`](Self::open), of the word.
    #[cfg(target_pointer_width = "64")]
    pub(super) const unsafe fn shut(asleep: *const Word) -> Self {
        Self { asleep, ..Self::CLOSED }
    }

    /// This end without its lane.
    #[cfg(target_pointer_width = "64")]
    pub(super) const fn without_lane(&self) -> Self {
        Self { asleep: self.asleep, ..Self::CLOSED }
    }

    /// Returns true if this end leads to a lane.
    #[cfg(target_pointer_width = "64")]
    pub(super) const fn is_open(&self) -> bool {
        self.next.size != 0
    }

    /// The word by which the receiver tells that it sleeps, of an end that is not closed.
    pub(super) fn asleep(&self) -> Option<&Word> {
        // SAFETY: not null, so the caller of `open` or `shut` vouched for the place.
        (!self.asleep.is_null()).then(|| unsafe { &*self.asleep })
    }

    /// Wakes the receiver if it sleeps, after a store that it may wait for.
    #[cold]
    #[inline(never)]
    pub(super) fn rouse(&self, alarm: Alarm) {
        light_fence(O::FENCED);
        if WAKES && let Some(asleep) = self.asleep() {
            alarm.rouse(asleep);
        }
    }

    /// The word of the credit line that is written last, of an open end.
    #[cfg(not(loom))]
    pub(super) fn credit_word(&self) -> Option<&Word> {
        if self.next.size == 0 {
            return None;
        }
        // SAFETY: an end with slots is open, and `open`'s caller vouched for the place.
        Some(unsafe { &(*self.credit).consumed })
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
        let lends =
            if PING_PONG_SLOTS != 0 && O::HEEDS { credit.lends.load(O::COLLECT) } else { self.answers };
        if lends.wrapping_sub(self.answers) as i32 > 0 {
            return Ok(());
        }
        // A line that was written before the sender went home is behind by less than the ring has
        // slots.
        let is_old =
            USES_PING_PONG && (1..=self.next.size.into()).contains(&self.clear.wrapping_sub(consumed));
        if !is_old {
            let foreign = (released ^ self.released) & !(self.taken ^ self.released);
            if foreign != 0 {
                return Err(Malformed::Credit);
            }
            (self.released, self.clear) = (released, consumed);
        }
        let returned = consumed.wrapping_sub(self.consumed);
        if returned <= self.under_way() {
            self.consumed = consumed;
            if USES_PING_PONG {
                self.ahead = self.ahead.saturating_add(returned);
            }
            return Ok(());
        }
        // Heads may have returned more than the line, which is behind by less than the ring has
        // slots.
        let is_behind = USES_PING_PONG && returned.wrapping_neg() < self.next.size.into();
        if is_behind { Ok(()) } else { Err(Malformed::Credit) }
    }

    /// Takes the credit in the head of a message that has come the other way. It is no news if the
    /// credit line has returned more; how much more is known, since heads return ever more: so the
    /// 16 bits are not mistaken.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if the receiver returns what it never got.
    #[inline(always)]
    pub(super) fn take_credit(&mut self, head: SlotHead) -> Result<(), Malformed> {
        if !USES_PING_PONG {
            return Ok(());
        }
        let returned = head.consumed().wrapping_sub(self.consumed as u16) as i16;
        if returned > 0 && self.ahead <= AHEAD_MAX {
            if returned as u32 > self.under_way() {
                return Err(Malformed::Credit);
            }
            self.consumed = self.consumed.wrapping_add(returned as u32);
        }
        Ok(())
    }

    /// Records that an answer in one of this lane's blocks was received.
    #[inline(always)]
    pub(super) fn answered(&mut self) {
        self.answers = self.answers.wrapping_add(1);
    }

    /// Records that all that has come the other way was received.
    #[inline(always)]
    pub(super) fn received_all(&mut self) {
        if USES_PING_PONG {
            self.ahead = 0;
        }
    }

    /// Takes the first lines of slots that come soon back from the receiver's cache, some at a
    /// time.
    ///
    /// A core writes its stores out in order, and each waits until its line is there; those that
    /// wait next to each other have their lines fetched at the same time, but only so many can
    /// wait. What a send writes elsewhere is enough to fill that queue, so that each message's line
    /// would come after the one before has come, also if it is asked for by a prefetch.
    #[inline(always)]
    fn take_lines(&mut self) {
        let (at, size) = (u32::from(self.next.at), u32::from(self.next.size));
        if at % TAKEN != 0 || self.under_way() + TAKEN > size {
            return;
        }
        for slot in at..at + TAKEN {
            let slot = self.slots.wrapping_add((slot & size.wrapping_sub(1)) as usize);
            // SAFETY: an end whose messages stand in a ring is open, and `open`'s caller vouched
            // for the place. Of the ring's slots none but those before the next are in use, and no
            // more of them than messages are under way.
            unsafe { (*slot).take() };
        }
    }

    /// The next slot, if it is free.
    #[inline(always)]
    pub(super) fn claim(&mut self) -> Option<Claim<'_, O>> {
        // Plain address arithmetic: the caller that follows the pointer holds a claim.
        let slot = self.slots.wrapping_add(self.next.at as usize);
        if self.has_slot() { Some(Claim { slot, end: self }) } else { None }
    }
}

/// The next free slot of a ring: the proof that a message can be sent. Dropped, it has changed
/// nothing.
pub(super) struct Claim<'a, O = Exact> {
    end: &'a mut RingSender<O>,
    slot: *const Slot,
}

impl<O: Orders> Claim<'_, O> {
    /// The slot's payload: [`SHORT_BYTES`](super::geometry::SHORT_BYTES).
    #[inline(always)]
    pub(super) fn payload(&mut self) -> *mut u8 {
        // SAFETY: a claim is made only on an open end, so the slot exists; `open`'s caller vouched
        // for it.
        unsafe { (*self.slot).payload_mut() }
    }

    /// Sends a short message. `consumed` is this side's position in the opposite lane, and `alarm`
    /// wakes a receiver that sleeps, here and below.
    #[inline(always)]
    pub(super) fn send(mut self, message: Short<'_>, consumed: u32, alarm: &Alarm) {
        let to = self.payload();
        // SAFETY: the payload has as many bytes as a short message has at most, in memory shared
        // with another rank, so that the message, borrowed from this one's user, lies elsewhere.
        unsafe { message.write(to) };
        self.announce(SlotHead::short(message.len(), consumed), 0, alarm);
    }

    /// Sends the `len` bytes that stand in the payload; at most
    /// [`SHORT_BYTES`](super::geometry::SHORT_BYTES).
    #[inline(always)]
    pub(super) fn send_filled(self, len: u32, consumed: u32, alarm: &Alarm) {
        self.announce(SlotHead::short(len, consumed), 0, alarm);
    }

    /// Takes `block` and sends the `len` bytes that stand in it.
    #[inline(always)]
    pub(super) fn send_block(self, block: u32, len: u32, consumed: u32, alarm: &Alarm) {
        // SAFETY: a claim is made only on an open end: the slot exists, `open`'s caller vouched for
        // it, and it is free.
        unsafe { (*self.slot).set_block_len(len) };
        self.announce(SlotHead::block(block, consumed), 1 << (block & 31), alarm);
    }

    /// Sends the `len` bytes that stand in `block` of the opposite lane, which the receiver there
    /// holds.
    #[inline(always)]
    pub(super) fn send_lent(self, block: u32, len: u32, consumed: u32, alarm: &Alarm) {
        // SAFETY: as in `send_block`.
        unsafe { (*self.slot).set_block_len(len) };
        self.announce(SlotHead::lent(block, consumed), 0, alarm);
    }

    /// Sends a record, in the order of the messages.
    #[cfg(target_pointer_width = "64")]
    pub(super) fn send_record(self, record: PathRecord, consumed: u32, alarm: &Alarm) {
        // SAFETY: as in `send_block`.
        unsafe { (*self.slot).set_block_len(record.word()) };
        self.announce(SlotHead::record(consumed), 0, alarm);
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn announce(self, head: SlotHead, taken: u32, alarm: &Alarm) {
        let end = self.end;
        // A copy: what is stored into the slot might change the end's, as far as a compiler knows.
        let next = end.next;
        let (sequence, home) = (next.sequence(), USES_PING_PONG && (end.under_way() == 0 || !O::PATIENT));
        if home {
            (end.released, end.clear) = (end.taken, next.position());
        }
        end.taken ^= taken;
        // SAFETY: a claim is made only on an open end: the slot exists and `open`'s caller vouched
        // for it. It is free: the receiver has consumed the message that stood in it, as the module
        // tells.
        unsafe {
            let slot = &*self.slot;
            slot.set_head(head.before(home));
            slot.sequence.store(sequence, O::SEND);
        }
        end.next.advance_from(next, home);
        if USES_PING_PONG && !home {
            end.take_lines();
        }
        if !WAKES {
            return;
        }
        light_fence(O::FENCED);
        // SAFETY: the end is open, as above.
        if unsafe { (*end.asleep).load(Ordering::Relaxed) } != 0 {
            end.rouse(*alarm);
        }
    }
}
