//! This module holds `unsafe` code: what stands in shared memory, and how message bytes get in and
//! out of it.

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
use core::arch::asm;
use core::slice;

use super::geometry::{PING_PONG_SLOTS, SHORT_BYTES, SLOT_BYTES};
use crate::sync::{UnsafeCell, Word};

/// A ring slot: two neighbouring cache lines, of which a message of up to 56 bytes needs the first
/// alone, so that it is one line's journey from core to core.
///
/// The sender alone writes it, while it is free; the receiver alone reads it, `sequence` at any
/// time and the rest between the store of `sequence` and the return of the message's position by
/// credit.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// The cursor of this slot's ring once it had passed the message that stands here; stored last.
    pub(super) sequence: Word,
    /// The head: what stands here, and what comes next.
    head: UnsafeCell<u32>,
    /// The message if it is short, 8-byte aligned; the length of one in a block; a record.
    payload: UnsafeCell<[u64; SHORT_BYTES as usize / 8]>,
}

/// The credit line: what the receiver tells a sender. Written by the receiver alone, in a line of
/// its own.
#[repr(C, align(64))]
pub(super) struct Credit {
    /// The position up to which slots are free again.
    pub(super) consumed: Word,
    /// A bit for each block, toggled when the block is free again.
    pub(super) released: Word,
    /// Answers that the receiver has sent in blocks of this lane, modulo 2^32.
    pub(super) lends: Word,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES as usize && size_of::<Credit>() == 64);

#[cfg(loom)]
impl Slot {
    /// An empty slot before the first message at `start`.
    pub(super) fn new(start: u32) -> Self {
        Self {
            sequence: Word::new(start),
            head: UnsafeCell::new(0),
            payload: UnsafeCell::new([0; SHORT_BYTES as usize / 8]),
        }
    }
}

#[cfg(loom)]
impl Credit {
    /// A credit line by which nothing is consumed since `start`.
    pub(super) fn new(start: u32) -> Self {
        Self { consumed: Word::new(start), released: Word::new(0), lends: Word::new(0) }
    }
}

/// Asks for the first line of a slot, or of what else is read soon, so that it travels while the
/// messages before it are worked on. A hint: any address will do.
#[inline(always)]
pub(super) fn ask_for<T>(start: *const T) {
    let at = start.addr();
    // SAFETY: a prefetch reads and writes nothing and does not fault.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        asm!("prefetcht0 [{}]", in(reg) at, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) at, options(nomem, nostack, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Asks for the first line of what is written soon, so that it is here by then and nowhere else. A
/// hint: any address will do, and a processor that does not know it does nothing.
#[inline(always)]
pub(super) fn ask_to_write<T>(start: *const T) {
    let at = start.addr();
    // SAFETY: a prefetch reads and writes nothing and does not fault.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        asm!("prefetchw [{}]", in(reg) at, options(nomem, nostack, preserves_flags));
    }
    let _ = at;
}

impl Slot {
    /// Takes the slot's first line to this core, by a store that no side reads.
    ///
    /// # Safety
    /// As of [`set_head`](Self::set_head).
    #[inline(always)]
    pub(super) unsafe fn take(&self) {
        // SAFETY: as in `set_head`.
        self.head.with_mut(|head| unsafe { head.write(0) });
    }

    /// Writes the head.
    ///
    /// # Safety
    /// The caller is the ring's sender and the slot is free.
    #[inline(always)]
    pub(super) unsafe fn set_head(&self, SlotHead(value): SlotHead) {
        // SAFETY: the slot is free, so only its sender, the caller, accesses it.
        self.head.with_mut(|head| unsafe { head.write(value.to_le()) });
    }

    /// Reads the head.
    ///
    /// # Safety
    /// The caller is the ring's receiver and has seen the slot's sequence.
    #[inline(always)]
    pub(super) unsafe fn head(&self) -> SlotHead {
        // SAFETY: the sender has filled the slot and leaves it alone until it is returned by the
        // caller.
        SlotHead(u32::from_le(self.head.with(|head| unsafe { head.read() })))
    }

