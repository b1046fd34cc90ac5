//! This module holds `unsafe` code: a set of control slots, as its owner and as others see it. The
//! loom models explore exactly this code.
//!
//! A set is a progress record, `slots` slots and `chunks` chunks, all written by the owner alone.
//! A slot has a head, in which a short payload stands, and a body for longer ones. The records,
//! which are that of the progress and the heads, stand apart from all else, so that a rank that
//! reads those of many touches few pages: in the owner's inbox, or in one table of the node.
//! Beside the bodies are two places in which long payloads of ranks that keep pace stand in turn,
//! so that they stay in the caches next to the cores: slot `n` then says that its payload is in
//! place `n mod 2`, where all ranks have finished collective `n - 2`.
//! Its purpose stands in [`aldis_hal::shared_control`]; here is how a reader knows that what it
//! reads is whole.
//!
//! A slot of collective `n` carries the sequence `n + 1`, stored last, and a reader waits for that
//! one value; chunks up to position `k` are there once `filled` is past `k`. The owner stores
//! `floor` and `done` after its last read of what they give back, and the writer loads them of
//! all others first. That is the whole protocol: two hand-overs, each a release and an acquire.
//!
//! A set that is opened for another communicator starts again from the same number. So each slot,
//! and the progress record, name their communicator. A slot's name and sequence are one atomic: no
//! reader of one communicator takes what is of another for its own, be it what is left of the one
//! before or, where the owner has left without the collective that is waited for, what the one
//! after has published. The progress record's words are set back before its name is stored, and it
//! is loaded before they are.
//!
//! Nobody is trusted to name the same members of a communicator as the others do: a writer that
//! does not count a reader would write what that reads. So an owner that opens a set stores whom it
//! counts and then the name, and looks at the sets of all others: of any two with one name, the
//! later one sees the other, and does not use the set unless both count the same ranks, or none
//! alike: two groups that share no rank may well have chosen one name.

use core::marker::PhantomData;
use core::slice;

use aldis_hal::cause::{Cause, Malformed};
use aldis_hal::shared_control::{Note, Notice, Progress, START_BYTES, is_earlier};

use super::memory::{ask_for, ask_to_write};
use crate::sync::{Ordering, PairLoads, UnsafeCell, Word, WordPair, fence};

/// The context of a rank that has left its communicator: that of none.
const LEFT: u32 = u32::MAX;

/// Bytes of a record: a pair of cache lines, since a processor fetches neighbours of lines that it
/// uses.
pub(super) const RECORD_BYTES: usize = 128;

/// Bytes that stand in a head, beside what is said about them. Fewer in the models.
const HEAD_PAYLOAD: usize = if cfg!(loom) { 16 } else { RECORD_BYTES - 16 };

/// Bytes that stand in a slot: two pages and one pair of cache lines more, so that the first ones
/// of all bodies do not share their place in a cache. Fewer in the models.
pub(super) const SLOT_PAYLOAD: usize = if cfg!(loom) { 48 } else { 8192 + 128 };

/// Places beside the slots in which long payloads stand in turn.
pub(super) const PLACES: u32 = 2;

/// Bytes behind the slots: a probe with lines around it that no rank touches, since
/// a processor fetches neighbours of lines that it uses.
pub(super) const PROBE_BYTES: usize = 512;

/// Bytes of a payload from which on it stands in such a place, if that is free.
const PLACED_BYTES_MIN: usize = if cfg!(loom) { 32 } else { 2048 };

const _: () = {
    assert!(START_BYTES <= HEAD_PAYLOAD && HEAD_PAYLOAD < PLACED_BYTES_MIN);
    assert!(PLACED_BYTES_MIN <= SLOT_PAYLOAD);
};

/// The bit of what is said about a slot by which its payload stands in a place beside the slots.
const PLACED: u32 = 1 << 15;

/// The head of a slot. What is said and the first 48 bytes of the payload are one cache line, so
/// that a small contribution is one cache line's journey from core to core.
#[repr(C, align(64))]
pub(super) struct ControlHead {
    /// The communicator whose slot it is, set when the set is opened; and number + 1 of the
    /// collective, stored last.
    head: WordPair,
    /// The low half of the number of bytes contributed.
    bytes: UnsafeCell<u32>,
    /// The operation, the root, and the next 16 bits of the bytes.
    about: UnsafeCell<u32>,
    /// The payload, if it is short: 16-byte aligned, so that elements of any type can be read in
    /// place.
    payload: UnsafeCell<[u64; HEAD_PAYLOAD / 8]>,
}

