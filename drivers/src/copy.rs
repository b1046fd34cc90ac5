//! This module holds `unsafe` code: copying bytes by one call of `memcpy` and without a way to panic.

/// Copies as much as both have, which is all of it wherever this is called.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    let count = to.len().min(from.len());
    // SAFETY: neither is shorter, and what is borrowed exclusively overlaps with nothing.
    unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from.as_ptr(), count) }
}
