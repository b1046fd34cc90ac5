//! This module holds `unsafe` code: memory is allocated for the program.
//!
//! Memory for programs (`MPI_Alloc_mem`), with its length in front of it.

use core::alloc::Layout;
use std::alloc::{alloc_zeroed, dealloc};

use super::{Address, Ptr};

/// The alignment of the memory, and the room in front of it.
const LINE: usize = 64;

/// Memory of so many bytes; null if there is none.
pub(crate) fn allocate(bytes: usize) -> Address {
    let Ok(layout) = Layout::from_size_align(bytes.saturating_add(LINE), LINE) else {
        return Address::NULL;
    };
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Address::NULL;
    }
    // SAFETY: the line in front has room for it.
    unsafe { start.cast::<usize>().write(layout.size()) };
    Ptr(start.wrapping_add(LINE).cast())
}

/// Gives it back.
///
/// # Safety
/// It is null, or of [`allocate`], and used no more.
pub(crate) unsafe fn free(memory: Address) {
    if memory.is_null() {
        return;
    }
    let start = memory.0.cast::<u8>().wrapping_sub(LINE);
    // SAFETY: `allocate` has made it, and written its size there.
    unsafe {
        let size = start.cast::<usize>().read();
        dealloc(start, Layout::from_size_align_unchecked(size, LINE));
    }
}