/// The memory of a longer payload, aligned as in a head.
#[repr(C, align(64))]
pub(super) struct ControlBody(UnsafeCell<[u64; SLOT_PAYLOAD / 8]>);

/// The progress of the owner of a set.
#[repr(C, align(64))]
pub(super) struct SetControl {
    /// The communicator that the other words are about.
    context: Word,
    /// All collectives before this one are finished here.
    floor: Word,
    /// Chunks before this position are filled.
    filled: Word,
    /// The position before which this rank has read all ranks' chunks.
    done: Word,
    /// The ranks that the owner counts before it writes again, a bit each.
    members: [Word; 2],
    _neighbour: [u64; 11],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<ControlHead>() == RECORD_BYTES && size_of::<SetControl>() == RECORD_BYTES);
    assert!(size_of::<ControlBody>() == SLOT_PAYLOAD);
};

#[cfg(loom)]
impl ControlHead {
    pub(super) fn new(context: u32, start: u32) -> Self {
        Self {
            head: WordPair::new(context, start),
            bytes: UnsafeCell::new(0),
            about: UnsafeCell::new(0),
            payload: UnsafeCell::new([0; HEAD_PAYLOAD / 8]),
        }
    }
}

#[cfg(loom)]
impl ControlBody {
    pub(super) fn new() -> Self {
        Self(UnsafeCell::new([0; SLOT_PAYLOAD / 8]))
    }
}

#[cfg(loom)]
impl SetControl {
    pub(super) fn new(context: u32, start: u32) -> Self {
        let word = || Word::new(start);
        let members = [Word::new(0), Word::new(0)];
        let (floor, filled, done) = (word(), word(), word());
        Self { context: Word::new(context), floor, filled, done, members, _neighbour: [0; 11] }
    }
}

impl SetControl {
    /// Returns the ranks that the owner counts, a bit each.
    fn counted(&self) -> u64 {
        let [low, high] = &self.members;
        u64::from(high.load(Ordering::Relaxed)) << 32 | u64::from(low.load(Ordering::Relaxed))
    }
}

/// The memory orders of the protocol, an argument only for the models.
pub(super) trait SlotOrders {
    /// The owner's store of a sequence or of `filled`: after the bytes.
    const PUBLISH: Ordering = Ordering::Release;
    /// A reader's load of them.
    const LOOK: Ordering = Ordering::Acquire;
    /// A reader's store of `floor` or `done`: after its last read.
    const RETURN: Ordering = Ordering::Release;
    /// A writer's load of them.
    const COLLECT: Ordering = Ordering::Acquire;
    /// The store of a communicator's name: after the words are set back.
    const NAME: Ordering = Ordering::Release;
    /// A reader's load of a name: before it loads the words.
    const READ_NAME: Ordering = Ordering::Acquire;
    /// The loads of a slot's name and sequence.
    const LOADS: PairLoads = WordPair::LOADS;
}

/// The orders that ship.
pub(super) struct Exact;
impl SlotOrders for Exact {}

/// The place of a set, and its sizes.
#[derive(Clone, Copy)]
pub(super) struct SetPlace {
    pub(super) control: *const SetControl,
    /// The first slot's head, and the bytes from one to the next.
    pub(super) heads: *const ControlHead,
    pub(super) stride: usize,
    /// The bodies of all slots, then the places beside them.
    pub(super) bodies: *const ControlBody,
    pub(super) chunks: *mut u8,
    /// Slots, a power of two.
    pub(super) size: u32,
    /// Chunks, a power of two.
    pub(super) depth: u32,
    pub(super) chunk_bytes: u32,
}

impl SetPlace {
    #[inline(always)]
    fn head(&self, number: u32) -> *const ControlHead {
        let index = (number & self.size.wrapping_sub(1)) as usize;
        self.heads.wrapping_byte_add(index.wrapping_mul(self.stride))
    }

    fn body(&self, number: u32) -> *const ControlBody {
        self.bodies.wrapping_add((number & self.size.wrapping_sub(1)) as usize)
    }

    /// Returns the place beside the slots of a collective's payload.
    fn placed(&self, number: u32) -> *const ControlBody {
        self.bodies.wrapping_add(self.size.wrapping_add(number & (PLACES - 1)) as usize)
    }

