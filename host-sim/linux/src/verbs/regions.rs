//! Memory of the user that is registered with the device.

use std::rc::Rc;

use aldis_hal::memory::{Access, Gather};
use aldis_hal::{Cause, Handle, RegionId, Resource};

use super::sys::{DeviceRegion, RegionKey};

/// Regions that a rank can have at a time.
pub(super) const REGIONS_MAX: u16 = 1024;
/// Bytes of a packed key: the device's key, where the memory begins for it, and its length.
pub(super) const KEY_BYTES: usize = 16;

/// The table.
#[derive(Debug)]
pub(super) struct Regions {
    rows: Vec<RegionsRow>,
    /// Rows that are free; the last is taken next.
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct RegionsRow {
    /// Odd while there is one.
    generation: u32,
    region: Option<Rc<DeviceRegion>>,
}

impl Regions {
    pub(super) fn new() -> Self {
        let rows = (0..REGIONS_MAX).map(|_| RegionsRow::default()).collect();
        Self { rows, free: (0..u32::from(REGIONS_MAX)).rev().collect() }
    }

    /// Checks that there is room for one more.
    pub(super) fn has_room(&self) -> Result<(), Cause> {
        if self.free.is_empty() { Err(Cause::Full(Resource::Regions)) } else { Ok(()) }
    }

    pub(super) fn insert(&mut self, region: DeviceRegion) -> Result<RegionId, Cause> {
        let slot = self.free.pop().ok_or(Cause::Full(Resource::Regions))?;
        let row = self.rows.get_mut(slot as usize).ok_or(Cause::Full(Resource::Regions))?;
        row.generation = row.generation.wrapping_add(1);
        row.region = Some(Rc::new(region));
        Ok(RegionId(Handle { slot, generation: row.generation }))
    }

    pub(super) fn remove(&mut self, RegionId(handle): RegionId) -> Result<Rc<DeviceRegion>, Cause> {
        let row = self.rows.get_mut(handle.slot as usize).filter(|row| row.generation == handle.generation);
        let row = row.ok_or(Cause::Stale)?;
        let region = row.region.take().ok_or(Cause::Stale)?;
        row.generation = row.generation.wrapping_add(1);
        self.free.push(handle.slot);
        Ok(region)
    }

    pub(super) fn get(&self, RegionId(handle): RegionId) -> Result<&Rc<DeviceRegion>, Cause> {
        let row = self.rows.get(handle.slot as usize).filter(|row| row.generation == handle.generation);
        row.and_then(|row| row.region.as_ref()).ok_or(Cause::Stale)
    }

    /// The region of a piece that the transport may use in this way.
    pub(super) fn piece(&self, piece: &Gather, access: Access) -> Result<&Rc<DeviceRegion>, Cause> {
        let region = self.get(piece.region)?;
        let end = piece.offset.checked_add(piece.len).ok_or(Cause::BadRegion)?;
        if !region.access().contains(access) || end as u64 > region.len() {
            return Err(Cause::BadRegion);
        }
        Ok(region)
    }
}

impl RegionKey {
    /// Writes it to the front of `bytes`, and how long it is.
    pub(super) fn pack(&self, bytes: &mut [u8]) -> Result<usize, Cause> {
        let too_big = Cause::TooBig { len: KEY_BYTES as u64, max: bytes.len() as u64 };
        let room = bytes.first_chunk_mut::<KEY_BYTES>().ok_or(too_big)?;
        *room = [0; KEY_BYTES];
        room[..4].copy_from_slice(&self.key.to_le_bytes());
        room[4..6].copy_from_slice(&self.base.to_le_bytes());
        room[8..].copy_from_slice(&self.len.to_le_bytes());
        Ok(KEY_BYTES)
    }

    /// Returns the address by which the device knows the byte at `offset`.
    pub(super) const fn place(&self, offset: u64) -> u64 {
        offset.wrapping_add(self.base as u64)
    }

    /// The key of a piece of `len` bytes from `offset`. What a key says of its length is not
    /// believed: the device that it is of checks all of it.
    pub(super) fn unpack(bytes: &[u8], offset: u64, len: usize) -> Result<Self, Cause> {
        let bytes = bytes.first_chunk::<KEY_BYTES>().ok_or(Cause::BadRegion)?;
        let (words, _) = bytes.as_chunks::<8>();
        let [first, second] = words else { return Err(Cause::BadRegion) };
        let first = u64::from_le_bytes(*first);
        let key = Self { key: first as u32, base: (first >> 32) as u16, len: u64::from_le_bytes(*second) };
        let end = offset.checked_add(len as u64).filter(|end| *end <= key.len);
        if first >> 48 != 0 || end.is_none() { Err(Cause::BadRegion) } else { Ok(key) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_bounds_what_is_asked_for() {
        let key = RegionKey { key: 0xDEAD_BEEF, base: 4095, len: 1 << 40 };
        let mut bytes = [0xFF; KEY_BYTES];
        assert_eq!(key.pack(&mut bytes), Ok(KEY_BYTES));
        assert_eq!(RegionKey::unpack(&bytes, (1 << 40) - 8, 8), Ok(key));
        assert_eq!(RegionKey::unpack(&bytes, (1 << 40) - 7, 8), Err(Cause::BadRegion));
        assert_eq!(RegionKey::unpack(&bytes, u64::MAX, 8), Err(Cause::BadRegion));
        assert_eq!(RegionKey::unpack(&bytes[..15], 0, 8), Err(Cause::BadRegion));
        bytes[6] = 1;
        assert_eq!(RegionKey::unpack(&bytes, 0, 8), Err(Cause::BadRegion), "a reserved bit");
        assert_eq!(key.pack(&mut [0; 15]), Err(Cause::TooBig { len: 16, max: 15 }));
    }
}
