//! This module holds `unsafe` code: lists of requests that the program gives.
//!
//! What completes requests, one or several (MPI 5.0, 3.7.3 and 3.7.5), and what tells whether they
//! are.

use core::ffi::c_int;

use super::messages::write_status;
use crate::abi::{Handle, MPI_COMM_SELF, MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED, Status};
use crate::fault::CallFault;
use crate::ffi::{Array, Ptr};
use crate::objects::errors;
use crate::requests::messages::{self, Looked};
use crate::requests::{peek, take, watch_active, watch_all};

/// Takes the result of a request for the program: its status, and a failure for the error handler
/// of its communicator.
#[inline(always)]
fn finish_one(function: &str, request: Ptr<Handle>, status: Ptr<Status>) -> Result<c_int, CallFault> {
    let mut handle = request.get()?;
    let (comm, result) = take(&mut handle);
    request.set(handle)?;
    // The error stays as the program has it (MPI 5.0, 3.2.5).
    if !status.is_null() {
        let error = status.get()?.error;
        let found = result.as_ref().map_or_else(CallFault::status, |found| *found);
        status.set(Status { error, ..found })?;
    }
    match result {
        Ok(_) => Ok(MPI_SUCCESS),
        Err(fault) => Ok(errors::raise(function, comm, &fault)),
    }
}

/// Tells the program that a request is over, and well, whose status has been taken.
#[inline(always)]
fn finish_well(request: Ptr<Handle>, status: Ptr<Status>, found: Status) -> Result<c_int, CallFault> {
    request.set(MPI_REQUEST_NULL)?;
    write_status(status, found)?;
    Ok(MPI_SUCCESS)
}

/// Takes the results of several requests for the program: their statuses say which have failed.
fn finish_several(
    function: &str,
    handles: Array<'_, Handle>,
    which: impl Iterator<Item = usize>,
    mut write: impl FnMut(usize, Status),
) -> c_int {
    let mut failed = None;
    for index in which {
        let Some(mut handle) = handles.get(index) else { continue };
        let (comm, result) = take(&mut handle);
        handles.set(index, handle);
        match result {
            Ok(status) => write(index, Status { error: MPI_SUCCESS, ..status }),
            Err(fault) => {
                write(index, Status { error: errors::code_of(&fault), ..fault.status() });
                failed = failed.or(Some((comm, fault)));
            }
        }
    }
    match failed {
        None => MPI_SUCCESS,
        Some((comm, fault)) => errors::raise(function, comm, &fault.in_status()),
    }
}

/// The code of a call whose result is one, or of the fault that refuses it.
fn code_of_call(function: &str, outcome: Result<c_int, CallFault>) -> c_int {
    outcome.unwrap_or_else(|fault| errors::raise(function, MPI_COMM_SELF, &fault))
}

pub(crate) fn count_of(count: c_int) -> Result<usize, CallFault> {
    usize::try_from(count).map_err(|_| CallFault::new(crate::abi::MPI_ERR_COUNT, format!("{count} requests")))
}

mpi! { fn MPI_Wait(request: Ptr<Handle>, status: Ptr<Status>) -> c_int {
    code_of_call("MPI_Wait", request.get().and_then(|handle| {
        if let Some(found) = messages::try_wait(handle)? {
            return finish_well(request, status, found);
        }
        if let Some(found) = messages::try_wait_kept(handle)? {
            write_status(status, found)?;
            return Ok(MPI_SUCCESS);
        }
        watch_all(core::iter::once(handle), true)?;
        finish_one("MPI_Wait", request, status)
    }))
} }

mpi! { fn MPI_Test(request: Ptr<Handle>, flag: Ptr<c_int>, status: Ptr<Status>) -> c_int {
    code_of_call("MPI_Test", request.get().and_then(|handle| {
        match messages::test(handle)? {
            Looked::Over(found) => {
                flag.set(1)?;
                return finish_well(request, status, found);
            }
            Looked::Under => {
                flag.set(0)?;
                return Ok(MPI_SUCCESS);
            }
            Looked::Other => {}
        }
        let is_over = watch_all(core::iter::once(handle), false)?;
        flag.set(is_over.into())?;
        if is_over { finish_one("MPI_Test", request, status) } else { Ok(MPI_SUCCESS) }
    }))
} }

