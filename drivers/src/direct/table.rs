//! This module holds `unsafe` code: the table of what a rank shows to the others, in shared memory.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
#[cfg(not(loom))]
use core::sync::atomic::fence;

use aldis_hal::Cause;

#[cfg(loom)]
use loom::sync::atomic::fence;

use crate::sync::{AtomicU32, Ordering, Word};

#[cfg(test)]
#[cfg(loom)]
mod models;

/// Regions that a rank shows at a time: a window of 64 messages, as many programs have, is read
/// whole.
pub(super) const ENTRIES: u32 = 64;
/// Chunks of one read that two sides share. Few in the models, as each is some words more to be
/// explored.
pub(super) const CHUNKS_MAX: u32 = if cfg!(loom) { 2 } else { 16 };

/// The bit of `index`; none for one that is too large.
pub(super) const fn bit(index: u32) -> u32 {
    match 1u32.checked_shl(index) {
        Some(bit) => bit,
        None => 0,
    }
}

/// The bit of entry `index`; none for one that is too large.
pub(super) const fn entry_bit(index: u32) -> u64 {
    match 1u64.checked_shl(index) {
        Some(bit) => bit,
        None => 0,
    }
}

/// The entries of these bits, from the last on.
pub(super) fn last_first(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let index = bits.checked_ilog2()?;
        bits &= !entry_bit(index);
        Some(index)
    })
}

/// Bytes of a table.
pub const TABLE_BYTES: usize = size_of::<ShownRegion>() * ENTRIES as usize;

/// A number of 64 bits in two words; not read and written at once.
#[repr(C)]
struct Long([Word; 2]);

impl Long {
    fn load(&self) -> u64 {
        let [low, high] = &self.0;
        u64::from(low.load(Ordering::Relaxed)) | u64::from(high.load(Ordering::Relaxed)) << 32
    }

    fn store(&self, value: u64) {
        let [low, high] = &self.0;
        low.store(value as u32, Ordering::Relaxed);
        high.store((value >> 32) as u32, Ordering::Relaxed);
    }
}

/// The place of a chunk in the reader's memory: address and length, as `struct iovec` of a 64-bit
/// system.
#[repr(C, align(16))]
pub struct ChunkPlace {
    address: Long,
    len: Long,
}

impl fmt::Debug for ChunkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, len) = self.load();
        write!(f, "{len} bytes at {address:#x}")
    }
}

impl ChunkPlace {
    /// Address and length as they are now.
    pub fn load(&self) -> (u64, u64) {
        (self.address.load(), self.len.load())
    }
}

/// A region that is shown, and the read of it that is under way.
#[repr(C, align(64))]
pub(super) struct ShownRegion {
    shown: Shown,
    offer: Offer,
    shared: SharedTable,
    places: [ChunkPlace; CHUNKS_MAX as usize],
}

/// A region that its owner is to show.
pub(super) struct Shows {
    pub(super) address: u64,
    pub(super) len: u64,
    /// True if its bytes are put in place later.
    pub(super) grows: bool,
}

/// Written by the owner.
#[repr(C, align(64))]
struct Shown {
    /// Odd while the region is shown.
    generation: Word,
    /// The thread that helps.
    thread: Word,
    address: Long,
    len: Long,
    /// Bytes that are in place, from the first on; [`ALL`] for all of them.
    ready: Word,
}

/// All bytes of a region are in place.
const ALL: u32 = u32::MAX;

/// Written by the reader that has the entry's help.
#[repr(C, align(64))]
struct Offer {
    /// The number of the offer; zero for none.
    serial: Word,
    chunks: Word,
    chunk_bytes: Word,
    /// The generation of the region that it reads: an offer outlives a region whose reader has not
    /// noticed its end.
    generation: Word,
    /// The offset in the region at which it begins.
    first: Long,
    len: Long,
}

/// Of both.
#[repr(C, align(64))]
struct SharedTable {
    /// The chunks that are taken, and by which side; see [`Claims`].
    claims: AtomicU32,
    /// Set to one while a reader has the help of the owner: one reader at a time writes the offer
    /// and the places.
    help: AtomicU32,
    /// Chunks that the owner has written whole, by their bits; the owner writes it while it is
    /// engaged, and the reader before it offers.
    written: Word,
    /// Set to one while the owner may take a chunk or write one; written by the owner.
    engaged: Word,
}

/// Chunks taken: `serial << 16 | from the back << 8 | from the front`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Claims(u32);

