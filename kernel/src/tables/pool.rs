//! Freelists of indices with generations over a slice of the storage.

use aldis_hal::Handle;

use crate::planted::{self, Planted};
use crate::tables::list::OptionalIndex;

/// A slot of a pool. All-zero is a free slot that was never used.
#[derive(Debug)]
pub(crate) struct PoolEntry<V> {
    /// Odd while in use; so a zero handle is never live and a freed one is stale.
    generation: u32,
    next_free: OptionalIndex,
    pub(crate) value: V,
}

impl<V> PoolEntry<V> {
    pub(crate) const fn new(value: V) -> Self {
        Self { generation: 0, next_free: OptionalIndex::NONE, value }
    }

    /// Returns true if this is still what the handle was made for.
    #[inline]
    fn is_current(&self, handle: Handle) -> bool {
        let current = self.generation == handle.generation || planted::is(Planted::SkipGeneration);
        current && handle.generation & 1 == 1
    }
}

/// A fixed set of slots, taken and given back in O(1). Slots that were never used are handed out in
/// order, so that the memory needs no initialisation.
#[derive(Debug)]
pub(crate) struct Pool<'s, V> {
    entries: &'s mut [PoolEntry<V>],
    free: OptionalIndex,
    /// Slots used at least once.
    fresh: u32,
    in_use: u32,
}

impl<'s, V> Pool<'s, V> {
    pub(crate) fn new(entries: &'s mut [PoolEntry<V>]) -> Self {
        Self { entries, free: OptionalIndex::NONE, fresh: 0, in_use: 0 }
    }

    /// Takes a slot; its value is what its last user left.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[cfg_attr(not(feature = "fast-paths"), inline)]
    pub(crate) fn take(&mut self) -> Option<(Handle, &mut V)> {
        let slot = match self.free.get() {
            Some(slot) => slot,
            None => self.fresh,
        };
        let entry = self.entries.get_mut(slot as usize)?;
        if self.free == OptionalIndex::NONE {
            self.fresh = self.fresh.wrapping_add(1);
        } else {
            self.free = entry.next_free;
        }
        self.in_use = self.in_use.wrapping_add(1);
        entry.generation = entry.generation.wrapping_add(1);
        Some((Handle { slot, generation: entry.generation }, &mut entry.value))
    }

    /// Gives the slot `slot` back; every handle to it is stale from here on. A free slot is left
    /// alone.
    pub(crate) fn give(&mut self, slot: u32) {
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        if entry.generation & 1 == 0 {
            return;
        }
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = self.free;
        self.free = OptionalIndex::to(slot);
        self.in_use = self.in_use.wrapping_sub(1);
    }

    /// Gives the slot behind a handle back, with what `over` makes of its value; kept if that is
    /// nothing, and nothing if the handle is stale.
    #[inline]
    pub(crate) fn give_if<R>(&mut self, handle: Handle, over: impl FnOnce(&mut V) -> Option<R>) -> Option<R> {
        let entry = self.entries.get_mut(handle.slot as usize)?;
        if !entry.is_current(handle) {
            return None;
        }
        let result = over(&mut entry.value)?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = core::mem::replace(&mut self.free, OptionalIndex::to(handle.slot));
        self.in_use = self.in_use.wrapping_sub(1);
        Some(result)
    }

    /// The value behind a handle, unless that is stale.
    #[cfg_attr(feature = "fast-paths", inline)]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub(crate) fn get(&mut self, handle: Handle) -> Option<&mut V> {
        let entry = self.entries.get_mut(handle.slot as usize)?;
        entry.is_current(handle).then_some(&mut entry.value)
    }

    /// The value in a slot that the caller knows to be in use.
    #[cfg_attr(feature = "fast-paths", inline)]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub(crate) fn at(&mut self, slot: u32) -> Option<&mut V> {
        Some(&mut self.entries.get_mut(slot as usize)?.value)
    }

    /// Looks at the value in a slot that the caller knows to be in use.
    pub(crate) fn peek(&self, slot: u32) -> Option<&V> {
        Some(&self.entries.get(slot as usize)?.value)
    }

    /// The handle of a slot in use.
    pub(crate) fn handle(&self, slot: u32) -> Option<Handle> {
        let generation = self.entries.get(slot as usize)?.generation;
        (generation & 1 == 1).then_some(Handle { slot, generation })
    }

    /// Returns the index past the highest slot ever used: the bound of a walk over all.
    pub(crate) const fn used_end(&self) -> u32 {
        self.fresh
    }

    /// Slots there are.
    pub(crate) const fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.in_use >= self.capacity()
    }

    pub(crate) const fn in_use(&self) -> u32 {
        self.in_use
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is taken and given: no slot is handed out twice, none is lost, stale handles
        /// find nothing.
        #[test]
        fn slots_are_conserved(moves in proptest::collection::vec(0usize..6, 0..300)) {
            let mut entries = [const { PoolEntry::new(0u32) }; 4];
            let mut pool = Pool::new(&mut entries);
            let mut held: Vec<(Handle, u32)> = Vec::new();
            let mut stale: Vec<Handle> = Vec::new();
            for (stamp, step) in moves.into_iter().enumerate() {
                if step < 3 {
                    match pool.take() {
                        Some((handle, value)) => {
                            *value = stamp as u32;
                            prop_assert!(held.iter().all(|(other, _)| other.slot != handle.slot));
                            held.push((handle, stamp as u32));
                        }
                        None => prop_assert_eq!(held.len(), 4),
                    }
                } else if !held.is_empty() {
                    let (handle, _) = held.remove(step % held.len());
                    pool.give(handle.slot);
                    pool.give(handle.slot);
                    stale.push(handle);
                }
                prop_assert_eq!(pool.in_use() as usize, held.len());
                for (handle, value) in &held { prop_assert_eq!(pool.get(*handle).copied(), Some(*value)); }
                for handle in &stale { prop_assert!(pool.get(*handle).is_none()); }
            }
        }
    }

    #[test]
    fn an_all_zero_handle_is_never_live() {
        let mut entries = [const { PoolEntry::new(0u8) }; 1];
        let mut pool = Pool::new(&mut entries);
        assert!(pool.get(Handle::default()).is_none());
        pool.take().unwrap();
        assert!(pool.get(Handle::default()).is_none());
    }
}
