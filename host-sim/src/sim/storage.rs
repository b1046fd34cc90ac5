//! Storages of virtual ranks, by the size of the job. All are small: limits that are met all the time are tested.

use aldis_kernel::{Memory, Storage, storage_type};

/// Ranks of the largest job.
pub const RANKS_MAX: u32 = 4096;

/// A storage of some size.
pub(crate) trait Store {
    fn memory(&mut self) -> Memory<'_>;
    fn bytes(&self) -> usize;
}

impl<
    const PEERS: usize,
    const REQUESTS: usize,
    const COMMS: usize,
    const ENVELOPES: usize,
    const BLOCKS: usize,
    const POOLED: usize,
    const BYTES: usize,
    const BINS: usize,
> Store for Storage<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, POOLED, BYTES, BINS>
{
    fn memory(&mut self) -> Memory<'_> {
        Self::memory(self)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

// Peers, requests, communicators; envelopes, blocks and block bytes a peer; pooled, bins.
type Pair = storage_type!(2, 96, 2, 3, 1, 64, 1, 4);
type Few = storage_type!(9, 96, 2, 4, 2, 128, 1, 16);
type Small = storage_type!(64, 96, 2, 4, 2, 128, 1, 16);
type Middle = storage_type!(256, 96, 2, 2, 1, 64, 1, 16);
type Large = storage_type!(1024, 96, 2, 1, 0, 0, 0, 16);
type Huge = storage_type!(4096, 96, 2, 1, 0, 0, 0, 16);

/// The smallest storage for a job of `ranks`; `None` beyond [`RANKS_MAX`].
pub(crate) fn boxed(ranks: u32) -> Option<Box<dyn Store>> {
    Some(match ranks {
        0..=2 => Box::new(Pair::new()),
        3..=9 => Box::new(Few::new()),
        10..=64 => Box::new(Small::new()),
        65..=256 => Box::new(Middle::new()),
        257..=1024 => Box::new(Large::new()),
        1025..=RANKS_MAX => Box::new(Huge::new()),
        _ => return None,
    })
}
