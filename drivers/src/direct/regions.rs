//! This module holds `unsafe` code: the regions of [`Direct`](super::Direct), which move between
//! threads with it.

use core::ptr::NonNull;

use aldis_hal::PeerId;
use aldis_hal::memory::{Access, Memory};

use super::reads::Read;
use super::table::ENTRIES;

/// Regions that are registered at a time: the first half can be shown, the other is read into.
pub(super) const REGIONS: usize = 2 * ENTRIES as usize;

/// The registered regions; a row of the caller's memory.
#[derive(Debug)]
pub struct RegionSlots(pub(super) [Slot; REGIONS]);

impl RegionSlots {
    /// No regions registered.
    pub const EMPTY: Self = Self([Slot::EMPTY; REGIONS]);
}

/// A slot for one region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Odd while it is registered.
    pub(super) generation: u32,
    pub(super) peer: PeerId,
    pub(super) memory: Memory,
    pub(super) access: Access,
    pub(super) read: Read,
}

// SAFETY: the address is dereferenced by the transport that holds it alone, which moves between
// threads as a whole.
unsafe impl Send for Slot {}

impl Slot {
    pub(super) const EMPTY: Self = Self {
        generation: 0,
        peer: PeerId(0),
        memory: Memory { start: NonNull::dangling(), len: 0 },
        access: Access::empty(),
        read: Read::NONE,
    };

    pub(super) const fn is_live(&self) -> bool {
        self.generation & 1 == 1
    }

    /// Returns true if a piece is inside.
    pub(super) fn holds(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.memory.len)
    }
}

/// The place of region `index` of those that are read into.
pub(super) const fn reader(index: u32) -> usize {
    index as usize + ENTRIES as usize
}
