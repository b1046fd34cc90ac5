//! This module holds `unsafe` code: memory that a peer reads and writes too, and the way from a
//! peer's numbers to it.

use core::ptr::NonNull;

use aldis_hal::copy::copy_raw;

use super::error::MemifError;
use super::message::{RingDirection, RingPlacement};
use super::ring::{BufferPlace, COOKIE, MappedRing, RING_LOG2_MAX};
use crate::region_memory::RegionMemory;

/// Bytes of a buffer: what a DPDK server expects of a client, whose frames it writes there without
/// a look at their lengths.
pub(super) const BUFFER_BYTES: usize = 2048;

/// The layout of a client's memory: a ring to the server, a ring to the client, and a buffer for
/// each of their descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemifLayout {
    log2: u8,
}

impl MemifLayout {
    /// Rings of two to the power of `log2` descriptors, 2^14 at most.
    pub const fn new(log2: u8) -> Option<Self> {
        if log2 <= RING_LOG2_MAX { Some(Self { log2 }) } else { None }
    }

    /// The descriptors of a ring.
    pub const fn descriptors(&self) -> usize {
        1 << self.log2
    }

    /// The bytes of the memory.
    pub const fn bytes(&self) -> usize {
        self.buffers_at() + 2 * self.descriptors() * BUFFER_BYTES
    }

    /// The places of both rings.
    pub const fn rings(&self) -> [RingPlacement; 2] {
        let to_client_at = MappedRing::bytes(self.descriptors()) as u32;
        [self.ring(RingDirection::ToServer, 0), self.ring(RingDirection::ToClient, to_client_at)]
    }

    const fn ring(&self, direction: RingDirection, offset: u32) -> RingPlacement {
        RingPlacement { direction, index: 0, region: 0, offset, log2: self.log2, private_bytes: 0 }
    }

    /// The offset of the first buffer.
    const fn buffers_at(&self) -> usize {
        (2 * MappedRing::bytes(self.descriptors())).next_multiple_of(64)
    }

    /// The empty buffer of a slot of a ring.
    pub(super) const fn buffer(&self, direction: RingDirection, slot: usize) -> BufferPlace {
        let before = match direction {
            RingDirection::ToServer => 0,
            RingDirection::ToClient => self.descriptors(),
        };
        let offset = self.buffers_at() + (before + slot) * BUFFER_BYTES;
        BufferPlace { region: 0, offset: offset as u32, length: BUFFER_BYTES as u32, has_next: false }
    }
}

/// The regions of a connection.
#[derive(Debug)]
pub(super) struct MemifRegions<M, const REGIONS: usize>(pub(super) [Option<M>; REGIONS]);

impl<M: RegionMemory, const REGIONS: usize> MemifRegions<M, REGIONS> {
    /// The place of `bytes` at an offset of a region, if they lie in it.
    fn locate(&self, region: u16, offset: u32, bytes: usize) -> Option<NonNull<u8>> {
        let memory = self.0.get(usize::from(region))?.as_ref()?;
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(bytes)?;
        // SAFETY: the offset is not behind the end of the region, which is mapped.
        (end <= memory.bytes()).then(|| unsafe { memory.start().add(offset) })
    }

    /// The ring that lies at a place that a client tells.
    ///
    /// # Errors
    /// [`MemifError::Ring`] if it does not lie in a region, is not aligned, or does not begin as
    /// rings do.
    pub(super) fn ring(&self, place: RingPlacement) -> Result<MappedRing, MemifError> {
        if place.log2 > RING_LOG2_MAX {
            return Err(MemifError::Ring);
        }
        let ring = self.ring_memory(place).ok_or(MemifError::Ring)?;
        let is_one = ring.cookie().load(core::sync::atomic::Ordering::Acquire) == COOKIE;
        if is_one { Ok(ring) } else { Err(MemifError::Ring) }
    }

    /// The ring at a place of up to 2^14 descriptors, whatever stands there.
    pub(super) fn ring_memory(&self, place: RingPlacement) -> Option<MappedRing> {
        let descriptors = 1 << place.log2.min(RING_LOG2_MAX);
        let start = self.locate(place.region, place.offset, MappedRing::bytes(descriptors))?;
        // SAFETY: so many bytes lie in the region, which is mapped as long as this value lives, and
        // whose owner keeps the ring with it; aligned as just checked.
        start.cast::<u32>().is_aligned().then(|| unsafe { MappedRing::new(start, descriptors) })
    }

    /// The buffer that a descriptor tells of.
    ///
    /// # Errors
    /// [`MemifError::Descriptor`] if it does not lie in a region, or has no bytes.
    pub(super) fn buffer(&self, place: BufferPlace) -> Result<NonNull<u8>, MemifError> {
        let BufferPlace { region, offset, length, .. } = place;
        let found = self.locate(region, offset, length as usize).filter(|_| length > 0);
        found.ok_or(MemifError::Descriptor { region, offset, length })
    }

    /// Copies as much of a buffer as there is room for.
    ///
    /// # Errors
    /// [`MemifError::Descriptor`] if it does not lie in a region, or has no bytes.
    pub(super) fn take(&self, place: BufferPlace, room: &mut [u8]) -> Result<(), MemifError> {
        let start = self.buffer(place)?;
        let count = room.len().min(place.length as usize);
        // SAFETY: so many bytes of the buffer lie in a region, which no reference leads to, so that
        // the room is apart from it. A peer that writes there meanwhile makes other bytes of them.
        unsafe { copy_raw(start.as_ptr(), room.as_mut_ptr(), count) }
        Ok(())
    }

    /// Copies bytes to a buffer, as many as it has room for.
    ///
    /// # Errors
    /// [`MemifError::Descriptor`] if it does not lie in a region, or has no bytes.
    pub(super) fn put(&self, place: BufferPlace, bytes: &[u8]) -> Result<(), MemifError> {
        let start = self.buffer(place)?;
        let count = bytes.len().min(place.length as usize);
        // SAFETY: as in `take`; the peer may read what it likes.
        unsafe { copy_raw(bytes.as_ptr(), start.as_ptr(), count) }
        Ok(())
    }
}
