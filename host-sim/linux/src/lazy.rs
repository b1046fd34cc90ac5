//! This module holds `unsafe` code: it takes mapped memory, which is all zero, for the empty tables
//! that this stands for.
//!
//! Tables as large as memory: mapped without being reserved, so that a page of them takes memory
//! once it is used.
//!
//! The kernel's tables are of a fixed size and never touch what they have not handed out. On a host
//! they are made so large that a program ends at the machine's memory, not at theirs; a small
//! program takes what it took of small ones. A system that refuses so large a mapping (`ulimit -v`,
//! a strict overcommit) leaves the small tables.

use core::num::NonZeroUsize;

use aldis_kernel::datatype::{TypeTable, Types};
use aldis_kernel::{Memory, Storage};
use aldis_sys::memory::{MapFlags, ProtFlags, mmap_anonymous};

use crate::error::JoinError;
use crate::memory::addresses_left;

/// Maps one `V` for the life of the process. Nothing if the system refuses.
///
/// # Safety
/// A `V` of which all bytes are zero must be one.
unsafe fn zeroed<V>() -> Option<&'static mut V> {
    const PAGE: usize = 4096;
    const { assert!(align_of::<V>() <= PAGE, "a mapping begins at a page") };
    let bytes = NonZeroUsize::new(size_of::<V>())?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing that Rust
    // knows of.
    let start = unsafe { mmap_anonymous(None, bytes, protection, flags) }.ok()?;
    // SAFETY: mapped for reads and writes, never unmapped, aligned to a page, named nowhere else;
    // zero is a V, as the caller promises.
    Some(unsafe { start.cast().as_mut() })
}

/// Maps the memory of an endpoint, of the first size that the system lets it have.
///
/// # Errors
/// [`JoinError::NoStorage`] if it has no addresses for the second either.
pub fn either<L: Room, S: Room>() -> Result<Memory<'static>, JoinError> {
    let refused = || JoinError::NoStorage { need: size_of::<S>() as u64, have: addresses_left() };
    L::map().or_else(S::map).ok_or_else(refused)
}

/// A size of storage.
pub trait Room {
    /// Maps one. Nothing if the system refuses.
    fn map() -> Option<Memory<'static>>;
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
> Room for Storage<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, POOLED, BYTES, BINS, PIECES>
{
    fn map() -> Option<Memory<'static>> {
        // SAFETY: an all-zero storage is an empty one, as its documentation says: static ones lie
        // in `.bss`.
        let mapped: &'static Self = unsafe { zeroed() }?;
        mapped.take()
    }
}

/// Maps a table of datatypes. Nothing if the system refuses.
pub fn types<const TYPES: usize, const WORDS: usize>() -> Option<Types<'static>> {
    // SAFETY: an all-zero table is an empty one, as its documentation says: static ones lie in
    // `.bss`.
    let mapped: &'static mut TypeTable<TYPES, WORDS> = unsafe { zeroed() }?;
    Some(mapped.types())
}

#[cfg(test)]
mod tests {
    use aldis_kernel::datatype::{Basic, IndexedBlock};

    use super::*;

    #[test]
    fn a_mapped_table_makes_types_that_no_small_one_has_room_for() {
        let mut types = types::<{ 1 << 20 }, { 1 << 26 }>().unwrap();
        assert_eq!(types.room(), (1 << 20, 1 << 26));
        let blocks: Vec<IndexedBlock> =
            (0..16_384).map(|index| IndexedBlock { length: 1, displacement: index * index }).collect();
        let made: Vec<_> = (0..100).map(|_| types.indexed(&blocks, Basic::F64).unwrap()).collect();
        assert!(made.iter().all(|datatype| types.size(*datatype) == Ok(8 * 16_384)));
        for datatype in made {
            types.free(datatype).unwrap();
        }
        assert_eq!(types.room(), (1 << 20, 1 << 26));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        // More than there are addresses.
        assert!(types::<1, { (1 << 31) - 1 }>().is_some(), "16 GiB that are never touched");
        // SAFETY: bytes.
        assert!(unsafe { zeroed::<[[u8; 1 << 31]; 1 << 20]>() }.is_none());
    }
}
