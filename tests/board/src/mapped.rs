//! This module holds `unsafe` code: registers at fixed addresses of a board whose memory is mapped
//! as it is.

use core::ptr::NonNull;

use aldis_hal::mmio::{Mmio, Word};

/// The register at an address of this board's map.
pub(crate) fn register<W: Word>(address: usize) -> Mmio<W> {
    let register = core::ptr::with_exposed_provenance_mut::<W>(address);
    let register = NonNull::new(register).unwrap_or(NonNull::dangling());
    // SAFETY: a board's module names addresses of device registers, where no memory is; none is
    // zero.
    unsafe { Mmio::new(register) }
}