    /// The word that the owner changes now and then, by which others measure how far away it is:
    /// in the middle of the bytes behind the slots.
    #[cfg(not(loom))]
    fn probe(&self) -> *const Word {
        let behind = self.bodies.wrapping_add(self.size.wrapping_add(PLACES) as usize);
        behind.cast::<u8>().wrapping_add(PROBE_BYTES / 2).cast()
    }

    fn chunk(&self, position: u32) -> *mut u8 {
        let index = (position & self.depth.wrapping_sub(1)) as usize;
        self.chunks.wrapping_add(index.wrapping_mul(self.chunk_bytes as usize))
    }
}

/// Returns true if the payload of a contribution of so many bytes stands in the head of a slot: it
/// is short, or only the [start](START_BYTES) of what is said to be elsewhere.
#[inline(always)]
const fn is_in_head(bytes: u64) -> bool {
    bytes <= HEAD_PAYLOAD as u64 || bytes > SLOT_PAYLOAD as u64
}

/// Returns how far `to` is ahead of `from`, if it is at most `most`.
fn ahead(to: u32, from: u32, most: u32) -> Option<u32> {
    Some(to.wrapping_sub(from)).filter(|ahead| *ahead <= most)
}

/// A set as another rank sees it.
#[derive(Clone, Copy)]
pub(super) struct Theirs<O = Exact> {
    place: SetPlace,
    orders: PhantomData<O>,
}

impl<O: SlotOrders> Theirs<O> {
    /// A set of another rank, or this rank's own as a reader.
    ///
    /// # Safety
    /// The place is valid while this value is used, and its owner keeps the protocol.
    #[inline(always)]
    pub(super) unsafe fn at(place: SetPlace) -> Self {
        Self { place, orders: PhantomData }
    }

