//! This module holds `unsafe` code: memory that is lent once and handed out piece by piece to
//! devices.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use aldis_hal::{Cause, Resource};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

/// A stretch of memory of which pieces are taken and never given back.
pub(super) struct Arena {
    start: AtomicPtr<u8>,
    len: AtomicUsize,
    used: AtomicUsize,
}

impl Arena {
    /// No memory.
    pub(super) const fn new() -> Self {
        Self {
            start: AtomicPtr::new(core::ptr::null_mut()),
            len: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
        }
    }

    /// Takes over `memory`, and clears it.
    pub(super) fn lend(&self, memory: &'static mut [u8]) -> Result<(), Cause> {
        memory.fill(0);
        let (start, len) = (memory.as_mut_ptr(), memory.len());
        let none = core::ptr::null_mut();
        let claimed = self.start.compare_exchange(none, start, Ordering::AcqRel, Ordering::Acquire);
        claimed.map_err(|_| Cause::Busy)?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// The next `bytes` at an address that is a multiple of `align`, a power of two; all zero, and
    /// the caller's alone for good.
    pub(super) fn take(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let len = self.len.load(Ordering::Acquire);
        let start = NonNull::new(self.start.load(Ordering::Acquire))?;
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let at = start.addr().get().checked_add(used)?.checked_next_multiple_of(align)?;
            let offset = at - start.addr().get();
            let end = offset.checked_add(bytes).filter(|end| *end <= len)?;
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: `offset` lies within the memory that `lend` took over, or right behind
                // it.
                Ok(_) => return Some(unsafe { start.add(offset) }),
                Err(other) => used = other,
            }
        }
    }

    fn is_lent(&self) -> bool {
        !self.start.load(Ordering::Acquire).is_null()
    }

    fn left(&self) -> usize {
        self.len.load(Ordering::Acquire).saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// The memory of all virtio devices of this program.
static DEVICE_MEMORY: Arena = Arena::new();

/// Hands over the memory from which queues and frames of all virtio devices are taken: once, before
/// the first device. [`bytes_needed`](super::bytes_needed) says how much a card takes.
///
/// # Errors
/// [`Cause::Busy`] if memory was lent before; it is kept.
pub fn lend(memory: &'static mut [u8]) -> Result<(), Cause> {
    DEVICE_MEMORY.lend(memory)
}

/// Returns true once memory was lent.
pub fn is_lent() -> bool {
    DEVICE_MEMORY.is_lent()
}

/// Bytes that are left of the memory lent.
pub fn lent_bytes_left() -> usize {
    DEVICE_MEMORY.left()
}

/// Memory for frames, aligned to a cache line.
pub(super) fn take(bytes: usize) -> Result<NonNull<u8>, Cause> {
    DEVICE_MEMORY.take(bytes, 64).ok_or(Cause::Full(Resource::DeviceMemory))
}

/// The machine that `virtio-drivers` asks for memory: gives it from what was [lent](lend), mapped
/// one to one.
#[derive(Debug)]
pub struct LentFrame;

// SAFETY: `dma_alloc` hands out memory that `lend` was given for good, aligned and zero, no piece
// of it twice. Addresses are the same for devices and program, as the callers of `find_mmio` and
// `find_pci` promise.
unsafe impl Hal for LentFrame {
    fn dma_alloc(pages: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let bytes = pages.saturating_mul(PAGE_SIZE);
        match DEVICE_MEMORY.take(bytes, PAGE_SIZE) {
            Some(start) => (start.addr().get() as PhysAddr, start),
            // Zero tells the caller that there is none.
            None => (0, NonNull::dangling()),
        }
    }

    unsafe fn dma_dealloc(_paddr: PhysAddr, _vaddr: NonNull<u8>, _pages: usize) -> i32 {
        0
    }

    unsafe fn mmio_phys_to_virt(paddr: PhysAddr, _size: usize) -> NonNull<u8> {
        let address = core::num::NonZeroUsize::new(paddr as usize).unwrap_or(core::num::NonZeroUsize::MIN);
        NonNull::with_exposed_provenance(address)
    }

    unsafe fn share(buffer: NonNull<[u8]>, _direction: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr().expose_provenance() as PhysAddr
    }

    unsafe fn unshare(_paddr: PhysAddr, _buffer: NonNull<[u8]>, _direction: BufferDirection) {}
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::boxed::Box;
    use std::vec;

    use super::*;

    #[test]
    fn pieces_are_apart_aligned_and_end_with_the_memory() {
        let arena = Arena::new();
        assert_eq!((arena.take(1, 1), arena.is_lent()), (None, false));
        let memory = Box::leak(vec![7; 3 * PAGE_SIZE + 100].into_boxed_slice());
        let range = memory.as_ptr_range();
        arena.lend(memory).unwrap();
        assert!(arena.is_lent());
        let first = arena.take(10, 64).unwrap();
        let page = arena.take(PAGE_SIZE, PAGE_SIZE).unwrap();
        assert_eq!((first.align_offset(64), page.align_offset(PAGE_SIZE)), (0, 0));
        assert!(page.addr().get() >= first.addr().get() + 10);
        assert!(range.contains(&page.as_ptr().cast_const()));
        // SAFETY: the piece was just handed out.
        assert!(unsafe { page.cast::<[u8; PAGE_SIZE]>().read() }.iter().all(|byte| *byte == 0));
        assert_eq!(arena.take(3 * PAGE_SIZE, 1), None);
        assert_eq!(arena.take(usize::MAX, 64), None);
        let left = arena.left();
        assert!(arena.take(left, 1).is_some() && arena.take(1, 1).is_none());
        assert_eq!(arena.lend(Box::leak(Box::new([0; 8]))), Err(Cause::Busy));
    }
}
