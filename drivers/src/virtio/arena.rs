//! This module holds `unsafe` code: memory that is lent once and handed out piece by piece to
//! devices.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use aldis_hal::{Cause, Resource};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use crate::device_memory::DeviceMemory;

/// A stretch of memory of which pieces are taken and never given back.
pub(super) struct Arena {
    start: AtomicPtr<u8>,
    len: AtomicUsize,
    used: AtomicUsize,
    /// The difference of an address for devices and the program's.
    moved: AtomicUsize,
    /// True if devices' addresses are an IOMMU's.
    is_translated: AtomicBool,
}

impl Arena {
    /// No memory.
    pub(super) const fn new() -> Self {
        Self {
            start: AtomicPtr::new(core::ptr::null_mut()),
            len: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            is_translated: AtomicBool::new(false),
        }
    }

    /// Takes over `memory`, and clears it.
    pub(super) fn lend(&self, memory: DeviceMemory) -> Result<(), Cause> {
        let (len, is_translated) = (memory.bytes(), memory.is_translated());
        let (start, address) = memory.stretch(len, 1).ok_or(Cause::Device)?;
        let address = usize::try_from(address).map_err(|_| Cause::Device)?;
        let moved = address.wrapping_sub(start.addr().get());
        if !moved.is_multiple_of(PAGE_SIZE) {
            return Err(Cause::Unaligned { need: PAGE_SIZE as u32 });
        }
        let none = core::ptr::null_mut();
        let claimed = self.start.compare_exchange(none, start.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        claimed.map_err(|_| Cause::Busy)?;
        // SAFETY: so many bytes of memory that was lent for good, of which nothing is in use yet.
        unsafe { start.write_bytes(0, len) };
        self.moved.store(moved, Ordering::Relaxed);
        self.is_translated.store(is_translated, Ordering::Relaxed);
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// The address for devices of what lies in the memory.
    fn address(&self, at: NonNull<u8>) -> PhysAddr {
        let at = at.as_ptr().expose_provenance();
        at.wrapping_add(self.moved.load(Ordering::Relaxed)) as PhysAddr
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
    lend_device_memory(DeviceMemory::one_to_one(memory))
}

/// Hands over memory like [`lend`] that devices find elsewhere than the program does.
///
/// # Errors
/// [`Cause::Busy`] if memory was lent before; it is kept. [`Cause::Device`] for addresses that are
/// longer than the program's, [`Cause::Unaligned`] for those that differ by a part of a page.
pub fn lend_device_memory(memory: DeviceMemory) -> Result<(), Cause> {
    DEVICE_MEMORY.lend(memory)
}

/// Returns true if devices reach the memory lent by an IOMMU.
pub(super) fn is_translated() -> bool {
    DEVICE_MEMORY.is_translated.load(Ordering::Relaxed)
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

/// The machine that `virtio-drivers` asks for memory: gives it from what was [lent](lend), at the
/// addresses that devices have for it.
#[derive(Debug)]
pub struct LentFrame;

// SAFETY: `dma_alloc` hands out memory that `lend` was given for good, aligned and zero, no piece
// of it twice. Devices find it where whoever made the `DeviceMemory` says, and registers are found
// where the devices say, as the callers of `find_mmio` and `find_pci` promise.
unsafe impl Hal for LentFrame {
    fn dma_alloc(pages: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let bytes = pages.saturating_mul(PAGE_SIZE);
        match DEVICE_MEMORY.take(bytes, PAGE_SIZE) {
            Some(start) => (DEVICE_MEMORY.address(start), start),
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
        DEVICE_MEMORY.address(buffer.cast())
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
        let moved = memory.as_ptr().expose_provenance() as u64 + 0x10_0000;
        // SAFETY: no device is told the addresses.
        let odd = unsafe { DeviceMemory::at(Box::leak(Box::new([0; 8])), 1) };
        assert_eq!(arena.lend(odd), Err(Cause::Unaligned { need: 4096 }));
        // SAFETY: as above.
        arena.lend(unsafe { DeviceMemory::at(memory, moved) }).unwrap();
        assert!(arena.is_lent());
        let first = arena.take(10, 64).unwrap();
        let page = arena.take(PAGE_SIZE, PAGE_SIZE).unwrap();
        assert_eq!((first.align_offset(64), page.align_offset(PAGE_SIZE)), (0, 0));
        assert_eq!(arena.address(page), page.addr().get() as u64 + 0x10_0000);
        assert!(page.addr().get() >= first.addr().get() + 10);
        assert!(range.contains(&page.as_ptr().cast_const()));
        // SAFETY: the piece was just handed out.
        assert!(unsafe { page.cast::<[u8; PAGE_SIZE]>().read() }.iter().all(|byte| *byte == 0));
        assert_eq!(arena.take(3 * PAGE_SIZE, 1), None);
        assert_eq!(arena.take(usize::MAX, 64), None);
        let left = arena.left();
        assert!(arena.take(left, 1).is_some() && arena.take(1, 1).is_none());
        let other = DeviceMemory::one_to_one(Box::leak(Box::new([0; 8])));
        assert_eq!(arena.lend(other), Err(Cause::Busy));
    }
}
