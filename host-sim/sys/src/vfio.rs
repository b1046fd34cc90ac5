//! This module holds `unsafe` code: calls that `nix` has no function for, and mappings. PCI devices
//! in the hands of a process (VFIO): containers, groups of devices, and devices.

use core::ffi::{CStr, c_int, c_ulong, c_void};
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::{self, off_t};
use nix::sys::mman;

use crate::call::Call;
use crate::fault::enter;
use crate::memory::{MapFlags, ProtFlags};

/// The device that makes containers.
pub const CONTAINER: &str = "/dev/vfio/vfio";

/// The version of the interface that is spoken here.
pub const VERSION: c_int = 0;

/// The region of a PCI device that is its configuration space; those before it are its base
/// addresses.
pub const CONFIGURATION: u32 = 7;

/// The event by which the system asks for a device back, among a PCI device's interrupts.
const REQUEST: u32 = 4;

/// The calls, of those that `ioctl` makes (`linux/vfio.h`).
const GET_API_VERSION: c_ulong = call(0);
const CHECK_EXTENSION: c_ulong = call(1);
const SET_IOMMU: c_ulong = call(2);
const GROUP_GET_STATUS: c_ulong = call(3);
const GROUP_SET_CONTAINER: c_ulong = call(4);
const GROUP_GET_DEVICE: c_ulong = call(6);
const DEVICE_GET_REGION: c_ulong = call(8);
const DEVICE_SET_INTERRUPTS: c_ulong = call(10);
const IOMMU_MAP: c_ulong = call(13);

/// The number of a call: `_IO(';', 100 + number)`, with the bits of a call without a direction as
/// most architectures have them.
const fn call(number: c_ulong) -> c_ulong {
    (b';' as c_ulong) << 8 | (100 + number)
}

/// The way by which devices of a container reach memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VfioIommu {
    /// By an IOMMU of type 1, second version: PCs, Arm.
    Type1,
    /// By none: at the addresses of the bus.
    None,
}

impl VfioIommu {
    const fn number(self) -> c_int {
        match self {
            Self::Type1 => 3,
            Self::None => 8,
        }
    }
}

/// A region of a device, in the device's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VfioRegion {
    /// Bytes; zero if there is none.
    pub bytes: u64,
    /// The place in the file.
    pub offset: u64,
    /// True if it can be mapped.
    pub is_mappable: bool,
}

/// `ioctl(2)`, `VFIO_GET_API_VERSION`.
///
/// # Errors
/// The system's.
pub fn api_version(container: &impl AsFd) -> Result<c_int, Errno> {
    say(container, GET_API_VERSION, 0)
}

/// `ioctl(2)`, `VFIO_CHECK_EXTENSION`: whether the system has this way to memory.
///
/// # Errors
/// The system's.
pub fn has_iommu(container: &impl AsFd, iommu: VfioIommu) -> Result<bool, Errno> {
    say(container, CHECK_EXTENSION, iommu.number()).map(|has| has > 0)
}

/// `ioctl(2)`, `VFIO_SET_IOMMU`: the way to memory of a container that has a group.
///
/// # Errors
/// The system's.
pub fn set_iommu(container: &impl AsFd, iommu: VfioIommu) -> Result<(), Errno> {
    say(container, SET_IOMMU, iommu.number()).map(drop)
}

/// `ioctl(2)`, `VFIO_GROUP_GET_STATUS`: whether all devices of the group are free for processes.
///
/// # Errors
/// The system's.
pub fn is_viable(group: &impl AsFd) -> Result<bool, Errno> {
    const VIABLE: u32 = 1;
    let mut status = GroupStatus { bytes: size_of::<GroupStatus>() as u32, flags: 0 };
    // SAFETY: the system reads and writes so many bytes, all of them numbers.
    unsafe { pass(group, GROUP_GET_STATUS, &raw mut status) }?;
    Ok(status.flags & VIABLE != 0)
}

/// `ioctl(2)`, `VFIO_GROUP_SET_CONTAINER`: puts a group into a container.
///
/// # Errors
/// The system's.
pub fn set_container(group: &impl AsFd, container: &impl AsFd) -> Result<(), Errno> {
    let mut number = container.as_fd().as_raw_fd();
    // SAFETY: the system reads a number.
    unsafe { pass(group, GROUP_SET_CONTAINER, &raw mut number) }
}

