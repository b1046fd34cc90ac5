//! This module holds `unsafe` code: a typed register over the `volatile` crate.
//!
//! A driver describes its device's registers once, as [`Mmio`] values, and reads and writes them
//! without further `unsafe`. Accesses are volatile loads and stores, never merged, and never torn
//! if the processor has one of the register's width: those of a `u64` on a 32-bit one are two.

use core::ptr::NonNull;

use volatile::VolatilePtr;

/// Integers a device register can have.
pub trait Word: Copy + 'static {}
impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}

/// A device register of width `W`.
#[derive(Debug)]
pub struct Mmio<W> {
    register: NonNull<W>,
}

// SAFETY: by `new`'s contract the register is there wherever this value is, and a value is used by
// one thread at a time, as it is not `Sync`.
unsafe impl<W: Word> Send for Mmio<W> {}

impl<W: Word> Mmio<W> {
    /// The register at `register`.
    ///
    /// # Safety
    /// `register` must be aligned and valid for volatile reads and writes of `W` as long as this
    /// value lives, on whichever core it is used; and reading or writing it must have no effect on
    /// Rust-owned memory that the caller has not accounted for.
    pub const unsafe fn new(register: NonNull<W>) -> Self {
        Self { register }
    }

    fn pointer(&self) -> VolatilePtr<'_, W> {
        // SAFETY: `new`'s caller promised that the register stays valid for volatile accesses.
        unsafe { VolatilePtr::new(self.register) }
    }

    /// Reads the register.
    pub fn read(&self) -> W {
        self.pointer().read()
    }

    /// Writes the register.
    pub fn write(&mut self, value: W) {
        self.pointer().write(value);
    }

    /// Reads, changes and writes the register. Not atomic towards the device.
    pub fn update(&mut self, change: impl FnOnce(W) -> W) {
        let value = self.read();
        self.write(change(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_read_written_and_updated() {
        let mut cell = 5u32;
        // SAFETY: `cell` outlives the register and nothing else touches it meanwhile.
        let mut register = unsafe { Mmio::new(NonNull::from(&mut cell)) };
        register.write(register.read() + 1);
        register.update(|value| value << 4);
        assert_eq!(register.read(), 96);
    }
}