    /// Writes the length of a message in a block.
    ///
    /// # Safety
    /// As of [`set_head`](Self::set_head).
    #[inline(always)]
    pub(super) unsafe fn set_block_len(&self, len: u32) {
        // SAFETY: as in `set_head`; the payload is longer than a word and aligned for one.
        self.payload.with_mut(|payload| unsafe { payload.cast::<u32>().write(len.to_le()) });
    }

    /// Reads the length of a message in a block.
    ///
    /// # Safety
    /// As of [`head`](Self::head).
    #[inline(always)]
    pub(super) unsafe fn block_len(&self) -> u32 {
        // SAFETY: as in `head` and `set_block_len`.
        u32::from_le(self.payload.with(|payload| unsafe { payload.cast::<u32>().read() }))
    }

    /// The payload, for the sender while the slot is free.
    #[inline(always)]
    pub(super) fn payload_mut(&self) -> *mut u8 {
        self.payload.with_mut(|payload| payload.cast())
    }

    /// The payload, for the receiver while the slot is filled.
    #[inline(always)]
    pub(super) fn payload(&self) -> *const u8 {
        self.payload.with(|payload| payload.cast())
    }
}

/// The word of a slot that says what came, what its sender has consumed, and where the next message
/// will stand:
///
/// | bits | |
/// |---|---|
/// | 0..16 | the sender's own position in the opposite lane, modulo 2^16: credit |
/// | 16..24 | the length of a short message, or the index of a block |
/// | 24..28 | zero |
/// | 28 | a record stands in the slot |
/// | 29 | the block is one of the opposite lane, lent for this answer |
/// | 30 | the next message will stand in a ping-pong slot |
/// | 31 | the message stands in a block |
#[derive(Clone, Copy)]
pub(super) struct SlotHead(u32);

/// The message that came, taken out of a head. Not yet held against what was granted.
pub(super) enum Announced {
    /// A message in the slot, of this length, which a slot has room for.
    Short(u32),
    /// A message in the block of this index.
    Block(u32),
    /// A message in the block of this index of the opposite lane.
    Lent(u32),
    /// No message: a record, or a head that cannot be.
    Nonsense,
}

impl SlotHead {
    const BLOCK: u32 = 1 << 31;
    const HOME: u32 = 1 << 30;
    const LENT: u32 = 1 << 29;
    #[cfg(target_pointer_width = "64")]
    const RECORD: u32 = 1 << 28;
    /// The flag that says nothing about this message; where there are no ping-pong slots, none.
    const NEXT: u32 = if PING_PONG_SLOTS != 0 { Self::HOME } else { 0 };
    const WHAT: u32 = 16;
    const WHAT_MAX: u32 = 0xFF;
    /// The flags of a message in a block, above its number.
    const IN_BLOCK: u32 = Self::BLOCK >> Self::WHAT;
    const IN_LENT: u32 = (Self::BLOCK | Self::LENT) >> Self::WHAT;

    /// A short message of `len` bytes, from a sender that has consumed up to `consumed`.
    #[inline(always)]
    pub(super) const fn short(len: u32, consumed: u32) -> Self {
        Self((consumed & 0xFFFF) | (len << Self::WHAT))
    }

    /// A message in `block`.
    #[inline(always)]
    pub(super) const fn block(block: u32, consumed: u32) -> Self {
        Self((consumed & 0xFFFF) | (block << Self::WHAT) | Self::BLOCK)
    }

    /// A message in `block` of the opposite lane.
    #[inline(always)]
    pub(super) const fn lent(block: u32, consumed: u32) -> Self {
        Self(Self::block(block, consumed).0 | Self::LENT)
    }

    /// A record.
    #[cfg(target_pointer_width = "64")]
    pub(super) const fn record(consumed: u32) -> Self {
        Self((consumed & 0xFFFF) | Self::RECORD)
    }

    /// Returns true if a record stands in the slot.
    #[cfg(target_pointer_width = "64")]
    pub(super) const fn is_record(self) -> bool {
        (self.0 & !Self::NEXT) >> Self::WHAT == Self::RECORD >> Self::WHAT
    }

