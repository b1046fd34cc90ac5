//! This module holds `unsafe` code: it makes tables of bytes that it is handed.
//!
//! Memory that is sized at run time: for a host, which learns how many ranks there are when it
//! starts, and a simulator, which draws them. Firmware declares a
//! [`storage!`](macro@crate::storage).
//!
//! ```
//! use aldis_kernel::StorageSizes;
//! use core::mem::MaybeUninit;
//!
//! let sizes = StorageSizes { peers: 300, requests: 16, communicators: 4, envelopes: 2, blocks: 1,
//!     block_bytes: 64, pooled: 2, bins: 64, pieces: 0 };
//! let mut room = vec![MaybeUninit::uninit(); sizes.bytes().unwrap()];
//! let memory = sizes.memory(&mut room).unwrap();
//! assert_eq!(memory.peers(), 300);
//!
//! let none = StorageSizes { envelopes: 0, ..sizes };
//! assert!(none.bytes().unwrap_err().to_string().contains("`envelopes` must be above zero"));
//! ```

use core::fmt;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::AtomicBool;

use aldis_protocols::ACTIVE;

use crate::engine::matching::{Bin, Envelope, EnvelopeEntry};
use crate::memory::sizing::Sizing;
use crate::memory::storage::Memory;
use crate::tables::active::ActiveRow;
use crate::tables::comms::Row;
use crate::tables::group::GroupPiece;
use crate::tables::list::OptionalIndex;
use crate::tables::peer::Peer;
use crate::tables::pool::PoolEntry;
use crate::tables::request::{Request, RequestEntry};

/// The alignment of eager blocks: a cache line, as in a [`Storage`](crate::Storage).
const BLOCK_ALIGNMENT: usize = 64;

/// The sizes of an endpoint's memory, as [`storage!`](macro@crate::storage) takes them; what each
/// bounds is in the [table](mod@crate::memory::storage).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorageSizes {
    /// Peers that the rank is in contact with at a time, itself included.
    pub peers: usize,
    /// Sends and receives under way at a time; at least 4.
    pub requests: usize,
    /// Communicators at a time, world and self included.
    pub communicators: usize,
    /// Messages of each peer that have arrived and are not matched.
    pub envelopes: usize,
    /// Eager payloads above 24 bytes among them.
    pub blocks: usize,
    /// Bytes of the largest eager message, a multiple of 8.
    pub block_bytes: usize,
    /// Messages of pooled receives that the user holds at a time.
    pub pooled: usize,
    /// Matching bins, a power of two.
    pub bins: usize,
    /// Pieces of groups that are no single stride, over all communicators.
    pub pieces: usize,
}

/// The reason why there is no memory of some sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SizesError {
    /// The sizes break the [rule](mod@crate::memory::sizing) that this states.
    Rule(&'static str),
    /// More bytes than there are addresses.
    TooLarge,
    /// The memory that was handed in is too small.
    TooSmall {
        /// Bytes needed.
        need: usize,
        /// Bytes handed in.
        have: usize,
    },
}

impl fmt::Display for SizesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => f.write_str(rule),
            Self::TooLarge => f.write_str("the storage is larger than all addresses"),
            Self::TooSmall { need, have } => write!(f, "the storage needs {need} bytes, and has {have}"),
        }
    }
}

impl core::error::Error for SizesError {}

impl StorageSizes {
    /// Bytes of memory of these sizes, wherever it begins.
    ///
    /// # Errors
    /// [`SizesError::Rule`] if the sizes break a rule, [`SizesError::TooLarge`] if no memory is so
    /// large.
    pub const fn bytes(&self) -> Result<usize, SizesError> {
        let totals = match self.totals() {
            Ok(totals) => totals,
            Err(error) => return Err(error),
        };
        if let Err(rule) = totals.room() {
            return Err(SizesError::Rule(rule));
        }
        let mut rest: &[(usize, usize, usize)] = &[
            (totals.peers, size_of::<Peer>(), align_of::<Peer>()),
            (totals.peers * ACTIVE as usize, size_of::<ActiveRow>(), align_of::<ActiveRow>()),
            (totals.peers, size_of::<u32>(), align_of::<u32>()),
            (totals.requests, size_of::<RequestEntry>(), align_of::<RequestEntry>()),
            (totals.communicators, size_of::<Row>(), align_of::<Row>()),
            (self.pieces, size_of::<GroupPiece>(), align_of::<GroupPiece>()),
            (totals.envelopes, size_of::<EnvelopeEntry>(), align_of::<EnvelopeEntry>()),
            (totals.bins, size_of::<Bin>(), align_of::<Bin>()),
            (totals.blocks, size_of::<OptionalIndex>(), align_of::<OptionalIndex>()),
            (totals.blocks, size_of::<AtomicBool>(), align_of::<AtomicBool>()),
            (totals.bytes, 1, BLOCK_ALIGNMENT),
        ];
        let mut sum = 0_usize;
        while let [(count, each, alignment), tail @ ..] = rest {
            let Some(bytes) = count.checked_mul(*each) else { return Err(SizesError::TooLarge) };
            let Some(end) = sum.checked_add(bytes) else { return Err(SizesError::TooLarge) };
            // What is skipped before a table is less than its alignment.
            let Some(end) = end.checked_add(*alignment - 1) else { return Err(SizesError::TooLarge) };
            (sum, rest) = (end, tail);
        }
        if sum > isize::MAX as usize { Err(SizesError::TooLarge) } else { Ok(sum) }
    }

