//! This module holds `unsafe` code: memory by address and length becomes slices.
//!
//! Data by address and length: the program's, or the library's.

use core::ffi::c_void;

use super::Ptr;
use crate::abi::{MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_IN_PLACE};
use crate::fault::CallFault;

/// The address that the standard calls a choice buffer.
pub(crate) type Address = Ptr<c_void>;

/// The end of the page that nothing is ever mapped to: a null pointer, `MPI_IN_PLACE` and offsets
/// from them are below.
const FIRST_PAGE: usize = 4096;

#[cold]
fn no_data(address: usize) -> CallFault {
    CallFault::new(
        MPI_ERR_BUFFER,
        match address {
            0 => "a null pointer where there are data".to_owned(),
            MPI_IN_PLACE => "MPI_IN_PLACE where there are data".to_owned(),
            address => format!("{address:#x} where there are data"),
        },
    )
}

#[cold]
fn misplaced(argument: &str) -> CallFault {
    CallFault::new(MPI_ERR_BUFFER, format!("MPI_IN_PLACE as {argument}, which is to be memory here"))
}

impl Address {
    /// Returns true for `MPI_IN_PLACE`: no memory, but the word for data that lie where the result
    /// goes.
    #[inline]
    pub(crate) fn is_in_place(self) -> bool {
        self.address() == MPI_IN_PLACE
    }

    /// Refuses `MPI_IN_PLACE` for an argument that is memory.
    pub(crate) fn check(self, argument: &str) -> Result<(), CallFault> {
        if self.is_in_place() { Err(misplaced(argument)) } else { Ok(()) }
    }

    /// Names the argument in a fault of a buffer that is `MPI_IN_PLACE`.
    #[cold]
    pub(crate) fn named(self, argument: &str, fault: CallFault) -> CallFault {
        if self.is_in_place() { misplaced(argument) } else { fault }
    }

    /// An address, at which nothing need be.
    #[inline]
    pub(crate) const fn of(address: usize) -> Self {
        Self(core::ptr::with_exposed_provenance_mut(address))
    }

    /// The address so many bytes further on.
    pub(crate) fn shifted(self, bytes: i64) -> Self {
        Self::of(self.address().wrapping_add_signed(bytes as isize))
    }

    /// The `len` bytes that begin `offset` bytes from here.
    ///
    /// # Errors
    /// No memory where there are data: a null pointer, or a word like `MPI_IN_PLACE`.
    #[inline]
    pub(crate) fn region(self, offset: isize, len: usize) -> Result<Region, CallFault> {
        self.region_in_memory(offset, len).ok_or_else(|| no_data(self.address()))
    }

    /// Returns the same, or nothing if no memory is there.
    #[inline]
    pub(crate) fn region_in_memory(self, offset: isize, len: usize) -> Option<Region> {
        let start = Self::of(self.address().wrapping_add_signed(offset));
        if start.address() < FIRST_PAGE {
            return (len == 0).then_some(Region::NONE);
        }
        Some(Region::new(start, len))
    }
}

#[cold]
pub(crate) fn too_many() -> CallFault {
    CallFault::new(MPI_ERR_COUNT, "more bytes than memory has addresses")
}

/// Bytes of the program's or the library's, by address and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    start: *mut u8,
    len: usize,
}

impl Region {
    /// No bytes.
    pub(crate) const NONE: Self = Self { start: core::ptr::dangling_mut(), len: 0 };

    /// `len` bytes from `start` on, of which nothing is promised yet.
    #[inline]
    pub(crate) const fn new(start: Address, len: usize) -> Self {
        Self { start: start.0.cast(), len }
    }

    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.len
    }

    /// Returns the address at which it begins.
    pub(crate) fn address(self) -> Address {
        Ptr(self.start.cast())
    }

    /// Returns true if the two have a byte in common.
    #[inline]
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let (own, others) = (self.start.addr(), other.start.addr());
        own < others.wrapping_add(other.len)
            && others < own.wrapping_add(self.len)
            && self.len > 0
            && other.len > 0
    }

    /// Its bytes, to be read.
    ///
    /// # Safety
    /// If there are any, they are memory that may be read, and nothing writes them, for as long as
    /// the slice is used. There are at most `isize::MAX`.
    #[inline]
    pub(crate) unsafe fn shown<'a>(self) -> &'a [u8] {
        // SAFETY: they are there, and nothing writes them, as the caller promises; where there are
        // none, the address is not null: it is that of `NONE`, or of a vector.
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }

    /// Its bytes, to be written.
    ///
    /// # Safety
    /// If there are any, they are memory that may be read and written, nothing else reads or writes
    /// them for as long as the slice is used, nor does another slice of them exist. There are at
    /// most `isize::MAX`.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: they are there, and this slice's alone, as the caller promises; where there are
        // none, as in `shown`.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// Memory of the library that lasts as long as an operation.
///
/// # Safety
/// It is owned beside what it is lent to, is neither touched nor given back while that exists, and
/// is dropped after it. There is no other reference to it.
pub(crate) unsafe fn extend_mut<T>(memory: &mut [T]) -> &'static mut [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr(), memory.len()) }
}

/// An object of the library that lasts as long as an operation.
///
/// # Safety
/// The borrower keeps the object there, where it is, and is dropped before it; no call changes it
/// meanwhile.
pub(crate) unsafe fn extend<T>(object: &T) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*core::ptr::from_ref(object) }
}
