//! Storages of virtual ranks, by the size of the job. All are small: limits that are met all the
//! time are tested.

use aldis_kernel::datatype::TypeTable;
use aldis_kernel::{Memory, Storage, storage_type};

/// Request slots of every rank.
const REQUESTS: usize = 96;
/// Ranks of the largest job.
pub const RANKS_MAX: u32 = 4096;

/// Datatypes of every rank: what the workload of typed messages has in flight at a time.
pub(crate) type SimTypeTable = TypeTable<24, 2000>;

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
    const PIECES: usize,
> Store for Storage<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, POOLED, BYTES, BINS, PIECES>
{
    fn memory(&mut self) -> Memory<'_> {
        Self::memory(self)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// The capacity of a rank's storage in jobs of up to 64 ranks; larger jobs have one size each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// A single unmatched message a peer, and no eager blocks.
    Least,
    /// A few of both.
    Some,
    /// More than most programs use.
    More,
}

impl Room {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Least, Self::Some, Self::More];
}

// Peers, requests, communicators; envelopes, blocks and block bytes a peer; pooled, bins; pieces of
// groups.
//
// The least have one envelope a peer: whatever else is sent to a rank that has not posted its
// receive is matched at its sender. (Seed 1011949 of the mixed workload at 14 ranks, with three
// collectives in flight, waited for ever before.)
type FewLeast = storage_type!(9, REQUESTS, 4, 1, 0, 0, 0, 1, 0);
type FewSome = storage_type!(9, REQUESTS, 6, 2, 2, 128, 1, 16, 6);
type FewMore = storage_type!(9, REQUESTS, 9, 16, 5, 512, 2, 64, 60);
type SmallLeast = storage_type!(64, REQUESTS, 4, 1, 0, 0, 0, 1, 0);
type SmallSome = storage_type!(64, REQUESTS, 6, 3, 2, 128, 1, 16, 12);
type SmallMore = storage_type!(64, REQUESTS, 9, 8, 3, 256, 2, 64, 200);
type Middle = storage_type!(256, REQUESTS, 2, 4, 1, 64, 1, 16);
type LargeSimStorage = storage_type!(1024, REQUESTS, 2, 1, 0, 0, 0, 16);
type Huge = storage_type!(4096, REQUESTS, 2, 1, 0, 0, 0, 16);

/// Each in a frame of its own: one of all sizes together does not fit the stack of a thread.
#[inline(never)]
fn alone<S: Store + 'static>(new: impl FnOnce() -> S) -> Box<dyn Store> {
    Box::new(new())
}

/// The smallest storage for a job of `ranks`; `None` beyond [`RANKS_MAX`].
pub(crate) fn boxed(ranks: u32, room: Room) -> Option<Box<dyn Store>> {
    Some(match (ranks, room) {
        (0..=9, Room::Least) => alone(FewLeast::new),
        (0..=9, Room::Some) => alone(FewSome::new),
        (0..=9, Room::More) => alone(FewMore::new),
        (10..=64, Room::Least) => alone(SmallLeast::new),
        (10..=64, Room::Some) => alone(SmallSome::new),
        (10..=64, Room::More) => alone(SmallMore::new),
        (65..=256, _) => alone(Middle::new),
        (257..=1024, _) => alone(LargeSimStorage::new),
        (1025..=RANKS_MAX, _) => alone(Huge::new),
        _ => return None,
    })
}
