//! The default storage of a rank on a host, sized for a machine: [`run`](crate::run()) takes it.
//!
//! | size | value | why |
//! |---|---|---|
//! | peers | 64 | ranks of one machine |
//! | requests | 1024 | sends and receives under way, over all peers |
//! | communicators | 64 | world and self included |
//! | envelopes | 128 a peer | arrived and unmatched; more wait at the sender |
//! | blocks | 32 a peer, 8 KiB each | eager payloads among them; 8 KiB is the largest eager message |
//! | pooled | 16 | pooled receives held at a time |
//! | bins | 1024 | matching stays O(1) up to about so many posted or unexpected messages |
//! | pieces | 1024 | of groups that are no single stride: 17 a communicator; 12 bytes each |
//!
//! It is a `static` in `.bss`: pages that a small job never touches take no memory. A program that needs other
//! sizes declares its own with [`aldis_kernel::storage!`] and joins by [`Job::join`](crate::Job::join).

/// Ranks that the default storage has room for, and so the largest job that `aldis-run` starts.
pub const MAX_RANKS: u32 = 64;

aldis_kernel::storage! {
    /// The default storage, handed out once.
    pub(crate) static STORAGE: peers = 64, requests = 1024, communicators = 64,
        envelopes = 128, blocks = 32, block_bytes = 8192, pooled = 16, bins = 1024,
        pieces = 1024
}