impl Claims {
    const fn new(serial: u16, back: u32, front: u32) -> Self {
        Self((serial as u32) << 16 | (back & 0xFF) << 8 | (front & 0xFF))
    }

    const fn open(self) -> (u16, u32, u32) {
        ((self.0 >> 16) as u16, self.0 >> 8 & 0xFF, self.0 & 0xFF)
    }
}

/// The answer to a reader or an owner that asks for a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chunk {
    /// This one is the asker's alone.
    Yours(u32),
    /// All are taken: so many by the owner.
    Taken(u32),
    /// The entry is used for something else.
    Gone,
}

/// An offer as the owner reads it. Nothing in it is to be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offered {
    pub(super) serial: u16,
    pub(super) first: u64,
    pub(super) len: u64,
    pub(super) chunk_bytes: u32,
    pub(super) chunks: u32,
    /// Of the region that is read.
    pub(super) generation: u32,
}

impl Offered {
    /// The chunks that the owner has taken, by their bits, if it has taken `taken` from the back.
    pub(super) fn taken_from_back(&self, taken: u32) -> u32 {
        // Of as many as a word has bits, all of them.
        let all = |chunks: u32| bit(chunks).wrapping_sub(1);
        all(self.chunks) & !all(self.chunks.saturating_sub(taken))
    }

    /// The bytes of chunk `index`, from the offer's beginning.
    pub(super) fn range(&self, index: u32) -> Option<(u64, usize)> {
        let start = u64::from(index).checked_mul(self.chunk_bytes.into())?;
        let len = self.len.checked_sub(start)?.min(self.chunk_bytes.into());
        (len > 0).then_some((start, usize::try_from(len).ok()?))
    }
}

#[cfg(loom)]
impl ShownRegion {
    pub(super) fn new() -> Self {
        let (word, long) = (|| Word::new(0), || Long([Word::new(0), Word::new(0)]));
        Self {
            shown: Shown { generation: word(), thread: word(), address: long(), len: long(), ready: word() },
            offer: Offer {
                serial: word(),
                chunks: word(),
                chunk_bytes: word(),
                generation: word(),
                first: long(),
                len: long(),
            },
            shared: SharedTable {
                claims: AtomicU32::new(0),
                help: AtomicU32::new(0),
                written: word(),
                engaged: word(),
            },
            places: core::array::from_fn(|_| ChunkPlace { address: long(), len: long() }),
        }
    }
}

impl ShownRegion {
    /// Shows a region, under this odd generation; one that grows has no bytes in place yet. By the
    /// owner.
    pub(super) fn show(&self, generation: u32, Shows { address, len, grows }: Shows) {
        self.shown.address.store(address);
        self.shown.len.store(len);
        self.shown.ready.store(if grows { 0 } else { ALL }, Ordering::Relaxed);
        self.shown.generation.store(generation, Ordering::Release);
    }

    /// So many bytes of what is shown, and grows, are in place. By the owner.
    pub(super) fn grow(&self, len: u32) {
        self.shown.ready.store(len, Ordering::Release);
    }

    /// Bytes of what is shown that are in place, from the first on.
    pub(super) fn ready(&self) -> u64 {
        match self.shown.ready.load(Ordering::Acquire) {
            ALL => u64::MAX,
            len => len.into(),
        }
    }