/// Waits for all, or tests.
///
/// # Safety
/// There are so many requests, and room for as many results, unless it is null.
unsafe fn all(
    function: &str,
    count: c_int,
    requests: Ptr<Handle>,
    statuses: Ptr<Status>,
    flag: Option<Ptr<c_int>>,
) -> c_int {
    code_of_call(
        function,
        count_of(count).and_then(|count| {
            // SAFETY: the caller's promise.
            let handles = unsafe { requests.array(count) }?;
            // SAFETY: as above.
            let places = if statuses.is_null() { Array::NONE } else { unsafe { statuses.array(count) }? };
            if let Some(flag) = flag {
                let is_over = watch_all(handles.iter(), false)?;
                flag.set(is_over.into())?;
                if !is_over {
                    return Ok(MPI_SUCCESS);
                }
            }
            let done = messages::wait_in_order(handles, places)?;
            if done == count {
                return Ok(MPI_SUCCESS);
            }
            let (handles, places) = (handles.behind(done), places.behind(done));
            watch_all(handles.iter(), true)?;
            Ok(finish_several(function, handles, 0..handles.len(), |index, status| places.set(index, status)))
        }),
    )
}

mpi! { fn MPI_Waitall(count: c_int, requests: Ptr<Handle>, statuses: Ptr<Status>) -> c_int {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.5).
    unsafe { all("MPI_Waitall", count, requests, statuses, None) }
} }

mpi! { fn MPI_Testall(count: c_int, requests: Ptr<Handle>, flag: Ptr<c_int>, statuses: Ptr<Status>) -> c_int {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.5).
    unsafe { all("MPI_Testall", count, requests, statuses, Some(flag)) }
} }

/// Waits for any, or tests: the flag says whether one is over, or none is active.
///
/// # Safety
/// There are so many requests, unless it is null.
unsafe fn any(
    function: &str,
    count: c_int,
    requests: Ptr<Handle>,
    index: Ptr<c_int>,
    flag: Option<Ptr<c_int>>,
    status: Ptr<Status>,
) -> c_int {
    code_of_call(
        function,
        count_of(count).and_then(|count| {
            // SAFETY: the caller's promise.
            let handles = unsafe { requests.array(count) }?;
            let Some(over) = watch_active(handles, flag.is_none(), 1)? else {
                index.set(MPI_UNDEFINED)?;
                flag.map_or(Ok(()), |flag| flag.set(1))?;
                status.set_if(Status::EMPTY);
                return Ok(MPI_SUCCESS);
            };
            let found = over.first().copied();
            flag.map_or(Ok(()), |flag| flag.set(found.is_some().into()))?;
            index.set(found.map_or(MPI_UNDEFINED, |found| found as c_int))?;
            found
                .and_then(|found| handles.place(found))
                .map_or(Ok(MPI_SUCCESS), |place| finish_one(function, place, status))
        }),
    )
}

mpi! { fn MPI_Waitany(count: c_int, requests: Ptr<Handle>, index: Ptr<c_int>, status: Ptr<Status>) -> c_int {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.5).
    unsafe { any("MPI_Waitany", count, requests, index, None, status) }
} }

mpi! { fn MPI_Testany(count: c_int, requests: Ptr<Handle>, index: Ptr<c_int>, flag: Ptr<c_int>, status: Ptr<Status>) -> c_int {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.5).
    unsafe { any("MPI_Testany", count, requests, index, Some(flag), status) }
} }

