//! This module holds `unsafe` code: it declares an unsafe trait. Memory that is shared with a peer
//! outside of this process's own code: another process, or the system.

use core::ptr::NonNull;

#[cfg(test)]
pub(crate) mod tests;

/// Memory that was mapped to be shared with a peer, as long as the value lives.
///
/// # Safety
/// Both methods always give the same answers, also when the value has moved. The bytes are valid
/// for reads and writes as long as the value lives, initialised (a fresh mapping's zeros are), and
/// the peer cannot take them away: a mapped file is sealed against shrinking. In this process
/// nothing else is used to access them, and no reference to them exists.
pub unsafe trait RegionMemory {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
    /// The bytes.
    fn bytes(&self) -> usize;
}
