//! This module holds `unsafe` code: the only place where pointers of C are followed.
//!
//! A [`Ptr`] is what a C program gives to a function of MPI: null, or a place that is good until
//! the call returns. Functions of the interface are `unsafe` for Rust (`export`): that their
//! arguments are as the standard has them is the program's promise. What can be checked is: no null
//! pointer is followed.
//!
//! # How memory is reached
//!
//! * **Results and arguments**: read and written by value through [`Ptr`], arrays of them through
//!   [`Array`]. There is never a reference to them, so it does no harm if a program gives one array
//!   twice, or looks at it from a function that is called meanwhile.
//! * **Data** are a [`Region`]: bytes by address and length, of the program's (`datatypes::Data`)
//!   or of the library's (`spare`). The maker of a region promises that the memory is there for as
//!   long as it is used. Only [`Region::bytes`] and [`Region::shown`] make references, where they
//!   are handed to the kernel or copied, and keep none. What overlaps by a program's mistake is
//!   refused (`MPI_ERR_BUFFER`) where both would be references.
//! * **The library's objects** ([`lasting`], [`lasting_ref`]): their owner is kept with the
//!   operation in a field that is dropped after what works on them, or the operation holds a count.
//!
//! The kernel takes memory for as long as its scope, which here is the process: hence `'static`.
//! The standard (MPI 5.0, 2.3 and 3.7.2) has the program keep a buffer until the operation on it is
//! complete, or freed if it is persistent, and leave it alone if it is received into.

use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use crate::abi::{MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_IN_PLACE};
use crate::errors::Fault;

/// A pointer from C to a `T`, or to several: null, or what it points to is there until the call to
/// which it was given returns.
#[repr(transparent)]
pub(crate) struct Ptr<T>(*mut T);

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

