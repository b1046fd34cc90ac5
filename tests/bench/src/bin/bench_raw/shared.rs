//! This module holds `unsafe` code: the mapping that two processes share.

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;

use aldis_bench::batches::{WINDOW_MAX, sum, words};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use crate::Outcome;

/// Words of payload in a line.
pub(crate) const WORDS: usize = 7;

/// Bytes of a rank's area for long messages.
pub(crate) const AREA: usize = 16 << 20;

/// A cache line: payload, and a sequence number that is stored last.
#[repr(C, align(64))]
pub(crate) struct CacheLine {
    payload: [AtomicU64; WORDS],
    sequence: AtomicU64,
}

/// The lines that one rank writes and the other reads.
#[repr(C, align(4096))]
pub(crate) struct RawLines {
    /// For ping-pong and tokens; alone in its pair of lines (neighbours are fetched together on
    /// some processors).
    pub(crate) line: CacheLine,
    unused: [u64; 8],
    /// For messages that follow each other.
    pub(crate) window: [CacheLine; WINDOW_MAX],
}

/// The lines; all zeroes is their state before the first message.
#[repr(C)]
struct Lines {
    ways: [RawLines; 2],
}

/// The memory of both ranks as one of them sees it.
pub(crate) struct RawShared {
    pub(crate) mine: &'static RawLines,
    pub(crate) theirs: &'static RawLines,
    areas: [NonNull<u8>; 2],
}

/// Bytes of the whole mapping.
pub(crate) const BYTES: usize = size_of::<Lines>() + 2 * AREA;

impl CacheLine {
    pub(crate) fn send(&self, sequence: u64, words: usize) {
        for word in self.payload.iter().take(words) {
            word.store(sequence, Ordering::Relaxed);
        }
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Waits for message `sequence` and copies it out. Ranks that only meet may be one message
    /// ahead.
    pub(crate) fn recv(&self, sequence: u64, words: usize, into: &mut [u64; WORDS]) {
        while self.sequence.load(Ordering::Acquire) < sequence {
            core::hint::spin_loop();
        }
        for (to, from) in into.iter_mut().zip(&self.payload).take(words) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

impl RawShared {
    pub(crate) fn map(memory: &File, rank: usize) -> Outcome<Self> {
        let len = NonZeroUsize::new(BYTES).ok_or("an empty mapping")?;
        let flags = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the system's choice aliases nothing of this
        // process.
        let start = unsafe { mmap(None, len, flags, MapFlags::MAP_SHARED, memory, 0)? };
        // SAFETY: the mapping is page-aligned, longer than `Lines`, never unmapped, and every bit
        // pattern is a valid `Lines`, whose fields are all atomics or unused, so that the other
        // process may write while this one reads.
        let Lines { ways: [first, second] } = unsafe { start.cast::<Lines>().as_ref() };
        // SAFETY: both areas lie within the mapping.
        let areas = [0, 1].map(|owner| unsafe { start.cast::<u8>().add(size_of::<Lines>() + owner * AREA) });
        let [low, high] = areas;
        Ok(if rank == 0 {
            Self { mine: first, theirs: second, areas: [low, high] }
        } else {
            Self { mine: second, theirs: first, areas: [high, low] }
        })
    }

    /// Writes the first bytes of this rank's area.
    pub(crate) fn write(&mut self, bytes: usize, value: u8) {
        assert!(bytes <= AREA, "an area has {AREA} bytes");
        let [mine, _] = self.areas;
        // SAFETY: within the area, which the other rank reads only between this rank's token and
        // its own.
        unsafe { mine.write_bytes(value, bytes) }
    }

    /// Adds up the first bytes of the other rank's area, where they are.
    pub(crate) fn sum(&self, bytes: usize) -> u64 {
        assert!(bytes <= AREA, "an area has {AREA} bytes");
        let [_, theirs] = self.areas;
        // SAFETY: within the area, which its owner does not write before this rank's token.
        sum(words(unsafe { core::slice::from_raw_parts(theirs.as_ptr(), bytes) }))
    }

    /// Copies the first bytes of the other rank's area, message by message.
    pub(crate) fn read(&self, into: &mut [u8], message: usize) {
        assert!(into.len() <= AREA, "an area has {AREA} bytes");
        let [_, theirs] = self.areas;
        for (number, to) in into.chunks_mut(message).enumerate() {
            // SAFETY: within the area (checked above), which its owner does not write before this
            // rank's token.
            unsafe {
                let from = theirs.add(number * message);
                core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len());
            }
        }
    }
}
