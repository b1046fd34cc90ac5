//! Memory for frames whose messages are to be read where they lie.

/// Bytes aligned for any element type: the headers of the Ethernet transport are a multiple of 8
/// bytes.
#[repr(C, align(8))]
pub(crate) struct Aligned<const BYTES: usize>(pub(crate) [u8; BYTES]);

impl<const BYTES: usize> Aligned<BYTES> {
    /// All zero.
    pub(crate) const EMPTY: Self = Self([0; BYTES]);
}
