//! This module holds `unsafe` code: memory that PCI devices read and write.

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use aldis_drivers::virtio::{self, DeviceMemory};
use aldis_sys::file::{OpenOptions, open, pread};
use aldis_sys::memory::{MFdFlags, MapFlags, ProtFlags, ftruncate, memfd_create, mmap, off_t};
use aldis_sys::vfio::{VfioIommu, map_memory};
use aldis_sys::{Call, Errno, errno_of, uninterrupted};

use super::device::{VfioDevice, of, system};
use super::error::PciError;
use super::found::FoundCard;
use crate::error::CardError;

/// Bytes of the memory of a card, or of all virtio cards of the process: a huge page, whose bytes
/// follow each other on the bus too.
pub(super) const AREA_BYTES: usize = 2 << 20;

/// The address of the memory behind an IOMMU: above what a PC's devices have for themselves, and
/// within the 39 bits of the narrowest IOMMU.
const ADDRESS: u64 = 1 << 32;

/// The place where the system tells of the memory of this process, and bytes of what it tells of a
/// page.
const PAGE_MAP: &str = "/proc/self/pagemap";
const PAGE_MAP_BYTES: u64 = 8;
const PAGE_BYTES: u64 = 4096;

/// The memory, of which this process has no reference yet.
#[derive(Debug)]
struct Area {
    start: NonNull<u8>,
    /// The address of its first byte for devices.
    address: u64,
    iommu: VfioIommu,
}

// SAFETY: plain memory of the process, not bound to a thread.
unsafe impl Send for Area {}

/// The memory of the virtio cards of this process, once one was opened.
static OF_VIRTIO: Mutex<Option<Area>> = Mutex::new(None);

/// Memory of one card, for the rest of the process.
///
/// # Errors
/// [`PciError::LockedMemory`], [`PciError::NoHugePage`], [`PciError::NoPhysicalAddress`]; the
/// system's.
pub(super) fn of_card(card: &FoundCard, device: &VfioDevice) -> Result<DeviceMemory, CardError> {
    Ok(Area::new(card, device)?.lent())
}

/// Has the drivers of virtio cards take their memory from what this device reaches.
///
/// # Errors
/// [`PciError::OtherMemory`]; the causes of [`of_card`].
pub(super) fn lend_to_virtio(card: &FoundCard, device: &VfioDevice) -> Result<(), CardError> {
    let mut known = OF_VIRTIO.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some(area) if area.iommu != device.iommu => Err(of(card, PciError::OtherMemory)),
        Some(area) => area.reach_from(card, device),
        None => {
            let area = Area::new(card, device)?;
            let Area { start, address, iommu } = area;
            virtio::lend_device_memory(area.lent()).map_err(|cause| of(card, PciError::Refused(cause)))?;
            *known = Some(Area { start, address, iommu });
            Ok(())
        }
    }
}

impl Area {
    /// Makes memory that a device reaches.
    fn new(card: &FoundCard, device: &VfioDevice) -> Result<Self, CardError> {
        let iommu = device.iommu;
        let start = mapped(iommu == VfioIommu::None).map_err(|(call, errno)| match (iommu, errno) {
            (VfioIommu::None, Errno::ENOMEM | Errno::ENOSYS | Errno::EINVAL | Errno::ENODEV) => {
                of(card, PciError::NoHugePage)
            }
            _ => system(card, call)(errno),
        })?;
        let area = Self { start, address: ADDRESS, iommu };
        if iommu == VfioIommu::None {
            let address = contiguous(start, AREA_BYTES).map_err(system(card, Call::Pread))?;
            let address = address.ok_or_else(|| of(card, PciError::NoPhysicalAddress))?;
            return Ok(Self { address, ..area });
        }
        area.reach_from(card, device)?;
        Ok(area)
    }

    /// Has a device behind an IOMMU reach the memory; one without reaches all.
    fn reach_from(&self, card: &FoundCard, device: &VfioDevice) -> Result<(), CardError> {
        if self.iommu == VfioIommu::None {
            return Ok(());
        }
        // SAFETY: the memory stays mapped for the rest of the process, and drivers alone access it.
        let mapped = unsafe { map_memory(&device.container(), self.start, AREA_BYTES, self.address) };
        mapped.map_err(|errno| match errno {
            Errno::ENOMEM => of(card, PciError::LockedMemory { bytes: AREA_BYTES }),
            errno => system(card, Call::Ioctl)(errno),
        })
    }

