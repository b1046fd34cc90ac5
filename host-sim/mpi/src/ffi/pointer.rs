//! This module holds `unsafe` code: pointers of C are followed.
//!
//! Pointers that a program gives to a function of MPI, and arrays and strings of the program's.

use core::ffi::{CStr, c_char};
use core::fmt;
use core::marker::PhantomData;

use super::region::too_many;
use crate::abi::MPI_ERR_ARG;
use crate::fault::CallFault;

/// A pointer from C to a `T`, or to several: null, or what it points to is there until the call to
/// which it was given returns; for a result of a nonblocking call, until that is complete.
#[repr(transparent)]
pub(crate) struct Ptr<T>(pub(super) *mut T);

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T> fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<T> Ptr<T> {
    /// The null pointer.
    pub(crate) const NULL: Self = Self(core::ptr::null_mut());

    /// The `T` at an address.
    ///
    /// # Safety
    /// It is zero, or a `T` that may be read and written is there for as long as the pointer is
    /// used.
    #[inline]
    pub(crate) const unsafe fn at(address: usize) -> Self {
        Self(core::ptr::with_exposed_provenance_mut(address))
    }

    #[inline]
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }

    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// This address as a pointer to another type.
    ///
    /// # Safety
    /// As for [`at`](Self::at).
    pub(crate) const unsafe fn cast<U>(self) -> Ptr<U> {
        Ptr(self.0.cast())
    }

    #[cold]
    fn missing() -> CallFault {
        CallFault::new(MPI_ERR_ARG, "a null pointer where a result or an array belongs")
    }

    /// Refuses a null pointer before anything is done that has a result.
    #[inline]
    pub(crate) fn check_place(self) -> Result<(), CallFault> {
        if self.is_null() { Err(Self::missing()) } else { Ok(()) }
    }

    /// Writes a result.
    #[inline]
    pub(crate) fn set(self, value: T) -> Result<(), CallFault> {
        if self.is_null() {
            return Err(Self::missing());
        }
        // SAFETY: it is not null, so there is a T, by the contract of the type.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes a result where the program wants it.
    pub(crate) fn set_if(self, value: T) {
        if !self.is_null() {
            // SAFETY: it is not null, so there is a T, by the contract of the type.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// Reads an argument.
    #[inline]
    pub(crate) fn get(self) -> Result<T, CallFault>
    where
        T: Copy,
    {
        if self.is_null() {
            return Err(Self::missing());
        }
        // SAFETY: as in `set`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The array of `len` that begins there, for as long as the argument is.
    ///
    /// # Safety
    /// If it is not null, so many may be read, and written if they ever are.
    #[inline]
    pub(crate) unsafe fn array(&self, len: usize) -> Result<Array<'_, T>, CallFault> {
        if len > 0 && self.is_null() {
            return Err(Self::missing());
        }
        if len > isize::MAX as usize / size_of::<T>() {
            return Err(too_many());
        }
        Ok(Array { start: self.0, len, call: PhantomData })
    }
}

impl Ptr<isize> {
    /// This address as a pointer to a large count, which is as wide.
    pub(crate) const fn wide(self) -> Ptr<i64> {
        const { assert!(size_of::<isize>() == size_of::<i64>()) };
        Ptr(self.0.cast())
    }
}

/// An array of the program's. Its elements are copied in and out: there is no reference to it.
#[derive(Debug)]
pub(crate) struct Array<'call, T> {
    start: *mut T,
    len: usize,
    call: PhantomData<&'call Ptr<T>>,
}

impl<T> Clone for Array<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<'_, T> {}

impl<'call, T: Copy> Array<'call, T> {
    /// An empty one.
    pub(crate) const NONE: Self = Self { start: core::ptr::null_mut(), len: 0, call: PhantomData };

    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.len
    }

    /// An element's place, if there is one of this number.
    #[inline]
    pub(crate) fn place(self, index: usize) -> Option<Ptr<T>> {
        (index < self.len).then(|| Ptr(self.start.wrapping_add(index)))
    }

    /// An element, if there is one of this number.
    #[inline]
    pub(crate) fn get(self, index: usize) -> Option<T> {
        // SAFETY: `array`'s caller promised that there are `len` of them.
        self.place(index).map(|place| unsafe { place.0.read_unaligned() })
    }

    /// Writes an element, if there is one of this number.
    #[inline]
    pub(crate) fn set(self, index: usize, value: T) {
        if let Some(place) = self.place(index) {
            // SAFETY: as in `get`.
            unsafe { place.0.write_unaligned(value) }
        }
    }

    /// All elements, each read when it is its turn.
    #[inline]
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = T> + Clone + use<'call, T> {
        // SAFETY: as in `get`.
        (0..self.len).map(move |index| unsafe { self.start.wrapping_add(index).read_unaligned() })
    }

    /// Those behind the first so many.
    pub(crate) fn behind(self, count: usize) -> Self {
        let count = count.min(self.len);
        Self { start: self.start.wrapping_add(count), len: self.len - count, call: PhantomData }
    }

    /// A copy.
    pub(crate) fn to_vec(self) -> Vec<T> {
        self.iter().collect()
    }

    /// Writes one element after the other, as many as there are of both.
    pub(crate) fn fill(self, values: impl IntoIterator<Item = T>) {
        for (index, value) in (0..self.len).zip(values) {
            self.set(index, value);
        }
    }
}

impl Ptr<c_char> {
    /// A string of the program's.
    pub(crate) fn text(self) -> Result<String, CallFault> {
        if self.is_null() {
            return Err(Self::missing());
        }
        // SAFETY: the program gives a string that ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// Writes a string and a zero into room for `room` bytes, as much of it as fits; how many bytes
    /// it has without the zero.
    pub(crate) fn set_text(self, text: &str, room: usize) -> Result<usize, CallFault> {
        let mut len = text.len().min(room.saturating_sub(1));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        for (index, byte) in text.as_bytes().iter().take(len).chain([&0]).enumerate() {
            Ptr::<u8>(self.0.wrapping_add(index).cast()).set(*byte)?;
        }
        Ok(len)
    }
}
