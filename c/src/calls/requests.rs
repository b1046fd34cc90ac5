//! This module holds `unsafe` code: the functions of `aldis.h` for nonblocking messages, with C's
//! word for its requests and its memory.

use core::ffi::{c_int, c_void};

use aldis_hal::{Handle, Platform};
use aldis_kernel::plane::Started;
use aldis_kernel::plane::prelude::StaticRequests;
use aldis_kernel::{Error, Rank, Request, Status, Tag};

use crate::errors;
use crate::ffi::{BUDGET, call, code, given, source, tags, taken, tell};
use crate::rank::{CRank, CScope, JoinedRank};
use crate::types::{MessageStatus, RequestHandle, limit};

/// Starts a message and tells C its request.
///
/// # Safety
/// As of every call of a rank; the request is null or there.
unsafe fn start(
    rank: *mut CRank,
    request: *mut RequestHandle,
    begin: impl FnOnce(&mut JoinedRank) -> Result<Request<'static>, Error>,
) -> c_int {
    if request.is_null() {
        return errors::ARGUMENT;
    }
    // SAFETY: by this function's contract.
    let begun = unsafe { call(rank, begin) };
    code(begun.map(|begun| {
        let none = RequestHandle::default();
        let handle = match CScope::started(begun) {
            Started::Pending(Handle { slot, generation }) => {
                RequestHandle { state: RequestHandle::PENDING, slot, generation, ..none }
            }
            Started::Done(Status { source: Rank(source), tag: Tag(tag), bytes }) => {
                RequestHandle { state: RequestHandle::DONE, source, tag, bytes, ..none }
            }
        };
        // SAFETY: as above.
        unsafe { request.write(handle) }
    }))
}

/// Starts a send.
///
/// # Safety
/// As of every call of a rank; so many bytes of data are there until the request is over, and the
/// request is null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_isend(
    rank: *mut CRank,
    data: *const c_void,
    bytes: usize,
    to: u32,
    tag: u32,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(data) = (unsafe { given(data, bytes) }) else { return errors::ARGUMENT };
    // SAFETY: as above.
    unsafe { start(rank, request, |joined| joined.scope.isend(&joined.world, data, Rank(to), Tag(tag))) }
}

/// Starts a receive.
///
/// # Safety
/// As of every call of a rank; so many bytes of buffer are there and nobody else's until the
/// request is over, and the request is null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_irecv(
    rank: *mut CRank,
    buffer: *mut c_void,
    bytes: usize,
    from: u32,
    tag: u32,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(buffer) = (unsafe { taken(buffer, bytes) }) else { return errors::ARGUMENT };
    // SAFETY: as above.
    unsafe {
        start(rank, request, |joined| joined.scope.irecv(&joined.world, buffer, source(from), tags(tag)))
    }
}