    /// The memory as drivers take it.
    fn lent(self) -> DeviceMemory {
        let Self { mut start, address, iommu } = self;
        // SAFETY: so many bytes are mapped for the rest of the process, zero at first, and this is
        // the only reference to them: an area is made of a new mapping, and given up here.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start.as_mut(), AREA_BYTES) };
        match iommu {
            // SAFETY: `reach_from` has had the IOMMU of each device of the process's that uses the
            // memory have it there.
            VfioIommu::Type1 => unsafe { DeviceMemory::translated(bytes, address) },
            // SAFETY: it is one page, which is there on the bus, and stays where it is: it is
            // shared, so that no fork moves it, and huge pages are not paged out.
            VfioIommu::None => unsafe { DeviceMemory::at(bytes, address) },
        }
    }
}

/// New memory, all zero, shared with processes that are forked: one huge page, or many.
fn mapped(is_huge: bool) -> Result<NonNull<u8>, (Call, Errno)> {
    let kind = if is_huge { MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB } else { MFdFlags::empty() };
    let bytes = NonZeroUsize::new(AREA_BYTES).unwrap_or(NonZeroUsize::MIN);
    let file = memfd_create("aldis-pci", MFdFlags::MFD_CLOEXEC | kind);
    let file: OwnedFd = file.map_err(|errno| (Call::MemfdCreate, errno))?;
    let length = off_t::try_from(AREA_BYTES).unwrap_or(off_t::MAX);
    uninterrupted(|| ftruncate(&file, length)).map_err(|errno| (Call::Ftruncate, errno))?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
    // SAFETY: a new mapping at an address of the system's choice; it overlaps nothing that Rust
    // knows of.
    let start = unsafe { mmap(bytes, protection, flags, file.as_fd()) };
    start.map(NonNull::cast).map_err(|errno| (Call::Mmap, errno))
}

/// The address on the bus of memory of this process whose first and last page are as far apart
/// there as here. `None` if the process may not know it.
fn contiguous(start: NonNull<u8>, bytes: usize) -> Result<Option<u64>, Errno> {
    let reach = bytes as u64 - PAGE_BYTES;
    let last = start.map_addr(|start| start.saturating_add(reach as usize));
    let both = physical(start)?.zip(physical(last)?);
    Ok(both.filter(|(first, last)| last.checked_sub(*first) == Some(reach)).map(|(first, _)| first))
}

/// The address of a page of this process on the bus. `None` if the process may not know it.
fn physical(page: NonNull<u8>) -> Result<Option<u64>, Errno> {
    let file = open(PAGE_MAP, OpenOptions::new().read(true)).map_err(errno_of)?;
    let mut entry = [0; PAGE_MAP_BYTES as usize];
    let place = page.as_ptr().expose_provenance() as u64 / PAGE_BYTES * PAGE_MAP_BYTES;
    let came = uninterrupted(|| pread(&file, &mut entry, place))?;
    if came != entry.len() { Err(Errno::EIO) } else { Ok(address_in(u64::from_ne_bytes(entry))) }
}

/// The address that the system tells of a page: its number in 55 bits, and whether it is there in
/// the highest. The number is zero for those who may not know it.
fn address_in(entry: u64) -> Option<u64> {
    const IS_THERE: u64 = 1 << 63;
    const NUMBER: u64 = (1 << 55) - 1;
    let number = entry & NUMBER;
    (entry & IS_THERE != 0 && number != 0).then(|| number.checked_mul(PAGE_BYTES)).flatten()
}

#[cfg(test)]
mod tests {
    use aldis_sys::memory::munmap;

    use super::*;

    #[test]
    fn the_system_tells_the_address_of_a_page_to_those_who_may_know() {
        assert_eq!(address_in(1 << 63 | 0x1234), Some(0x123_4000));
        assert_eq!((address_in(0x1234), address_in(1 << 63), address_in(1 << 62 | 5)), (None, None, None));
        let area = mapped(false).unwrap();
        let page = physical(area).unwrap();
        assert_eq!(contiguous(area, PAGE_BYTES as usize).unwrap(), page, "a page is where it is");
        let whole = contiguous(area, AREA_BYTES).unwrap();
        assert!(whole.is_none() || whole == page);
        // SAFETY: mapped just now, and used by nobody.
        unsafe { munmap(area.cast(), AREA_BYTES) }.unwrap();
    }
}