    /// Looks at the slot of a collective that `own` has not finished. The notice is valid until it
    /// has.
    #[inline]
    pub(super) fn look<'a>(&self, own: &'a Own<O>, number: u32) -> Result<Option<Notice<'a>>, Cause> {
        if !own.is_open(number) {
            return Err(Cause::Stale);
        }
        // SAFETY: `at`'s caller vouched for the place, of which this is a slot.
        let slot = unsafe { &*self.place.head(number) };
        let (head, need) = (slot.head.load_both(O::LOADS, O::LOOK), number.wrapping_add(1));
        if head != WordPair::value(own.context, need) {
            let (context, got) = (head as u32, (head >> 32) as u32);
            let overran = context == own.context && (got.wrapping_sub(need) as i32) > 0;
            let what = Malformed::Sequence { got: got as u16, need: need as u16 };
            return if overran { Err(Cause::Malformed(what)) } else { Ok(None) };
        }
        // Who is ahead has written the next one already.
        ask_for(self.place.head(need));
        // SAFETY: the sequence has been seen, and the owner leaves the slot alone until `own` has
        // finished.
        let (bytes, about) =
            unsafe { (slot.bytes.with(|cell| cell.read()), slot.about.with(|cell| cell.read())) };
        let (bytes, about) = (u32::from_le(bytes), u32::from_le(about));
        let bytes = u64::from(about >> 16) << 32 | u64::from(bytes);
        let (start, len) = if bytes <= HEAD_PAYLOAD as u64 {
            (slot.payload.with(|payload| payload.cast()), bytes as usize)
        } else {
            self.long_payload(number, bytes, about & PLACED != 0)
        };
        // SAFETY: as above, and the length is within the payload.
        let payload = unsafe { slice::from_raw_parts(start, len) };
        let root = ((about & !PLACED) >> 8) as u8;
        Ok(Some(Notice { note: Note { operation: about as u8, root, bytes }, payload }))
    }

    /// Returns the place and the length of a payload that is not short: of a
    /// [start](START_BYTES), of one in the body of the slot, or of one that is `placed` beside it.
    #[inline(always)]
    fn long_payload(&self, number: u32, bytes: u64, placed: bool) -> (*const u8, usize) {
        let body = match () {
            () if placed => self.place.placed(number),
            () if is_in_head(bytes) => {
                // SAFETY: `at`'s caller vouched for the place, of which this is a slot.
                let slot = unsafe { &*self.place.head(number) };
                return (slot.payload.with(|payload| payload.cast()), START_BYTES);
            }
            () => self.place.body(number),
        };
        let len = if bytes <= SLOT_PAYLOAD as u64 { bytes as usize } else { START_BYTES };
        // SAFETY: the place has both.
        (unsafe { (*body).0.with(|payload| payload.cast()) }, len)
    }

    /// The chunk at a position that `own` is not done with. Valid until it is.
    #[inline]
    pub(super) fn chunk<'a>(&self, own: &'a Own<O>, position: u32) -> Result<Option<&'a [u8]>, Cause> {
        if own.done.wrapping_sub(position) as i32 > 0 {
            return Err(Cause::Stale);
        }
        // SAFETY: `at`'s caller vouched for the place.
        let control = unsafe { &*self.place.control };
        if control.context.load(O::READ_NAME) != own.context {
            return Ok(None);
        }
        let past = control.filled.load(O::LOOK).wrapping_sub(position);
        if past as i32 <= 0 {
            return Ok(None);
        }
        if past > self.place.depth {
            return Err(Cause::Malformed(Malformed::Credit));
        }
        // SAFETY: filled, and the owner leaves it alone until `own` is done with the position; the
        // place has all its chunks.
        Ok(Some(unsafe {
            slice::from_raw_parts(self.place.chunk(position), self.place.chunk_bytes as usize)
        }))
    }

    /// The word by which the owner's distance is measured, whatever communicator has the set.
    #[cfg(not(loom))]
    pub(super) fn probe(&self) -> &Word {
        // SAFETY: `at`'s caller vouched for the place.
        unsafe { &*self.place.probe() }
    }

    /// Returns what its owner has finished and is done with; as little as can be before it has
    /// opened any set there. An owner that has left, or whose set is of another communicator, has
    /// finished all: ranks open the set of a communicator when it is made, before any uses it, and
    /// one that is late [finds out](Self::agrees).
    pub(super) fn progress(&self, own: &Own<O>) -> Progress {
        // SAFETY: `at`'s caller vouched for the place.
        let control = unsafe { &*self.place.control };
        let mut context = control.context.load(O::READ_NAME);
        if context != own.context {
            // Either the name is seen here or what is finished here is seen in `agrees`.
            fence(Ordering::SeqCst);
            context = control.context.load(O::READ_NAME);
        }
        match context {
            context if context == own.context => {
                let (finished, done) = (control.floor.load(O::COLLECT), control.done.load(O::COLLECT));
                Progress { finished, done }
            }
            0 => Progress { finished: own.start, done: own.start },
            _ => Progress { finished: own.next, done: own.position },
        }
    }

    /// Returns true if the owner of this set may use it beside `own`, which has been opened just
    /// now, for the `first` time or after others: it is in another communicator, or counts none of
    /// the same ranks, or counts just the same and has not gone on without this one.
    #[cold]
    pub(super) fn agrees(&self, own: &Own<O>, first: bool) -> bool {
        // SAFETY: `at`'s caller vouched for the place.
        let (mine, theirs) = (own.control(), unsafe { &*self.place.control });
        // Of two that open their sets at a time, one sees the other's name.
        fence(Ordering::SeqCst);
        if theirs.context.load(O::READ_NAME) != own.context {
            return true;
        }
        let (counted, others) = (mine.counted(), theirs.counted());
        let is_at_start = |word: &Word| word.load(O::COLLECT) == own.start;
        let begins = first || is_at_start(&theirs.floor) && is_at_start(&theirs.done);
        if counted & others == 0 || counted == others && begins {
            return true;
        }
        // What has been read may be of a communicator after that one.
        fence(Ordering::Acquire);
        theirs.context.load(Ordering::Relaxed) != own.context
    }
}

/// A set of this rank's own: where it lies, and what is known of it.
pub(super) struct Own<O = Exact> {
    place: SetPlace,
    /// The communicator; zero, which none has, before the first.
    pub(super) context: u32,
    /// The first number, and the first position.
    start: u32,
    /// The next collective.
    next: u32,
    /// All before this one are finished here.
    floor: u32,
    /// A bit for each after that is finished too, the lowest for `floor` itself.
    finished: u32,
    /// All before this one are finished everywhere.
    cleared: u32,
    /// The collective for whose long payload it has been asked how far the others are.
    asked: Option<u32>,
    /// The collective that has the chunks.
    holder: Option<u32>,
    /// The next position of the stream.
    position: u32,
    /// Positions before this one are filled.
    filled: u32,
    /// Positions before this one are done with here.
    done: u32,
    /// Positions before this one are done with everywhere.
    drained: u32,
    orders: PhantomData<O>,
}