    /// Shows it no more. A reader that has not seen this when it has read, has read what was shown.
    /// By the owner.
    pub(super) fn hide(&self, generation: u32) {
        self.shown.generation.store(generation.wrapping_add(1), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Address and length of what is shown under that generation.
    pub(super) fn look(&self, generation: u32) -> Result<(u64, u64), Cause> {
        let here = self.shown.generation.load(Ordering::Acquire) == generation && generation & 1 == 1;
        let found = (self.shown.address.load(), self.shown.len.load());
        if here && self.is_shown(generation) { Ok(found) } else { Err(Cause::Stale) }
    }

    /// Returns true if what was read before this call was shown all the while.
    pub(super) fn is_shown(&self, generation: u32) -> bool {
        fence(Ordering::Acquire);
        self.shown.generation.load(Ordering::Relaxed) == generation
    }

    /// Takes the owner's help for reads of one reader. False while another reader has it. By a
    /// reader that does not have it.
    pub(super) fn take_help(&self) -> bool {
        self.shared.help.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Offers the chunks of a read, whose places begin at `target`. By the reader that has the
    /// help, when no offer is open and the owner is [not engaged](Self::is_engaged): nothing else
    /// uses the offer, the places or what was written until the last store.
    pub(super) fn offer(&self, offered: &Offered, target: u64) {
        for (index, place) in (0..offered.chunks).zip(&self.places) {
            if let Some((start, len)) = offered.range(index) {
                place.address.store(target.wrapping_add(start));
                place.len.store(len as u64);
            }
        }
        self.offer.first.store(offered.first);
        self.offer.len.store(offered.len);
        self.offer.chunk_bytes.store(offered.chunk_bytes, Ordering::Relaxed);
        self.offer.chunks.store(offered.chunks, Ordering::Relaxed);
        self.offer.generation.store(offered.generation, Ordering::Relaxed);
        self.shared.written.store(0, Ordering::Relaxed);
        self.shared.claims.store(Claims::new(offered.serial, 0, 0).0, Ordering::Release);
        self.offer.serial.store(offered.serial.into(), Ordering::Release);
    }

    /// Ends an offer: the owner engages itself for it no more. Whether it still
    /// [is](Self::is_engaged) is to be asked after this. By the reader that has the help.
    pub(super) fn close(&self) {
        self.offer.serial.store(0, Ordering::Relaxed);
        // Either the owner sees this when it has engaged itself, or this side sees that it has.
        fence(Ordering::SeqCst);
    }

    /// Gives the help back, for the next reader that wants it. By the reader that has it, when its
    /// offer is closed and the owner not engaged.
    pub(super) fn give_help_back(&self) {
        self.shared.help.store(0, Ordering::Release);
    }

    /// The offer there is. By the owner.
    fn offered(&self) -> Option<Offered> {
        let serial = self.offer.serial.load(Ordering::Acquire) as u16;
        let offered = Offered {
            serial,
            first: self.offer.first.load(),
            len: self.offer.len.load(),
            chunk_bytes: self.offer.chunk_bytes.load(Ordering::Relaxed),
            chunks: self.offer.chunks.load(Ordering::Relaxed),
            generation: self.offer.generation.load(Ordering::Relaxed),
        };
        (serial != 0 && offered.chunks <= CHUNKS_MAX && offered.chunk_bytes > 0).then_some(offered)
    }

    /// Engages the owner, in this thread, for the offer there is of the region of that generation,
    /// if any chunk may be left. From here to [`disengage`](Self::disengage) the offer stays what
    /// it is, but for being closed, and so do the places, but for being emptied. By the owner.
    pub(super) fn engage(&self, generation: u32, thread: u32) -> Option<Offered> {
        let offered = self.offered()?;
        let (serial, back, front) = Claims(self.shared.claims.load(Ordering::Relaxed)).open();
        if serial != offered.serial || back + front >= offered.chunks {
            return None;
        }
        self.shown.thread.store(thread, Ordering::Relaxed);
        self.shared.engaged.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // What was seen before may be of an offer that has ended since.
        let offered = self.offered().filter(|offered| offered.generation == generation);
        if offered.is_none() {
            self.disengage();
        }
        offered
    }

    /// Ends the engagement: the owner has recorded all that it has written, and writes no more. By
    /// the owner.
    pub(super) fn disengage(&self) {
        self.shared.engaged.store(0, Ordering::Release);
    }

    /// Returns true if the owner may still write to places of this entry. By the reader that has
    /// the help; lasting only once its offer is closed, or all chunks are taken.
    pub(super) fn is_engaged(&self) -> bool {
        self.shared.engaged.load(Ordering::Acquire) != 0
    }

    /// Takes the next chunk from the front, or, for the owner, from the back.
    fn take(&self, serial: u16, chunks: u32, from_back: bool) -> Chunk {
        let mut now = Claims(self.shared.claims.load(Ordering::Acquire));
        loop {
            let (current, back, front) = now.open();
            if current != serial {
                return Chunk::Gone;
            }
            if back + front >= chunks {
                return Chunk::Taken(back);
            }
            let next = if from_back {
                Claims::new(serial, back + 1, front)
            } else {
                Claims::new(serial, back, front + 1)
            };
            let order = (Ordering::SeqCst, Ordering::Acquire);
            match self.shared.claims.compare_exchange_weak(now.0, next.0, order.0, order.1) {
                Ok(_) if from_back => return Chunk::Yours(chunks - 1 - back),
                Ok(_) => return Chunk::Yours(front),
                Err(other) => now = Claims(other),
            }
        }
    }

    /// Takes the next chunk from the front. By the reader.
    pub(super) fn take_front(&self, serial: u16, chunks: u32) -> Chunk {
        self.take(serial, chunks, false)
    }

    /// Takes the last chunk that is left. By the owner, engaged.
    pub(super) fn take_back(&self, serial: u16, chunks: u32) -> Chunk {
        self.take(serial, chunks, true)
    }

    /// Returns the place of that chunk in the reader's memory. By the owner.
    pub(super) fn place(&self, index: u32) -> Option<&ChunkPlace> {
        self.places.get(index as usize)
    }

    /// Tells that all of a chunk has been written. By the owner, engaged.
    pub(super) fn tell_written(&self, chunk: u32) {
        let before = self.shared.written.load(Ordering::Relaxed);
        self.shared.written.store(before | bit(chunk), Ordering::Release);
    }

    /// Chunks of the reader's offer that the owner has written whole, by their bits. By the reader.
    pub(super) fn written(&self) -> u32 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Claims all that is left of an offer; how many chunks the owner had taken, if the offer is
    /// still there. By the reader.
    pub(super) fn withdraw(&self, serial: u16, chunks: u32) -> Option<u32> {
        loop {
            match self.take(serial, chunks, false) {
                Chunk::Yours(_) => {}
                Chunk::Taken(back) => return Some(back),
                Chunk::Gone => return None,
            }
        }
    }

    /// Makes every place empty. By the reader.
    pub(super) fn empty_places(&self) {
        for place in &self.places {
            place.len.store(0);
        }
        fence(Ordering::SeqCst);
    }

    /// The thread of the owner that has taken chunks. By the reader.
    pub(super) fn helper(&self) -> u32 {
        self.shown.thread.load(Ordering::Relaxed)
    }
}

/// A rank's table, mapped into this process.
pub struct Table<'m> {
    start: NonNull<ShownRegion>,
    /// Entries of which this rank, as a reader, has the help.
    helped: u32,
    /// The entries among those in which an offer of this rank is open.
    offered: u32,
    memory: PhantomData<&'m [ShownRegion]>,
}

// SAFETY: it gives out nothing but shared references to atomics, and is tied to no thread.
unsafe impl Send for Table<'_> {}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("start", &self.start).finish()
    }
}