    /// This head with the place where the next message will stand.
    #[inline(always)]
    pub(super) const fn before(self, home: bool) -> Self {
        Self(self.0 | if home { Self::HOME } else { 0 })
    }

    #[inline(always)]
    pub(super) const fn open(self) -> Announced {
        // One comparison tells a short message, which most are: of no other are all flags zero.
        let what = (self.0 & !Self::NEXT) >> Self::WHAT;
        if what <= SHORT_BYTES {
            return Announced::Short(what);
        }
        match what & !Self::WHAT_MAX {
            Self::IN_BLOCK => Announced::Block(what & Self::WHAT_MAX),
            Self::IN_LENT if PING_PONG_SLOTS != 0 => Announced::Lent(what & Self::WHAT_MAX),
            _ => Announced::Nonsense,
        }
    }

    /// Returns true if the next message will stand in a ping-pong slot.
    #[inline(always)]
    pub(super) const fn is_before_home(self) -> bool {
        PING_PONG_SLOTS != 0 && self.0 & Self::HOME != 0
    }

    /// Up to where the sender has consumed, modulo 2^16.
    #[inline(always)]
    pub(super) const fn consumed(self) -> u16 {
        self.0 as u16
    }
}

/// A message that fits into a slot.
#[derive(Clone, Copy)]
pub(super) struct Short<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Short<'a> {
    /// `None` if the two are longer than a slot.
    #[inline(always)]
    pub(super) fn new(header: &'a [u8], payload: &'a [u8]) -> Option<Self> {
        // A slice has at most `isize::MAX` bytes, so the sum cannot overflow.
        let fits = header.len() + payload.len() <= SHORT_BYTES as usize;
        fits.then_some(Self { header, payload })
    }

    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        (self.header.len() + self.payload.len()) as u32
    }

    /// Writes the message to `to`.
    ///
    /// # Safety
    /// `to` is valid for writes of [`len`](Self::len) bytes, away from the message itself.
    #[inline(always)]
    pub(super) unsafe fn write(self, to: *mut u8) {
        // SAFETY: the caller vouches for `to`; both parts are at most as long as a slot's payload,
        // as `new` has checked.
        unsafe {
            copy_short(self.header.as_ptr(), to, self.header.len());
            copy_short(self.payload.as_ptr(), to.add(self.header.len()), self.payload.len());
        }
    }
}

/// Copies up to 128 bytes without a loop and without a call: two moves that overlap in the middle.
///
/// # Safety
/// `from` and `to` are valid for `len` bytes and apart; `len` is at most 128.
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    /// Copies the first and the last `N` of `len` bytes.
    ///
    /// # Safety
    /// As of `copy_short`, and `len` is at least `N`.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: both reads and both writes stay within `len >= N` bytes.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(len - N).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(len - N).cast::<[u8; N]>().write(last);
        }
    }
    // A small core copies so few bytes as fast by a call, in a tenth of the code.
    if cfg!(target_pointer_width = "32") {
        // SAFETY: the caller vouches for both.
        return unsafe { from.copy_to_nonoverlapping(to, len) };
    }
    // SAFETY: each branch has `len` between N and 2 N, so the two ends cover all of it.
    unsafe {
        match len {
            8..=16 => ends::<8>(from, to, len),
            // A header, by the words in which it was made.
            32 => {
                for word in 0..4 {
                    let piece = from.cast::<u64>().add(word).read_unaligned();
                    to.cast::<u64>().add(word).write_unaligned(piece);
                }
            }
            65.. => ends::<64>(from, to, len),
            33.. => ends::<32>(from, to, len),
            17.. => ends::<16>(from, to, len),
            4.. => ends::<4>(from, to, len),
            2.. => ends::<2>(from, to, len),
            1 => to.write(from.read()),
            0 => {}
        }
    }
}

/// A stretch of shared memory that is this side's until the message in it is sent.
pub(super) struct SharedSpan {
    start: *mut u8,
    len: usize,
}

impl SharedSpan {
    /// # Safety
    /// Until the span is dropped the memory is valid for reads and writes, initialised, and used
    /// through it alone.
    #[inline(always)]
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    #[inline(always)]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: by `new`'s contract the memory is valid, initialised and used through this span
        // alone.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
