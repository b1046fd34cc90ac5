//! This module holds `unsafe` code: rings in memory that a peer reads and writes too.
//!
//! A ring is a header of 128 bytes and descriptors. Its head is written by the client and its tail
//! by the server, whichever way frames go. Both count slots and wrap at 2^16. The client is ahead:
//! of a ring to the server by the frames that the server has not taken, and of one to the client by
//! the buffers that the server has not filled. So each end works on the slot at its own index, as
//! long as the other's index allows it: the server up to the client's, and the client up to a
//! ring's length beyond the server's.

use core::ptr::NonNull;

use super::error::MemifError;
use crate::sync::{AtomicU16, AtomicU32, Ordering, fence};

/// The logarithm of the length of the longest ring: what DPDK and libmemif take.
pub(super) const RING_LOG2_MAX: u8 = 14;

/// The word by which a ring begins.
pub(super) const COOKIE: u32 = 0x03E3_1F20;

/// Bytes of the header, and the offsets of its words.
pub(super) const HEADER_BYTES: usize = 128;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;

/// Of a ring's flags: its reader polls, and is not to be rung for.
const READER_POLLS: u16 = 1;

/// The memory orders of the protocol, an argument only for the models: each has a twin with one
/// order relaxed, which must fail.
pub(super) trait MemifOrders {
    /// The store of an end's own index: after all that it has read and written in the slots before.
    const PUBLISH: Ordering = Ordering::Release;
    /// The load of the other's index: before all that is read and written in the slots before it.
    const SEE: Ordering = Ordering::Acquire;
}

/// The orders that ship.
pub(super) struct Exact;
impl MemifOrders for Exact {}

/// The end of a connection. The client has made the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemifRole {
    Client,
    Server,
}

/// A descriptor as it lies in memory.
#[repr(C)]
pub(super) struct DescriptorWords {
    flags: AtomicU16,
    region: AtomicU16,
    length: AtomicU32,
    offset: AtomicU32,
    metadata: AtomicU32,
}

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR_BYTES: usize = 16;

/// The buffer that a descriptor tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BufferPlace {
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) length: u32,
    /// True if the frame goes on in the next one.
    pub(super) has_next: bool,
}

/// Of a descriptor's flags: the frame goes on in the next one.
const HAS_NEXT: u16 = 1;

impl DescriptorWords {
    /// A descriptor of its own, outside shared memory.
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        let (flags, region) = (AtomicU16::new(0), AtomicU16::new(0));
        Self { flags, region, length: zero(), offset: zero(), metadata: zero() }
    }

    /// The buffer that it tells of, each word read once.
    pub(super) fn read(&self) -> BufferPlace {
        BufferPlace {
            region: self.region.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
            length: self.length.load(Ordering::Relaxed),
            has_next: self.flags.load(Ordering::Relaxed) & HAS_NEXT != 0,
        }
    }

    /// Tells of a buffer.
    pub(super) fn write(&self, place: BufferPlace) {
        self.region.store(place.region, Ordering::Relaxed);
        self.offset.store(place.offset, Ordering::Relaxed);
        self.write_filled(place.length, place.has_next);
    }

    /// Tells of what was put into the buffer that stands there.
    pub(super) fn write_filled(&self, length: u32, has_next: bool) {
        self.length.store(length, Ordering::Relaxed);
        self.flags.store(if has_next { HAS_NEXT } else { 0 }, Ordering::Relaxed);
    }
}

/// The words of a ring.
#[derive(Clone, Copy)]
pub(super) struct RingWords<'a> {
    pub(super) flags: &'a AtomicU16,
    pub(super) head: &'a AtomicU16,
    pub(super) tail: &'a AtomicU16,
    /// The descriptors, a power of two of them.
    pub(super) descriptors: &'a [DescriptorWords],
}

/// The progress of an end with a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingProgress {
    role: MemifRole,
    /// The own index.
    own: u16,
    /// Slots that the end may work on, as far as it has seen.
    usable: u16,
}

impl RingProgress {
    /// The beginning: the client of a ring to itself has published no buffer yet.
    pub(super) const fn new(role: MemifRole) -> Self {
        Self { role, own: 0, usable: 0 }
    }

    /// Writes the own index as it is at the beginning.
    pub(super) fn begin<O: MemifOrders>(&mut self, words: RingWords<'_>, own: u16) {
        (self.own, self.usable) = (own, 0);
        self.own_index(words).store(own, O::PUBLISH);
    }