/// The request behind a handle, or the status of one that was over at once.
enum Named {
    Pending(Request<'static>),
    Done(Status),
}

/// The request that C names.
///
/// # Safety
/// The handle is one that [`start`] has made.
unsafe fn named(scope: &CScope, handle: &RequestHandle) -> Option<Named> {
    let &RequestHandle { state, slot, generation, source, tag, bytes, .. } = handle;
    match state {
        RequestHandle::PENDING => {
            // SAFETY: by this function's contract.
            let request = unsafe { scope.request_of(Handle { slot, generation }) };
            Some(Named::Pending(request))
        }
        RequestHandle::DONE => Some(Named::Done(Status { source: Rank(source), tag: Tag(tag), bytes })),
        _ => None,
    }
}

/// Polls and looks if a request is over, as long as `again` says, which is told the events of the
/// poll; the handle is none then.
///
/// # Safety
/// As of every call of a rank; the request is null or there, as [`start`] has made it, and the
/// status is null or there.
unsafe fn finish(
    rank: *mut CRank,
    request: *mut RequestHandle,
    status: *mut MessageStatus,
    mut again: impl FnMut(&mut JoinedRank, u32) -> bool,
) -> Result<bool, c_int> {
    // SAFETY: by this function's contract.
    let handle = unsafe { request.as_mut() }.ok_or(errors::ARGUMENT)?;
    // SAFETY: as above.
    let found = unsafe {
        call(rank, |joined| {
            let Some(request) = named(&joined.scope, handle) else { return Ok(None) };
            let mut request = match request {
                Named::Done(status) => return Ok(Some(status)),
                Named::Pending(request) => request,
            };
            loop {
                let events = joined.scope.poll(BUDGET);
                match joined.scope.result(&mut request) {
                    Ok(None) if again(joined, events) => {}
                    ended => return ended,
                }
            }
        })
    };
    if handle.state == RequestHandle::NONE {
        return found.and(Err(errors::STALE));
    }
    if !matches!(found, Ok(None)) {
        *handle = RequestHandle::default();
    }
    let Some(found) = found? else { return Ok(false) };
    // SAFETY: as above.
    unsafe { tell(status, found) };
    Ok(true)
}

/// Polls once, and tells whether a request is over.
///
/// # Safety
/// As of every call of a rank; the request is null or there, as `aldis_isend` or `aldis_irecv` has
/// made it, `done` and the status are null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_test(
    rank: *mut CRank,
    request: *mut RequestHandle,
    done: *mut c_int,
    status: *mut MessageStatus,
) -> c_int {
    if done.is_null() {
        return errors::ARGUMENT;
    }
    // SAFETY: by this function's contract.
    let ended = unsafe { finish(rank, request, status, |_, _| false) };
    // SAFETY: as above. One that failed is over too.
    unsafe { done.write(c_int::from(!matches!(ended, Ok(false)))) };
    code(ended.map(|_| ()))
}

/// Waits until a request is over.
///
/// # Safety
/// As of every call of a rank; the request is null or there, as `aldis_isend` or `aldis_irecv` has
/// made it, and the status is null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_wait(
    rank: *mut CRank,
    request: *mut RequestHandle,
    timeout_ns: u64,
    status: *mut MessageStatus,
) -> c_int {
    let (mut deadline, mut idle) = (None, 0_u32);
    let rest = |joined: &mut JoinedRank, events| {
        let now = joined.platform.now();
        if now >= *deadline.get_or_insert(now.after(limit(timeout_ns))) {
            return false;
        }
        if events > 0 {
            idle = 0;
        } else {
            joined.platform.relax(idle);
            idle = idle.saturating_add(1);
        }
        true
    };
    // SAFETY: by this function's contract.
    match unsafe { finish(rank, request, status, rest) } {
        Ok(true) => errors::OK,
        Ok(false) => errors::TIMEOUT,
        Err(number) => number,
    }
}

/// Takes back the memory of a request.
///
/// # Safety
/// As of every call of a rank; the request is null or there, as `aldis_isend` or `aldis_irecv` has
/// made it, and `cancelled` is null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_cancel(
    rank: *mut CRank,
    request: *mut RequestHandle,
    cancelled: *mut c_int,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(handle) = (unsafe { request.as_mut() }) else { return errors::ARGUMENT };
    // SAFETY: as above.
    let was = unsafe {
        call(rank, |joined| {
            Ok(match named(&joined.scope, handle) {
                Some(Named::Pending(mut request)) => {
                    let cancelled = joined.scope.cancel(&mut request);
                    joined.scope.wait(request)?;
                    Some(cancelled)
                }
                Some(Named::Done(_)) => Some(false),
                None => None,
            })
        })
    };
    *handle = RequestHandle::default();
    code(was.and_then(|was| {
        let was = was.ok_or(errors::STALE)?;
        if !cancelled.is_null() {
            // SAFETY: as above.
            unsafe { cancelled.write(c_int::from(was)) };
        }
        Ok(())
    }))
}