/// `ioctl(2)`, `VFIO_GROUP_GET_DEVICE_FD`: opens the device of this address, which is reset where
/// it can be. A program that is executed does not inherit it.
///
/// # Errors
/// The system's: `EBUSY` if a process has it, `ENODEV` if the group has no such device.
pub fn open_device(group: &impl AsFd, address: &CStr) -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::Ioctl)?;
    // SAFETY: the system reads a text that ends with a zero.
    let number = unsafe { libc::ioctl(group.as_fd().as_raw_fd(), GROUP_GET_DEVICE, address.as_ptr()) };
    let number = Errno::result(number)?;
    // SAFETY: the number of a file that was opened just now, and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `ioctl(2)`, `VFIO_DEVICE_GET_REGION_INFO`: a region of a device.
///
/// # Errors
/// The system's: `EINVAL` for a region that there cannot be.
pub fn region(device: &impl AsFd, index: u32) -> Result<VfioRegion, Errno> {
    const MAPPABLE: u32 = 1 << 2;
    let bytes = size_of::<RegionInfo>() as u32;
    let mut info = RegionInfo { bytes, flags: 0, index, more: 0, size: 0, offset: 0 };
    // SAFETY: the system reads and writes so many bytes, all of them numbers.
    unsafe { pass(device, DEVICE_GET_REGION, &raw mut info) }?;
    Ok(VfioRegion { bytes: info.size, offset: info.offset, is_mappable: info.flags & MAPPABLE != 0 })
}

/// `ioctl(2)`, `VFIO_DEVICE_SET_IRQS`: has a counter be added to when the system asks for the
/// device back: its driver is unbound, or it is being removed. The system waits until the device
/// is closed.
///
/// # Errors
/// The system's.
pub fn announce_request(device: &impl AsFd, counter: &impl AsFd) -> Result<(), Errno> {
    const FILE: u32 = 1 << 2;
    const TRIGGER: u32 = 1 << 5;
    let mut request = InterruptSet {
        bytes: size_of::<InterruptSet>() as u32,
        flags: FILE | TRIGGER,
        index: REQUEST,
        start: 0,
        count: 1,
        file: counter.as_fd().as_raw_fd(),
    };
    // SAFETY: the system reads so many bytes, all of them numbers.
    unsafe { pass(device, DEVICE_SET_INTERRUPTS, &raw mut request) }
}

/// `ioctl(2)`, `VFIO_IOMMU_MAP_DMA`: has devices of the container find memory at an address, to be
/// read and written. The memory is locked as long as the container is open.
///
/// # Errors
/// The system's: `ENOMEM` if the process may lock no more memory, `EINVAL` for an address that
/// the IOMMU does not have.
///
/// # Safety
/// The memory is mapped, stays so as long as the container is open, and is accessed as devices'
/// memory is.
pub unsafe fn map_memory(
    container: &impl AsFd,
    start: NonNull<u8>,
    bytes: usize,
    address: u64,
) -> Result<(), Errno> {
    const READ_AND_WRITE: u32 = 1 << 0 | 1 << 1;
    let mut map = MemoryMap {
        bytes: size_of::<MemoryMap>() as u32,
        flags: READ_AND_WRITE,
        start: start.as_ptr().expose_provenance() as u64,
        address,
        size: bytes as u64,
    };
    // SAFETY: the system reads so many bytes, all of them numbers, of which one is an address whose
    // memory the caller vouches for.
    unsafe { pass(container, IOMMU_MAP, &raw mut map) }
}

