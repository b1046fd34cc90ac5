//! This module holds `unsafe` code: the functions of `aldis.h`, with C's word for what its pointers
//! point to.
//!
//! Each does what `include/aldis.h` says of it. A rank is used by one thread at a time.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::slice;

use aldis_coll::dyn_op::{DynReduction, reduce_by};
use aldis_coll::{barrier, bcast};
use aldis_hal::{Handle, Operation, Platform};
use aldis_kernel::plane::Started;
use aldis_kernel::plane::prelude::StaticRequests;
use aldis_kernel::{Error, Rank, Request, Source, Status, Tag, TagMatch};

use crate::arena::MemoryArena;
use crate::card::CallbackCard;
use crate::clock::CallbackPlatform;
use crate::errors;
use crate::rank::{self, CRank, CScope, JoinedRank, RankParts, Trouble};
use crate::reduction;
use crate::types::{CardCallbacks, MessageStatus, PlatformCallbacks, RankConfig, RequestHandle, limit};

/// Events that a poll handles at most.
const BUDGET: u32 = 64;

/// The number of any source or tag.
const ANY: u32 = u32::MAX;

/// Bytes of C's to read; `None` for a null pointer to some.
///
/// # Safety
/// So many bytes are there, and nobody writes them for as long as they are used.
unsafe fn given<'a>(start: *const c_void, bytes: usize) -> Option<&'a [u8]> {
    match (start.is_null(), bytes) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: by this function's contract.
        (false, _) => Some(unsafe { slice::from_raw_parts(start.cast(), bytes) }),
    }
}

/// Bytes of C's to write; `None` for a null pointer to some.
///
/// # Safety
/// So many bytes are there, and nobody else uses them for as long as they are used.
unsafe fn taken<'a>(start: *mut c_void, bytes: usize) -> Option<&'a mut [u8]> {
    match (start.is_null(), bytes) {
        (_, 0) => Some(&mut []),
        (true, _) => None,
        // SAFETY: by this function's contract.
        (false, _) => Some(unsafe { slice::from_raw_parts_mut(start.cast(), bytes) }),
    }
}

/// Runs a call of a rank that has joined, and keeps its error.
///
/// # Safety
/// The rank is null, or one that `aldis_init` has set and nothing has ended since.
unsafe fn call<R>(
    rank: *mut CRank,
    body: impl FnOnce(&mut JoinedRank) -> Result<R, Error>,
) -> Result<R, c_int> {
    // SAFETY: by this function's contract; one thread at a time uses it.
    let rank = unsafe { rank.as_mut() }.ok_or(errors::ARGUMENT)?;
    let joined = rank.joined.as_mut().ok_or(errors::ARGUMENT)?;
    body(joined).map_err(|error| {
        rank.last = Some(Trouble::Kernel(error));
        errors::number(error.cause)
    })
}

/// The result of a call that tells nothing else.
fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(errors::OK)
}

/// Tells C what a receive found, if it asks.
///
/// # Safety
/// The status is null, or there to be written.
unsafe fn tell(status: *mut MessageStatus, found: Status) {
    let found = MessageStatus { source: found.source.0, tag: found.tag.0, bytes: found.bytes };
    if !status.is_null() {
        // SAFETY: by this function's contract.
        unsafe { status.write(found) }
    }
}

const fn source(from: u32) -> Source {
    if from == ANY { Source::Any } else { Source::Rank(Rank(from)) }
}

const fn tags(tag: u32) -> TagMatch {
    if tag == ANY { TagMatch::Any } else { TagMatch::Tag(Tag(tag)) }
}

/// Bytes of memory that a rank of this configuration needs.
///
/// # Safety
/// The configuration is null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_memory_bytes(config: *const RankConfig) -> usize {
    // SAFETY: by this function's contract.
    let config = unsafe { config.as_ref() };
    config.and_then(rank::memory_bytes).unwrap_or(0)
}

