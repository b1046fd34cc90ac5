//! This module holds `unsafe` code: functions of the program's are called.
//!
//! Functions that the program gives: handlers, reductions, copy and delete functions.

use core::ffi::{c_int, c_void};

use super::Ptr;
use crate::abi::{Handle, Status};

/// Calls an error handler (`MPI_Comm_errhandler_function`).
///
/// # Safety
/// `function` is null or a function of this type, as is what it is given.
pub(crate) unsafe fn on_error(function: usize, handle: Handle, code: c_int) {
    type ErrorHandler = unsafe extern "C" fn(*const Handle, *const c_int, ...);
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<ErrorHandler>>(function) };
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
    type UserFunction = unsafe extern "C" fn(*const u8, *mut u8, *const c_void, *const Handle);
    let small = c_int::try_from(count).unwrap_or(c_int::MAX);
    let count = if is_large { (&raw const count).cast() } else { (&raw const small).cast() };
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<UserFunction>>(function) };
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
    type QueryFunction = unsafe extern "C" fn(Ptr<c_void>, *mut Status) -> c_int;
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<QueryFunction>>(function) };
    // SAFETY: as above, with the arguments that the standard has.
    function.map_or(0, |function| unsafe { function(extra, status) })
}

/// Calls a free function of a generalized request (`MPI_Grequest_free_function`).
///
/// # Safety
/// `function` is null or a function of this type, as is what it is given.
pub(crate) unsafe fn free(function: usize, extra: Ptr<c_void>) -> c_int {
    type FreeFunction = unsafe extern "C" fn(Ptr<c_void>) -> c_int;
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<FreeFunction>>(function) };
    // SAFETY: as above, with the argument that the standard has.
    function.map_or(0, |function| unsafe { function(extra) })
}

/// Calls a cancel function of a generalized request (`MPI_Grequest_cancel_function`).
///
/// # Safety
/// `function` is null or a function of this type, as is what it is given.
pub(crate) unsafe fn cancel(function: usize, extra: Ptr<c_void>, is_complete: bool) -> c_int {
    type CancelFunction = unsafe extern "C" fn(Ptr<c_void>, c_int) -> c_int;
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<CancelFunction>>(function) };
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
    type CopyFunction =
        unsafe extern "C" fn(Handle, c_int, Ptr<c_void>, usize, *mut usize, *mut c_int) -> c_int;
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<CopyFunction>>(function) };
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
    type DeleteFunction = unsafe extern "C" fn(Handle, c_int, usize, Ptr<c_void>) -> c_int;
    // SAFETY: it is one, or null, as the caller promised.
    let function = unsafe { core::mem::transmute::<usize, Option<DeleteFunction>>(function) };
    // SAFETY: as above, with the arguments that the standard has.
    function.map_or(0, |function| unsafe { function(handle, keyval, value, extra) })
}