/// `mmap(2)`, of a region of a device at an address below 4 GiB, to be unmapped by
/// [`munmap`](crate::memory::munmap). Nothing that is mapped already is replaced.
///
/// # Errors
/// The system's: `EEXIST` if something is mapped there, `EINVAL` for a region without bytes.
pub fn map_region_at(
    device: &impl AsFd,
    region: VfioRegion,
    address: NonZeroUsize,
) -> Result<NonNull<c_void>, Errno> {
    let _fault = enter(Call::Mmap)?;
    let bytes = usize::try_from(region.bytes).ok().and_then(NonZeroUsize::new).ok_or(Errno::EINVAL)?;
    let offset = off_t::try_from(region.offset).map_err(|_| Errno::EINVAL)?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_SHARED | MapFlags::from_bits_retain(libc::MAP_FIXED_NOREPLACE);
    // SAFETY: a new mapping, which replaces none.
    let mapped = unsafe { mman::mmap(Some(address), bytes, protection, flags, device, offset) }?;
    if mapped.addr() == address {
        return Ok(mapped);
    }
    // A system before 4.17 takes the address for a wish.
    // SAFETY: mapped just now, and used by nobody.
    unsafe { mman::munmap(mapped, bytes.get()) }?;
    Err(Errno::EEXIST)
}

#[repr(C)]
struct GroupStatus {
    bytes: u32,
    flags: u32,
}

#[repr(C)]
struct RegionInfo {
    bytes: u32,
    flags: u32,
    index: u32,
    more: u32,
    size: u64,
    offset: u64,
}

#[repr(C)]
struct InterruptSet {
    bytes: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    file: c_int,
}

#[repr(C)]
struct MemoryMap {
    bytes: u32,
    flags: u32,
    start: u64,
    address: u64,
    size: u64,
}

/// `ioctl(2)`, of those whose argument is a number.
fn say(file: &impl AsFd, number: c_ulong, argument: c_int) -> Result<c_int, Errno> {
    let _fault = enter(Call::Ioctl)?;
    // SAFETY: it touches no memory.
    let answered =
        unsafe { libc::ioctl(file.as_fd().as_raw_fd(), number, c_ulong::from(argument.cast_unsigned())) };
    Errno::result(answered)
}

/// `ioctl(2)`, of those whose argument is memory.
///
/// # Safety
/// The system reads and writes no more than the value, any bits of which are one, and what the
/// caller vouches for.
unsafe fn pass<T>(file: &impl AsFd, number: c_ulong, argument: *mut T) -> Result<(), Errno> {
    let _fault = enter(Call::Ioctl)?;
    // SAFETY: by this function's contract.
    let answered = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), number, argument) };
    Errno::result(answered).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{OpenOptions, open};

    /// Tries what takes no device: calls on files that are none of VFIO's.
    #[test]
    fn files_that_are_none_of_vfio_refuse() {
        let file = open("/dev/null", OpenOptions::new().read(true).write(true)).unwrap();
        assert_eq!(api_version(&file), Err(Errno::ENOTTY));
        assert_eq!(has_iommu(&file, VfioIommu::Type1), Err(Errno::ENOTTY));
        assert_eq!(set_iommu(&file, VfioIommu::None), Err(Errno::ENOTTY));
        assert_eq!(is_viable(&file), Err(Errno::ENOTTY));
        assert_eq!(set_container(&file, &file), Err(Errno::ENOTTY));
        assert_eq!(open_device(&file, c"0000:00:04.0").unwrap_err(), Errno::ENOTTY);
        assert_eq!(region(&file, CONFIGURATION), Err(Errno::ENOTTY));
        assert_eq!(announce_request(&file, &file), Err(Errno::ENOTTY));
    }

    #[test]
    fn a_region_is_mapped_below_4_gib_where_nothing_is() {
        let file = crate::memory::memfd_create("region", crate::memory::MFdFlags::MFD_CLOEXEC).unwrap();
        crate::memory::ftruncate(&file, 4096).unwrap();
        let region = VfioRegion { bytes: 4096, offset: 0, is_mappable: true };
        let mut places = (1..64_usize).filter_map(|place| NonZeroUsize::new(place << 24));
        let mapped = places.find_map(|place| map_region_at(&file, region, place).ok()).unwrap();
        assert_eq!(map_region_at(&file, region, mapped.addr()), Err(Errno::EEXIST));
        let empty = VfioRegion { bytes: 0, ..region };
        assert_eq!(map_region_at(&file, empty, NonZeroUsize::MIN), Err(Errno::EINVAL));
        // SAFETY: mapped just now, and used by nobody.
        unsafe { crate::memory::munmap(mapped, 4096) }.unwrap();
    }
}
