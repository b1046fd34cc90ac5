//! Storages of virtual ranks, by the size of the job. All are small: limits that are met all the
//! time are tested.

use core::mem::MaybeUninit;

use aldis_kernel::datatype::TypeTable;
use aldis_kernel::{Memory, StorageSizes};

/// Request slots of every rank.
const REQUESTS: usize = 96;
/// Ranks of the largest job, if there is the memory.
pub const RANKS_MAX: u32 = 1 << 20;

/// Datatypes of every rank: what the workload of typed messages has in flight at a time.
pub(crate) type SimTypeTable = TypeTable<24, 2000>;

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

    /// The sizes of a rank of a job of so many, with a row for every rank; `None` beyond
    /// [`RANKS_MAX`].
    ///
    /// The least have one envelope a peer: whatever else is sent to a rank that has not posted its
    /// receive is matched at its sender. (Seed 1011949 of the mixed workload at 14 ranks, with
    /// three collectives in flight, waited for ever before.)
    fn sizes(self, ranks: u32) -> Option<StorageSizes> {
        let least = StorageSizes {
            peers: ranks as usize,
            requests: REQUESTS,
            communicators: 4,
            envelopes: 1,
            blocks: 0,
            block_bytes: 0,
            pooled: 0,
            bins: 1,
            pieces: 0,
        };
        let some =
            StorageSizes { communicators: 6, blocks: 2, block_bytes: 128, pooled: 1, bins: 16, ..least };
        let more = StorageSizes { communicators: 9, pooled: 2, bins: 64, ..least };
        Some(match (ranks, self) {
            (0..=64, Self::Least) => least,
            (0..=9, Self::Some) => StorageSizes { envelopes: 2, pieces: 6, ..some },
            (0..=9, Self::More) => {
                StorageSizes { envelopes: 16, blocks: 5, block_bytes: 512, pieces: 60, ..more }
            }
            (10..=64, Self::Some) => StorageSizes { envelopes: 3, pieces: 12, ..some },
            (10..=64, Self::More) => {
                StorageSizes { envelopes: 8, blocks: 3, block_bytes: 256, pieces: 200, ..more }
            }
            (65..=256, _) => StorageSizes {
                communicators: 2,
                envelopes: 4,
                blocks: 1,
                block_bytes: 64,
                pooled: 1,
                bins: 16,
                ..least
            },
            (257..=RANKS_MAX, _) => StorageSizes { communicators: 2, bins: 16, ..least },
            _ => return None,
        })
    }
}

/// A rank's storage on the heap.
pub(crate) struct SimStorage {
    sizes: StorageSizes,
    bytes: Box<[MaybeUninit<u8>]>,
}

impl SimStorage {
    /// Makes one for a rank of a job of `ranks`, with so many rows for peers, or one for every
    /// rank; `None` beyond [`RANKS_MAX`].
    pub(crate) fn new(ranks: u32, active: Option<u32>, room: Room) -> Option<Self> {
        let sizes = Self::sizes(ranks, active, room)?;
        Some(Self { sizes, bytes: Box::new_uninit_slice(sizes.bytes().ok()?) })
    }

    /// Bytes of such a storage, which is not made; `None` for sizes that there are not.
    pub(crate) fn bytes_of(ranks: u32, active: Option<u32>, room: Room) -> Option<usize> {
        Self::sizes(ranks, active, room)?.bytes().ok()
    }

    fn sizes(ranks: u32, active: Option<u32>, room: Room) -> Option<StorageSizes> {
        let sizes = room.sizes(ranks)?;
        Some(active.map_or(sizes, |rows| StorageSizes { peers: rows as usize, ..sizes }))
    }

    /// Its memory, empty.
    pub(crate) fn memory(&mut self) -> Memory<'_> {
        self.sizes.memory(&mut self.bytes).expect("as many bytes as its sizes need")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_a_sound_storage_of_each_room() {
        for ranks in (1..=70).chain([256, 257, 1025]) {
            for room in Room::ALL {
                let mut storage = SimStorage::new(ranks, None, room).unwrap();
                assert_eq!(storage.memory().peers(), ranks, "{room:?}");
                let fewer = SimStorage::new(ranks, Some(3), room).unwrap();
                assert!(ranks <= 3 || fewer.bytes.len() < storage.bytes.len());
            }
        }
        let mut largest = SimStorage::new(RANKS_MAX, Some(34), Room::Least).unwrap();
        assert_eq!(largest.memory().peers(), 34);
        assert!(largest.bytes.len() < 64 << 10);
        assert!(SimStorage::new(RANKS_MAX + 1, None, Room::Least).is_none());
    }
}
