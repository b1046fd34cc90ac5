//! This module holds `unsafe` code: memory that both ends, or a hostile one, write to.
//!
//! Shared memory of tests, with guards that show what is written outside of it.

use core::ptr::NonNull;
use std::vec;

use super::RegionMemory;

/// Bytes in front of and behind the memory, which nobody touches.
const GUARD_BYTES: usize = 4096;

/// Memory with guards around it. All clones are the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestMemory {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: leaked memory, which is reached through pointers alone.
unsafe impl RegionMemory for TestMemory {
    fn start(&self) -> NonNull<u8> {
        self.start
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl TestMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let words = vec![u64::from_ne_bytes([0xA5; 8]); (bytes + 2 * GUARD_BYTES).div_ceil(8)].leak();
        // SAFETY: behind the first guard, within the words.
        let start = unsafe { NonNull::from(words).cast::<u8>().add(GUARD_BYTES) };
        let memory = Self { start, bytes };
        (0..bytes).for_each(|at| memory.write(at, 0_u8));
        memory
    }

    /// Writes as a peer does: at once, wherever it likes.
    pub(crate) fn write<T: Copy>(self, at: usize, value: T) {
        assert!(at + size_of::<T>() <= self.bytes);
        // SAFETY: within the memory, as just checked.
        unsafe { self.start.add(at).cast::<T>().write_unaligned(value) };
    }

    pub(crate) fn read<T: Copy>(self, at: usize) -> T {
        assert!(at + size_of::<T>() <= self.bytes);
        // SAFETY: within the memory, as just checked; used for numbers alone.
        unsafe { self.start.add(at).cast::<T>().read_unaligned() }
    }

    /// Checks that nothing was written in front of the memory or behind it.
    pub(crate) fn is_guarded(self) -> bool {
        // SAFETY: the guards are there on both sides.
        let guards = unsafe { [self.start.sub(GUARD_BYTES), self.start.add(self.bytes)] };
        // SAFETY: as above.
        guards.iter().all(|start| (0..GUARD_BYTES).all(|at| unsafe { start.add(at).read() } == 0xA5))
    }
}
