//! This module holds `unsafe` code: the only place where pointers of C are followed.
//!
//! A [`Ptr`] is what a C program gives to a function of MPI. There is no way to make one of a number but [`Ptr::at`], for places in
//! memory that the program has described. Its methods are safe to call because the program has promised, by the standard, what
//! each argument points to; what can be checked is: no null pointer is followed.
//!
//! # What a `'static` slice of this module means
//!
//! The kernel takes memory for as long as its scope, which here is the process. No Rust lifetime tells how long a buffer of C is good,
//! so what this module gives is `'static` by contract, not by proof. There are three kinds:
//!
//! * **The program's buffers** (`Ptr::slice`, `Ptr::slice_mut`, `Address::bytes`): good until the call returns, or, where the call begins
//!   an operation, until that is complete; of a persistent one, until its request is freed. The standard (MPI 5.0, 2.3 and 3.7.2) has the
//!   program keep the buffer there, and leave it alone if it is received into. So such a slice is used inside of the call, or handed to
//!   the kernel with the operation, and kept nowhere else.
//! * **The library's memory** (`lasting`, `Place`): a heap block whose owner is kept with the operation (`Running`, `Topo`, an exchange's
//!   request) in a field that is dropped after what works on it. It is touched through a `Place` only before the operation is started and
//!   after it is complete.
//! * **Objects that are counted** (`lasting_ref`): the operation holds a count.
//!
//! Two slices of one buffer may exist where the standard lets a program give it twice (a send and a send); the kernel reads both.

use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::ops::Deref;

use crate::abi::{MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_IN_PLACE};
use crate::errors::Fault;

/// A pointer from C to a `T`, or to several.
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

/// What the standard calls a choice buffer.
pub(crate) type Address = Ptr<c_void>;

impl<T> Ptr<T> {
    /// A place in memory that the program has described.
    #[inline]
    pub(crate) const fn at(address: usize) -> Self {
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

    pub(crate) const fn cast<U>(self) -> Ptr<U> {
        Ptr(self.0.cast())
    }

    #[cold]
    fn missing() -> Fault {
        Fault::new(MPI_ERR_ARG, "a null pointer where a result or an array belongs")
    }

    /// Writes a result.
    #[inline]
    pub(crate) fn set(self, value: T) -> Result<(), Fault> {
        if self.is_null() {
            return Err(Self::missing());
        }
        // SAFETY: the program gives a place for a T.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes a result where the program wants it.
    pub(crate) fn set_if(self, value: T) {
        if !self.is_null() {
            // SAFETY: the program gives a place for a T.
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
        // SAFETY: the program gives a T.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// An array of the program's, which stays as it is until the call, or the operation that it begins, is over.
    pub(crate) fn slice(self, len: usize) -> Result<&'static [T], Fault> {
        match len {
            0 => Ok(&[]),
            _ if self.is_null() => Err(Self::missing()),
            // SAFETY: the program gives an array of so many.
            _ => Ok(unsafe { core::slice::from_raw_parts(self.0, len) }),
        }
    }

    /// An array of the program's that nobody else uses until the call, or the operation that it begins, is over.
    #[inline]
    pub(crate) fn slice_mut(self, len: usize) -> Result<&'static mut [T], Fault> {
        match len {
            0 => Ok(&mut []),
            _ if self.is_null() => Err(Self::missing()),
            // SAFETY: the program gives an array of so many, and does not touch it meanwhile.
            _ => Ok(unsafe { core::slice::from_raw_parts_mut(self.0, len) }),
        }
    }
}

/// Where the page ends that nothing is ever mapped to: a null pointer, `MPI_IN_PLACE` and offsets from them are below.
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
    /// Whether it is no memory, but the word for data that lie where the result goes.
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

    /// The `len` bytes that begin `offset` bytes from here: data that the program wants sent or written.
    #[inline]
    pub(crate) fn bytes(self, offset: isize, len: usize) -> Result<&'static mut [u8], Fault> {
        let start = self.address().wrapping_add_signed(offset);
        if len > 0 && start < FIRST_PAGE {
            return Err(no_data(self.address()));
        }
        Ptr::<u8>::at(start).slice_mut(len)
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

    /// Writes a string and a zero into room for `room` bytes, as much of it as fits; how many bytes it has without the zero.
    pub(crate) fn set_text(self, text: &str, room: usize) -> Result<usize, Fault> {
        let mut len = text.len().min(room.saturating_sub(1));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        for (index, byte) in text.as_bytes().iter().take(len).chain([&0]).enumerate() {
            Ptr::<u8>::at(self.address().wrapping_add(index)).set(*byte)?;
        }
        Ok(len)
    }
}

/// State of the process. At most one thread works with it at a time: the one whose turn it is (`threads`), or the only one that is in
/// a call of MPI.
pub(crate) struct Owned<T>(T);

// SAFETY: the program keeps threads out of each other's calls, as the thread level that it was granted has it do, or
// `threads::enter` does; a call that waits keeps no borrow of it meanwhile.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Memory of the library that an operation works on, for what is done before and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    start: Address,
    len: usize,
}

impl Place {
    pub(crate) fn of(memory: &mut [u8]) -> Self {
        Self { start: Ptr::at(memory.as_mut_ptr().expose_provenance()), len: memory.len() }
    }

    /// Its bytes, while the operation is not under way.
    pub(crate) fn bytes(self) -> Result<&'static mut [u8], Fault> {
        self.start.bytes(0, self.len)
    }
}

