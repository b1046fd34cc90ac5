//! Tables of objects. A handle is a slot, the kind of object and the slot's generation: above the
//! zero page, where the predefined handles of the standard are. What was freed is not found again,
//! for 2^32 uses of its slot. A Fortran handle is its lower 31 bits, a positive `int` with the last
//! bits of the generation.

use core::ffi::c_int;

use crate::abi::Handle;

/// Bits of a slot's number.
const SLOT_BITS: u32 = 22;

/// Bits of a kind's number.
const KIND_BITS: u32 = 4;

/// Bits of a handle that are an `int` which is not negative.
const INT: Handle = c_int::MAX as Handle;

/// A handle as an `int`.
pub(crate) const fn to_int(handle: Handle) -> c_int {
    (handle & INT) as c_int
}

/// The kind of object that a table holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum HandleKind {
    Comm = 1,
    Group,
    Datatype,
    Op,
    Request,
    Errhandler,
    Info,
    Message,
    /// A message under way, whose slot and generation are those of its request in the kernel.
    MessageRequest,
    /// A receive that was over as soon as it was started.
    Received,
    /// Any send, or collective, that was over as soon as it was started.
    Completed,
    Session,
}

/// The handle of an object: its slot in the table of its kind, and that slot's generation.
#[inline(always)]
pub(crate) const fn pack(kind: HandleKind, slot: u32, generation: u32) -> Handle {
    ((kind as usize) << SLOT_BITS) | (generation as usize) << (SLOT_BITS + KIND_BITS) | slot as usize
}

/// Returns true if a handle is of this kind, or of nothing that was made.
#[inline(always)]
pub(crate) const fn is_of(handle: Handle, kind: HandleKind) -> bool {
    handle >> SLOT_BITS & ((1 << KIND_BITS) - 1) == kind as usize
}

/// The slot of a handle.
#[inline(always)]
pub(crate) const fn slot_of(handle: Handle) -> u32 {
    (handle & ((1 << SLOT_BITS) - 1)) as u32
}

/// The generation of a handle.
#[inline(always)]
pub(crate) const fn generation_of(handle: Handle) -> u32 {
    (handle >> (SLOT_BITS + KIND_BITS)) as u32
}

/// Returns true if `number` is the `int` of a handle.
pub(crate) const fn is_int_of(number: c_int, handle: Handle) -> bool {
    to_int(handle) == number
}

/// Objects of a kind.
#[derive(Debug)]
pub(crate) struct HandleTable<T> {
    kind: HandleKind,
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> HandleTable<T> {
    pub(crate) const fn new(kind: HandleKind) -> Self {
        Self { kind, slots: Vec::new(), free: Vec::new() }
    }

    #[inline]
    fn handle(&self, slot: u32, generation: u32) -> Handle {
        pack(self.kind, slot, generation)
    }

    /// The handle of which `number` is the `int`; that number, which names nothing made, if the
    /// object is gone.
    pub(crate) fn handle_of(&self, number: c_int) -> Handle {
        let number = number as Handle;
        let slot = number & ((1 << SLOT_BITS) - 1);
        let current = self.slots.get(slot).map(|(generation, _)| self.handle(slot as u32, *generation));
        current.filter(|handle| handle & INT == number).unwrap_or(number)
    }

    #[inline]
    fn slot_of(&self, handle: Handle) -> Option<usize> {
        let slot = handle & ((1 << SLOT_BITS) - 1);
        let (generation, object) = self.slots.get(slot)?;
        (object.is_some() && self.handle(slot as u32, *generation) == handle).then_some(slot)
    }

    /// Takes an object in; `None` if there are too many.
    #[inline]
    pub(crate) fn insert(&mut self, object: T) -> Option<Handle> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < 1 << SLOT_BITS => {
                self.slots.push((0, None));
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let place = self.slots.get_mut(slot as usize)?;
        place.1 = Some(object);
        let generation = place.0;
        Some(self.handle(slot, generation))
    }

    /// Returns true if there is no object.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// All objects.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        // There are as many as slots are not free; most often none, behind many that once were.
        let count = self.slots.len() - self.free.len();
        self.slots.iter_mut().filter_map(|(_, object)| object.as_mut()).take(count)
    }

    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        self.slots.get(self.slot_of(handle)?)?.1.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let slot = self.slot_of(handle)?;
        self.slots.get_mut(slot)?.1.as_mut()
    }

    /// Takes an object out: its handle is stale from then on.
    #[inline]
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slot_of(handle)?;
        let (generation, object) = self.slots.get_mut(slot)?;
        *generation = generation.wrapping_add(1);
        self.free.push(slot as u32);
        object.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_not_found_again() {
        let mut table = HandleTable::new(HandleKind::Group);
        let first = table.insert(1).unwrap();
        assert!(first > 0xFFF && to_int(first) > 0xFFF, "{first:#x}");
        assert_eq!(table.remove(first), Some(1));
        let second = table.insert(2).unwrap();
        assert_ne!(first, second);
        assert_eq!(
            (table.get(first).copied(), table.remove(first), table.get(second).copied()),
            (None, None, Some(2))
        );
    }

    #[test]
    fn a_freed_handle_is_not_found_after_many_uses_of_its_slot() {
        let mut table = HandleTable::new(HandleKind::Request);
        let first = table.insert(0).unwrap();
        table.remove(first);
        for use_of_slot in 1..100_000 {
            let handle = table.insert(use_of_slot).unwrap();
            assert_eq!((table.get(first), table.get(handle)), (None, Some(&use_of_slot)));
            assert!(to_int(handle) > 0xFFF);
            assert_eq!(table.handle_of(to_int(handle)), handle);
            table.remove(handle);
        }
    }

    #[test]
    fn a_million_objects_are_found() {
        let mut table = HandleTable::new(HandleKind::Request);
        let handles: Vec<_> = (0..1_000_000).map(|object| table.insert(object).unwrap()).collect();
        assert!((0..1_000_000).zip(&handles).all(|(object, handle)| table.get(*handle) == Some(&object)));
        assert!(handles.iter().all(|handle| table.handle_of(to_int(*handle)) == *handle));
    }

    #[test]
    fn a_handle_of_another_kind_is_not_found() {
        let mut groups = HandleTable::new(HandleKind::Group);
        let infos: HandleTable<u8> = HandleTable::new(HandleKind::Info);
        let group = groups.insert(1_u8).unwrap();
        assert_eq!(infos.get(group), None);
    }
}
