//! The default storage of a rank on a host, sized for its job: [`run`](crate::run()) takes it.
//!
//! | size | value | why |
//! |---|---|---|
//! | peers | the job's ranks | |
//! | requests | 2^20 | sends and receives under way; 1024 where they cannot be mapped |
//! | communicators | 1024 | world and self included; 64 where they cannot be mapped |
//! | envelopes | 128 a peer | arrived and unmatched; more wait at the sender |
//! | blocks | 32 a peer, 8 KiB each | eager payloads among them, of at most 8 KiB |
//! | pooled | 16 | pooled receives held at a time |
//! | bins | 2^16 | matching stays O(1) up to about so many posted or unexpected messages |
//! | pieces | 17 a communicator | of groups that are no single stride; 12 bytes each |
//!
//! It is [mapped](mod@crate::lazy): pages that a program never touches take no memory, so that a
//! peer costs what it sends. A system that refuses so much address space (`ulimit -v`) leaves a
//! small one, of 1024 requests and as many bins; where that does not fit either, need and have are
//! told. A program that needs other sizes declares its own with [`aldis_kernel::storage!`] and
//! passes it to [`run_with`](crate::run_with) or [`Job::join`](crate::Job::join), or sizes it when
//! the job's ranks are known, with [`Job::join_sized`](crate::Job::join_sized).

use core::sync::atomic::{AtomicBool, Ordering};

use aldis_kernel::{Memory, StorageSizes};

use crate::error::JoinError;
use crate::lazy;

/// Sizes of it, for each peer.
pub(crate) const ENVELOPES: usize = 128;
pub(crate) const BLOCKS: usize = 32;
pub(crate) const BLOCK_BYTES: usize = 8 << 10;

/// Hands out the default storage of a rank of a job of so many, once: the large one, unless the
/// system has no addresses for it.
///
/// # Errors
/// [`JoinError::StorageTaken`] ever after; [`JoinError::NoStorage`] if there is no room for the
/// small one either.
pub(crate) fn take(ranks: u32) -> Result<Memory<'static>, JoinError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(JoinError::StorageTaken);
    }
    let large = StorageSizes {
        peers: ranks as usize,
        requests: 1 << 20,
        communicators: 1024,
        envelopes: ENVELOPES,
        blocks: BLOCKS,
        block_bytes: BLOCK_BYTES,
        pooled: 16,
        bins: 1 << 16,
        pieces: 17 << 10,
    };
    let small = StorageSizes { requests: 1024, communicators: 64, bins: 1024, pieces: 17 << 6, ..large };
    lazy::storage(&[large, small])
}
