//! This module holds `unsafe` code: tables in memory that C has given.
//!
//! The caller's memory, cut into tables one after the other.

use core::mem::MaybeUninit;
use core::slice;

/// Bytes of which tables are cut; what is cut is nobody else's.
pub(crate) struct MemoryArena {
    rest: &'static mut [MaybeUninit<u8>],
}

/// Bytes that `count` values take at most, whatever the address; `None` if there are not so many.
pub(crate) const fn bytes_of<V>(count: usize) -> Option<usize> {
    match count.checked_mul(size_of::<V>()) {
        Some(bytes) => bytes.checked_add(align_of::<V>() - 1),
        None => None,
    }
}

impl MemoryArena {
    /// The arena of these bytes.
    ///
    /// # Safety
    /// They are there, and nobody else's for as long as what is cut of them is used.
    pub(crate) unsafe fn new(start: *mut u8, bytes: usize) -> Self {
        // SAFETY: by this function's contract; they may hold anything.
        Self { rest: unsafe { slice::from_raw_parts_mut(start.cast(), bytes) } }
    }

    /// The next bytes; `None` if there are not so many.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Option<&'static mut [MaybeUninit<u8>]> {
        let (table, rest) = core::mem::take(&mut self.rest).split_at_mut_checked(bytes)?;
        self.rest = rest;
        Some(table)
    }

    /// Skips bytes up to the next address that is a multiple of `align`, a power of two; `None` if
    /// there are not so many.
    pub(crate) fn align(&mut self, align: usize) -> Option<()> {
        let skipped = self.rest.as_ptr().align_offset(align);
        self.bytes(skipped).map(|_| ())
    }

    /// A table of so many values, each of them `value`; `None` if there is no room.
    pub(crate) fn table<V: Clone>(&mut self, count: usize, value: &V) -> Option<&'static mut [V]> {
        self.align(align_of::<V>())?;
        let table = self.bytes(count.checked_mul(size_of::<V>())?)?;
        // SAFETY: aligned as a V, as many bytes as so many of them have, and nobody else's.
        let entries =
            unsafe { slice::from_raw_parts_mut(table.as_mut_ptr().cast::<MaybeUninit<V>>(), count) };
        for entry in &mut *entries {
            entry.write(value.clone());
        }
        // SAFETY: each has been written.
        Some(unsafe { &mut *(core::ptr::from_mut(entries) as *mut [V]) })
    }

    /// The place of one value; `None` if there is no room.
    pub(crate) fn place<V>(&mut self) -> Option<&'static mut MaybeUninit<V>> {
        self.align(align_of::<V>())?;
        let place = self.bytes(size_of::<V>())?;
        // SAFETY: aligned as a V, of its size, nobody else's, and it may hold anything.
        Some(unsafe { &mut *place.as_mut_ptr().cast::<MaybeUninit<V>>() })
    }
}
