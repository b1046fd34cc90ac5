//! The atomics and cells that lock-free code is written with: `core`'s, or loom's model-checked
//! ones under `--cfg loom`, so that the very code that ships is the code that is explored.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, Ordering, fence},
};

/// Memory that two processes take turns in, with loom's interface: an access is a closure over a
/// raw pointer.
#[cfg(not(loom))]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Accesses the cell for reading.
    #[inline(always)]
    pub(crate) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    /// Accesses the cell for writing.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// A 32-bit word that one side writes and the other reads; little-endian in memory on every
/// machine.
#[repr(transparent)]
pub(crate) struct Word(AtomicU32);

impl Word {
    /// A word of its own, outside shared memory.
    #[cfg(loom)]
    pub(crate) fn new(value: u32) -> Self {
        Self(AtomicU32::new(value.to_le()))
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        u32::from_le(self.0.load(order))
    }

    /// Replaces the value; only the word's one writer calls this.
    #[inline(always)]
    pub(crate) fn store(&self, value: u32, order: Ordering) {
        self.0.store(value.to_le(), order);
    }
}