/// Waits for some, or tests.
///
/// # Safety
/// There are so many requests, and room for as many results, unless it is null.
unsafe fn some(
    function: &str,
    count: c_int,
    requests: Ptr<Handle>,
    found: Ptr<c_int>,
    indices: Ptr<c_int>,
    statuses: Ptr<Status>,
    waits: bool,
) -> c_int {
    code_of_call(
        function,
        count_of(count).and_then(|count| {
            // SAFETY: the caller's promise.
            let (handles, indices) = unsafe { (requests.array(count)?, indices.array(count)?) };
            let Some(done) = watch_active(handles, waits, usize::MAX)? else {
                found.set(MPI_UNDEFINED)?;
                return Ok(MPI_SUCCESS);
            };
            found.set(done.len() as c_int)?;
            indices.fill(done.iter().map(|index| *index as c_int));
            // SAFETY: as above.
            let into = if statuses.is_null() { Array::NONE } else { unsafe { statuses.array(done.len()) }? };
            let mut next = 0;
            Ok(finish_several(function, handles, done.into_iter(), |_, status| {
                into.set(next, status);
                next += 1;
            }))
        }),
    )
}

mpi! { fn MPI_Waitsome(count: c_int, requests: Ptr<Handle>, found: Ptr<c_int>, indices: Ptr<c_int>, statuses: Ptr<Status>) -> c_int {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.5).
    unsafe { some("MPI_Waitsome", count, requests, found, indices, statuses, true) }
} }

mpi! { fn MPI_Testsome(count: c_int, requests: Ptr<Handle>, found: Ptr<c_int>, indices: Ptr<c_int>, statuses: Ptr<Status>) -> c_int {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.5).
    unsafe { some("MPI_Testsome", count, requests, found, indices, statuses, false) }
} }

mpi! { fn MPI_Request_get_status(request: Handle, flag: Ptr<c_int>, status: Ptr<Status>) on MPI_COMM_SELF => {
    let is_over = watch_all(core::iter::once(request), false)?;
    flag.set(is_over.into())?;
    if is_over { status.set_if(peek(request)?); }
} }

mpi! { fn MPI_Request_get_status_all(count: c_int, requests: Ptr<Handle>, flag: Ptr<c_int>, statuses: Ptr<Status>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.6).
    let handles = unsafe { requests.array(count_of(count)?) }?;
    let is_over = watch_all(handles.iter(), false)?;
    flag.set(is_over.into())?;
    if is_over {
        // SAFETY: as above.
        let places = if statuses.is_null() { Array::NONE } else { unsafe { statuses.array(handles.len()) }? };
        for (index, handle) in handles.iter().enumerate() {
            places.set(index, peek(handle)?);
        }
    }
} }

mpi! { fn MPI_Request_get_status_any(count: c_int, requests: Ptr<Handle>, index: Ptr<c_int>, flag: Ptr<c_int>, status: Ptr<Status>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.6).
    let handles = unsafe { requests.array(count_of(count)?) }?;
    let Some(over) = watch_active(handles, false, 1)? else {
        flag.set(1)?;
        index.set(MPI_UNDEFINED)?;
        status.set_if(Status::EMPTY);
        return Ok(());
    };
    let first = over.first().and_then(|at| handles.get(*at).map(|handle| (*at, handle)));
    flag.set(first.is_some().into())?;
    index.set(first.map_or(MPI_UNDEFINED, |(at, _)| at as c_int))?;
    if let Some((_, handle)) = first { status.set_if(peek(handle)?); }
} }

mpi! { fn MPI_Request_get_status_some(count: c_int, requests: Ptr<Handle>, found: Ptr<c_int>, indices: Ptr<c_int>, statuses: Ptr<Status>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 3.7.6).
    let handles = unsafe { requests.array(count_of(count)?) }?;
    // SAFETY: there is room for all requests (MPI 5.0, 3.7.6).
    let indices = unsafe { indices.array(handles.len()) }?;
    let Some(over) = watch_active(handles, false, usize::MAX)? else { return found.set(MPI_UNDEFINED) };
    found.set(over.len() as c_int)?;
    indices.fill(over.iter().map(|at| *at as c_int));
    // SAFETY: as above.
    let places = if statuses.is_null() { Array::NONE } else { unsafe { statuses.array(over.len()) }? };
    for (index, at) in over.iter().enumerate() {
        places.set(index, handles.get(*at).map_or(Ok(Status::EMPTY), peek)?);
    }
} }
