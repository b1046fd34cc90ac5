//! The default storage of a rank on a host, sized for a machine: [`run`](crate::run()) takes it.
//!
//! | size | value | why |
//! |---|---|---|
//! | peers | 64 | ranks of one machine |
//! | requests | 2^20 | sends and receives under way; 1024 where they cannot be mapped |
//! | communicators | 1024 | world and self included; 64 where they cannot be mapped |
//! | envelopes | 128 a peer | arrived and unmatched; more wait at the sender |
//! | blocks | 32 a peer, 8 KiB each | eager payloads among them, of at most 8 KiB |
//! | pooled | 16 | pooled receives held at a time |
//! | bins | 2^16 | matching stays O(1) up to about so many posted or unexpected messages |
//! | pieces | 17408 | of groups that are no single stride: 17 a communicator; 12 bytes each |
//!
//! It is [mapped](mod@crate::lazy): pages that a program never touches take no memory. A system
//! that refuses so much address space (`ulimit -v`) leaves a small one, of 1024 requests and as
//! many bins; where that does not fit either, need and have are told. A program that needs other
//! sizes declares its own with [`aldis_kernel::storage!`] and passes it to
//! [`run_with`](crate::run_with) or [`Job::join`](crate::Job::join).

use core::sync::atomic::{AtomicBool, Ordering};

use aldis_kernel::Memory;

use crate::error::JoinError;
use crate::lazy;

/// Ranks that the default storage has room for, and so the largest job that `aldis-run` starts.
pub const MAX_RANKS: u32 = 64;

/// Hands the default storage out, once: the large one, unless the system has no addresses for it.
///
/// # Errors
/// [`JoinError::StorageTaken`] ever after; [`JoinError::NoStorage`] if there is no room for the
/// small one either.
pub(crate) fn take() -> Result<Memory<'static>, JoinError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(JoinError::StorageTaken);
    }
    lazy::either::<Large, Small>()
}

type Large = aldis_kernel::storage_type!(64, 1 << 20, 1024, 128, 32, 8192, 16, 1 << 16, 17408);

/// The storage where address space is short.
type Small = aldis_kernel::storage_type!(64, 1024, 64, 128, 32, 8192, 16, 1024, 1024);