    /// The empty memory of an endpoint in these bytes, of which it takes
    /// [`bytes`](Self::bytes), whatever is in them.
    ///
    /// # Errors
    /// [`SizesError::TooSmall`] if there are fewer; those of [`bytes`](Self::bytes).
    pub fn memory<'s>(&self, bytes: &'s mut [MaybeUninit<u8>]) -> Result<Memory<'s>, SizesError> {
        self.cut(Cutter { rest: bytes, is_zero: false })
    }

    /// Like [`memory`](Self::memory), but of bytes that are zero and are not written to: pages of a
    /// fresh mapping take no memory before they are used.
    ///
    /// # Errors
    /// Those of [`memory`](Self::memory).
    ///
    /// # Safety
    /// All bytes are zero.
    pub unsafe fn zeroed_memory<'s>(
        &self,
        bytes: &'s mut [MaybeUninit<u8>],
    ) -> Result<Memory<'s>, SizesError> {
        self.cut(Cutter { rest: bytes, is_zero: true })
    }

    /// The sums over all peers.
    const fn totals(&self) -> Result<Sizing, SizesError> {
        let &Self { peers, requests, communicators, envelopes, blocks, block_bytes, pooled, bins, .. } = self;
        let (Some(envelopes), Some(blocks)) = (peers.checked_mul(envelopes), peers.checked_mul(blocks))
        else {
            return Err(SizesError::TooLarge);
        };
        let Some(blocks) = blocks.checked_add(pooled) else { return Err(SizesError::TooLarge) };
        let Some(bytes) = blocks.checked_mul(block_bytes) else { return Err(SizesError::TooLarge) };
        Ok(Sizing { peers, requests, communicators, envelopes, blocks, pooled, bytes, bins })
    }

    fn cut<'s>(&self, mut room: Cutter<'s>) -> Result<Memory<'s>, SizesError> {
        let (need, have) = (self.bytes()?, room.rest.len());
        let totals = self.totals()?;
        let granted = totals.room().map_err(SizesError::Rule)?;
        let too_small = SizesError::TooSmall { need, have };
        let mut tables = || {
            Some(Memory {
                // SAFETY: all bytes zero are the `EMPTY` of each of these types, an index that is
                // none, and false, as the tests of `Storage` show.
                peers: unsafe { room.table(totals.peers, || Peer::EMPTY) }?,
                // SAFETY: as above.
                active: ActiveRow::one(unsafe {
                    room.table(totals.peers * ACTIVE as usize, || ActiveRow::EMPTY)
                }?),
                // SAFETY: as above.
                scheduled: unsafe { room.table(totals.peers, || 0) }?,
                // SAFETY: as above.
                requests: unsafe { room.table(totals.requests, || PoolEntry::new(Request::EMPTY)) }?,
                // SAFETY: as above.
                comms: unsafe { room.table(totals.communicators, || Row::EMPTY) }?,
                // SAFETY: as above.
                pieces: unsafe { room.table(self.pieces, || GroupPiece::NONE) }?,
                // SAFETY: as above.
                envelopes: unsafe { room.table(totals.envelopes, || PoolEntry::new(Envelope::EMPTY)) }?,
                // SAFETY: as above.
                bins: unsafe { room.table(totals.bins, || Bin::EMPTY) }?,
                // SAFETY: as above.
                next_block: unsafe { room.table(totals.blocks, || OptionalIndex::NONE) }?,
                // SAFETY: as above.
                returned: unsafe { room.table(totals.blocks, || AtomicBool::new(false)) }?,
                bytes: {
                    room.align(BLOCK_ALIGNMENT)?;
                    // SAFETY: as above.
                    unsafe { room.table(totals.bytes, || 0) }?
                },
                pooled: self.pooled as u32,
                room: granted,
            })
        };
        if have < need { Err(too_small) } else { tables().ok_or(too_small) }
    }
}

/// Bytes of which tables are cut, one after the other.
struct Cutter<'s> {
    rest: &'s mut [MaybeUninit<u8>],
    is_zero: bool,
}