impl<O: SlotOrders> Own<O> {
    /// A set of this rank, of no communicator yet.
    ///
    /// # Safety
    /// The place stays valid while this value is used, its memory is initialised, and nothing else
    /// writes it; those who read it keep the protocol.
    pub(super) const unsafe fn at(place: SetPlace) -> Self {
        Self {
            place,
            context: 0,
            start: 0,
            next: 0,
            floor: 0,
            finished: 0,
            cleared: 0,
            asked: None,
            holder: None,
            position: 0,
            filled: 0,
            done: 0,
            drained: 0,
            orders: PhantomData,
        }
    }

    fn control(&self) -> &SetControl {
        // SAFETY: `at`'s caller vouched for the place.
        unsafe { &*self.place.control }
    }

    /// Makes it that of another communicator, whose ranks count from `start`.
    ///
    /// # Safety
    /// The promise of [`SharedControl::open`](aldis_hal::SharedControl::open): what it was used for
    /// before is over on all ranks, so that none reads here; `members` are those that `clear` will
    /// be told of.
    pub(super) unsafe fn open(&mut self, context: u32, start: u32, members: u64) {
        if !self.is_new() {
            self.control().context.store(LEFT, O::NAME);
            // Whoever reads new members below sees then that the old name is no more.
            fence(Ordering::Release);
        }
        // SAFETY: `at`'s caller vouched for the place.
        *self = Self { context, start, ..unsafe { Self::at(self.place) } };
        (self.next, self.floor, self.cleared) = (start, start, start);
        (self.position, self.filled, self.done, self.drained) = (start, start, start, start);
        for index in 0..self.place.size {
            // SAFETY: as above; a slot of the place.
            let slot = unsafe { &*self.place.head(index) };
            slot.head.store(context, start, Ordering::Relaxed);
        }
        let control = self.control();
        for word in [&control.floor, &control.filled, &control.done] {
            word.store(start, Ordering::Relaxed);
        }
        let halves = [members as u32, (members >> 32) as u32];
        control.members.iter().zip(halves).for_each(|(word, half)| word.store(half, Ordering::Relaxed));
        control.context.store(context, O::NAME);
    }

    /// Returns true if it has been that of no communicator yet.
    pub(super) fn is_new(&self) -> bool {
        self.control().context.load(Ordering::Relaxed) == 0
    }

    /// Takes back that it is that of the communicator it was opened for, in which nothing has been
    /// begun here.
    pub(super) fn refuse(&mut self) {
        self.leave();
        self.context = LEFT;
    }

    /// Ends what was begun, and lets others know that nothing is read any more.
    pub(super) fn leave(&mut self) {
        self.abandon();
        self.control().context.store(LEFT, O::NAME);
    }

