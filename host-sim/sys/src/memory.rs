//! This module holds `unsafe` code: mappings. Shared memory.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::{AsFd, OwnedFd};

use nix::NixPath;
use nix::errno::Errno;
pub use nix::fcntl::{FallocateFlags, SealFlag};
pub use nix::libc::off_t;
use nix::sys;
pub use nix::sys::memfd::MFdFlags;
pub use nix::sys::mman::{MapFlags, ProtFlags};
pub use nix::sys::stat::{FileStat, Mode};

use crate::call::Call;
use crate::fault::enter;
use crate::file::{FcntlArg, fcntl};

/// `memfd_create(2)`.
///
/// # Errors
/// The system's.
pub fn memfd_create<P: NixPath + ?Sized>(name: &P, flags: MFdFlags) -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::MemfdCreate)?;
    sys::memfd::memfd_create(name, flags)
}

/// `fchmod(2)`.
///
/// # Errors
/// The system's.
pub fn fchmod(file: impl AsFd, mode: Mode) -> Result<(), Errno> {
    let _fault = enter(Call::Fchmod)?;
    sys::stat::fchmod(file, mode)
}

/// `fstat(2)`.
///
/// # Errors
/// The system's.
pub fn fstat(file: impl AsFd) -> Result<FileStat, Errno> {
    let _fault = enter(Call::Fstat)?;
    sys::stat::fstat(file)
}

/// `ftruncate(2)`.
///
/// # Errors
/// The system's.
pub fn ftruncate(file: impl AsFd, length: off_t) -> Result<(), Errno> {
    let _fault = enter(Call::Ftruncate)?;
    nix::unistd::ftruncate(file, length)
}

/// `fallocate(2)`.
///
/// # Errors
/// The system's.
pub fn fallocate(file: impl AsFd, flags: FallocateFlags, offset: off_t, length: off_t) -> Result<(), Errno> {
    let _fault = enter(Call::Fallocate)?;
    nix::fcntl::fallocate(file, flags, offset, length)
}

/// `fcntl(2)`, `F_ADD_SEALS`.
///
/// # Errors
/// The system's.
pub fn add_seals(file: impl AsFd, seals: SealFlag) -> Result<(), Errno> {
    fcntl(file, FcntlArg::F_ADD_SEALS(seals)).map(drop)
}

/// `fcntl(2)`, `F_GET_SEALS`: their bits.
///
/// # Errors
/// The system's.
pub fn seals(file: impl AsFd) -> Result<i32, Errno> {
    fcntl(file, FcntlArg::F_GET_SEALS)
}

/// `mmap(2)`, of a file, at an address that the system chooses.
///
/// # Safety
/// As of [`nix::sys::mman::mmap`].
///
/// # Errors
/// The system's.
pub unsafe fn mmap(
    bytes: NonZeroUsize,
    protection: ProtFlags,
    flags: MapFlags,
    file: impl AsFd,
) -> Result<NonNull<c_void>, Errno> {
    let _fault = enter(Call::Mmap)?;
    // SAFETY: as the caller promises.
    unsafe { sys::mman::mmap(None, bytes, protection, flags, file, 0) }
}

/// `mmap(2)`, `MAP_ANONYMOUS`.
///
/// # Safety
/// As of [`nix::sys::mman::mmap_anonymous`].
///
/// # Errors
/// The system's.
pub unsafe fn mmap_anonymous(
    address: Option<NonZeroUsize>,
    bytes: NonZeroUsize,
    protection: ProtFlags,
    flags: MapFlags,
) -> Result<NonNull<c_void>, Errno> {
    let _fault = enter(Call::Mmap)?;
    // SAFETY: as the caller promises.
    unsafe { sys::mman::mmap_anonymous(address, bytes, protection, flags) }
}

/// `madvise(2)`, `MADV_POPULATE_WRITE`, of Linux 5.14 and newer: makes the pages of a stretch that
/// begins at one, as if each were written, and changes no byte of them.
///
/// # Errors
/// The system's: `EINVAL` if it is too old, `ENOMEM` if nothing is mapped there.
pub fn populate(start: NonNull<c_void>, bytes: usize) -> Result<(), Errno> {
    let _fault = enter(Call::Madvise)?;
    // SAFETY: nothing that a program sees is read or changed, whatever stands there.
    unsafe { sys::mman::madvise(start, bytes, sys::mman::MmapAdvise::MADV_POPULATE_WRITE) }
}

/// `MADV_GUARD_INSTALL`, which nix has no name for.
const GUARD_INSTALL: i32 = 102;

/// `madvise(2)`, `MADV_GUARD_INSTALL`, of Linux 6.13 and newer: whoever touches the pages of a
/// stretch that begins at one gets a signal from then on, as if nothing were mapped there. Unlike a
/// change of protection it makes no mapping of its own, of which a process has a limited number.
///
/// # Safety
/// The caller has mapped the stretch, and nothing else uses it: what stands there is lost.
///
/// # Errors
/// The system's: `EINVAL` if it is too old.
pub unsafe fn install_guard(start: NonNull<c_void>, bytes: usize) -> Result<(), Errno> {
    let _fault = enter(Call::Madvise)?;
    // SAFETY: as the caller promises.
    Errno::result(unsafe { nix::libc::madvise(start.as_ptr(), bytes, GUARD_INSTALL) }).map(drop)
}

/// `munmap(2)`.
///
/// # Safety
/// As of [`nix::sys::mman::munmap`].
///
/// # Errors
/// The system's.
pub unsafe fn munmap(start: NonNull<c_void>, bytes: usize) -> Result<(), Errno> {
    let _fault = enter(Call::Munmap)?;
    // SAFETY: as the caller promises.
    unsafe { sys::mman::munmap(start, bytes) }
}