/// Joins the job.
///
/// # Safety
/// The structures are null or there, with callbacks that do what `aldis.h` says; so many bytes of
/// memory are there and nobody else's until the rank has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_init(
    memory: *mut c_void,
    bytes: usize,
    config: *const RankConfig,
    card: *const CardCallbacks,
    platform: *const PlatformCallbacks,
    rank: *mut *mut CRank,
) -> c_int {
    if rank.is_null() {
        return errors::ARGUMENT;
    }
    // SAFETY: by this function's contract, as is what follows.
    unsafe { rank.write(core::ptr::null_mut()) };
    // SAFETY: as above.
    let Some(parts) = (unsafe { parts(config, card, platform) }) else { return errors::ARGUMENT };
    let Some(need) = rank::memory_bytes(&parts.config) else { return errors::ARGUMENT };
    if memory.is_null() {
        return errors::ARGUMENT;
    }
    if bytes < need {
        return errors::MEMORY;
    }
    // SAFETY: as above.
    let mut arena = unsafe { MemoryArena::new(memory.cast(), bytes) };
    let Some(place) = arena.place::<CRank>() else { return errors::MEMORY };
    let (me, size) = (parts.config.rank, parts.config.size);
    let made = place.write(CRank { rank: me, size, joined: None, last: None });
    let result = match rank::join(arena, parts) {
        Ok(joined) => {
            made.joined = Some(joined);
            errors::OK
        }
        Err(trouble) => {
            let number = trouble.number();
            made.last = Some(trouble);
            number
        }
    };
    // SAFETY: as above.
    unsafe { rank.write(made) };
    result
}

/// Copies the parts that C brings; `None` if something is missing or cannot be.
///
/// # Safety
/// As of [`aldis_init`].
unsafe fn parts(
    config: *const RankConfig,
    card: *const CardCallbacks,
    platform: *const PlatformCallbacks,
) -> Option<RankParts> {
    // SAFETY: by this function's contract.
    let (config, card, platform) = unsafe { (config.as_ref()?, card.as_ref()?, platform.as_ref()?) };
    let config = config.filled()?;
    // SAFETY: as above; a key has 16 bytes.
    let key = (!config.key.is_null()).then(|| unsafe { config.key.cast::<[u8; 16]>().read() });
    // SAFETY: as above.
    let (card, platform) = unsafe { (CallbackCard::new(*card)?, CallbackPlatform::new(*platform)?) };
    Some(RankParts { config, key, card, platform })
}

/// Leaves the job.
///
/// # Safety
/// As of every call of a rank; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_finalize(rank: *mut CRank, timeout_ns: u64) -> c_int {
    // SAFETY: by this function's contract.
    let left = unsafe { call(rank, |joined| joined.endpoint().leave(limit(timeout_ns))) };
    // SAFETY: as above. What is left is in the caller's memory, and needs no end.
    if let Some(rank) = unsafe { rank.as_mut() } {
        rank.joined = None;
    }
    code(left)
}

/// Ends the job on all ranks.
///
/// # Safety
/// As of every call of a rank; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_abort(rank: *mut CRank, code: i32) {
    // SAFETY: by this function's contract.
    let _ = unsafe {
        call(rank, |joined| {
            joined.endpoint().abort(code);
            Ok(())
        })
    };
    // SAFETY: as above.
    if let Some(rank) = unsafe { rank.as_mut() } {
        rank.joined = None;
    }
}

/// This rank.
///
/// # Safety
/// As of every call of a rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_rank_of(rank: *const CRank) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { rank.as_ref() }.map_or(ANY, |rank| rank.rank)
}

/// Ranks of the job.
///
/// # Safety
/// As of every call of a rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_size_of(rank: *const CRank) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { rank.as_ref() }.map_or(0, |rank| rank.size)
}

/// Sends a message.
///
/// # Safety
/// As of every call of a rank; so many bytes of data are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_send(
    rank: *mut CRank,
    data: *const c_void,
    bytes: usize,
    to: u32,
    tag: u32,
    timeout_ns: u64,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(data) = (unsafe { given(data, bytes) }) else { return errors::ARGUMENT };
    // SAFETY: as above.
    code(unsafe {
        call(rank, |joined| {
            let world = joined.world;
            joined.endpoint().within(limit(timeout_ns)).send(&world, data, Rank(to), Tag(tag)).map(|_| ())
        })
    })
}

/// Receives a message.
///
/// # Safety
/// As of every call of a rank; so many bytes of buffer are there, and the status is null or there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_recv(
    rank: *mut CRank,
    buffer: *mut c_void,
    bytes: usize,
    from: u32,
    tag: u32,
    timeout_ns: u64,
    status: *mut MessageStatus,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(buffer) = (unsafe { taken(buffer, bytes) }) else { return errors::ARGUMENT };
    // SAFETY: as above.
    let received = unsafe {
        call(rank, |joined| {
            let world = joined.world;
            joined.endpoint().within(limit(timeout_ns)).recv(&world, buffer, source(from), tags(tag))
        })
    };
    // SAFETY: as above.
    code(received.map(|found| unsafe { tell(status, found) }))
}

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