/// The address that the standard calls a choice buffer.
pub(crate) type Address = Ptr<c_void>;

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
    fn missing() -> Fault {
        Fault::new(MPI_ERR_ARG, "a null pointer where a result or an array belongs")
    }

    /// Refuses a null pointer before anything is done that has a result.
    #[inline]
    pub(crate) fn check_place(self) -> Result<(), Fault> {
        if self.is_null() { Err(Self::missing()) } else { Ok(()) }
    }

    /// Writes a result.
    #[inline]
    pub(crate) fn set(self, value: T) -> Result<(), Fault> {
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
    pub(crate) fn get(self) -> Result<T, Fault>
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
    pub(crate) unsafe fn array(&self, len: usize) -> Result<Array<'_, T>, Fault> {
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

/// The end of the page that nothing is ever mapped to: a null pointer, `MPI_IN_PLACE` and offsets
/// from them are below.
const FIRST_PAGE: usize = 4096;

#[cold]
fn no_data(address: usize) -> Fault {
    Fault::new(
        MPI_ERR_BUFFER,
        match address {
            0 => "a null pointer where there are data".to_owned(),
            MPI_IN_PLACE => "MPI_IN_PLACE where there are data".to_owned(),
            address => format!("{address:#x} where there are data"),
        },
    )
}

#[cold]
fn misplaced(argument: &str) -> Fault {
    Fault::new(MPI_ERR_BUFFER, format!("MPI_IN_PLACE as {argument}, which is to be memory here"))
}

impl Address {
    /// Returns true for `MPI_IN_PLACE`: no memory, but the word for data that lie where the result
    /// goes.
    #[inline]
    pub(crate) fn is_in_place(self) -> bool {
        self.address() == MPI_IN_PLACE
    }

    /// Refuses `MPI_IN_PLACE` for an argument that is memory.
    pub(crate) fn check(self, argument: &str) -> Result<(), Fault> {
        if self.is_in_place() { Err(misplaced(argument)) } else { Ok(()) }
    }

    /// Names the argument in a fault of a buffer that is `MPI_IN_PLACE`.
    #[cold]
    pub(crate) fn named(self, argument: &str, fault: Fault) -> Fault {
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
    /// # Safety
    /// There are at most `isize::MAX`, and unless the address is null or a word like
    /// `MPI_IN_PLACE`, they are as [`Region::new`] has it.
    ///
    /// # Errors
    /// No memory where there are data.
    #[inline]
    pub(crate) unsafe fn region(self, offset: isize, len: usize) -> Result<Region, Fault> {
        if len == 0 {
            return Ok(Region::NONE);
        }
        let start = Self::of(self.address().wrapping_add_signed(offset));
        if start.address() < FIRST_PAGE {
            return Err(no_data(self.address()));
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { Region::new(start, len) })
    }
}

#[cold]
pub(crate) fn too_many() -> Fault {
    Fault::new(MPI_ERR_COUNT, "more bytes than memory has addresses")
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

    /// `len` bytes from `start` on.
    ///
    /// # Safety
    /// They may be read, and written if they ever are, for as long as this and its copies are used.
    /// The address is not null.
    #[inline]
    pub(crate) const unsafe fn new(start: Address, len: usize) -> Self {
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
    /// Nothing writes them for as long as the slice is used.
    #[inline]
    pub(crate) unsafe fn shown<'a>(self) -> &'a [u8] {
        // SAFETY: they are there by the promise made to `new`, and the caller's promise; where
        // there are none, it is not null.
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }

    /// Its bytes, to be written.
    ///
    /// # Safety
    /// Nothing else reads or writes them for as long as the slice is used, nor does another slice
    /// of them exist.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: as in `shown`.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Ptr<c_char> {
    /// A string of the program's.
    pub(crate) fn text(self) -> Result<String, Fault> {
        if self.is_null() {
            return Err(Self::missing());
        }
        // SAFETY: the program gives a string that ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// Writes a string and a zero into room for `room` bytes, as much of it as fits; how many bytes
    /// it has without the zero.
    pub(crate) fn set_text(self, text: &str, room: usize) -> Result<usize, Fault> {
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

/// State of the process. At most one thread works with it at a time: the one whose turn it is
/// (`threads`), or the only one that is in a call of MPI.
pub(crate) struct Owned<T>(T);

// SAFETY: whoever makes one promises that one thread at a time works with it.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// # Safety
    /// It is used in calls of MPI only. Of those, the program keeps threads out of each other's, as
    /// the thread level that it was granted has it do, or `threads::enter` does. A call that waits
    /// keeps no borrow of it meanwhile.
    pub(crate) const unsafe fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        #[cfg(test)]
        assert!(Alone::holds(), "a test uses state of the process without `Alone`");
        &self.0
    }
}

/// The right of a test to use state of the process, which tests in other threads of it share.
#[cfg(test)]
pub(crate) struct Alone(
    #[allow(dead_code, reason = "held until it is dropped")] std::sync::MutexGuard<'static, ()>,
);

#[cfg(test)]
std::thread_local! {
    static HOLDS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

#[cfg(test)]
impl Alone {
    /// Waits until no other test has it.
    pub(crate) fn new() -> Self {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let guard = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        HOLDS.set(true);
        Self(guard)
    }

    fn holds() -> bool {
        HOLDS.get()
    }
}

#[cfg(test)]
impl Drop for Alone {
    fn drop(&mut self) {
        HOLDS.set(false);
    }
}

/// Memory of the library that lasts as long as an operation.
///
/// # Safety
/// It is owned beside what it is lent to, is neither touched nor given back while that exists, and
/// is dropped after it.
pub(crate) unsafe fn lasting<T>(memory: &mut [T]) -> &'static mut [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr(), memory.len()) }
}

/// An object of the library that lasts as long as an operation.
///
/// # Safety
/// What it is lent to keeps it there, where it is, and is dropped before it; nobody changes it.
pub(crate) unsafe fn lasting_ref<T>(object: &T) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*core::ptr::from_ref(object) }
}

/// The endpoint's scope for as long as the process.
pub(crate) mod scope {
    use aldis_host_sim::platform::HostPlatform;
    use aldis_host_sim::{HostEndpoint, HostTransport};
    use aldis_kernel::Scope;

    /// See there.
    pub(crate) type Lasting = Scope<'static, 'static, 'static, HostTransport, HostPlatform>;

    /// The one scope of the process.
    ///
    /// # Safety
    /// There is no other endpoint in the process, now or later.
    pub(crate) unsafe fn of(endpoint: HostEndpoint) -> Lasting {
        // SAFETY: there is one endpoint in the process, so there is no other scope.
        unsafe { Scope::lasting(Box::leak(Box::new(endpoint))) }
    }

    /// Its endpoint.
    pub(crate) fn endpoint(scope: &mut Lasting) -> &mut HostEndpoint {
        // SAFETY: there is no other endpoint to put in its place, as `of` was promised.
        unsafe { scope.endpoint() }
    }
}

/// Functions that the program gives.
pub(crate) mod callback {
    use core::ffi::{c_int, c_void};

    use super::Ptr;
    use crate::abi::{Handle, Status};

    /// Calls an error handler (`MPI_Comm_errhandler_function`).
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn on_error(function: usize, handle: Handle, code: c_int) {
        type Function = unsafe extern "C" fn(*const Handle, *const c_int, ...);
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        if let Some(function) = function {
            // SAFETY: as above, with the arguments that the standard has.
            unsafe { function(&raw const handle, &raw const code) }
        }
    }

    /// Calls a reduction (`MPI_User_function`, or `MPI_User_function_c` if `is_large`): `input`
    /// into `into`.
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn reduce(
        function: usize,
        is_large: bool,
        input: &[u8],
        into: &mut [u8],
        count: i64,
        datatype: Handle,
    ) {
        type Function = unsafe extern "C" fn(*const u8, *mut u8, *const c_void, *const Handle);
        let small = c_int::try_from(count).unwrap_or(c_int::MAX);
        let count = if is_large { (&raw const count).cast() } else { (&raw const small).cast() };
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        if let Some(function) = function {
            // SAFETY: as above, with the arguments that the standard has.
            unsafe { function(input.as_ptr(), into.as_mut_ptr(), count, &raw const datatype) }
        }
    }

    /// Calls a query function of a generalized request (`MPI_Grequest_query_function`).
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn query(function: usize, extra: Ptr<c_void>, status: &mut Status) -> c_int {
        type Function = unsafe extern "C" fn(Ptr<c_void>, *mut Status) -> c_int;
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: as above, with the arguments that the standard has.
        function.map_or(0, |function| unsafe { function(extra, status) })
    }

    /// Calls a free function of a generalized request (`MPI_Grequest_free_function`).
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn free(function: usize, extra: Ptr<c_void>) -> c_int {
        type Function = unsafe extern "C" fn(Ptr<c_void>) -> c_int;
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: as above, with the argument that the standard has.
        function.map_or(0, |function| unsafe { function(extra) })
    }

    /// Calls a cancel function of a generalized request (`MPI_Grequest_cancel_function`).
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn cancel(function: usize, extra: Ptr<c_void>, is_complete: bool) -> c_int {
        type Function = unsafe extern "C" fn(Ptr<c_void>, c_int) -> c_int;
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: as above, with the arguments that the standard has.
        function.map_or(0, |function| unsafe { function(extra, is_complete.into()) })
    }

    /// Calls a copy function of attributes: the code that it returns, and the copy if there is to
    /// be one.
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn copy(
        function: usize,
        handle: Handle,
        keyval: c_int,
        extra: Ptr<c_void>,
        value: usize,
    ) -> Result<Option<usize>, c_int> {
        type Function =
            unsafe extern "C" fn(Handle, c_int, Ptr<c_void>, usize, *mut usize, *mut c_int) -> c_int;
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        let (mut copy, mut is_copied) = (0, 0);
        let Some(function) = function else { return Ok(None) };
        // SAFETY: as above, with the arguments that the standard has.
        match unsafe { function(handle, keyval, extra, value, &raw mut copy, &raw mut is_copied) } {
            0 => Ok((is_copied != 0).then_some(copy)),
            code => Err(code),
        }
    }

    /// Calls a delete function of attributes: the code that it returns.
    ///
    /// # Safety
    /// `function` is null or a function of this type, as is what it is given.
    pub(crate) unsafe fn delete(
        function: usize,
        handle: Handle,
        keyval: c_int,
        value: usize,
        extra: Ptr<c_void>,
    ) -> c_int {
        type Function = unsafe extern "C" fn(Handle, c_int, usize, Ptr<c_void>) -> c_int;
        // SAFETY: it is one, or null, as the caller promised.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: as above, with the arguments that the standard has.
        function.map_or(0, |function| unsafe { function(handle, keyval, value, extra) })
    }
}

/// Memory for programs (`MPI_Alloc_mem`): with its length in front of it.
pub(crate) mod memory {
    use core::alloc::Layout;
    use std::alloc::{alloc_zeroed, dealloc};

    use super::{Address, Ptr};

    /// The alignment of the memory, and the room in front of it.
    const LINE: usize = 64;

    /// Memory of so many bytes; null if there is none.
    pub(crate) fn allocate(bytes: usize) -> Address {
        let Ok(layout) = Layout::from_size_align(bytes.saturating_add(LINE), LINE) else {
            return Address::NULL;
        };
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Address::NULL;
        }
        // SAFETY: the line in front has room for it.
        unsafe { start.cast::<usize>().write(layout.size()) };
        Ptr(start.wrapping_add(LINE).cast())
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It is null, or of [`allocate`], and used no more.
    pub(crate) unsafe fn free(memory: Address) {
        if memory.is_null() {
            return;
        }
        let start = memory.0.cast::<u8>().wrapping_sub(LINE);
        // SAFETY: `allocate` has made it, and written its size there.
        unsafe {
            let size = start.cast::<usize>().read();
            dealloc(start, Layout::from_size_align_unchecked(size, LINE));
        }
    }
}