impl<'m> Table<'m> {
    /// The table at `start`. A fresh one is all zero.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] for fewer than [`TABLE_BYTES`] or memory that is not aligned to 64
    /// bytes.
    ///
    /// # Safety
    /// * The memory is valid for reads and writes for `'m`, initialised, does not shrink, and is
    ///   used as a table alone.
    /// * One transport of all processes has it as its own table, and no other has it so before the
    ///   memory is zero again. Any other owner of it attaches it as that rank's, of whom its engine
    ///   reads and writes the memory.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Result<Self, Cause> {
        let start = start.cast::<ShownRegion>();
        if len < TABLE_BYTES || !start.is_aligned() {
            return Err(Cause::BadRegion);
        }
        Ok(Self { start, helped: 0, offered: 0, memory: PhantomData })
    }

    pub(super) fn entry(&self, index: u32) -> Option<&'m ShownRegion> {
        // SAFETY: the index is inside of the table, which `new`'s caller vouched for, and an entry
        // is made of atomics.
        (index < ENTRIES).then(|| unsafe { self.start.add(index as usize).as_ref() })
    }

    /// Takes the help of this table's owner for one read of an entry. False where another read has
    /// it, where the owner may still be at a chunk of an offer that was closed, whose places stay
    /// empty as long, and for the entries beyond a word's bits, which are read alone.
    pub(super) fn take_help(&mut self, index: u32) -> bool {
        let (Some(entry), bit) = (self.entry(index), bit(index)) else { return false };
        if bit == 0 || self.offered & bit != 0 {
            return false;
        }
        if self.helped & bit == 0 {
            if !entry.take_help() {
                return false;
            }
            self.helped |= bit;
        }
        if entry.is_engaged() {
            return false;
        }
        self.offered |= bit;
        true
    }

    /// Gives the help back after the offer was closed. While the owner is engaged the entry is left
    /// to this rank, which looks again before its next offer; others read alone.
    pub(super) fn give_help_back(&mut self, index: u32) {
        let (Some(entry), bit) = (self.entry(index), bit(index)) else { return };
        self.offered &= !bit;
        if !entry.is_engaged() {
            self.helped &= !bit;
            entry.give_help_back();
        }
    }
}

const _: () = {
    #[cfg(not(loom))]
    assert!(size_of::<ChunkPlace>() == 16);
    #[cfg(not(loom))]
    assert!(size_of::<ShownRegion>() == 3 * 64 + CHUNKS_MAX as usize * 16);
    assert!(ENTRIES == u64::BITS && CHUNKS_MAX <= u32::BITS);
};
