//! Storages of three sizes, for jobs of up to [`RANKS_MAX`] ranks. The limits of the smallest are
//! met all the time.

use aldis_kernel::{Memory, Storage, storage_type};

/// Ranks of the largest job.
pub const RANKS_MAX: usize = 10;
/// Request slots of a rank.
pub const REQUESTS: usize = 64;
/// Communicators of a rank, world and self included.
pub const COMMUNICATORS: usize = 8;
const PIECES: usize = 60;

/// The size of a rank's storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Room for one unmatched message a peer and no eager block: the least that is legal.
    Least,
    /// A few of both.
    Some,
    /// More than most cases use.
    More,
}

impl Room {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Least, Self::Some, Self::More];
}

// Envelopes, blocks and block bytes a peer; pooled, bins.
type LeastStorage = storage_type!(RANKS_MAX, REQUESTS, COMMUNICATORS, 1, 0, 0, 0, 1, PIECES);
type Few = storage_type!(RANKS_MAX, REQUESTS, COMMUNICATORS, 3, 2, 64, 1, 16, PIECES);
type More = storage_type!(RANKS_MAX, REQUESTS, COMMUNICATORS, 16, 4, 512, 2, 64, PIECES);

/// A storage of some size.
pub trait Store {
    /// Its memory, empty again.
    fn memory(&mut self) -> Memory<'_>;
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
    const PIECES: usize,
> Store for Storage<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, POOLED, BYTES, BINS, PIECES>
{
    fn memory(&mut self) -> Memory<'_> {
        Self::memory(self)
    }
}

/// A storage of that size on the heap.
pub fn boxed(room: Room) -> Box<dyn Store> {
    match room {
        Room::Least => alone(LeastStorage::new),
        Room::Some => alone(Few::new),
        Room::More => alone(More::new),
    }
}

/// Each in a frame of its own, so that a stack needs to hold one of them only.
#[inline(never)]
fn alone<S: Store + 'static>(new: impl FnOnce() -> S) -> Box<dyn Store> {
    Box::new(new())
}