/// Makes progress.
///
/// # Safety
/// As of every call of a rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_poll(rank: *mut CRank) -> c_int {
    // SAFETY: by this function's contract.
    let polled = unsafe { call(rank, |joined| Ok(joined.scope.poll(BUDGET))) };
    polled.map_or_else(|number| number, |events| events as c_int)
}

/// Waits until all ranks have come here.
///
/// # Safety
/// As of every call of a rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_barrier(rank: *mut CRank, timeout_ns: u64) -> c_int {
    // SAFETY: by this function's contract.
    code(unsafe {
        call(rank, |joined| {
            let world = joined.world;
            barrier().run(&mut joined.endpoint().within(limit(timeout_ns)), &world)
        })
    })
}

/// Sends the root's data to every rank.
///
/// # Safety
/// As of every call of a rank; so many bytes of data are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_bcast(
    rank: *mut CRank,
    data: *mut c_void,
    bytes: usize,
    root: u32,
    timeout_ns: u64,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(data) = (unsafe { taken(data, bytes) }) else { return errors::ARGUMENT };
    // SAFETY: as above.
    code(unsafe {
        call(rank, |joined| {
            let world = joined.world;
            bcast(data, Rank(root)).run(&mut joined.endpoint().within(limit(timeout_ns)), &world)
        })
    })
}

/// Reduces the data of all ranks.
///
/// # Safety
/// As of every call of a rank; so many elements of data and scratch are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_allreduce(
    rank: *mut CRank,
    data: *mut c_void,
    count: usize,
    scratch: *mut c_void,
    scratch_count: usize,
    element: u32,
    op: u32,
    timeout_ns: u64,
) -> c_int {
    let Some(kernel) = reduction::kernel(element, op) else { return errors::ARGUMENT };
    let bytes = |count: usize| count.checked_mul(kernel.element_bytes() as usize);
    let (Some(bytes), Some(scratch_bytes)) = (bytes(count), bytes(scratch_count)) else {
        return errors::ARGUMENT;
    };
    // SAFETY: by this function's contract.
    let memory = unsafe { (taken(data, bytes), taken(scratch, scratch_bytes)) };
    let (Some(data), Some(scratch)) = memory else { return errors::ARGUMENT };
    let what = DynReduction { operation: Operation::Allreduce, kernel, root: Rank(0) };
    // SAFETY: as above.
    code(unsafe {
        call(rank, |joined| {
            let world = joined.world;
            reduce_by(what, data, scratch).run(&mut joined.endpoint().within(limit(timeout_ns)), &world)
        })
    })
}

/// The name of an error.
#[unsafe(no_mangle)]
pub extern "C" fn aldis_error_text(error: c_int) -> *const c_char {
    errors::text(error).as_ptr()
}

/// Text that is cut to what there is room for.
struct Cut<'a> {
    room: &'a mut [u8],
    /// Bytes of the whole text.
    len: usize,
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = self.len.min(self.room.len());
        for (place, byte) in self.room.iter_mut().skip(start).zip(text.bytes()) {
            *place = byte;
        }
        self.len += text.len();
        Ok(())
    }
}

/// Tells the last error in full.
///
/// # Safety
/// As of every call of a rank; so many bytes of text are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_last_error(rank: *const CRank, text: *mut c_char, bytes: usize) -> usize {
    // SAFETY: by this function's contract.
    let room = unsafe { taken(text.cast(), bytes) }.unwrap_or_default();
    let (end, last) = match room.split_last_mut() {
        Some((end, room)) => (Some(end), room),
        None => (None, &mut [][..]),
    };
    let mut cut = Cut { room: last, len: 0 };
    // SAFETY: as above.
    let trouble = unsafe { rank.as_ref() }.and_then(|rank| rank.last.as_ref());
    // A `Cut` takes everything.
    let _ = match trouble {
        Some(trouble) => write!(cut, "{trouble}"),
        None => cut.write_str("no error"),
    };
    let len = cut.len;
    if let Some(place) = cut.room.get_mut(len) {
        *place = 0;
    }
    if let Some(end) = end {
        *end = 0;
    }
    len
}