    /// The next collective's number.
    pub(super) fn begin(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Returns true if a collective shares its slot with none that is unfinished here.
    pub(super) fn admits(&self, number: u32) -> bool {
        number.wrapping_sub(self.floor) < self.place.size
    }

    /// Returns true if a collective was begun and is not finished here.
    fn is_open(&self, number: u32) -> bool {
        let (after, begun) = (number.wrapping_sub(self.floor), self.next.wrapping_sub(self.floor));
        after < begun && self.finished.checked_shr(after).unwrap_or(0) & 1 == 0
    }

    /// The slot of a collective that is admitted, if no rank reads it: all ranks have finished the
    /// one whose slot it was, and it is not published.
    #[inline]
    fn free_slot(&self, number: u32) -> Option<&ControlHead> {
        if !self.is_open(number) || number.wrapping_sub(self.cleared) >= self.place.size {
            return None;
        }
        // SAFETY: `at`'s caller vouched for the place, of which this is a slot.
        let slot = unsafe { &*self.place.head(number) };
        // Written by this side alone, in `publish`.
        let published = (slot.head.load(Ordering::Relaxed) >> 32) as u32;
        (published != number.wrapping_add(1)).then_some(slot)
    }

    /// Writes the slot of a collective that is admitted and publishes it, once; false while it is
    /// not free, and once for a long payload that could stand beside the slots if others were known
    /// to be as far. Of a payload that was written where it stands there is nothing to copy.
    #[inline]
    pub(super) fn publish(&mut self, number: u32, note: Note, payload: &[u8]) -> Result<bool, Cause> {
        if note.bytes > HEAD_PAYLOAD as u64 {
            return self.publish_long(number, note, payload);
        }
        if payload.len() as u64 > note.bytes {
            return Err(Cause::TooBig { len: payload.len() as u64, max: note.bytes });
        }
        let Some(slot) = self.free_slot(number) else { return Ok(false) };
        // SAFETY: no rank reads the payload, as all have finished what stood there, and it is not
        // published (`free_slot`); it fits, and it is memory of the caller, not of the place.
        slot.payload.with_mut(|to| unsafe { copy_few(payload.as_ptr(), to.cast(), payload.len()) });
        self.announce(slot, number, note, 0);
        Ok(true)
    }

    /// Does what [`publish`](Self::publish) does, of a payload that is not short.
    #[inline(never)]
    fn publish_long(&mut self, number: u32, note: Note, payload: &[u8]) -> Result<bool, Cause> {
        let is_start = note.bytes > SLOT_PAYLOAD as u64;
        let max = if is_start { START_BYTES } else { note.bytes as usize };
        if payload.len() > max {
            return Err(Cause::TooBig { len: payload.len() as u64, max: max as u64 });
        }
        let Some(slot) = self.free_slot(number) else { return Ok(false) };
        let (mut body, mut placed) = (self.place.body(number), 0);
        if payload.len() >= PLACED_BYTES_MIN {
            if number.wrapping_sub(self.cleared) < PLACES {
                (body, placed) = (self.place.placed(number), PLACED);
            } else if self.asked != Some(number) {
                self.asked = Some(number);
                return Ok(false);
            }
        }
        let to: *mut u8 = match is_start {
            true => slot.payload.with_mut(|payload| payload.cast()),
            // SAFETY: `at`'s caller vouched for the place, which has both.
            false => unsafe { (*body).0.with_mut(|payload| payload.cast()) },
        };
        // SAFETY: as in `publish`; beside the bodies all have finished what stood there two
        // collectives ago.
        unsafe { copy_few(payload.as_ptr(), to, payload.len()) };
        self.announce(slot, number, note, placed);
        Ok(true)
    }

    /// Says in a slot that is free what stands there, and that it does.
    #[inline(always)]
    fn announce(&self, slot: &ControlHead, number: u32, note: Note, placed: u32) {
        let about = u32::from(note.operation) | u32::from(note.root) << 8 | ((note.bytes >> 32) as u32) << 16;
        // SAFETY: no rank reads it, as all have finished what it said, and it is not published.
        unsafe {
            slot.bytes.with_mut(|cell| cell.write((note.bytes as u32).to_le()));
            slot.about.with_mut(|cell| cell.write((about & !PLACED | placed).to_le()));
        }
        slot.head.store(self.context, number.wrapping_add(1), O::PUBLISH);
    }

    /// Has the first line of the slot of a collective brought here, that is written soon.
    #[inline]
    pub(super) fn prepare(&self, number: u32) {
        ask_to_write(self.place.head(number));
    }

    /// Returns the memory in the slot of a collective that is admitted in which a payload of so
    /// many bytes stands, to be written; `None` while it is not free.
    pub(super) fn slot(&mut self, number: u32, bytes: u64) -> Option<&mut [u8]> {
        let slot = self.free_slot(number)?;
        let (start, len) = if is_in_head(bytes) {
            (slot.payload.with_mut(|payload| payload.cast()), HEAD_PAYLOAD)
        } else {
            // SAFETY: `at`'s caller vouched for the place, of which this is a body.
            let body = unsafe { &*self.place.body(number) };
            (body.0.with_mut(|payload| payload.cast()), SLOT_PAYLOAD)
        };
        // SAFETY: no rank reads the slot, as all have finished what stood there and it is not
        // published (`free_slot`); all of it has been initialised, and the borrow keeps this value
        // from publishing it.
        Some(unsafe { slice::from_raw_parts_mut(start, len) })
    }

    /// Changes the word by which others measure how far away this rank is.
    #[cfg(not(loom))]
    pub(super) fn change_probe(&self, value: u32) {
        // SAFETY: `at`'s caller vouched for the place.
        unsafe { (*self.place.probe()).store(value, Ordering::Relaxed) };
    }

    /// Notes that a collective is finished here.
    #[inline]
    pub(super) fn finish(&mut self, number: u32) {
        // As a rule it is the only one, and has no chunks.
        let is_oldest = number == self.floor && self.finished == 0;
        if is_oldest && number != self.next && self.holder != Some(number) {
            self.floor = number.wrapping_add(1);
            self.control().floor.store(self.floor, O::RETURN);
        } else {
            self.finish_one(number);
        }
    }

    /// Notes that a collective is finished here, whichever it is.
    #[inline(never)]
    fn finish_one(&mut self, number: u32) {
        if !self.is_open(number) {
            return;
        }
        if self.holder == Some(number) {
            self.holder = None;
            self.done_before(self.position);
        }
        self.finished |= 1u32.checked_shl(number.wrapping_sub(self.floor)).unwrap_or(0);
        let run = self.finished.trailing_ones();
        if run > 0 {
            self.floor = self.floor.wrapping_add(run);
            self.finished = self.finished.checked_shr(run).unwrap_or(0);
            self.control().floor.store(self.floor, O::RETURN);
        }
    }

    /// Finishes all that were begun.
    pub(super) fn abandon(&mut self) {
        let begun = self.next.wrapping_sub(self.floor);
        (0..begun).for_each(|_| self.finish(self.floor.wrapping_add(self.finished.trailing_ones())));
    }

    /// Gives the chunks to a collective, unless another has them.
    pub(super) fn take_chunks(&mut self, number: u32) -> Option<u32> {
        if *self.holder.get_or_insert(number) == number { Some(self.position) } else { None }
    }

    /// The positions from `first` on are those of the collective that has the chunks.
    pub(super) fn run(&mut self, first: u32, len: u32) {
        if first.wrapping_sub(self.position) as i32 >= 0 {
            self.position = first.wrapping_add(len);
            self.done_before(first);
        }
    }

    /// The chunk at `position`, while no rank reads it.
    pub(super) fn fill(&mut self, position: u32) -> Option<&mut [u8]> {
        ahead(position, self.filled, u32::MAX >> 1)?;
        ahead(position, self.drained, self.place.depth.wrapping_sub(1))?;
        // SAFETY: it is not published, and all ranks are done with the position that was here
        // before, as `clear`'s caller promised; the place has all its chunks, and the borrow keeps
        // this value from publishing it.
        Some(unsafe {
            slice::from_raw_parts_mut(self.place.chunk(position), self.place.chunk_bytes as usize)
        })
    }

    /// Publishes the chunks up to `position`.
    pub(super) fn filled(&mut self, position: u32) {
        let next = position.wrapping_add(1);
        if next.wrapping_sub(self.filled) as i32 > 0 {
            self.filled = next;
            self.control().filled.store(next, O::PUBLISH);
        }
    }

    /// Records that nothing before `next` is read any more.
    pub(super) fn done_before(&mut self, next: u32) {
        if next.wrapping_sub(self.done) as i32 > 0 {
            self.done = next;
            self.control().done.store(next, O::RETURN);
        }
    }

    /// Returns true if a rank that is at this progress may be the one that this one waits for.
    #[cfg(not(loom))]
    pub(super) fn may_wait_for(&self, theirs: Progress) -> bool {
        let undrained = self.filled.wrapping_sub(theirs.done);
        is_earlier(theirs.finished, self.floor)
            || is_earlier(theirs.done, self.done)
            || undrained >= self.place.depth
    }

    /// Records how far all others have come.
    ///
    /// # Safety
    /// The promise of [`SharedControl::clear`](aldis_hal::SharedControl::clear): they have, since
    /// what is before is written again.
    pub(super) unsafe fn clear(&mut self, others: Progress) {
        let earlier = |one, other| if is_earlier(one, other) { one } else { other };
        let (floor, done) = (earlier(others.finished, self.floor), earlier(others.done, self.done));
        // No rank takes back what it has published: what is behind is of a set that has been opened
        // anew.
        if is_earlier(self.cleared, floor) {
            self.cleared = floor;
        }
        if is_earlier(self.drained, done) {
            self.drained = done;
        }
    }
}

/// Copies up to [`SLOT_PAYLOAD`] bytes, one word at once, since most contributions are one.
///
/// # Safety
/// `from` and `to` are valid for `len` bytes and apart.
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both.
    unsafe {
        if len == 8 {
            to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read());
        } else if len > 0 {
            aldis_hal::copy::copy_raw(from, to, len);
        }
    }
}
