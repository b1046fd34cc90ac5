//! Copying bytes without a way to panic.

/// Copies as much as both have, which is all of it wherever this is called.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
