//! This module holds `unsafe` code: rings in memory that the system reads and writes too.

use super::XdpRingMemory;
use super::ring::RingWords;
use crate::region_memory::RegionMemory;
use crate::sync::AtomicU32;

/// The most entries of a ring: each has a chunk, whose number has 16 bits.
const ENTRIES_MAX: u32 = 1 << 16;

/// A ring in mapped memory.
#[derive(Debug)]
pub(super) struct MappedRing<M> {
    of: XdpRingMemory<M>,
    /// Words of all entries.
    words: usize,
}

impl<M: RegionMemory> MappedRing<M> {
    /// The ring of this memory, whose entries have `width` words; `None` if a part of it does not
    /// lie there or is not aligned, or the number of entries is no power of two.
    pub(super) fn new(of: XdpRingMemory<M>, width: usize) -> Option<Self> {
        let is_ring = of.entries.is_power_of_two() && of.entries <= ENTRIES_MAX;
        let words = (of.entries as usize).checked_mul(width).filter(|_| is_ring)?;
        let layout = of.layout;
        let lies_there = |at: usize, words: usize| {
            let end = at.checked_add(words.checked_mul(size_of::<AtomicU32>())?)?;
            let is_aligned = of.memory.start().addr().get().checked_add(at)?.is_multiple_of(4);
            (is_aligned && end <= of.memory.bytes()).then_some(())
        };
        for at in [layout.producer_at, layout.consumer_at, layout.flags_at] {
            lies_there(at, 1)?;
        }
        lies_there(layout.entries_at, words)?;
        Some(Self { of, words })
    }

    /// The number of entries.
    pub(super) const fn entries(&self) -> u32 {
        self.of.entries
    }

    /// The words.
    pub(super) fn words(&self) -> RingWords<'_> {
        let (start, layout) = (self.of.memory.start(), self.of.layout);
        // SAFETY: `new` has seen that each of them lies in the memory and is aligned, and the
        // memory stays as long as this value; atomics are for memory that others write.
        unsafe {
            RingWords {
                producer: start.add(layout.producer_at).cast().as_ref(),
                consumer: start.add(layout.consumer_at).cast().as_ref(),
                flags: start.add(layout.flags_at).cast().as_ref(),
                entries: core::slice::from_raw_parts(
                    start.add(layout.entries_at).cast().as_ptr(),
                    self.words,
                ),
            }
        }
    }
}