impl<'s> Cutter<'s> {
    /// Leaves out bytes up to the next multiple; `None` if there are not so many.
    fn align(&mut self, alignment: usize) -> Option<()> {
        let skipped = self.rest.as_ptr().align_offset(alignment);
        self.rest = core::mem::take(&mut self.rest).get_mut(skipped..)?;
        Some(())
    }

    /// The next table of so many entries, each of them `empty`; `None` if there is no room.
    ///
    /// # Safety
    /// All bytes zero are what `empty` returns.
    unsafe fn table<V>(&mut self, count: usize, empty: impl Fn() -> V) -> Option<&'s mut [V]> {
        self.align(align_of::<V>())?;
        let bytes = count.checked_mul(size_of::<V>())?;
        let (table, rest) = core::mem::take(&mut self.rest).split_at_mut_checked(bytes)?;
        self.rest = rest;
        let start = table.as_mut_ptr();
        // SAFETY: aligned as a V, as many bytes as so many of them have, borrowed for `'s` and
        // given to none but this table; a `MaybeUninit` may have any bytes.
        let entries = unsafe { slice::from_raw_parts_mut(start.cast::<MaybeUninit<V>>(), count) };
        if !self.is_zero {
            for entry in &mut *entries {
                entry.write(empty());
            }
        }
        // SAFETY: each has been written above, or is zero, which the caller says is a value.
        Some(unsafe { &mut *(core::ptr::from_mut(entries) as *mut [V]) })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec;

    use super::*;

    const FEW: StorageSizes = StorageSizes {
        peers: 3,
        requests: 5,
        communicators: 4,
        envelopes: 2,
        blocks: 1,
        block_bytes: 24,
        pooled: 1,
        bins: 4,
        pieces: 2,
    };

    /// The counts of a memory's tables, and where its blocks begin.
    fn counts(memory: &Memory<'_>) -> ([usize; 9], usize) {
        let counts = [
            memory.peers.len(),
            memory.scheduled.len(),
            memory.requests.len(),
            memory.comms.len(),
            memory.pieces.len(),
            memory.envelopes.len(),
            memory.bins.len(),
            memory.returned.len(),
            memory.bytes.len(),
        ];
        (counts, memory.bytes.as_ptr().addr() % BLOCK_ALIGNMENT)
    }

    #[test]
    fn tables_are_as_long_as_said_wherever_the_bytes_begin() {
        let need = FEW.bytes().unwrap();
        for offset in 0..65 {
            let mut room = vec![MaybeUninit::new(0xFF_u8); need + offset];
            let memory = FEW.memory(&mut room[offset..]).unwrap();
            assert_eq!(counts(&memory), ([3, 3, 5, 4, 2, 6, 4, 4, 96], 0), "{offset}");
            assert!(
                memory.returned.iter().all(|returned| !returned.load(core::sync::atomic::Ordering::Relaxed))
            );
            assert_eq!(memory.room().block_bytes, 24);
        }
    }

    #[test]
    fn zeroed_memory_is_not_written() {
        let mut room = vec![MaybeUninit::new(0_u8); FEW.bytes().unwrap()];
        {
            // SAFETY: all are zero.
            let memory = unsafe { FEW.zeroed_memory(&mut room) }.unwrap();
            assert_eq!(counts(&memory).0, [3, 3, 5, 4, 2, 6, 4, 4, 96]);
        }
        // SAFETY: none was written to.
        assert!(room.iter().all(|byte| unsafe { byte.assume_init() } == 0));
    }

    #[test]
    fn too_few_bytes_and_bad_sizes_are_refused() {
        let need = FEW.bytes().unwrap();
        let mut room = vec![MaybeUninit::uninit(); need - 1];
        let refused = FEW.memory(&mut room).err();
        assert_eq!(refused, Some(SizesError::TooSmall { need, have: need - 1 }));
        for (sizes, name) in [
            (StorageSizes { peers: 0, ..FEW }, "`peers`"),
            (StorageSizes { requests: 3, ..FEW }, "`requests`"),
            (StorageSizes { communicators: 1, ..FEW }, "`communicators`"),
            (StorageSizes { envelopes: 0, ..FEW }, "`envelopes`"),
            (StorageSizes { block_bytes: 12, ..FEW }, "`block_bytes`"),
            (StorageSizes { bins: 3, ..FEW }, "`bins`"),
        ] {
            let error = sizes.bytes().unwrap_err();
            assert!(error.to_string().contains(name), "{sizes:?}: {error}");
        }
        for large in [
            StorageSizes { block_bytes: usize::MAX / 8 * 8, ..FEW },
            StorageSizes { requests: u32::MAX as usize - 1, pieces: usize::MAX / 4, ..FEW },
        ] {
            assert!(large.bytes().is_err(), "{large:?}");
        }
    }
}