    const fn own_index<'a>(&self, words: RingWords<'a>) -> &'a AtomicU16 {
        match self.role {
            MemifRole::Client => words.head,
            MemifRole::Server => words.tail,
        }
    }

    /// The number of slots that this end may work on.
    ///
    /// # Errors
    /// [`MemifError::Index`] if the other's index has run ahead, or back.
    pub(super) fn usable<O: MemifOrders>(&mut self, words: RingWords<'_>) -> Result<u16, MemifError> {
        let size = words.descriptors.len() as u16;
        let (theirs, ahead) = match self.role {
            MemifRole::Client => (words.tail, size),
            MemifRole::Server => (words.head, 0),
        };
        let index = theirs.load(O::SEE);
        let usable = index.wrapping_add(ahead).wrapping_sub(self.own);
        if usable > size || usable < self.usable {
            return Err(MemifError::Index { index, own: self.own });
        }
        self.usable = usable;
        Ok(usable)
    }

    /// The number of the slot that is so many behind the next.
    pub(super) fn slot(&self, words: RingWords<'_>, behind: u16) -> usize {
        usize::from(self.own.wrapping_add(behind)) & words.descriptors.len().wrapping_sub(1)
    }

    /// Hands so many slots, which were usable, to the other end.
    pub(super) fn advance<O: MemifOrders>(&mut self, words: RingWords<'_>, by: u16) {
        self.fill(by);
        self.publish::<O>(words);
    }

    /// Goes beyond so many slots, which were usable: they are the other end's when that is
    /// [published](Self::publish).
    pub(super) fn fill(&mut self, by: u16) {
        self.own = self.own.wrapping_add(by);
        self.usable = self.usable.saturating_sub(by);
    }

    /// Hands all slots before the next to the other end.
    pub(super) fn publish<O: MemifOrders>(&self, words: RingWords<'_>) {
        self.own_index(words).store(self.own, O::PUBLISH);
    }
}

/// Returns true if the reader of a ring is to be rung for, after a frame was handed to it.
pub(super) fn must_ring(words: RingWords<'_>) -> bool {
    // The index must be seen by a reader before its wish is read here, or it could fall asleep in
    // between and never be rung for.
    fence(Ordering::SeqCst);
    words.flags.load(Ordering::Relaxed) & READER_POLLS == 0
}

/// Tells the other end that this one, the reader of the ring, polls.
pub(super) fn poll_from_now_on(words: RingWords<'_>) {
    words.flags.store(READER_POLLS, Ordering::Relaxed);
}

/// A ring in mapped memory.
#[derive(Debug)]
pub(super) struct MappedRing {
    start: NonNull<u8>,
    descriptors: usize,
}

// SAFETY: it gives out nothing but shared references to atomics, and is tied to no thread.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// Bytes of a ring with so many descriptors.
    pub(super) const fn bytes(descriptors: usize) -> usize {
        HEADER_BYTES + descriptors * DESCRIPTOR_BYTES
    }

    /// The ring of so many descriptors, a power of two, that begins at `start`.
    ///
    /// # Safety
    /// [`bytes`](Self::bytes) from there on are valid for reads and writes as long as the value
    /// lives, aligned to 4 bytes, and in this process nothing but this value and others like it is
    /// used to access them.
    pub(super) const unsafe fn new(start: NonNull<u8>, descriptors: usize) -> Self {
        Self { start, descriptors }
    }

    /// The word by which it begins.
    pub(super) fn cookie(&self) -> &AtomicU32 {
        // SAFETY: `new`'s caller vouches for the memory, which is aligned; atomics are for memory
        // that others write.
        unsafe { self.start.cast::<AtomicU32>().as_ref() }
    }

    /// The words.
    pub(super) fn words(&self) -> RingWords<'_> {
        // SAFETY: `new`'s caller vouches for the header and as many descriptors, which are aligned
        // as the start is; atomics are for memory that others write.
        unsafe {
            RingWords {
                flags: self.start.add(FLAGS_AT).cast().as_ref(),
                head: self.start.add(HEAD_AT).cast().as_ref(),
                tail: self.start.add(TAIL_AT).cast().as_ref(),
                descriptors: core::slice::from_raw_parts(
                    self.start.add(HEADER_BYTES).cast().as_ptr(),
                    self.descriptors,
                ),
            }
        }
    }
}
