//! This module holds `unsafe` code: C's memory as slices, and the rank behind its handle.
//!
//! The steps that the functions of `aldis.h` have in common.

use core::ffi::{c_int, c_void};
use core::slice;

use aldis_kernel::{Error, Rank, Source, Status, Tag, TagMatch};

use crate::errors;
use crate::rank::{CRank, JoinedRank, Trouble};
use crate::types::MessageStatus;

/// Events that a poll handles at most.
pub(crate) const BUDGET: u32 = 64;

/// The number of any source or tag.
pub(crate) const ANY: u32 = u32::MAX;

/// Bytes of C's to read; `None` for a null pointer to some.
///
/// # Safety
/// So many bytes are there, and nobody writes them for as long as they are used.
pub(crate) unsafe fn given<'a>(start: *const c_void, bytes: usize) -> Option<&'a [u8]> {
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
pub(crate) unsafe fn taken<'a>(start: *mut c_void, bytes: usize) -> Option<&'a mut [u8]> {
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
pub(crate) unsafe fn call<R>(
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
pub(crate) fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(errors::OK)
}

/// Tells C what a receive found, if it asks.
///
/// # Safety
/// The status is null, or there to be written.
pub(crate) unsafe fn tell(status: *mut MessageStatus, found: Status) {
    let found = MessageStatus { source: found.source.0, tag: found.tag.0, bytes: found.bytes };
    if !status.is_null() {
        // SAFETY: by this function's contract.
        unsafe { status.write(found) }
    }
}

pub(crate) const fn source(from: u32) -> Source {
    if from == ANY { Source::Any } else { Source::Rank(Rank(from)) }
}

pub(crate) const fn tags(tag: u32) -> TagMatch {
    if tag == ANY { TagMatch::Any } else { TagMatch::Tag(Tag(tag)) }
}
