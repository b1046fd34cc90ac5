//! This module holds `unsafe` code: it maps one small file many times in a row.
//!
//! Memory that is longer than there is memory: what is written anywhere stands in every window.

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::libc::off_t;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use nix::unistd::ftruncate;

/// Address space whose bytes are those of a file of `window` bytes, again and again.
#[derive(Debug)]
pub struct Aliased {
    start: NonNull<u8>,
    mapped: NonZeroUsize,
    len: usize,
    window: usize,
}

// SAFETY: the mapping is this value's alone and tied to no thread.
unsafe impl Send for Aliased {}

impl Aliased {
    /// `len` bytes in windows of `window` bytes, which is a multiple of the page size; all zero.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(len: usize, window: NonZeroUsize) -> Result<Self, Errno> {
        let file: OwnedFd = memfd_create("aldis-aliased", MFdFlags::MFD_CLOEXEC)?;
        ftruncate(&file, off_t::try_from(window.get()).map_err(|_| Errno::EFBIG)?)?;
        let bytes = len.checked_next_multiple_of(window.get()).ok_or(Errno::ENOMEM)?;
        let mapped = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        // SAFETY: a new reservation, which replaces nothing.
        let start = unsafe {
            mmap_anonymous(
                None,
                mapped,
                ProtFlags::PROT_NONE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )?
        };
        let aliased = Self { start: start.cast(), mapped, len, window: window.get() };
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED | MapFlags::MAP_POPULATE;
        for at in (0..bytes).step_by(window.get()) {
            let place = NonZeroUsize::new(start.as_ptr() as usize + at);
            // SAFETY: it replaces a part of the reservation just made, which nothing has seen.
            unsafe { mmap(place, window, protection, flags, &file, 0)? };
        }
        Ok(aliased)
    }

    /// All of it. Not to be looked at twice: what is written here appears elsewhere.
    pub const fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped for reads and writes, initialised by the file, borrowed with this value.
        // That two places are one is known to no compiler, so nothing may depend on what stands in
        // one after the other has been written: the transports only copy in and out.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The first window: what all of them hold.
    pub fn window(&mut self) -> &mut [u8] {
        let window = self.window;
        self.bytes().get_mut(..window).unwrap_or_default()
    }
}

impl Drop for Aliased {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.mapped.get()) };
    }
}