/// Memory of the library that lasts as long as an operation: it is owned beside the operation, and dropped after it.
pub(crate) fn lasting<T>(memory: &mut [T]) -> &'static mut [T] {
    // SAFETY: whoever calls this owns the memory beside what it lends it to, and drops that first.
    unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr(), memory.len()) }
}

/// An object of the library that lasts as long as an operation, which holds it by another reference.
pub(crate) fn lasting_ref<T>(object: &T) -> &'static T {
    // SAFETY: as there; it does not move, as it is counted.
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
    pub(crate) fn of(endpoint: HostEndpoint) -> Lasting {
        // SAFETY: there is one endpoint in the process, so there is no other scope.
        unsafe { Scope::lasting(Box::leak(Box::new(endpoint))) }
    }

    /// Its endpoint.
    pub(crate) fn endpoint(scope: &mut Lasting) -> &mut HostEndpoint {
        // SAFETY: nobody here has another endpoint to put in its place.
        unsafe { scope.endpoint() }
    }
}

/// Functions that the program gives.
pub(crate) mod callback {
    use core::ffi::{c_int, c_void};

    use super::Ptr;
    use crate::abi::{Handle, Status};

    /// Calls an error handler (`MPI_Comm_errhandler_function`).
    pub(crate) fn on_error(function: usize, handle: Handle, code: c_int) {
        type Function = unsafe extern "C" fn(*const Handle, *const c_int, ...);
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        if let Some(function) = function {
            // SAFETY: with the arguments that the standard has.
            unsafe { function(&raw const handle, &raw const code) }
        }
    }

    /// Calls a reduction (`MPI_User_function`, or `MPI_User_function_c` if `is_large`): `input` into `into`.
    pub(crate) fn reduce(
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
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        if let Some(function) = function {
            // SAFETY: with the arguments that the standard has.
            unsafe { function(input.as_ptr(), into.as_mut_ptr(), count, &raw const datatype) }
        }
    }

    /// Calls a query function of a generalized request (`MPI_Grequest_query_function`).
    pub(crate) fn query(function: usize, extra: Ptr<c_void>, status: &mut Status) -> c_int {
        type Function = unsafe extern "C" fn(Ptr<c_void>, *mut Status) -> c_int;
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: with the arguments that the standard has.
        function.map_or(0, |function| unsafe { function(extra, status) })
    }

    /// Calls a free function of a generalized request (`MPI_Grequest_free_function`).
    pub(crate) fn free(function: usize, extra: Ptr<c_void>) -> c_int {
        type Function = unsafe extern "C" fn(Ptr<c_void>) -> c_int;
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: with the argument that the standard has.
        function.map_or(0, |function| unsafe { function(extra) })
    }

    /// Calls a cancel function of a generalized request (`MPI_Grequest_cancel_function`).
    pub(crate) fn cancel(function: usize, extra: Ptr<c_void>, is_complete: bool) -> c_int {
        type Function = unsafe extern "C" fn(Ptr<c_void>, c_int) -> c_int;
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: with the arguments that the standard has.
        function.map_or(0, |function| unsafe { function(extra, is_complete.into()) })
    }

    /// Calls a copy function of attributes: the code that it returns, and the copy if there is to be one.
    pub(crate) fn copy(
        function: usize,
        handle: Handle,
        keyval: c_int,
        extra: Ptr<c_void>,
        value: usize,
    ) -> Result<Option<usize>, c_int> {
        type Function =
            unsafe extern "C" fn(Handle, c_int, Ptr<c_void>, usize, *mut usize, *mut c_int) -> c_int;
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        let (mut copy, mut is_copied) = (0, 0);
        let Some(function) = function else { return Ok(None) };
        // SAFETY: with the arguments that the standard has.
        match unsafe { function(handle, keyval, extra, value, &raw mut copy, &raw mut is_copied) } {
            0 => Ok((is_copied != 0).then_some(copy)),
            code => Err(code),
        }
    }

    /// Calls a delete function of attributes: the code that it returns.
    pub(crate) fn delete(
        function: usize,
        handle: Handle,
        keyval: c_int,
        value: usize,
        extra: Ptr<c_void>,
    ) -> c_int {
        type Function = unsafe extern "C" fn(Handle, c_int, usize, Ptr<c_void>) -> c_int;
        // SAFETY: the program gave it as a function of this type.
        let function = unsafe { core::mem::transmute::<usize, Option<Function>>(function) };
        // SAFETY: with the arguments that the standard has.
        function.map_or(0, |function| unsafe { function(handle, keyval, value, extra) })
    }
}

/// Memory for programs (`MPI_Alloc_mem`): with its length in front of it.
pub(crate) mod memory {
    use core::alloc::Layout;
    use std::alloc::{alloc_zeroed, dealloc};

    use super::{Address, Ptr};

    /// What the memory is aligned to, and room in front of it.
    const LINE: usize = 64;

    /// Memory of so many bytes; null if there is none.
    pub(crate) fn allocate(bytes: usize) -> Address {
        let Ok(layout) = Layout::from_size_align(bytes.saturating_add(LINE), LINE) else { return Ptr::at(0) };
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Ptr::at(0);
        }
        // SAFETY: the line in front has room for it.
        unsafe { start.cast::<usize>().write(layout.size()) };
        Ptr(start.wrapping_add(LINE).cast())
    }

    /// Gives it back.
    pub(crate) fn free(memory: Address) {
        if memory.is_null() {
            return;
        }
        let start = memory.0.cast::<u8>().wrapping_sub(LINE);
        // SAFETY: the program gives what `allocate` has made.
        unsafe {
            let size = start.cast::<usize>().read();
            dealloc(start, Layout::from_size_align_unchecked(size, LINE));
        }
    }
}
