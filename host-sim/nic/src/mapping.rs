//! This module holds `unsafe` code: mappings. Memory that is shared with a peer of a memif, or with
//! the system.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::{AsFd, OwnedFd};

use aldis_drivers::memif::RegionMemory;
use aldis_sys::memory::{
    FallocateFlags, MFdFlags, MapFlags, ProtFlags, SealFlag, add_seals, fallocate, fstat, ftruncate,
    memfd_create, mmap, mmap_anonymous, munmap, off_t, seals,
};
use aldis_sys::xdp::{XdpRingKind, map_ring};
use aldis_sys::{Call, CallFailure, Errno, uninterrupted};

/// The name of the file of a client's region.
const NAME: &str = "aldis-memif";

/// Memory of a region, unmapped on drop.
#[derive(Debug)]
pub(crate) struct RegionMapping {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: plain memory of the process, not bound to a thread, and nothing but its address is handed
// out.
unsafe impl Send for RegionMapping {}

// SAFETY: the address and the bytes of a mapping that stays as long as the value; its file is
// sealed against shrinking, or there is none, or it is the system's own; nothing else in this
// process uses it.
unsafe impl RegionMemory for RegionMapping {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

impl RegionMapping {
    /// Makes a region of so many bytes, all zero, backed by memory and sealed. Returns its file
    /// too.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn create(bytes: usize) -> Result<(OwnedFd, Self), CallFailure> {
        let length = off_t::try_from(bytes).unwrap_or(off_t::MAX);
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create(NAME, flags).map_err(CallFailure::of(Call::MemfdCreate))?;
        uninterrupted(|| ftruncate(&file, length)).map_err(CallFailure::of(Call::Ftruncate))?;
        let allocated = uninterrupted(|| fallocate(&file, FallocateFlags::empty(), 0, length));
        allocated.map_err(CallFailure::of(Call::Fallocate))?;
        let both = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        add_seals(&file, both).map_err(CallFailure::of(Call::Fcntl))?;
        let mapping = Self::map(&file, bytes)?;
        Ok((file, mapping))
    }

    /// Maps a region of so many bytes that a peer has made. `None` for a file that is shorter, or
    /// that the peer could still make shorter, so that an access would end this process.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn take(file: &OwnedFd, bytes: u64) -> Result<Option<Self>, CallFailure> {
        let found = fstat(file).map_err(CallFailure::of(Call::Fstat))?.st_size;
        let bits = match seals(file) {
            // Of a file that cannot be sealed at all.
            Err(Errno::EINVAL) => 0,
            asked => asked.map_err(CallFailure::of(Call::Fcntl))?,
        };
        let is_sealed = SealFlag::from_bits_truncate(bits).contains(SealFlag::F_SEAL_SHRINK);
        let is_long = u64::try_from(found).is_ok_and(|found| found >= bytes);
        match usize::try_from(bytes) {
            Ok(bytes) if is_sealed && is_long => Self::map(file, bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Memory of this process alone, all zero, for frames that the system reads and writes.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn area(bytes: usize) -> Result<Self, CallFailure> {
        let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        Self::made(bytes, |bytes| {
            // SAFETY: as in `map`.
            unsafe { mmap_anonymous(None, bytes, protection, flags | MapFlags::MAP_POPULATE) }
        })
    }

    /// A ring of a socket of AF_XDP, of so many bytes.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn ring(socket: impl AsFd, ring: XdpRingKind, bytes: usize) -> Result<Self, CallFailure> {
        Self::made(bytes, |bytes| map_ring(&socket, ring, bytes))
    }

    fn map(file: impl AsFd, bytes: usize) -> Result<Self, CallFailure> {
        let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
        Self::made(bytes, |bytes| {
            // SAFETY: a new mapping at an address of the system's choice; it overlaps nothing that
            // Rust knows of.
            unsafe { mmap(bytes, protection, flags, file) }
        })
    }

    /// The mapping of so many bytes that this call makes.
    fn made(
        bytes: usize,
        map: impl FnOnce(NonZeroUsize) -> Result<NonNull<c_void>, Errno>,
    ) -> Result<Self, CallFailure> {
        let failed = CallFailure::of(Call::Mmap);
        let bytes = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL).map_err(&failed)?;
        let start = map(bytes).map_err(&failed)?;
        Ok(Self { start: start.cast(), bytes })
    }
}

impl Drop for RegionMapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped, to which no reference is left. A failure
        // leaves it mapped, which does no harm.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}
