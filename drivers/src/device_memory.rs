//! This module holds `unsafe` code: the promise of where a device finds memory.

use core::ptr::NonNull;

/// Memory that a device reads and writes, and where the device finds it. Lent for good: a device
/// that is not reset may write to it at any time.
#[derive(Debug)]
pub struct DeviceMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// The address of its first byte for the device.
    address: u64,
    /// True if that is an address of an IOMMU's.
    is_translated: bool,
}

// SAFETY: it stands for a `&'static mut [u8]`, which may go to another thread.
unsafe impl Send for DeviceMemory {}

impl DeviceMemory {
    /// Memory that the device finds where the program does.
    pub fn one_to_one(memory: &'static mut [u8]) -> Self {
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        Self { start: NonNull::from(&mut *memory).cast(), bytes: memory.len(), address, is_translated: false }
    }

    /// Memory that the device finds from `address` on: where the program's addresses are not the
    /// bus's.
    ///
    /// # Safety
    /// The bytes at `address` for the device are those of `memory`, as many and in order, for good.
    pub unsafe fn at(memory: &'static mut [u8], address: u64) -> Self {
        Self { address, ..Self::one_to_one(memory) }
    }

    /// Memory that the device finds from `address` on, behind an IOMMU. A device that may go past
    /// the IOMMU is refused by its driver.
    ///
    /// # Safety
    /// The IOMMU has the bytes of `memory` at `address`, as many and in order, for good.
    pub unsafe fn translated(memory: &'static mut [u8], address: u64) -> Self {
        Self { address, is_translated: true, ..Self::one_to_one(memory) }
    }

    /// Returns true if its addresses are an IOMMU's.
    pub(crate) const fn is_translated(&self) -> bool {
        self.is_translated
    }

    /// The bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first stretch of `bytes` whose address is a multiple of `align` for the device and for
    /// the program: its start, and its address for the device.
    pub(crate) fn stretch(self, bytes: usize, align: usize) -> Option<(NonNull<u8>, u64)> {
        let skipped = self.start.align_offset(align);
        let address = self.address.checked_add(skipped as u64)?;
        let end = skipped.checked_add(bytes).filter(|end| *end <= self.bytes)?;
        let last = address.checked_add((end - skipped) as u64);
        if !address.is_multiple_of(align as u64) || last.is_none() {
            return None;
        }
        // SAFETY: `skipped` lies within the memory, or right behind it.
        Some((unsafe { self.start.add(skipped) }, address))
    }
}
