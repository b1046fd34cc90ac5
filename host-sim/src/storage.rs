//! The default storage of a rank on a host, sized for a machine: [`run`](crate::run()) takes it.
//!
//! | size | value | why |
//! |---|---|---|
//! | peers | 64 | ranks of one machine |
//! | requests | 2^20 | sends and receives under way, over all peers; 1024 where they cannot be mapped |
//! | communicators | 64 | world and self included |
//! | envelopes | 128 a peer | arrived and unmatched; more wait at the sender |
//! | blocks | 32 a peer, 8 KiB each | eager payloads among them; 8 KiB is the largest eager message |
//! | pooled | 16 | pooled receives held at a time |
//! | bins | 2^16 | matching stays O(1) up to about so many posted or unexpected messages |
//! | pieces | 1024 | of groups that are no single stride: 17 a communicator; 12 bytes each |
//!
//! It is [mapped](mod@crate::lazy): pages that a program never touches take no memory. A system that refuses so much
//! address space (`ulimit -v`) leaves a `static` one, of 1024 requests and as many bins. A program that needs other sizes
//! declares its own with [`aldis_kernel::storage!`] and passes it to [`run_with`](crate::run_with) or
//! [`Job::join`](crate::Job::join).

use core::marker::PhantomData;

use aldis_kernel::Memory;

use crate::lazy;

/// Ranks that the default storage has room for, and so the largest job that `aldis-run` starts.
pub const MAX_RANKS: u32 = 64;

/// Hands the default storage out: the large one, unless the system has no addresses for it. `None` ever after.
pub(crate) fn take() -> Option<Memory<'static>> {
    let small = SMALL.take()?;
    Some(lazy::storage(PhantomData::<Large>).unwrap_or(small))
}

type Large = aldis_kernel::storage_type!(64, 1 << 20, 64, 128, 32, 8192, 16, 1 << 16, 1024);

aldis_kernel::storage! {
    /// The default storage where address space is short, handed out once.
    static SMALL: peers = 64, requests = 1024, communicators = 64,
        envelopes = 128, blocks = 32, block_bytes = 8192, pooled = 16, bins = 1024,
        pieces = 1024
}
