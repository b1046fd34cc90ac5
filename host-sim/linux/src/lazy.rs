//! This module holds `unsafe` code: it takes mapped memory, which is all zero, for the empty tables
//! that this stands for.
//!
//! Tables as large as memory: mapped without being reserved, so that a page of them takes memory
//! once it is used.
//!
//! The kernel's tables do not grow and never touch what they have not handed out. On a host
//! they are made so large that a program ends at the machine's memory, not at theirs; a small
//! program takes what it took of small ones. A system that refuses so large a mapping (`ulimit -v`,
//! a strict overcommit) leaves the small tables.

use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::slice;

use aldis_kernel::datatype::{TypeTable, Types};
use aldis_kernel::{Memory, StorageSizes};
use aldis_sys::memory::{MapFlags, ProtFlags, mmap_anonymous};

use crate::error::JoinError;
use crate::memory::addresses_left;

/// Maps so many bytes for the life of the process, all of them zero, from a page's beginning on.
/// Nothing if the system refuses.
fn mapped(bytes: usize) -> Option<&'static mut [MaybeUninit<u8>]> {
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing that Rust
    // knows of.
    let start = unsafe { mmap_anonymous(None, NonZeroUsize::new(bytes)?, protection, flags) }.ok()?;
    // SAFETY: mapped for reads and writes, never unmapped, named nowhere else.
    Some(unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), bytes) })
}

/// Maps one `V` for the life of the process. Nothing if the system refuses.
///
/// # Safety
/// A `V` of which all bytes are zero must be one.
unsafe fn zeroed<V>() -> Option<&'static mut V> {
    const PAGE: usize = 4096;
    const { assert!(align_of::<V>() <= PAGE, "a mapping begins at a page") };
    let start = mapped(size_of::<V>())?.as_mut_ptr();
    // SAFETY: mapped for the life of the process, aligned to a page, named nowhere else; zero is a
    // V, as the caller promises.
    Some(unsafe { &mut *start.cast() })
}

/// Maps the memory of an endpoint, of the first of these sizes that the system lets it have.
///
/// # Errors
/// [`JoinError::NoStorage`] if it has no addresses for the last either; [`JoinError::Sizes`] if
/// they break a rule.
pub fn storage(sizes: &[StorageSizes]) -> Result<Memory<'static>, JoinError> {
    let mut need = 0;
    for sizes in sizes {
        need = sizes.bytes().map_err(JoinError::Sizes)?;
        if let Some(bytes) = mapped(need) {
            // SAFETY: pages of a new mapping are zero.
            return unsafe { sizes.zeroed_memory(bytes) }.map_err(JoinError::Sizes);
        }
    }
    Err(JoinError::NoStorage { need: need as u64, have: addresses_left() })
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

    const FEW: StorageSizes = StorageSizes {
        peers: 2,
        requests: 4,
        communicators: 2,
        envelopes: 1,
        blocks: 0,
        block_bytes: 0,
        pooled: 0,
        bins: 1,
        pieces: 0,
    };

    #[test]
    fn the_first_storage_that_can_be_mapped_is_taken() {
        // A rank of a job of 65,536, which touches none of it.
        let many = StorageSizes { peers: 1 << 16, envelopes: 128, blocks: 32, block_bytes: 8 << 10, ..FEW };
        assert_eq!(storage(&[many, FEW]).unwrap().peers(), 1 << 16);
        let more = StorageSizes { block_bytes: 1 << 31, ..many };
        assert_eq!(storage(&[more, FEW]).unwrap().peers(), 2);
        let need = more.bytes().unwrap() as u64;
        assert!(matches!(storage(&[more]), Err(JoinError::NoStorage { need: of, .. }) if of == need));
        let none = storage(&[StorageSizes { bins: 3, ..FEW }]);
        assert!(matches!(none, Err(JoinError::Sizes(error)) if error.to_string().contains("`bins`")));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        // More than there are addresses.
        assert!(types::<1, { (1 << 31) - 1 }>().is_some(), "16 GiB that are never touched");
        // SAFETY: bytes.
        assert!(unsafe { zeroed::<[[u8; 1 << 31]; 1 << 20]>() }.is_none());
    }
}
