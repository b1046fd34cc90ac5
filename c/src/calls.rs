//! This module holds `unsafe` code: the functions of `aldis.h`, with C's word for what its pointers
//! point to.
//!
//! Each does what `include/aldis.h` says of it. A rank is used by one thread at a time. Requests,
//! and cards with a driver of the library's, have modules of their own.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};

use aldis_coll::dyn_op::{DynReduction, reduce_by};
use aldis_coll::{barrier, bcast};
use aldis_hal::Operation;
use aldis_kernel::{Rank, Tag};

use crate::arena::MemoryArena;
use crate::card::CallbackCard;
use crate::clock::CallbackPlatform;
use crate::errors;
use crate::ffi::{ANY, BUDGET, call, code, given, source, tags, taken, tell};
use crate::rank::{self, CRank, RankParts};
use crate::reduction;
use crate::types::{CardCallbacks, MessageStatus, PlatformCallbacks, RankConfig, limit};

mod cards;
mod requests;

pub use cards::{
    aldis_e1000e_card, aldis_e1000e_memory_bytes, aldis_serial_card, aldis_serial_memory_bytes,
    aldis_virtio_card, aldis_virtio_memory_bytes,
};
pub use requests::{aldis_cancel, aldis_irecv, aldis_isend, aldis_test, aldis_wait};

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
